"""Links in tables: known links that match a filter, and the page of surprising cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

import numpy as np
import polars as pl

from plait._typing import AnyArray, Array, Flags, Rows
from plait.analysis.topk.surprising import surprising
from plait.data.binding.known import Known
from plait.data.observation.symmetry import orders
from plait.explore.request import PageRequest, PageView
from plait.explore.site import Site
from plait.rendering.document import Block, Document, IntervalBar, Note, Ref, Section, Table


@dataclass(frozen=True)
class Filter:
    """Links of some entities, and of values in a range."""

    rows: Mapping[int, int]  # position → row
    least: float | None = None
    most: float | None = None

    @property
    def empty(self) -> bool:
        return not self.rows and self.least is None and self.most is None


def matching(known: Known, wanted: Filter) -> tuple[AnyArray, Array, Rows | None]:
    """Cells and values of links, and the numbers of those that match (None: all)."""
    if wanted.empty:
        return known.cells, known.values, None
    ways = list(orders(known.groups, len(known.shape)))
    near = known.among(partial(_has, wanted.rows, ways)) if wanted.rows else known
    cells, values = near.cells, near.values
    is_match = _has(wanted.rows, ways, cells)
    if wanted.least is not None:
        is_match &= values >= wanted.least
    if wanted.most is not None:
        is_match &= values <= wanted.most
    if len(ways) > 1 and wanted.rows:
        return _turned(wanted.rows, ways, cells[is_match]), values[is_match], None
    return cells, values, np.flatnonzero(is_match)


def _has(rows: Mapping[int, int], ways: Sequence[Sequence[int]], cells: AnyArray) -> Flags:
    """Which cells have these rows, by place, in one of the ways of writing a cell."""
    inside = np.zeros(len(cells), bool)
    for way in ways:
        here = np.ones(len(cells), bool)
        for place, row in rows.items():
            here &= cells[:, way[place]] == row
        inside |= here
    return inside


def _turned(rows: Mapping[int, int], ways: Sequence[Sequence[int]], cells: AnyArray) -> AnyArray:
    """Undirected links, each written so that it has these rows in their places."""
    turned = cells.copy()
    for way in reversed(ways):
        own = _has(rows, [way], cells)
        turned[own] = cells[own][:, way]
    return turned


def chosen(cells: AnyArray, values: Array, numbers: Rows | None, at: slice) -> tuple[AnyArray, Array]:
    """One page of them."""
    own: Any = at if numbers is None else numbers[at]
    return cells[own], values[own]


def table_rows(site: Site, relation: str, cells: AnyArray, values: Array) -> list[list[Any]]:
    """Names as links to their pages, the value, and a link to the explanation."""
    names, indices = site.names, site.fit.model.equation(relation).indices
    return [
        [*(names.ref(i, int(row)) for i, row in zip(indices, cell)), Ref("why", names.cell_address(relation, cell)),
         float(value)]
        for cell, value in zip(cells, values)
    ]  # fmt: skip


def frame(site: Site, relation: str, cells: AnyArray, values: Array) -> pl.DataFrame:
    """Links as a table of names and values."""
    indices = site.fit.model.equation(relation).indices
    columns = {i: site.fit.entities[i].names.gather(np.asarray(cells[:, k], np.int64)) for k, i in enumerate(indices)}
    return pl.DataFrame({**columns, "value": values})


def predicted_rows(site: Site, relation: str, table: pl.DataFrame, columns: Sequence[str]) -> list[list[Any]]:
    """Rows of `fit.top` or `fit.surprising`: names as links, and some columns."""
    names, indices = site.names, site.fit.model.equation(relation).indices
    rows = np.stack([site.fit.entities[i].encode(table[i]) for i in indices], axis=1) if indices else np.zeros((1, 0))
    return [
        [*(names.ref(i, int(row)) for i, row in zip(indices, cell)), Ref("why", names.cell_address(relation, cell)),
         *(table[column][n] for column in columns)]
        for n, cell in enumerate(rows)
    ]  # fmt: skip


MAX_SURPRISING_LINKS = 20  # of each kind and relation: a page of them


def surprises(site: Site, asked: PageRequest) -> PageView:
    """Surprising cells of every relation, or of one."""
    fields = asked.fields(("relation",))
    names = [site.names.relation(fields["relation"])] if "relation" in fields else list(site.fit.model.relations)
    tables = {name: surprising(site.fit, name, MAX_SURPRISING_LINKS) for name in names}
    blocks: list[Block] = [Note("Links with a low predicted probability, and zeros with a high one.", quiet=False)]
    blocks += [Section(name, _tables(site, name, table), f"relation-{quote(name)}") for name, table in tables.items()]
    return PageView(Document("Surprises", blocks, {name: table.to_dicts() for name, table in tables.items()}))


def _tables(site: Site, relation: str, table: pl.DataFrame) -> list[Block]:
    indices = site.fit.model.equation(relation).indices
    kind, surprise = (f"{word}_" if word in indices else word for word in ("kind", "surprise"))
    titles = {"link": "Least probable links", "zero": "Zeros with the largest predicted probability"}
    blocks: list[Block] = []
    for word, title in titles.items():
        own = table.filter(pl.col(kind) == word)
        counted = ["mean", "value"] if not site.fit.likelihood[relation].binary else []  # else they say nothing
        rows = predicted_rows(site, relation, own, ["probability", *counted, surprise]) if len(own) else []
        note = "" if rows else "none"
        columns = [*indices, "reasons", "probability", *(["expected", "value"] if counted else []), "surprise (nats)"]
        place = len(indices) + 1
        lines = [[*row[:place], IntervalBar(row[place]), *row[place + 1 :]] for row in rows]
        blocks.append(Table(columns, lines, title, note, len(indices) + 2))
    return blocks
