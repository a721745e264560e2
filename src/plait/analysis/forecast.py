"""Forecasts: cells and links of the periods after the last one of an ordered axis (docs/math.md, section 16).

The chains run on: rows of later periods have the mean of the last one and a growing variance. A fit that has these rows
in place of all others answers like any other.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from plait.analysis.predict.lookup import as_frame, require_indices, rows_of
from plait.analysis.predict.prediction import columns, predict
from plait.analysis.topk.top import TopQuery, propose
from plait.data.encoding.names import Labels
from plait.data.encoding.periods import next_periods
from plait.data.sources.tables import as_kind, kind_of
from plait.errors import DataError, ParameterError, PlaitWarning, TableLocation, quoted
from plait.incremental.fold_in import TransientEntities
from plait.incremental.new_rows import extension
from plait.inference.chains import last_concentrations
from plait.inference.gamma import GammaChain
from plait.model.model import Equation
from plait.storage.fitted import Fitted, Posterior

if TYPE_CHECKING:
    import polars as pl


def forecast(
    fit: Fitted, relation: str, steps: Any = 1, *, cells: Any = None, given: Mapping[str, Any] | None = None,
    per: str | Sequence[str] | None = None, k: int = 10, exclude: Any = None, score: str = "mean",
    fixed: Mapping[str, Any] | None = None,
) -> tuple[Any, PlaitWarning | None]:  # fmt: skip
    """Predictions of cells in later periods, or the best links of each period; see `Fit.forecast`."""
    equation = fit.model.equation(relation)
    time = time_index(fit, equation, fixed or ())
    later = with_later_periods(fit, equation, time, steps, fixed)
    if cells is not None:
        for option, value in {"given": given, "per": per, "exclude": exclude}.items():
            if value is not None:
                raise ParameterError(f"`{option}` has no effect with `cells`.", hint="Remove one of the two.")
        cells = _in_periods(later, equation, time, cells)
        rows_of(later, relation, cells, what="cells of the forecast")  # `handle_unknown` is an option of predict
        return _answer(fit, later, relation, time, cells), None
    each = [per] if isinstance(per, str) else [] if per is None else per
    if isinstance(each, (list, tuple)) and time not in each:
        each = [*each, time]
    options = {"given": given, "exclude": exclude, "score": score, "include_known": True}
    if set(each) == set(equation.indices):
        axes = TopQuery.of(later, relation, k, **options).candidates.axes
        rows = np.stack(np.meshgrid(*(axis.rows[:, 0] for axis in axes), indexing="ij"), axis=-1)
        by_index = zip(equation.indices, rows.reshape(-1, len(axes)).T)
        every = {index: later.entities[index].names.gather(own) for index, own in by_index}
        return _answer(fit, later, relation, time, every), None
    table, warning = propose(later, relation, k, per=each, **options)
    return _answer(fit, later, relation, time, table.select(equation.indices)), warning


def _answer(fit: Fitted, later: Fitted, relation: str, time: str, cells: Any) -> Any:
    """Predictions of cells; `sd` is that of the chains, whose steps have heavier tails than Gammas."""
    table = predict(later, relation, cells)
    if fit.method != "vb" or fit.likelihood[relation].binary:
        return table
    import narwhals.stable.v2 as nw

    frame, rows = rows_of(later, relation, cells)
    sd = columns(_with_chain_variance(fit, later, time), relation, rows, ("sd",))["sd"]
    frame = nw.from_native(table, eager_only=True)
    return frame.with_columns(nw.new_series("sd", sd, backend=nw.get_native_namespace(frame))).to_native()


def _with_chain_variance(fit: Fitted, later: Fitted, time: str) -> Fitted:
    """The later periods with the variance of the chains: 1 + cv² grows by (a+1)/(a−1) a step."""

    def widened(before: Fitted, after: Fitted) -> Fitted:
        posteriors = dict[str, Posterior]()
        for name, prior in before.prior.items():
            if isinstance(prior, GammaChain):
                own, kept = after.factors[name], before.state.factors[name]
                axis = next(n for n, index in enumerate(own.indices) if fit.model.axis(index) == fit.model.axis(time))
                a, ahead = float(prior.concentration), np.arange(1, own.mean.shape[axis] + 1)
                growth = ((a + 1.0) / (a - 1.0)) ** ahead.reshape(
                    [-1 if n == axis else 1 for n in range(own.mean.ndim)]
                )
                parameters = [array for array in kept.parameters if array is not None]
                last = last_concentrations(kept.layout, before.state.priors[name], parameters)
                C = 1.0 / ((1.0 + 1.0 / last) * growth - 1.0)
                posteriors[name] = replace(own, concentration=C, scale=own.mean / C)
        return replace(after, factors=after.factors | posteriors)

    members = tuple(map(widened, fit.members, later.members))
    return members[0] if len(members) == 1 else replace(members[0], ensemble=members)


def time_index(fit: Fitted, equation: Equation, fixed: Collection[str]) -> str:
    """The index of a relation along which its factors can be continued."""
    relation = equation.relation
    ordered = [index for index in equation.indices if fit.model.axis(index) in fit.model.ordered]
    if not ordered:
        raise ParameterError(
            f"{relation} has no index of an ordered axis, so it has no later periods.",
            hint="Declare the index of time in the model, such as `month: ordered`, and fit again.",
        )
    if len(ordered) > 1:
        raise ParameterError(
            f"{relation} has several indices of ordered axes: {', '.join(ordered)}.",
            hint="A forecast needs a relation with one.",
        )
    for occurrence in equation.occurrences:
        unknown = occurrence.factor in fit.exposures.names and occurrence.factor not in fixed
        if ordered[0] in occurrence.indices and unknown:
            raise ParameterError(
                f"{relation} has an exposure {occurrence.factor} over {ordered[0]}, unknown for later periods.",
                hint=f"Give its rows for these periods: `fixed={{{occurrence.factor!r}: table}}`.",
            )
        prior = fit.state.priors.get(occurrence.factor)
        if ordered[0] in occurrence.indices and prior is not None and prior.chain is None:
            raise ParameterError(
                f"factor {occurrence.factor} has no chain along {ordered[0]}, so it has no later periods.",
                hint="Fit again with `plait.GammaChain()` as its prior, the default along ordered axes.",
            )
    return ordered[0]


def with_later_periods(
    fit: Fitted, equation: Equation, time: str, steps: Any, fixed: Mapping[str, Any] | None = None
) -> Fitted:
    """The fit with later periods in place of all others."""
    import polars as pl

    if fit.history[-1].warm_up:
        raise ParameterError("forecast: the fit is still in its warm-up.", hint="Continue the fit first.")
    axis = fit.model.axis(time)
    old = fit.entities[axis]
    labels = Labels(axis, pl.concat([old.names, _later_names(old, steps)]))
    axes = {name: labels if name == axis else fit.entities[name] for name in fit.model.axes}
    growth = extension(fit, axes, fixed, "forecast")
    return TransientEntities(fit, growth, {}, (), 0, "forecast").alone(equation.relation)


def _later_names(old: Labels, steps: Any) -> "pl.Series":
    """Names of later periods: a number of them, or the names themselves."""
    if isinstance(steps, (list, tuple)) and steps:
        given = Labels.of(old.axis, list(steps))
        rows = old.encode(given.names, where=TableLocation("steps"), unknown="mark")
        if (rows >= 0).any():
            raise DataError(
                f"{quoted(given[int(np.argmax(rows >= 0))])} is a period of the fit.",
                location=TableLocation("steps"),
                hint="Give the names of later periods.",
            )
        return given.names.cast(old.names.dtype)
    if not isinstance(steps, (int, np.integer)) or isinstance(steps, bool) or steps < 1:
        raise ParameterError.must_be("steps", "an integer of at least 1, or a list of names", steps)
    return next_periods(old.axis, old.names, int(steps))


def _in_periods(later: Fitted, equation: Equation, time: str, cells: Any) -> Any:
    """Cells in every period, if they do not name one."""
    frame = as_frame(cells, TableLocation("cells"))
    others = [index for index in equation.indices if index != time]
    require_indices(frame.columns, equation.relation, others, TableLocation("cells"))
    if time in frame.columns:
        return cells
    import narwhals.stable.v2 as nw
    import polars as pl

    periods = nw.from_native(as_kind(pl.DataFrame({time: later.entities[time].names}), kind_of(cells)), eager_only=True)
    return (frame.join(periods, how="cross") if frame.columns else periods).to_native()
