"""Heat map of the coupling of relations and components."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plait.analysis.components.component_names import names_of
from plait.analysis.explain.coupling import coupling
from plait.plotting.component_charts import MIN_RELATION_SHARE, refuse_none
from plait.plotting.theme import BLUE, ROW_PIXELS, Spec, cut, finished, plain, tips
from plait.rendering.svg import INK
from plait.storage.fitted import Fitted

MAX_COMPONENTS = 40  # drawn
MAX_OPACITY = 0.62  # keeps text readable on light and dark pages
CELL_PIXELS = 92


@dataclass(frozen=True)
class CouplingCells:
    """Rows of `Fit.coupling` that are drawn, those of the largest components; others: components that are not.

    names: of components, by latent index and number.
    """

    rows: list[dict[str, Any]]
    others: int
    names: Mapping[str, Mapping[int, str]]


def cells(fit: Fitted) -> CouplingCells:
    """The components that explain anything, at most MAX_COMPONENTS, by their numbers."""
    import polars as pl

    refuse_none(fit)
    whole = coupling(fit).filter(pl.col("index").is_not_null())
    by = ["index", "component"]
    sums = whole.group_by(by, maintain_order=True).agg(pl.col("share").sum().alias("sum"), pl.col("share").max())
    sums = sums.sort("sum", descending=True, maintain_order=True)
    kept = sums.filter(pl.col("share") >= MIN_RELATION_SHARE).head(MAX_COMPONENTS)
    kept = sums.head(1) if not len(kept) else kept
    rows = whole.join(kept.select(by), on=by, how="semi", maintain_order="left")
    order = {index: n for n, index in enumerate(fit.model.latent)}
    place = pl.col("index").replace_strict(order, return_dtype=pl.Int64)
    return CouplingCells(
        rows.sort(place, "component", maintain_order=True).to_dicts(), len(sums) - len(kept), names_of(fit)
    )


def draw(cells: CouplingCells) -> Spec:
    """Components below each other, relations side by side; a cell has the component's share of the relation."""
    several = len({row["index"] for row in cells.rows}) > 1
    listed = [
        {**row, "name": _component(row, several, cells.names), "from": _relation(row), "text": _percent(row["share"])}
        for row in cells.rows
    ]
    names, relations = (list(dict.fromkeys(row[field] for row in listed)) for field in ("name", "from"))
    most = max((row["share"] for row in listed), default=1.0) or 1.0
    down: Spec = {"field": "name", "type": "nominal", "sort": names, "title": "component",
                  "axis": {"ticks": False, "domain": False, "labelLimit": 220}}  # fmt: skip
    across: Spec = {"field": "from", "type": "nominal", "sort": relations, "title": None,
                    "axis": {"orient": "top", "labelAngle": 0, "ticks": False, "domain": False,
                             "labelLimit": CELL_PIXELS - 4}}  # fmt: skip
    scale = {"type": "sqrt", "domain": [0, most], "range": [0, MAX_OPACITY]}
    shade = {"field": "share", "type": "quantitative", "scale": scale, "legend": None}
    said = tips(name="component#", **{"from": "relation#"}, share="share of the relation's counts", counts="counts",
                sd="sd of counts", part="part of the component", kind="kind#")  # fmt: skip
    edge = {"stroke": INK, "strokeOpacity": 0.18, "strokeWidth": 1}
    kinds = list({row["name"]: row for row in listed}.values())
    return finished(
        {
            "width": CELL_PIXELS * len(relations),
            "height": (ROW_PIXELS + 5) * len(names),
            "encoding": {"y": down},
            "layer": [
                {
                    "data": plain(listed),
                    "mark": {"type": "rect", "color": BLUE, **edge},
                    "encoding": {"x": across, "fillOpacity": shade, "tooltip": said},
                },
                {
                    "data": plain(listed),
                    "mark": {"type": "text", "color": INK, "fontSize": 11},
                    "encoding": {"x": across, "text": {"field": "text", "type": "nominal"}},
                },
                {
                    "data": plain(kinds),
                    "mark": {"type": "text", "color": INK, "fontSize": 11, "align": "left", "opacity": 0.75},
                    "encoding": {
                        "x": {"value": CELL_PIXELS * len(relations) + 8},
                        "text": {"field": "kind", "type": "nominal"},
                    },
                },
            ],
        }
    )


def _component(row: Mapping[str, Any], several: bool, names: Mapping[str, Mapping[int, str]]) -> str:
    number = f"{row['index']} {row['component']}" if several else str(row["component"])
    name = names.get(row["index"], {}).get(row["component"])
    return number if name is None else cut(f"{number}: {name}")


def _relation(row: Mapping[str, Any]) -> str:
    return f"{row['relation']}: {row['term']}" if row["term"] else str(row["relation"])


def _percent(share: float) -> str:
    """A share in a cell: three digits at most, nothing where it rounds to nothing."""
    if share < 0.0005:
        return "·"
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"
