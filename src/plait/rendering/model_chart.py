"""Picture of a model: a factor graph with relations above, factors below, and a line for each use of a factor."""

from typing import Any

from plait.rendering.document import Picture
from plait.rendering.svg import BLUE, CONFIG, GREY, INK, VERMILION

BOX_PIXELS = 130  # from the middle of a box to that of the next one
BOX_WIDTH, BOX_HEIGHT = 116, 30
CHART_PIXELS = 150
MAX_BOXES = 12  # of a row, with letters that can be read


def fits(model: Any) -> bool:
    """Whether the picture has few enough boxes."""
    return 0 < max(len(model.relations), len(model.factors)) <= MAX_BOXES


def draw(model: Any) -> dict[str, Any]:
    """The graph. Factors of several relations, which couple them, have another colour."""
    uses = model.R > 0
    width = BOX_PIXELS * max(len(model.relations), len(model.factors))

    def across(number: int, count: int) -> float:
        return width * (number + 0.5) / count

    relations = [
        {"x": across(n, len(model.relations)), "y": 20, "name": f"{name}[{', '.join(equation.indices)}]",
         "kind": "relation"}
        for n, (name, equation) in enumerate(zip(model.relations, model.equations))
    ]  # fmt: skip
    factors = [
        {"x": across(n, len(model.factors)), "y": CHART_PIXELS - 20, "name": str(model.factor(name)),
         "kind": "shared factor" if uses[:, n].sum() > 1 else "factor"}
        for n, name in enumerate(model.factors)
    ]  # fmt: skip
    lines = [
        {
            "x": relations[i]["x"],
            "y": 20 + BOX_HEIGHT / 2,
            "x2": factors[j]["x"],
            "y2": CHART_PIXELS - 20 - BOX_HEIGHT / 2,
        }
        for i in range(len(relations))
        for j in range(len(factors))
        if uses[i, j]
    ]
    place = {name: {"field": name, "type": "quantitative", "scale": None, "axis": None} for name in ("x", "y")}
    kinds = ["relation", "factor", "shared factor"]
    colour = {"field": "kind", "type": "nominal", "scale": {"domain": kinds, "range": [BLUE, GREY, VERMILION]},
              "legend": {"title": None, "orient": "bottom"}}  # fmt: skip
    box = {"type": "rect", "width": BOX_WIDTH, "height": BOX_HEIGHT, "cornerRadius": 5, "fillOpacity": 0.18,
           "strokeWidth": 1.5}  # fmt: skip
    text = {"type": "text", "color": INK, "fontSize": 11, "limit": BOX_WIDTH - 8}
    ends = {**place, "x2": {"field": "x2"}, "y2": {"field": "y2"}}
    boxes = {"values": [*relations, *factors]}
    return {
        "config": dict(CONFIG),
        "width": width,
        "height": CHART_PIXELS,
        "layer": [
            {"data": {"values": lines}, "mark": {"type": "rule", "strokeOpacity": 0.5}, "encoding": ends},
            {"data": boxes, "mark": box, "encoding": {**place, "fill": colour, "stroke": colour}},
            {"data": boxes, "mark": text, "encoding": {**place, "text": {"field": "name", "type": "nominal"}}},
        ],
    }


def picture(model: Any) -> Picture:
    """The graph with its words."""
    uses = [f"{equation.relation} has {', '.join(dict.fromkeys(equation.factors))}" for equation in model.equations]
    return Picture(lambda: draw(model), f"Factor graph: {'; '.join(uses)}.")
