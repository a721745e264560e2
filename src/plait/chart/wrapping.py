"""Charts as users have them: Altair's, which is optional."""

from typing import TYPE_CHECKING

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
        raise PlaitError("a plot needs altair, which is not installed.", cure=f"Install it: {NEEDED}.") from None
    bare = {key: part for key, part in spec.items() if key != "datasets"}  # checking data row by row takes seconds
    made: altair.TopLevelMixin = altair.Chart.from_dict(bare | {"background": "white"})
    made.datasets = spec["datasets"]  # type: ignore[attr-defined]
    return made
