"""Charts for users, as Altair charts by name: `fit.plot`, `metrics.plot` and `search.plot`. Altair is optional."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plait.analysis.components.component_names import names_of
from plait.errors import PlaitError
from plait.plotting import (
    component_charts,
    coupling_chart,
    entity_map,
    evaluation_charts,
    neighbourhood,
    objective_charts,
    trends_chart,
)
from plait.plotting.evaluation_charts import MetricCurves, OtherMetrics
from plait.plotting.theme import Spec, finished
from plait.rendering import model_chart
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
    """Charts of a fit: ``fit.plot.objective()``.

    Each method returns an Altair chart; ``chart.save("objective.svg")`` writes it to a file.
    Requires ``pip install 'tensorplait[report]'``.

    Attributes
    ----------
    fit : Fit
        The fit.

    Examples
    --------
    >>> chart = fit.plot.objective()
    >>> chart.save("objective.svg")
    """

    fit: Fitted

    def objective(self) -> "altair.TopLevelMixin":
        """Plot the objective by sweep.

        Returns
        -------
        altair.Chart
            The chart. Other members of an ensemble are thin lines. The warm-up and first sweeps
            that would flatten the curve are left out.

        Examples
        --------
        >>> chart = fit.plot.objective()
        """
        return wrapped(objective_charts.draw_objective(objective_charts.rise(self.fit)))

    def components(
        self, component: int | None = None, index: str | None = None, top: int = 8
    ) -> "altair.TopLevelMixin":
        """Plot the heaviest entities of components.

        Parameters
        ----------
        component : int or None, default None
            Number of one component. ``None`` shows up to 24 with the largest shares.
        index : str or None, default None
            The latent index, if the model has several.
        top : int, default 8
            Number of entities per factor and axis.

        Returns
        -------
        altair.Chart
            One row of panels per component. A bar is an entity's weight (see `Fit.components`)
            and the line at its end one standard deviation. A bar fades where the weight comes from
            the prior.

        Raises
        ------
        plait.errors.ParameterError
            If there is no such component or index.

        Examples
        --------
        >>> chart = fit.plot.components(component=0, top=3)
        """
        if component is None:
            return wrapped(component_charts.draw_components(*component_charts.leading(self.fit, index, top)))
        return wrapped(component_charts.draw_components(component_charts.card(self.fit, component, index, top)))

    def model(self) -> "altair.TopLevelMixin":
        """Plot the model as a factor graph.

        Returns
        -------
        altair.Chart
            Relations above, factors below, and a line from each relation to its factors. Factors
            of several relations, which couple them, have their own colour.

        Examples
        --------
        >>> chart = fit.plot.model()
        """
        return wrapped(finished(model_chart.draw(self.fit.model)))

    def coupling(self) -> "altair.TopLevelMixin":
        """Plot the share of each component in each relation.

        Returns
        -------
        altair.Chart
            A heat map of the shares of `Fit.coupling` on a square-root scale.

        Examples
        --------
        >>> chart = fit.plot.coupling()
        """
        return wrapped(coupling_chart.draw(coupling_chart.cells(self.fit)))

    def rank(self) -> "altair.TopLevelMixin":
        """Plot the scores of the ranks that the fit tried.

        Returns
        -------
        altair.Chart
            The score of each rank with its standard error.

        Raises
        ------
        plait.PlaitError
            If the rank was given.

        Examples
        --------
        >>> found = plait.fit(model, {"visits": visits}, rank="elbo", seed=0)
        >>> chart = found.plot.rank()
        """
        return wrapped(objective_charts.draw_ranks(objective_charts.tried(self.fit)))

    def entity(self, axis: str, name: Any) -> "altair.TopLevelMixin":
        """Plot the components of one entity.

        Parameters
        ----------
        axis : str
            Axis of the entity.
        name : object
            Name of the entity.

        Returns
        -------
        altair.Chart
            The entity's share in each component, with standard deviations, in every factor of
            the axis.

        Raises
        ------
        plait.errors.ParameterError
            If the model has no such axis.
        plait.errors.DataError
            If the axis has no such entity.

        Examples
        --------
        >>> chart = fit.plot.entity("user", "ann")
        """
        rows = component_charts.shares(self.fit, axis, name)
        return wrapped(component_charts.draw_profile(rows, names_of(self.fit)))

    def neighbourhood(self, axis: str, name: Any, k: int = 10) -> "altair.TopLevelMixin":
        """Plot the entities most similar to one, and its most probable links.

        Parameters
        ----------
        axis : str
            Axis of the entity.
        name : object
            Name of the entity.
        k : int, default 10
            Number of similar entities, and of links per relation. Half of the links are known.

        Returns
        -------
        altair.Chart
            Known links are filled circles, predicted links hollow diamonds.

        Raises
        ------
        plait.errors.ParameterError
            If the model has no such axis.
        plait.errors.DataError
            If the axis has no such entity.

        Examples
        --------
        >>> chart = fit.plot.neighbourhood("user", "ann", k=4)
        """
        return wrapped(neighbourhood.draw(neighbourhood.near(self.fit, axis, name, k)))

    def map(self, axis: str, name: Any = None) -> "altair.TopLevelMixin":
        """Plot the entities of an axis in the plane, similar ones near each other.

        Parameters
        ----------
        axis : str
            Axis of the entities.
        name : object, optional
            An entity to mark. The 10 entities most similar to it are labelled first.

        Returns
        -------
        altair.Chart
            Up to 400 entities: the marked one, those most similar to it, and those with the
            most known links. Symbols and colours are the largest component of an entity.

        Raises
        ------
        plait.errors.ParameterError
            If the model has no such axis, or none of its factors has components.
        plait.errors.DataError
            If the axis has no such entity.

        Notes
        -----
        Distances follow √(2 − 2 s), with s the similarity of `Fit.similar`, as far as a plane
        allows (metric multidimensional scaling by SMACOF).

        Examples
        --------
        >>> chart = fit.plot.map("user", "ann")
        """
        return wrapped(entity_map.draw(entity_map.entity_map(self.fit, axis, name)))

    def trends(self, component: int | None = None, steps: int = 3) -> "altair.TopLevelMixin":
        """Plot components along an ordered axis, and their forecast.

        Parameters
        ----------
        component : int or None, default None
            Number of one component. ``None`` shows up to 12 with the largest shares.
        steps : int, default 3
            Number of periods to forecast.

        Returns
        -------
        altair.Chart
            One panel per component of each factor with a chain: its level, which is 1 on average
            over the periods, with 90 % bands. The forecast is dashed.

        Raises
        ------
        plait.errors.ParameterError
            If no factor changes along an ordered axis, or there is no such component.

        Examples
        --------
        >>> monthly = plait.Model("visits[user, month] = U[user, r] T[month, r]; month: ordered")
        >>> table = pl.DataFrame({"user": ["ann", "bob", "ann"], "month": [1, 2, 3]})
        >>> drifting = plait.fit(monthly, {"visits": table}, **quick)
        >>> chart = drifting.plot.trends(steps=2)
        """
        return wrapped(trends_chart.draw(trends_chart.trends(self.fit, component, steps)))


@dataclass(frozen=True)
class MetricsPlot:
    """Charts of an evaluation: ``metrics.plot.roc()``.

    Each method returns an Altair chart. ``compare_with`` adds other metrics of the same test;
    without it the chart shows the popularity baseline. Requires
    ``pip install 'tensorplait[report]'``.

    Attributes
    ----------
    metrics : Metrics
        The metrics.

    Examples
    --------
    >>> metrics = plait.evaluate(plait.fit(model, train, **quick), "visits", test)
    >>> chart = metrics.plot.roc()
    """

    metrics: MetricCurves

    def calibration(self, compare_with: OtherMetrics = None) -> "altair.TopLevelMixin":
        """Plot the observed share of links against the predicted probability.

        Parameters
        ----------
        compare_with : Metrics, dict of str to Metrics or None, default None
            Other metrics to compare with.

        Returns
        -------
        altair.Chart
            One point per bin with its standard error, on square-root scales. Calibrated
            probabilities are on the diagonal. The baseline has no probabilities.

        Examples
        --------
        >>> metrics = plait.evaluate(plait.fit(model, train, **quick), "visits", test)
        >>> chart = metrics.plot.calibration()
        """
        return wrapped(evaluation_charts.calibration(self.metrics, compare_with))

    def roc(self, compare_with: OtherMetrics = None) -> "altair.TopLevelMixin":
        """Plot the ROC curve.

        Parameters
        ----------
        compare_with : Metrics, dict of str to Metrics or None, default None
            Other metrics to compare with.

        Returns
        -------
        altair.Chart
            The curve with a band of one standard error. The diagonal is random guessing.

        Examples
        --------
        >>> metrics = plait.evaluate(plait.fit(model, train, **quick), "visits", test)
        >>> chart = metrics.plot.roc()
        """
        return wrapped(evaluation_charts.roc(self.metrics, compare_with))

    def precision_recall(self, compare_with: OtherMetrics = None) -> "altair.TopLevelMixin":
        """Plot precision by recall.

        Parameters
        ----------
        compare_with : Metrics, dict of str to Metrics or None, default None
            Other metrics to compare with.

        Returns
        -------
        altair.Chart
            The curve with a band of one standard error. The horizontal line is random guessing.

        Examples
        --------
        >>> metrics = plait.evaluate(plait.fit(model, train, **quick), "visits", test)
        >>> chart = metrics.plot.precision_recall()
        """
        return wrapped(evaluation_charts.precision_recall(self.metrics, compare_with))


@dataclass(frozen=True)
class GridSearchPlot:
    """Charts of a grid search: ``search.plot.rank()``.

    Attributes
    ----------
    rows : sequence of dict
        Settings and their scores.
    by : str
        What the settings were compared by.

    Examples
    --------
    >>> options = {"by": "elbo", "seeds": 1, "seed": 0, "max_iter": 5, "warmup": 0}
    >>> search = plait.grid_search(model, {"visits": visits}, rank=[1, 2], **options)
    >>> chart = search.plot.rank()
    """

    rows: Sequence[Mapping[str, Any]]
    by: str

    def rank(self) -> "altair.TopLevelMixin":
        """Plot the score of each rank.

        Returns
        -------
        altair.Chart
            The scores with standard errors; one line for each of the other settings.

        Examples
        --------
        >>> options = {"by": "elbo", "seeds": 1, "seed": 0, "max_iter": 5, "warmup": 0}
        >>> search = plait.grid_search(model, {"visits": visits}, rank=[1, 2], **options)
        >>> chart = search.plot.rank()
        """
        return wrapped(objective_charts.draw_ranks(objective_charts.compared(self.rows, self.by)))
