"""What `fit.plot`, `metrics.plot` and `choice.plot` are: charts by name, each an Altair chart.

Charts as users have them: Altair's, which is optional.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plait.errors import PlaitError
from plait.plotting import component_charts, coupling_chart, evaluation_charts, neighbourhood, objective_charts
from plait.plotting.evaluation_charts import Beside, Tested
from plait.plotting.theme import Spec
from plait.rendering.svg import NEEDED
from plait.storage.fitted import Fitted

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


@dataclass(frozen=True)
class FitPlot:
    """Charts of a fit; Altair draws them, and ``chart.save("objective.svg")`` keeps one."""

    fit: Fitted

    def objective(self) -> "altair.TopLevelMixin":
        """The bound by sweep, other members of an ensemble as thin lines.

        Without the warm-up, whose bound is another one, and without first sweeps that would flatten the rest.
        """
        return wrapped(objective_charts.draw_objective(objective_charts.rise(self.fit)))

    def components(
        self, component: int | None = None, index: str | None = None, top: int = 8
    ) -> "altair.TopLevelMixin":
        """Who is in the components: for each a row of panels, the `top` heaviest entities of every factor and axis.

        A bar is an entity's weight (see `Fit.components`), the line at its end one sd to both sides; its inside fades
        where the prior speaks, not the data. component: one by its number; without, those with the largest shares of
        the relations, 24 at most, and none that explains nothing. index: the latent index, where there are several.
        """
        if component is None:
            return wrapped(component_charts.draw_components(*component_charts.leading(self.fit, index, top)))
        return wrapped(component_charts.draw_components(component_charts.card(self.fit, component, index, top)))

    def coupling(self) -> "altair.TopLevelMixin":
        """Which relation feeds which component: a heat map of shares (see `Fit.coupling`), coloured by their roots."""
        return wrapped(coupling_chart.draw(coupling_chart.cells(self.fit)))

    def rank(self) -> "altair.TopLevelMixin":
        """What the ranks scored that were tried to find this one."""
        return wrapped(objective_charts.draw_ranks(objective_charts.tried(self.fit)))

    def entity(self, axis: str, name: Any) -> "altair.TopLevelMixin":
        """Which components one entity is in: its shares in every factor of its axis, with their sd."""
        return wrapped(component_charts.draw_profile(component_charts.shares(self.fit, axis, name)))

    def neighbourhood(self, axis: str, name: Any, k: int = 10) -> "altair.TopLevelMixin":
        """The k entities most like one, and by relation its most probable links, half of them known.

        Filled circles are known links, hollow diamonds predicted ones.
        """
        return wrapped(neighbourhood.draw(neighbourhood.near(self.fit, axis, name, k)))


@dataclass(frozen=True)
class MetricsPlot:
    """Charts of a test; beside: other metrics to compare with, or several by name. Without, popularity is shown."""

    metrics: Tested

    def calibration(self, beside: Beside = None) -> "altair.TopLevelMixin":
        """Predicted probabilities against the share of links, bin by bin, with standard errors; on square-root scales.

        On the diagonal probabilities are what they say. Popularity has no probabilities.
        """
        return wrapped(evaluation_charts.calibration(self.metrics, beside))

    def roc(self, beside: Beside = None) -> "altair.TopLevelMixin":
        """The ROC curve, with a band of one standard error; the diagonal is guessing."""
        return wrapped(evaluation_charts.roc(self.metrics, beside))

    def precision_recall(self, beside: Beside = None) -> "altair.TopLevelMixin":
        """Precision by recall, with a band of one standard error; the level line is guessing."""
        return wrapped(evaluation_charts.precision_recall(self.metrics, beside))


@dataclass(frozen=True)
class ChoicePlot:
    """The chart of a choice."""

    rows: Sequence[Mapping[str, Any]]
    by: str

    def rank(self) -> "altair.TopLevelMixin":
        """What every rank scored, with standard errors; a line for each of the other settings."""
        return wrapped(objective_charts.draw_ranks(objective_charts.compared(self.rows, self.by)))
