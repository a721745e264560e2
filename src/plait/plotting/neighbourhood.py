"""Neighbourhood of an entity: similar entities, and its most probable links, known and predicted.

Ranked lists rather than a drawn graph: names are readable, and nearness is a length.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from plait.analysis.components.entity_shares import holdings
from plait.analysis.components.similar import similar
from plait.analysis.predict.lookup import row_named
from plait.analysis.predict.prediction import predict
from plait.analysis.topk.top import propose
from plait.data.observation.symmetry import written
from plait.errors import ParameterError
from plait.plotting.component_charts import check_axis
from plait.plotting.theme import (
    BLUE,
    ROW_PIXELS,
    VERMILION,
    Spec,
    called,
    cut,
    finished,
    heading,
    names_beside,
    number,
    plain,
    tips,
)
from plait.storage.fitted import Fitted

KNOWN, PREDICTED, LIKE = "known link", "predicted link", "similar"
KEY = "circle: known link, diamond: predicted link"
MAX_PANELS = 6  # relations and indices
MAX_SCORED_LINKS = 100_000  # known links of an entity
PANEL_PIXELS = 170


@dataclass(frozen=True)
class Neighbourhood:
    """A list: what it is of, what lengths are, and its rows: name, full, value, low, high (None: not known), kind."""

    title: str
    measure: str
    rows: list[dict[str, Any]]


def near(fit: Fitted, axis: str, name: Any, k: int = 10) -> list[Neighbourhood]:
    """The k most similar entities; of every relation and index of the axis k links, half of them known."""
    check_axis(fit, axis, "neighbourhood")
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ParameterError.must_be("k", "an integer of at least 1", k)
    row_named(fit.entities[axis], name, "name")
    own = fit.entities[axis].axis
    neighbours = []
    if any(fit.model.axis(holding.index) == own for holding in holdings(fit)):
        neighbours.append(_alike(fit, axis, name, int(k)))
    neighbours += [links for links in _links(fit, own, name, int(k)) if links.rows]
    return neighbours[: MAX_PANELS + 1]


def _alike(fit: Fitted, axis: str, name: Any, k: int) -> Neighbourhood:
    table = similar(fit, axis, name, k)
    value, sd = table.columns[-2:]
    rows = [
        {"name": cut(called(row, axis)), "full": called(row, axis), "value": row[value],
         "lower": max(row[value] - row[sd], 0.0), "upper": min(row[value] + row[sd], 1.0), "kind": LIKE}
        for row in table.to_dicts()
    ]  # fmt: skip
    return Neighbourhood("Most similar", "similarity", rows)


def _links(fit: Fitted, axis: str, name: Any, k: int) -> Iterator[Neighbourhood]:
    for equation in fit.model.equations:
        same = {equation.indices[n] for group in fit.known[equation.relation].groups for n in group[1:]}
        places = [index for index in equation.indices if fit.model.axis(index) == axis and index not in same]
        for index in places:
            rows = [*_known(fit, equation.relation, index, name, (k + 1) // 2),
                    *_predicted(fit, equation.relation, index, name, k - (k + 1) // 2 or 1)]  # fmt: skip
            title = f"{equation.relation}, as {index}" if len(places) > 1 else equation.relation
            yield Neighbourhood(title, "probability", sorted(rows, key=lambda row: -row["value"]))


def _known(fit: Fitted, relation: str, index: str, name: Any, count: int) -> list[dict[str, Any]]:
    """The most probable known links of an entity."""
    indices, known = fit.model.equation(relation).indices, fit.known[relation]
    place, row = indices.index(index), fit.entities[index].row(name)
    alike = next((group for group in known.groups if place in group), (place,))
    near = known.among(lambda cells: (cells[:, alike] == row).any(axis=1))
    some = near.cells[(near.cells[:, alike] == row).any(axis=1)][:MAX_SCORED_LINKS].astype(np.int64)
    own = written(some, known.shape, known.groups)  # an undirected link may have the entity at either end
    own = own[own[:, place] == row]
    if not len(own):
        return []
    cells = {i: fit.entities[i].names.gather(own[:, n]) for n, i in enumerate(indices)}
    table = predict(fit, relation, cells).sort("probability", descending=True, maintain_order=True).head(count)
    return [_link(fit, relation, index, row, KNOWN) for row in table.to_dicts()]


def _predicted(fit: Fitted, relation: str, index: str, name: Any, count: int) -> list[dict[str, Any]]:
    table, _ = propose(fit, relation, count, given={index: name}, score="probability")
    return [_link(fit, relation, index, row, PREDICTED) for row in table.to_dicts()]


def _link(fit: Fitted, relation: str, index: str, row: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """One end of a link is the entity; the others name it. Only probabilities of binary links have an interval."""
    others = [other for other in fit.model.equation(relation).indices if other != index]
    sure = fit.likelihood[relation].binary
    ends = {"lower": row["lower"], "upper": row["upper"]} if sure else {"lower": None, "upper": None}
    name = " · ".join(called(row, other) for other in others) or relation
    return {"name": cut(name), "full": name, "value": row["probability"], **ends, "kind": kind}


def draw(neighbours: list[Neighbourhood]) -> Spec:
    """A ranked list of dots for each; known links are filled circles, predicted ones hollow diamonds."""
    return finished({"concat": [_panel(one) for one in neighbours], "columns": 2, "spacing": 22})


def _panel(one: Neighbourhood) -> Spec:
    most = max((row["upper"] or row["value"] for row in one.rows), default=1.0)
    domain = [0.0, 1.0 if one.measure == "similarity" or most > 0.4 else 1.1 * most or 1.0]
    if one.measure == "similarity":  # differences between similar entities are small
        domain[0] = max(math.floor(20 * min((row["lower"] for row in one.rows), default=0.0) - 0.01) / 20, 0.0)
    rows = [{**row, "place": place, "zero": domain[0]} for place, row in enumerate(one.rows)]
    x = number("value", one.measure, scale={"domain": domain}, axis={"tickCount": 4, "format": "~g"})
    down = {"field": "place", "type": "ordinal", "axis": None, "scale": {"paddingInner": 0, "paddingOuter": 0}}
    key = "" if one.measure == "similarity" else KEY
    return {
        "title": heading(one.title, key),
        "width": PANEL_PIXELS,
        "height": max(len(rows), 1) * ROW_PIXELS,
        "data": plain(rows),
        "encoding": {"y": down},
        "layer": [*_dots(x, one.measure), names_beside()],
    }


def _by_kind(alike: Any, known: Any, predicted: Any) -> Spec:
    scale = {"domain": [LIKE, KNOWN, PREDICTED], "range": [alike, known, predicted]}
    return {"field": "kind", "type": "nominal", "scale": scale, "legend": None}


def _dots(x: Spec, measure: str) -> list[Spec]:
    """Stems, intervals and what stands at their ends."""
    colour, dash = _by_kind(BLUE, BLUE, VERMILION), _by_kind([1, 0], [1, 0], [3, 3])
    shape, inside = _by_kind("square", "circle", "diamond"), _by_kind(BLUE, BLUE, "transparent")
    stem = {"x": x | {"field": "zero"}, "x2": {"field": "value"}, "color": colour, "strokeDash": dash}
    said = tips(full="name#", value=measure, lower="lower", upper="upper", kind="kind#")
    return [
        {"mark": {"type": "rule", "strokeWidth": 1, "opacity": 0.7}, "encoding": stem},
        {
            "mark": {"type": "rule", "strokeWidth": 2.5},
            "encoding": {"x": x | {"field": "lower"}, "x2": {"field": "upper"}},
        },
        {
            "mark": {"type": "point", "size": 60, "opacity": 1, "strokeWidth": 1.8},
            "encoding": {"x": x, "color": colour, "shape": shape, "fill": inside, "tooltip": said},
        },
    ]
