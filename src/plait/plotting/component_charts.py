"""Charts of components: bars of entities with standard deviations, faded where the prior dominates; for components and
for one entity.
"""

from collections.abc import Mapping
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from plait.analysis.components.component_members import components as entities_of
from plait.analysis.components.entity_shares import profile
from plait.errors import ParameterError, PlaitError, suggestion
from plait.plotting.theme import (
    BLUE,
    MIN_OPACITY,
    ROW_PIXELS,
    Rows,
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
from plait.rendering.formatting import percent
from plait.storage.fitted import Fitted

if TYPE_CHECKING:
    import polars as pl

Names = Mapping[str, Mapping[int, str]]  # of components, by latent index and number


def bars(rows: Rows, title: str, below: str = "", *, width: int = 150, of: str = "weight") -> Spec:
    """A panel of bars, one below the other in the order of the rows: name, weight, sd and data of each.

    of: what a bar is, for tooltips. The outline of a bar is as long as its weight, its inside fades with `data`; a line
    goes from one sd below the end to one above.
    """
    listed = [
        {
            **row,
            "place": place,
            "lower": max(row["weight"] - row["sd"], 0.0),
            "upper": row["weight"] + row["sd"],
        }
        for place, row in enumerate(rows)
    ]
    along: Spec = {"axis": {"tickCount": 3, "title": None, "format": "~p"}, "scale": {"nice": False}}
    fade = {"field": "data", "type": "quantitative", "legend": None,
            "scale": {"domain": [0, 1], "range": [MIN_OPACITY, 1]}}  # fmt: skip
    bar = {"type": "bar", "height": ROW_PIXELS - 6, "color": BLUE, "stroke": BLUE, "strokeWidth": 1}
    sure = {"type": "rule", "strokeWidth": 1.5}
    said = tips(full="name#", weight=of, sd="sd", data="from data")
    return {
        "title": heading(title, below),
        "width": width,
        "height": max(len(listed), 1) * ROW_PIXELS,
        "data": plain(listed),
        "encoding": {
            "y": {"field": "place", "type": "ordinal", "axis": None, "scale": {"paddingInner": 0, "paddingOuter": 0}}
        },
        "layer": [
            {
                "mark": bar,
                "encoding": {"x": number("weight", **along), "fillOpacity": fade, "tooltip": said},
            },
            {"mark": sure, "encoding": {"x": number("lower", **along), "x2": {"field": "upper"}}},
            names_beside(),
        ],
    }


MAX_COMPONENTS = 15  # of a factor
MIN_SHARE = 0.005  # of a drawn component


def shares(fit: Fitted, axis: str, name: Any) -> "pl.DataFrame":
    """The entity's largest components in every factor, the largest first."""
    import polars as pl

    check_axis(fit, axis, "entity")
    whole = profile(fit, axis, name)
    if not len(whole):
        raise ParameterError(
            f"no factor of axis {axis} has a latent index, so there are no components.",
            actual=axis,
            hint="Choose an axis of a factor with a latent index, such as i in A[i, r].",
        )
    by = ["factor", "axis", "index"]
    whole = whole.with_row_index("place").sort("share", descending=True, maintain_order=True)
    number = pl.int_range(pl.len()).over(by)
    first = (number < MAX_COMPONENTS) & ((pl.col("share") >= MIN_SHARE) | (number == 0))
    place = pl.col("place").min().over(by)
    return whole.filter(first).sort(place, maintain_order=True).drop("place")


def check_axis(fit: Fitted, axis: Any, of: str) -> None:
    """Refuse a name that is neither an axis nor an index."""
    known = tuple(dict.fromkeys([*fit.model.axes, *fit.model.visible]))
    if axis not in known:
        near = suggestion(axis, known) if isinstance(axis, str) else ""
        raise ParameterError(
            f"{axis!r} is not an axis of the model.",
            actual=axis,
            hint=f"{near}The axes are {', '.join(known) or 'none'}.",
        )


def draw_profile(rows: "pl.DataFrame", names: Names = MappingProxyType({})) -> Spec:
    """A list of bars for every factor, side by side."""
    several = rows["index"].n_unique() > 1
    panels = []
    for (factor, index), own in groupby(rows.to_dicts(), key=lambda row: (row["factor"], row["index"])):
        word = f"components of {index}" if several else "components"
        listed = [_profile_bar(row, names) for row in own]
        panels.append(bars(listed, f"{word} in {factor}", width=190, of="share of expected counts"))
    return finished({"concat": panels, "columns": 3, "spacing": 18})


def _profile_bar(row: dict[str, Any], names: Names) -> dict[str, Any]:
    own = names.get(row["index"], {}).get(row["component"])
    name = f"component {row['component']}" if own is None else f"{row['component']}: {own}"
    return {"name": cut(name), "full": name, "weight": row["share"], "sd": row["sd"], "data": row["data"]}


MAX_CARDS = 24  # components in one chart
MIN_RELATION_SHARE = 0.001  # below, in every relation, a component is left out

Row = Mapping[str, Any]


def card(fit: Fitted, component: int, index: str | None = None, top: int = 8) -> "pl.DataFrame":
    """The rows of one component in `Fit.components`."""
    import polars as pl

    wanted = _checked_index(fit, component, index)
    return _cached_components(fit, top).filter((pl.col("component") == component) & (pl.col("index") == wanted))


def leading(fit: Fitted, index: str | None = None, top: int = 8) -> "tuple[pl.DataFrame, int]":
    """The rows of the components with the largest shares, the largest first; and how many others there are."""
    import polars as pl

    refuse_none(fit)
    whole = _cached_components(fit, top)
    if index is not None:
        whole = whole.filter(pl.col("index") == _known_index(fit, index))
    shares = pl.sum_horizontal(pl.col("^share_.*$").fill_null(0.0))
    least = pl.max_horizontal(pl.col("^share_.*$").fill_null(0.0))
    ranked = (
        whole.group_by("index", "component", maintain_order=True)
        .agg(shares.first().alias("total"), least.first().alias("most"))
        .sort("total", descending=True, maintain_order=True)
        .with_row_index("place")
    )
    kept = ranked.filter(pl.col("most") >= MIN_RELATION_SHARE).head(MAX_CARDS)
    kept = ranked.head(1) if not len(kept) else kept
    rows = whole.join(kept.select("index", "component", "place"), on=["index", "component"], maintain_order="left")
    return rows.sort("place", maintain_order=True).drop("place"), len(ranked) - len(kept)


def _cached_components(fit: Fitted, top: int) -> "pl.DataFrame":
    """`Fit.components`, kept: a report asks for one card after the other."""
    key = f"components of {top!r}"
    if key not in fit._cached_answers:
        fit._cached_answers[key] = entities_of(fit, top=top)
    table: pl.DataFrame = fit._cached_answers[key]
    return table


def draw_components(rows: "pl.DataFrame", others: int = 0) -> Spec:
    """A grid with a row of panels per component, in their order; others: the number of components not drawn."""
    grids: dict[str, list[Spec]] = {}
    for (index, component), own in groupby(rows.to_dicts(), key=lambda row: (row["index"], row["component"])):
        several = rows["index"].n_unique() > 1
        name = f"component {component}" + (f" of {index}" if several else "")
        grids.setdefault(index, []).extend(_panels(name, list(own)))
    counts = {index: _across(rows, index) for index in grids}
    made: list[Spec] = [{"concat": panels, "columns": counts[index], "spacing": 18} for index, panels in grids.items()]
    whole: Spec = made[0] if len(made) == 1 else {"vconcat": made, "spacing": 24}
    if others:
        note = f"{others:,} more component{'' if others == 1 else 's'} not drawn"
        whole["title"] = {"text": note, "fontWeight": "normal", "fontSize": 11}
    return finished(whole)


def _panels(name: str, rows: list[Row]) -> list[Spec]:
    kinds = [(kind, list(own)) for kind, own in groupby(rows, key=lambda row: (row["factor"], row["axis"]))]
    axes = [axis for (_, axis), _ in kinds]
    panels = []
    for place, ((factor, axis), own) in enumerate(kinds):
        title = f"{axis} ({factor})" if axes.count(axis) > 1 else axis
        shown = [_bar(row) for row in own]
        first = place == 0
        below = ", ".join(filter(None, (own[0]["name"], _shares(own[0])))) if first else ""
        panels.append(bars(shown, f"{name} · {title}", below))
    return panels


def _bar(row: Row) -> dict[str, Any]:
    name = called(row, "entity")
    full = name if name == row["entity"] else f"{name} ({row['entity']})"
    return {"name": cut(name), "full": full, **{part: row[part] for part in ("weight", "sd", "data")}}


def _shares(row: Row) -> str:
    """What the component explains: ``8 % of visits, 2 % of friends``."""
    own = {name.removeprefix("share_"): share for name, share in row.items() if name.startswith("share_")}
    return ", ".join(f"{percent(share)} of {name}" for name, share in own.items() if share is not None)


def _across(rows: "pl.DataFrame", index: str) -> int:
    import polars as pl

    return rows.filter(pl.col("index") == index).select("factor", "axis").n_unique()


def refuse_none(fit: Fitted) -> None:
    """A chart of components needs some."""
    if not fit.rank:
        raise PlaitError(
            "the model has no latent index, so there are no components.",
            hint="Add a latent index, such as r in A[i, r] B[j, r].",
        )


def _known_index(fit: Fitted, index: str) -> str:
    if index not in fit.rank:
        raise ParameterError(
            f"{index!r} is not a latent index of the model.",
            actual=index,
            hint=f"The latent indices are {', '.join(fit.rank) or 'none'}.",
        )
    return index


def _checked_index(fit: Fitted, component: Any, index: str | None) -> str:
    """The latent index that a component is of: the only one, or the one that is named."""
    refuse_none(fit)
    if index is None and len(fit.rank) > 1:
        raise ParameterError(
            f"`index` is missing; the latent indices are {', '.join(fit.rank)}.",
            hint="Choose one of them.",
        )
    wanted = next(iter(fit.rank)) if index is None else _known_index(fit, index)
    if isinstance(component, bool) or not isinstance(component, int) or not 0 <= component < fit.rank[wanted]:
        raise ParameterError.must_be("component", f"an integer from 0 to {fit.rank[wanted] - 1}", component)
    return wanted
