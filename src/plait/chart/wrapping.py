"""Charts as users have them: Altair's, which is optional."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from plait.chart.look import Spec
from plait.errors import PlaitError
from plait.show.svg import NEEDED

if TYPE_CHECKING:
    import altair


def wrapped(spec: Spec) -> "altair.TopLevelMixin":
    """A chart as an Altair chart, checked against Vega-Lite's schema; on white, for its ink stays dark."""
    try:
        import altair
    except ImportError:
        raise PlaitError("a plot needs altair, which is not installed.", hint=f"Install it: {NEEDED}.") from None
    bare = {key: part for key, part in spec.items() if key != "datasets"}  # checking data row by row takes seconds
    made: altair.TopLevelMixin = altair.Chart.from_dict(bare | {"background": "white"})
    _fill(made, spec["datasets"])
    return made


def _fill(part: Any, tables: Mapping[str, Any]) -> None:
    """Put data where they are named: parts of a chart can then be taken elsewhere."""
    import altair

    nothing: Any = altair.Undefined
    own = getattr(part, "data", nothing)
    if own is not nothing:
        part.data = altair.InlineData(values=tables[own.to_dict()["name"]])
    for several in ("layer", "concat", "vconcat"):
        inner = getattr(part, several, nothing)
        for one in () if inner is nothing else inner:
            _fill(one, tables)
