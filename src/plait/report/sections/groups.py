"""Components: who is in them, and which relations feed them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plait.chart import pictures
from plait.chart.bars import bars
from plait.chart.look import called as title_or_name
from plait.chart.look import cut, finished
from plait.report.names import called
from plait.report.subject import Subject
from plait.show.document import Block, Cards, Details, Facts, Faint, Note, Picture, Section, Share, Table

if TYPE_CHECKING:
    import polars as pl

CARDS = 24  # components that have a card
SHARES = 500  # rows of the table of sharing
WIDTH = 170  # pixels of a bar: with names beside it the picture fits a phone
HALF = 0.5  # of a weight that comes from data: below it the prior speaks

NONE = "The model has no latent index: there are no components."


def cards(subject: Subject) -> Sequence[Block]:
    """A card for each of the largest components, the largest first, and a list of the others."""
    whole = subject.components
    if whole.is_empty():
        return [Note(NONE)]
    ranked = _ranked(whole)
    shown = [_card(whole, one) for one in ranked.head(CARDS).to_dicts()]
    others = ranked.slice(CARDS)
    words = (
        "Components by how much they explain. A bar is an entity's share of the component, with its standard "
        "deviation; what is faded comes more from the prior than from data."
    )
    return [Note(words, quiet=False), Cards(shown), *([_rest(others)] if len(others) else [])]


def _ranked(whole: "pl.DataFrame") -> "pl.DataFrame":
    """Components with their shares, by the mean share of the relations that have them."""
    import polars as pl

    shares = [name for name in whole.columns if name.startswith("share_")]
    each = whole.group_by("index", "component", maintain_order=True).agg(pl.col(shares).first())
    return each.sort(pl.mean_horizontal(shares), descending=True, maintain_order=True)


def _shares(row: Mapping[str, Any]) -> dict[str, float]:
    """By relation the share that a component has of it, where it has any."""
    own = {name.removeprefix("share_"): share for name, share in row.items() if name.startswith("share_")}
    return {relation: share for relation, share in own.items() if share is not None}


def _card(whole: "pl.DataFrame", row: Mapping[str, Any]) -> Section:
    import polars as pl

    own = whole.filter((pl.col("index") == row["index"]) & (pl.col("component") == row["component"]))
    shares = Facts([(f"share of {relation}", Share(share)) for relation, share in _shares(row).items()])
    several = whole["index"].n_unique() > 1
    title = f"Component {row['component']}" + (f" of {row['index']}" if several else "")
    parts = {key: part.to_dicts() for key, part in own.group_by("factor", "axis", maintain_order=True)}
    drawn = [_picture(title, key, part) for key, part in parts.items()]
    tables = [_entities(key, part) for key, part in parts.items()]
    blocks: list[Block] = [shares, *drawn, Details(f"Numbers of {title.lower()}", tables)]
    return Section(title, blocks, f"component-{row['index']}-{row['component']}")


Key = tuple[Any, ...]  # a factor and an axis
Rows = Sequence[Mapping[str, Any]]


def _picture(title: str, key: Key, rows: Rows) -> Picture:
    """A list of bars: a picture by itself has its size on a narrow page, too."""
    factor, axis = key
    listed = [{**row, "name": cut(title_or_name(row, "entity")), "full": called(row, "entity")} for row in rows]
    words = f"{title}: the heaviest entities of {axis} ({factor}), as in the numbers below."
    return Picture(lambda: finished(bars(listed, f"{axis} ({factor})", width=WIDTH)), words)


def _entities(key: Key, rows: Rows) -> Table:
    factor, axis = key
    listed = []
    for row in rows:
        values = (called(row, "entity"), row["weight"], row["sd"], row["lift"], Share(row["data"]))
        listed.append(tuple(map(Faint, values)) if row["data"] < HALF else values)
    return Table((axis, "weight", "sd", "lift", "from data"), listed, f"{axis} ({factor})")


def _rest(others: "pl.DataFrame") -> Table:
    relations = [name.removeprefix("share_") for name in others.columns if name.startswith("share_")]
    rows = [
        (row["index"], row["component"], *(_share(row[f"share_{relation}"]) for relation in relations))
        for row in others.to_dicts()
    ]
    return Table(
        ("index", "component", *(f"share of {name}" for name in relations)), rows, "All other components", left=2
    )


def _share(value: float | None) -> Any:
    return None if value is None else Share(value)


def sharing(subject: Subject) -> Sequence[Block]:
    """Which relations feed which component: a picture and a table."""
    import polars as pl

    whole = subject.coupling.filter(pl.col("index").is_not_null())
    if whole.is_empty():
        return [Note(NONE)]
    words = "How much of a relation each component explains, and whether it lives in one relation or in several."
    if len(subject.fit.model.relations) == 1:
        words = "There is one relation: nothing is shared with another."
    summed = bool((whole["term"] != "").any()) if whole["term"].dtype == pl.String else False
    columns = ("component", "relation", *(["term"] if summed else []), "counts", "sd", "share", "part", "kind")
    rows = [_coupled(row, columns) for row in whole.head(SHARES).to_dicts()]
    note = (
        "counts: known links that the component explains, ± sd; share: of the relation's counts; part: how much of the "
        "component's evidence comes from the relation; private: 95 % or more from one relation."
    )
    table = Table(columns, rows, note=note, left=len(columns) - 5, more=max(0, len(whole) - SHARES))
    return [Note(words, quiet=False), pictures.coupling(subject.fit), Details("Numbers of the sharing", [table])]


def _coupled(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[Any, ...]:
    named = dict(row)
    named["component"] = f"{row['component']} of {row['index']}"
    named["share"], named["part"] = _share(row["share"]), _share(row["part"])
    return tuple(named[name] for name in columns)
