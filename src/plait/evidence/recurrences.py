"""Recurrence: what happened before happens again. Decayed counts of the earlier periods of each fact."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import AnyArray, Array, Rows
from plait.data.encoding.columns import label_series, to_polars, widened
from plait.data.encoding.names import Labels
from plait.data.encoding.periods import in_periods
from plait.data.sources.coercion import columns_table
from plait.data.sources.tables import as_kind, frame_of, kind_of
from plait.errors import DataError, ParameterError, TableLocation, quoted, suggestion

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoDataFrame


def recurrence(
    table: Any, time: str, *, half_life: float = 10.0, value: str | None = None,
    periods: Sequence[Any] | None = None, least: float = 0.01,
) -> "IntoDataFrame":  # fmt: skip
    """Count how often each fact occurred in earlier periods, with decay.

    Parameters
    ----------
    table : table or dict of columns
        Dated links. The columns but the time and the value name a fact.
    time : str
        Column of periods: integers, or dates also as text.
    half_life : float, default 10.0
        Periods after which a count weighs half.
    value : str, default None
        Column of counts. The default is ``"value"`` if it exists; otherwise every row is 1.
    periods : sequence, default None
        Periods of the result, which may be later than those of the table. The default is all
        periods up to the last one.
    least : float, default 0.01
        Smaller values are left out.

    Returns
    -------
    table
        The columns of the fact, the period and ``value``, in the library of ``table``.

    Raises
    ------
    plait.errors.DataError
        If there is no such column.
    plait.errors.ParameterError
        If an option is wrong.

    Notes
    -----
    A period has Σ x 2^(−s/``half_life``) over the links that are s ≥ 1 periods older. Its own
    links do not count, so the table is evidence for them: a fixed factor with default 0, with a
    scale that the fit learns, as in ``+ w[] N[user, place, month]``. Later periods are for
    `Fit.update` and `Fit.forecast` (``fixed``).

    Examples
    --------
    >>> dated = pl.DataFrame({"user": ["ann", "ann", "bob"], "month": [1, 2, 2]})
    >>> counts = plait.evidence.recurrence(dated, "month", half_life=1.0, periods=[2, 3])
    >>> counts.sort("month").rows()
    [('ann', 2, 0.5), ('ann', 3, 0.75), ('bob', 3, 0.5)]
    """
    import polars as pl

    source = columns_table(table, "table") if isinstance(table, dict) else table
    frame = frame_of(source, "table")
    kind, value = kind_of(source), value or ("value" if "value" in frame.columns else None)
    for column in (time, *([] if value is None else [value])):
        if column not in frame.columns:
            raise DataError(
                f"there is no column {quoted(column)}; the table has {', '.join(map(quoted, frame.columns))}.",
                location=TableLocation("table"),
                hint=suggestion(column, frame.columns).strip() or None,
            )
    for option, given in {"half_life": half_life, "least": least}.items():
        if not (isinstance(given, (int, float)) and 0 < given < np.inf):
            raise ParameterError.must_be(option, "a positive number", given)
    facts = [column for column in frame.columns if column not in (time, value)]
    own = pl.DataFrame({column: to_polars(frame.get_column(column), column) for column in frame.columns})
    dates = widened(label_series(own[time], TableLocation("table", time)))
    asked = None if periods is None else label_series(list(periods), TableLocation("periods")).cast(dates.dtype)
    names = in_periods(time, pl.concat([dates, *([] if asked is None else [asked])]).unique())
    axis = Labels(time, names)
    count = pl.lit(1.0) if value is None else pl.col(value).cast(float)
    own = own.with_columns(pl.Series(_AT, axis.encode(dates)), count.alias(_X))
    events = own.group_by([*facts, _AT]).agg(pl.col(_X).sum()).sort([*facts, _AT])
    fact = events.select(pl.struct(facts).rle_id()).to_series().to_numpy() if facts else np.zeros(len(events), int)
    last = int(events[_AT].max() or 0)  # type: ignore[arg-type]
    wanted = np.arange(last + 1) if asked is None else np.unique(axis.encode(asked))
    rows, at, values = _decayed(
        fact, events[_AT].to_numpy(), events[_X].to_numpy(), wanted, 0.5 ** (1.0 / half_life), least
    )
    recurring = events.select(facts)[rows].with_columns(names.gather(at).alias(time), pl.Series("value", values))
    return as_kind(recurring, kind)


_AT, _X = "recurrence: period", "recurrence: count"


def _decayed(fact: AnyArray, at: Rows, x: Array, wanted: Rows, decay: float, least: float) -> tuple[Rows, Rows, Array]:
    """Event before, period and value of each wanted period of each fact; events are sorted by fact and period."""
    total, first = x.astype(np.float64), np.append(True, fact[1:] != fact[:-1])[: len(fact)]
    for n in np.flatnonzero(~first):
        total[n] += total[n - 1] * decay ** (at[n] - at[n - 1])
    steps = np.floor(np.log(np.maximum(total, least) / least) / -np.log(decay)).astype(np.int64)
    end = at + steps
    followed = np.flatnonzero(~first) - 1
    end[followed] = np.minimum(end[followed], at[followed + 1])
    low, high = np.searchsorted(wanted, at + 1), np.searchsorted(wanted, end, "right")
    count = np.maximum(high - low, 0)
    rows = np.repeat(np.arange(len(at)), count)
    periods = wanted[np.repeat(low, count) + np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)]
    return rows, periods, total[rows] * decay ** (periods - at[rows]).astype(np.float64)
