"""Who is in the components of a fit: a card for each, with a list of bars for every factor and axis."""

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from plait.answer.groups.components import components as entities_of
from plait.chart.bars import bars
from plait.chart.look import Spec, called, cut, finished
from plait.errors import PlaitError, SettingError
from plait.run.record import Fitted
from plait.show.words import percent

if TYPE_CHECKING:
    import polars as pl

CARDS = 24  # components that are drawn at once
LEFTOVER = 0.001  # share of every relation below which a component explains nothing

Row = Mapping[str, Any]


def card(fit: Fitted, component: int, index: str | None = None, top: int = 8) -> "pl.DataFrame":
    """The rows of one component in `Fit.components`."""
    import polars as pl

    wanted = _checked_index(fit, component, index)
    return _listed(fit, top).filter((pl.col("component") == component) & (pl.col("index") == wanted))


def leading(fit: Fitted, index: str | None = None, top: int = 8) -> "tuple[pl.DataFrame, int]":
    """The rows of the components with the largest shares, the largest first; and how many others there are."""
    import polars as pl

    refuse_none(fit)
    whole = _listed(fit, top)
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
    kept = ranked.filter(pl.col("most") >= LEFTOVER).head(CARDS)
    kept = ranked.head(1) if not len(kept) else kept
    rows = whole.join(kept.select("index", "component", "place"), on=["index", "component"], maintain_order="left")
    return rows.sort("place", maintain_order=True).drop("place"), len(ranked) - len(kept)


def _listed(fit: Fitted, top: int) -> "pl.DataFrame":
    """`Fit.components`, kept: a report asks for one card after the other."""
    key = f"components of {top!r}"
    if key not in fit.told:
        fit.told[key] = entities_of(fit, top=top)
    found: pl.DataFrame = fit.told[key]
    return found


def draw(rows: "pl.DataFrame", others: int = 0) -> Spec:
    """A grid: a row of panels for every component of the rows, in their order; others: so many are not drawn."""
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
    found = []
    for place, ((factor, axis), own) in enumerate(kinds):
        title = f"{axis} ({factor})" if axes.count(axis) > 1 else axis
        shown = [_bar(row) for row in own]
        first = place == 0
        found.append(bars(shown, f"{name} · {title}", _shares(own[0]) if first else ""))
    return found


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
            "there are no components to draw: the model has no latent index.",
            hint="Give its factors one, such as r in A[i, r] B[j, r].",
        )


def _known_index(fit: Fitted, index: str) -> str:
    if index not in fit.rank:
        raise SettingError(
            f"there is no latent index {index!r}.",
            actual=index,
            hint=f"It is one of {', '.join(fit.rank) or 'none'}.",
        )
    return index


def _checked_index(fit: Fitted, component: Any, index: str | None) -> str:
    """The latent index that a component is of: the only one, or the one that is named."""
    refuse_none(fit)
    if index is None and len(fit.rank) > 1:
        raise SettingError(
            f"component {component} of which latent index? There are {', '.join(fit.rank)}.",
            hint="Name one of them.",
        )
    wanted = next(iter(fit.rank)) if index is None else _known_index(fit, index)
    if isinstance(component, bool) or not isinstance(component, int) or not 0 <= component < fit.rank[wanted]:
        raise SettingError.must_be("component", f"a whole number from 0 to {fit.rank[wanted] - 1}", component)
    return wanted
