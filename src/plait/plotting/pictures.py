"""Charts in documents: drawn on use, each with an alternative text."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plait.analysis.components.component_names import names_of
from plait.plotting import component_charts as cards
from plait.plotting import component_charts as entities
from plait.plotting import coupling_chart as couplings
from plait.plotting import entity_map as entity_maps
from plait.plotting import evaluation_charts, objective_charts, trends_chart
from plait.plotting import neighbourhood as neighbours
from plait.plotting import objective_charts as bounds
from plait.plotting.evaluation_charts import MetricCurves, OtherMetrics
from plait.plotting.theme import called
from plait.rendering.document import Picture
from plait.rendering.formatting import percent, plural, significant
from plait.storage.fitted import Fitted

if TYPE_CHECKING:
    import polars as pl

ALT_NAMES = 3  # of each kind in an alternative text
ALT_NAME_CHARACTERS = 60


def objective(fit: Fitted) -> Picture:
    """The objective by sweep."""
    rise = bounds.rise(fit)
    (first, low), (last, high) = rise.shown[0], rise.shown[-1]
    members = f" Thin lines: {len(rise.others)} other members." if rise.others else ""
    rises = f"rises from {significant(low)} at sweep {first:,} to {significant(high)} at sweep {last:,}"
    if first == last:
        rises = f"is {significant(high)} at sweep {last:,}"
    return Picture(lambda: bounds.draw_objective(rise), f"The {rise.name} {rises}.{members}")


def components(fit: Fitted, component: int | None = None, index: str | None = None, top: int = 8) -> Picture:
    """The card of one component, or of all that matter."""
    if component is None:
        rows, others = cards.leading(fit, index, top)
    else:
        rows, others = cards.card(fit, component, index, top), 0
    return Picture(lambda: cards.draw_components(rows, others), _card_words(rows, component))


def _card_words(rows: "pl.DataFrame", component: int | None) -> str:
    shown = rows.select("index", "component").n_unique()
    if component is None:
        return (
            f"Bars of the leading entities of {plural(shown, 'component')}, with one standard deviation to both sides."
        )
    kinds = dict.fromkeys(zip(rows["factor"], rows["axis"]))
    parts = []
    for factor, axis in kinds:
        own = [row for row in rows.to_dicts() if (row["factor"], row["axis"]) == (factor, axis)]
        first = ", ".join(f"{_short(called(row, 'entity'))} {percent(row['weight'])}" for row in own[:ALT_NAMES])
        parts.append(f"{axis}: {first}")
    return f"Component {component}, leading entities. {'; '.join(parts)}."


def coupling(fit: Fitted) -> Picture:
    """The heat map of components and relations."""
    cells = couplings.cells(fit)
    kinds = {(row["index"], row["component"]): row["kind"] for row in cells.rows}
    shared = sum(kind == "shared" for kind in kinds.values())
    words = f"Shares of {len(kinds)} components in each relation's counts; {shared} are shared by several relations"
    left = f", {cells.others:,} others have negligible shares" if cells.others else ""
    return Picture(lambda: couplings.draw(cells), f"{words}{left}.")


def rank(fit: Fitted) -> Picture:
    """What the ranks scored that were tried."""
    return _ranks(objective_charts.tried(fit))


def choice(rows: Sequence[Mapping[str, Any]], by: str) -> Picture:
    """What the ranks of a `plait.GridSearch` scored; rows and by are those of the choice."""
    return _ranks(objective_charts.compared(rows, by))


def _ranks(tries: objective_charts.Tries) -> Picture:
    scores = ", ".join(f"rank {row['rank']}: {row['score']:,.5g}" for row in tries.rows[:12])
    return Picture(
        lambda: objective_charts.draw_ranks(tries), f"The {tries.score} by rank. {scores}. Chosen: {tries.chosen}."
    )


def entity(fit: Fitted, axis: str, name: Any) -> Picture:
    """The component profile of one entity."""
    rows = entities.shares(fit, axis, name)
    parts = []
    for factor in dict.fromkeys(rows["factor"]):
        own = [row for row in rows.to_dicts() if row["factor"] == factor]
        first = ", ".join(f"component {row['component']} {percent(row['share'])}" for row in own[:ALT_NAMES])
        parts.append(f"in {factor}: {first}")
    words = f"Largest components of {axis} {_short(name)}, {'; '.join(parts)}."
    return Picture(lambda: entities.draw_profile(rows, names_of(fit)), words)


def neighbourhood(fit: Fitted, axis: str, name: Any, k: int = 10) -> Picture:
    """The most similar entities, and the strongest links."""
    neighbourhoods = neighbours.near(fit, axis, name, k)
    parts = []
    for one in neighbourhoods:
        first = ", ".join(f"{_short(row['name'])} {row['value']:.2g}" for row in one.rows[:ALT_NAMES])
        parts.append(f"{one.title}: {first}")
    words = f"Lists of the neighbours of {axis} {_short(name)}. {'. '.join(parts)}."
    return Picture(lambda: neighbours.draw(neighbourhoods), words)


def entity_map(fit: Fitted, axis: str, name: Any = None) -> Picture:
    """The map of an axis, or of one entity and those around it."""
    drawing = entity_maps.entity_map(fit, axis, name)
    count = f"{len(drawing.rows):,} of {drawing.size:,}"
    words = f"Map of {count} entities of {drawing.axis}; near points have like components."
    if drawing.chosen is not None:
        near = ", ".join(_short(drawing.names[n]) for n in list(drawing.near)[:ALT_NAMES])
        words += f" Most similar to {_short(drawing.names[drawing.chosen])}: {near}."
    return Picture(lambda: entity_maps.draw(drawing), words)


def trends(fit: Fitted, component: int | None = None, index: str | None = None) -> list[Picture]:
    """Components along an ordered axis; none without chains."""
    trend_lines = trends_chart.trends(fit, component, index=index) if trends_chart.chains(fit) else []
    if not trend_lines:
        return []
    words = "; ".join(f"{one.name} ends at {one.rows[-1]['level']:.2f} of its mean" for one in trend_lines[:ALT_NAMES])
    return [
        Picture(lambda: trends_chart.draw(trend_lines), f"Levels of components by period, with a forecast: {words}.")
    ]


def calibration(metrics: MetricCurves, compare_with: OtherMetrics = None) -> Picture:
    """Predicted against observed, bin by bin."""
    table = evaluation_charts.table_of(metrics, "calibration")
    inside = sum(abs(row["observed"] - row["predicted"]) <= 2 * row["error"] for row in table.to_dicts())
    words = (
        f"Predicted probabilities against shares of links in {len(table)} bins: {inside} of them within two standard"
    )
    return Picture(lambda: evaluation_charts.calibration(metrics, compare_with), f"{words} errors of the diagonal.")


def roc(metrics: MetricCurves, compare_with: OtherMetrics = None) -> Picture:
    """The ROC curve."""
    evaluation_charts.table_of(metrics, "roc")
    words = _figures(evaluation_charts.side_by_side(metrics, compare_with, "roc"), "roc_auc")
    text = f"ROC curve of {metrics.relation}, area: {words}."
    return Picture(lambda: evaluation_charts.roc(metrics, compare_with), text)


def precision_recall(metrics: MetricCurves, compare_with: OtherMetrics = None) -> Picture:
    """Precision by recall."""
    evaluation_charts.table_of(metrics, "precision_recall")
    words = _figures(evaluation_charts.side_by_side(metrics, compare_with, "precision_recall"), "average_precision")
    guess = f"guessing {evaluation_charts.base_rate(metrics):.3g}"
    text = f"Precision by recall of {metrics.relation}, average precision: {words}, {guess}."
    return Picture(lambda: evaluation_charts.precision_recall(metrics, compare_with), text)


def _figures(tests: Mapping[str, MetricCurves], figure: str) -> str:
    return ", ".join(f"{name} {one.figures[figure]:.3f}" for name, one in tests.items() if figure in one.figures)


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= ALT_NAME_CHARACTERS else f"{text[: ALT_NAME_CHARACTERS - 1]}…"
