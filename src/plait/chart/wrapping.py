"""Charts as users have them: Altair's, which is optional."""

from typing import TYPE_CHECKING

from plait.chart.look import Spec
from plait.errors import PlaitError
from plait.show.svg import NEEDED

if TYPE_CHECKING:
    import altair


def wrapped(spec: Spec) -> "altair.TopLevelMixin":
    """A chart as an Altair chart, checked against Vega-Lite's schema; on white, for its ink is dark wherever it goes."""
    try:
        import altair
    except ImportError:
        raise PlaitError("a plot needs altair, which is not installed.", cure=f"Install it: {NEEDED}.") from None
    made: altair.TopLevelMixin = altair.Chart.from_dict({**spec, "background": "white"})
    return made
