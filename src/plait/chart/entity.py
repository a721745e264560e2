"""Which components one entity is in, with how sure that is."""

from itertools import groupby
from typing import TYPE_CHECKING, Any

from plait.answer.groups.profile import profile
from plait.chart.bars import bars
from plait.chart.look import Spec, finished
from plait.errors import SettingError, suggestion
from plait.run.record import Fitted

if TYPE_CHECKING:
    import polars as pl

MOST = 15  # components of a factor that are drawn
LEAST = 0.005  # share of one that is


def shares(fit: Fitted, axis: str, name: Any) -> "pl.DataFrame":
    """The entity's largest components in every factor, the largest first."""
    import polars as pl

    check_axis(fit, axis, "entity")
    whole = profile(fit, axis, name)
    if not len(whole):
        raise SettingError(
            f"no factor of axis {axis} has a latent index, so its entities have no components.",
            actual=axis,
            hint="Ask for an axis that stands in a factor with one, such as A[i, r].",
        )
    by = ["factor", "axis", "index"]
    whole = whole.with_row_index("place").sort("share", descending=True, maintain_order=True)
    number = pl.int_range(pl.len()).over(by)
    first = (number < MOST) & ((pl.col("share") >= LEAST) | (number == 0))
    place = pl.col("place").min().over(by)
    return whole.filter(first).sort(place, maintain_order=True).drop("place")


def check_axis(fit: Fitted, axis: Any, of: str) -> None:
    """Refuse what is no axis and no index."""
    known = tuple(dict.fromkeys([*fit.model.axes, *fit.model.visible]))
    if axis not in known:
        near = suggestion(axis, known) if isinstance(axis, str) else ""
        raise SettingError(
            f"there is no axis {axis!r}.",
            actual=axis,
            hint=f"{near}It is one of {', '.join(known) or 'none'}.",
        )


def draw(rows: "pl.DataFrame") -> Spec:
    """A list of bars for every factor, side by side."""
    several = rows["index"].n_unique() > 1
    panels = []
    for (factor, index), own in groupby(rows.to_dicts(), key=lambda row: (row["factor"], row["index"])):
        word = f"components of {index}" if several else "components"
        listed = [_bar(row) for row in own]
        panels.append(bars(listed, f"{word} in {factor}", width=190, of="share of expected counts"))
    return finished({"concat": panels, "columns": 3, "spacing": 18})


def _bar(row: dict[str, Any]) -> dict[str, Any]:
    name = f"component {row['component']}"
    return {"name": name, "full": name, "weight": row["share"], "sd": row["sd"], "data": row["data"]}
