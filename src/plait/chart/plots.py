"""What `fit.plot`, `metrics.plot` and `choice.plot` are: charts by name, each an Altair chart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plait.chart import bound, components, coupling, curves, entity, neighbourhood, ranks
from plait.chart.curves import Beside, Tested
from plait.chart.wrapping import wrapped
from plait.run.record import Fitted

if TYPE_CHECKING:
    import altair


@dataclass(frozen=True)
class FitPlot:
    """Charts of a fit; Altair draws them, and ``chart.save("bound.svg")`` keeps one."""

    fit: Fitted

    def bound(self) -> "altair.TopLevelMixin":
        """The bound by sweep, other members of an ensemble as thin lines.

        Without the warm-up, whose bound is another one, and without first sweeps that would flatten the rest.
        """
        return wrapped(bound.draw(bound.rise(self.fit)))

    def components(
        self, component: int | None = None, index: str | None = None, top: int = 8
    ) -> "altair.TopLevelMixin":
        """Who is in the components: for each a row of panels, the `top` heaviest entities of every factor and axis.

        A bar is an entity's weight (see `Fit.components`), the line at its end one sd to both sides; its inside fades
        where the prior speaks, not the data. component: one by its number; without, those with the largest shares of
        the relations, 24 at most, and none that explains nothing. index: the latent index, where there are several.
        """
        if component is None:
            return wrapped(components.draw(*components.leading(self.fit, index, top)))
        return wrapped(components.draw(components.card(self.fit, component, index, top)))

    def coupling(self) -> "altair.TopLevelMixin":
        """Which relation feeds which component: a heat map of shares (see `Fit.coupling`), coloured by their roots."""
        return wrapped(coupling.draw(coupling.cells(self.fit)))

    def rank(self) -> "altair.TopLevelMixin":
        """What the ranks scored that were tried to find this one."""
        return wrapped(ranks.draw(ranks.tried(self.fit)))

    def entity(self, axis: str, name: Any) -> "altair.TopLevelMixin":
        """Which components one entity is in: its shares in every factor of its axis, with their sd."""
        return wrapped(entity.draw(entity.shares(self.fit, axis, name)))

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
        return wrapped(curves.calibration(self.metrics, beside))

    def roc(self, beside: Beside = None) -> "altair.TopLevelMixin":
        """The ROC curve, with a band of one standard error; the diagonal is guessing."""
        return wrapped(curves.roc(self.metrics, beside))

    def precision_recall(self, beside: Beside = None) -> "altair.TopLevelMixin":
        """Precision by recall, with a band of one standard error; the level line is guessing."""
        return wrapped(curves.precision_recall(self.metrics, beside))


@dataclass(frozen=True)
class ChoicePlot:
    """The chart of a choice."""

    rows: Sequence[Mapping[str, Any]]
    by: str

    def rank(self) -> "altair.TopLevelMixin":
        """What every rank scored, with standard errors; a line for each of the other settings."""
        return wrapped(ranks.draw(ranks.compared(self.rows, self.by)))
