"""Charts of an evaluation: calibration, ROC and precision–recall curves, with their errors."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from plait.errors import ParameterError, PlaitError
from plait.plotting.theme import SIDE_PIXELS, Spec, finished, number, plain, series, tips
from plait.rendering.svg import INK

if TYPE_CHECKING:
    import polars as pl

OWN, POPULARITY, OTHER = "model", "popularity", "other"
CURVES = {"roc": "ROC curve", "precision_recall": "precision–recall curve", "calibration": "calibration"}
TICKS = [0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]


class MetricCurves(Protocol):
    """What charts need of `plait.Metrics`."""

    @property
    def figures(self) -> Mapping[str, float]: ...
    @property
    def errors(self) -> Mapping[str, float]: ...
    @property
    def relation(self) -> str: ...
    @property
    def links(self) -> int: ...
    @property
    def zeros(self) -> int: ...
    @property
    def curves(self) -> "Mapping[str, pl.DataFrame]": ...
    @property
    def baseline(self) -> "MetricCurves | None": ...


OtherMetrics = MetricCurves | Mapping[str, MetricCurves] | None


def side_by_side(metrics: MetricCurves, compare_with: OtherMetrics, curve: str) -> dict[str, MetricCurves]:
    """Tests by the names of their curves, the own one first; without `compare_with`, popularity if it was measured."""
    others: Any = compare_with
    if others is None:
        others = {} if metrics.baseline is None else {POPULARITY: metrics.baseline}
    elif hasattr(others, "figures"):
        others = {OTHER: others}
    if not isinstance(others, Mapping) or not all(hasattr(one, "figures") for one in others.values()):
        wanted = "a result of plait.evaluate, or a dict of results by name"
        raise ParameterError.must_be("compare_with", wanted, compare_with)
    metrics_by_name = {OWN: metrics} | {str(name): one for name, one in others.items()}
    return {
        name: one
        for name, one in metrics_by_name.items()
        if name == OWN or compare_with is not None or curve in one.curves
    }


def table_of(metrics: MetricCurves, curve: str) -> "pl.DataFrame":
    """The points of a curve, where the test tells them."""
    table = metrics.curves.get(curve)
    if table is None:
        raise PlaitError(
            f"there is no {CURVES[curve]} of {metrics.relation}: the test has no zeros.",
            hint='Hold out links and zeros: plait.train_test_split with `by="cells"`.',
        )
    return table


def _named(name: str, metrics: MetricCurves, figure: str, word: str) -> str:
    """A curve in the legend: ``model: area 0.927 ± 0.007``."""
    if figure not in metrics.figures:
        return name
    error = f" ± {metrics.errors[figure]:.3f}" if figure in metrics.errors else ""
    return f"{name}: {word} {metrics.figures[figure]:.3f}{error}"


def _rows(tests: Mapping[str, MetricCurves], curve: str, y: str, figure: str, word: str) -> list[dict[str, Any]]:
    """Points of all curves in their order, with the ends of their error bands."""
    rows = []
    for name, one in tests.items():
        label = _named(name, one, figure, word)
        for place, row in enumerate(table_of(one, curve).to_dicts()):
            ends = {"under": max(row[y] - row["error"], 0.0), "over": min(row[y] + row["error"], 1.0)}
            rows.append({"series": label, "place": place, **row, **ends})
    return rows


def _curves(rows: list[dict[str, Any]], x: Spec, y: Spec, interpolate: str, under: list[Spec]) -> Spec:
    """Lines with bands of one standard error, above the other layers."""
    colour, dash, _ = series(list(dict.fromkeys(row["series"] for row in rows)), symbolType="stroke", symbolSize=600)
    said = tips(series="curve#", **{x["field"]: x["title"], y["field"]: y["title"]}, error="standard error")
    band = {"type": "area", "opacity": 0.22, "interpolate": interpolate}
    line = {"type": "line", "strokeWidth": 2, "interpolate": interpolate}
    ends = {"y": y | {"field": "under"}, "y2": {"field": "over"}}
    order = {"field": "place", "type": "quantitative"}
    return finished(
        {
            "width": SIDE_PIXELS,
            "height": SIDE_PIXELS,
            "layer": [
                *under,
                {"data": plain(rows), "mark": band, "encoding": {"x": x, **ends, "color": colour}},
                {
                    "data": plain(rows),
                    "mark": line,
                    "encoding": {"x": x, "y": y, "color": colour, "strokeDash": dash, "order": order, "tooltip": said},
                },
            ],
        }
    )


UNIT: Spec = {"scale": {"domain": [0, 1]}, "axis": {"tickCount": 5, "format": "~g"}}
THIN: Spec = {"color": INK, "opacity": 0.45, "strokeDash": [3, 3], "strokeWidth": 1}


def roc(metrics: MetricCurves, compare_with: OtherMetrics = None) -> Spec:
    """The ROC curve with its standard errors; the diagonal is what guessing has."""
    tests = side_by_side(metrics, compare_with, "roc")
    rows = _rows(tests, "roc", "true_positive_rate", "roc_auc", "area")
    x = number("false_positive_rate", "false positive rate", **UNIT)
    y = number("true_positive_rate", "true positive rate", **UNIT)
    corners = [{"false_positive_rate": end, "true_positive_rate": end} for end in (0, 1)]
    diagonal = {"data": plain(corners), "mark": {"type": "line", **THIN}, "encoding": {"x": x, "y": y}}
    return _curves(rows, x, y, "linear", [diagonal])


def base_rate(metrics: MetricCurves) -> float:
    """The share of links among the cells of the test: the precision of guessing."""
    return metrics.links / max(metrics.links + metrics.zeros, 1)


def precision_recall(metrics: MetricCurves, compare_with: OtherMetrics = None) -> Spec:
    """Precision at every recall with its standard errors; the line is what guessing has."""
    tests = side_by_side(metrics, compare_with, "precision_recall")
    rows = _rows(tests, "precision_recall", "precision", "average_precision", "average precision")
    x, y = number("recall", "recall", **UNIT), number("precision", "precision", **UNIT)
    rate = base_rate(metrics)
    ends = [{"recall": end, "precision": rate, "text": f"guessing: {rate:.3g}"} for end in (0, 1)]
    level = {"data": plain(ends), "mark": {"type": "line", **THIN}, "encoding": {"x": x, "y": y}}
    word: Spec = {
        "data": plain(ends[:1]),
        "mark": {"type": "text", "color": INK, "align": "left", "dx": 4, "dy": -6 if rate < 0.5 else 9, "fontSize": 11},
        "encoding": {"x": x, "y": y, "text": {"field": "text", "type": "nominal"}},
    }
    return _curves(rows, x, y, "step-before", [level, word])


def calibration(metrics: MetricCurves, compare_with: OtherMetrics = None) -> Spec:
    """Predicted probabilities against the share of links, bin by bin; on the diagonal they are what they say.

    Both scales are square roots: of sparse data most probabilities are small.
    """
    tests = side_by_side(metrics, compare_with, "calibration")
    rows = _rows(tests, "calibration", "observed", "calibration_error", "error")
    end = min(1.0, 1.05 * max(max(row["upper"], row["over"]) for row in rows))
    ticks = {"values": [tick for tick in TICKS if tick <= end], "format": "~g", "labelOverlap": True}
    root: Spec = {"scale": {"type": "sqrt", "domain": [0, end], "nice": False}, "axis": ticks}
    x, y = number("predicted", "predicted probability", **root), number("observed", "share of links", **root)
    colour, _, shape = series(list(dict.fromkeys(row["series"] for row in rows)))
    said = tips(series="of#", bin="bin#", cells="cells", predicted="predicted", observed="observed", error="± se")
    wide = {"x": x | {"field": "lower"}, "x2": {"field": "upper"}, "y": y}
    tall = {"x": x, "y": y | {"field": "under"}, "y2": {"field": "over"}}
    corners = [{"predicted": at, "observed": at} for at in (0.0, end)]
    return finished(
        {
            "width": SIDE_PIXELS,
            "height": SIDE_PIXELS,
            "layer": [
                {"data": plain(corners), "mark": {"type": "line", **THIN}, "encoding": {"x": x, "y": y}},
                {"data": plain(rows), "mark": {"type": "rule", "opacity": 0.5}, "encoding": wide | {"color": colour}},
                {
                    "data": plain(rows),
                    "mark": {"type": "rule", "strokeWidth": 1.5},
                    "encoding": tall | {"color": colour},
                },
                {
                    "data": plain(rows),
                    "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
                    "encoding": {"x": x, "y": y, "color": colour, "shape": shape, "tooltip": said},
                },
            ],
        }
    )
