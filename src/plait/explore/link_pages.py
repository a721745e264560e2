"""Pages of links: known links of a relation, filtered and as csv, and surprising cells."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import polars as pl

from plait._typing import AnyArray, Array, Flags, Rows
from plait.analysis.topk.surprising import surprising
from plait.data.binding.known import Known
from plait.data.observation.symmetry import orders
from plait.explore.request import PageRequest, PageView, real, whole
from plait.explore.site import Site
from plait.files.csv_dialect import escape_table
from plait.rendering.document import Block, Document, Facts, Note, Ref, Section, Share, Table
from plait.rendering.formatting import write_shape

CHUNK_ROWS = 20_000  # of a csv file


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
    found = _has(wanted.rows, ways, cells)
    if wanted.least is not None:
        found &= values >= wanted.least
    if wanted.most is not None:
        found &= values <= wanted.most
    if len(ways) > 1 and wanted.rows:
        return _turned(wanted.rows, ways, cells[found]), values[found], None
    return cells, values, np.flatnonzero(found)


def _has(rows: Mapping[int, int], ways: Sequence[Sequence[int]], cells: AnyArray) -> Flags:
    """Which cells have these rows, by place, in one of the ways of writing a cell."""
    found = np.zeros(len(cells), bool)
    for way in ways:
        here = np.ones(len(cells), bool)
        for place, row in rows.items():
            here &= cells[:, way[place]] == row
        found |= here
    return found


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


def csv(site: Site, relation: str, wanted: Filter, most: int) -> Iterator[bytes]:
    """A csv file of links in chunks, of at most `most` rows."""
    cells, values, numbers = matching(site.fit.known[relation], wanted)
    count = min(most, len(cells) if numbers is None else len(numbers))
    for at in range(0, max(count, 1), CHUNK_ROWS):
        piece = frame(site, relation, *chosen(cells, values, numbers, slice(at, min(at + CHUNK_ROWS, count))))
        yield escape_table(piece).write_csv(include_header=at == 0).encode()


def predicted_rows(site: Site, relation: str, table: pl.DataFrame, columns: Sequence[str]) -> list[list[Any]]:
    """Rows of `fit.top` or `fit.surprising`: names as links, and some columns."""
    names, indices = site.names, site.fit.model.equation(relation).indices
    rows = np.stack([site.fit.entities[i].encode(table[i]) for i in indices], axis=1) if indices else np.zeros((1, 0))
    return [
        [*(names.ref(i, int(row)) for i, row in zip(indices, cell)), Ref("why", names.cell_address(relation, cell)),
         *(table[column][n] for column in columns)]
        for n, cell in enumerate(rows)
    ]  # fmt: skip


PAGE_ROWS = 100  # of links
MOST_IN_FILE = 1_000_000
SPECIAL = ("links.from", "links.least", "links.most")  # no index has a dot in its name


def relation(site: Site, asked: PageRequest) -> PageView:
    """Known links from a number on."""
    name = site.names.relation(asked.path["relation"])
    fields = asked.fields([*site.names.keys(name), *SPECIAL])
    wanted = _filter(site, name, fields)
    cells, values, numbers = matching(site.fit.known[name], wanted)
    count = len(cells) if numbers is None else len(numbers)
    start = whole(fields.get("links.from"), "the first link", 0, max(count - 1, 0))
    here = chosen(cells, values, numbers, slice(start, start + PAGE_ROWS))
    indices = site.fit.model.equation(name).indices
    table = Table([*indices, "reasons", "value"], table_rows(site, name, *here), _title(start, len(here[0]), count),
                  left=len(indices) + 1)  # fmt: skip
    data = {"relation": name, "indices": indices, **_facts(site, name), "matching": count, "from": start,
            "links": frame(site, name, *here).to_dicts()}  # fmt: skip
    shown = [] if not wanted.empty or start else [Facts.of(_facts(site, name))]
    return PageView(Document(f"Relation {name}", [*shown, table], data), "relation.html", _around(name, fields, indices,
                start, count))  # fmt: skip


def relation_csv(site: Site, asked: PageRequest) -> tuple[str, Iterator[bytes]]:
    """Matching links as a file: its name and chunks."""
    name = site.names.relation(asked.path["relation"])
    fields = asked.fields([*site.names.keys(name), *SPECIAL[1:]])
    return f"{name}.csv", csv(site, name, _filter(site, name, fields), MOST_IN_FILE)


def _filter(site: Site, name: str, fields: Mapping[str, str]) -> Filter:
    """Filter of the form; blank fields match all."""
    rows = {}
    for place, index in enumerate(site.fit.model.equation(name).indices):
        text, number = fields.get(index) or None, fields.get(f"{index}.row") or None
        if text is not None or number is not None:
            rows[place] = site.names.row(index, text, number)
    least, most = (real(fields.get(f"links.{end}"), f"the {end} value") for end in ("least", "most"))
    return Filter(rows, least, most)


def _facts(site: Site, name: str) -> dict[str, Any]:
    known, fit = site.fit.known[name], site.fit
    return {
        "equation": str(fit.model.equation(name)),
        "likelihood": fit.likelihood[name].describe(fit.likelihood_params[name]),
        "size": write_shape(known.shape),
        "known links": len(known),
    }


def _title(start: int, here: int, count: int) -> str:
    return f"Links {start + 1:,} to {start + here:,} of {count:,}" if here else "No matching links"


def _around(name: str, fields: Mapping[str, str], indices: tuple[str, ...], start: int, count: int) -> dict[str, Any]:
    """Context of the table: the form, neighbouring pages, and the file."""
    kept = {key: value for key, value in fields.items() if value and key != "links.from"}
    page, query = f"/relation/{quote(name, safe='')}", urlencode(kept)

    def at(number: int) -> str:
        return f"{page}?{urlencode({**kept, 'links.from': number})}"

    return {
        "page": page, "indices": indices, "given": kept,
        "least": fields.get("links.least", ""), "most": fields.get("links.most", ""),
        "before": at(max(0, start - PAGE_ROWS)) if start else "",
        "after": at(start + PAGE_ROWS) if start + PAGE_ROWS < count else "",
        "file": f"{page}.csv" + (f"?{query}" if query else ""),
        "file_words": "as csv" if count <= MOST_IN_FILE else f"the first {MOST_IN_FILE:,} as csv",
    }  # fmt: skip


MOST = 20


def surprises(site: Site, asked: PageRequest) -> PageView:
    """Surprising cells of every relation, or of one."""
    fields = asked.fields(("relation",))
    names = [site.names.relation(fields["relation"])] if "relation" in fields else list(site.fit.model.relations)
    found = {name: surprising(site.fit, name, MOST) for name in names}
    blocks: list[Block] = [Note("Links with a low predicted probability, and zeros with a high one.", quiet=False)]
    blocks += [Section(name, _tables(site, name, table), f"relation-{quote(name)}") for name, table in found.items()]
    return PageView(Document("Surprises", blocks, {name: table.to_dicts() for name, table in found.items()}))


def _tables(site: Site, relation: str, table: pl.DataFrame) -> list[Block]:
    indices = site.fit.model.equation(relation).indices
    kind, surprise = (f"{word}_" if word in indices else word for word in ("kind", "surprise"))
    titles = {"link": "Least probable links", "zero": "Zeros with the largest predicted probability"}
    found: list[Block] = []
    for word, title in titles.items():
        own = table.filter(pl.col(kind) == word)
        rows = predicted_rows(site, relation, own, ["probability", "mean", "value", surprise]) if len(own) else []
        note = "" if rows else "none"
        columns = [*indices, "reasons", "probability", "expected", "value", "surprise (nats)"]
        lines = [[*row[:-4], Share(row[-4]), *row[-3:]] for row in rows]
        found.append(Table(columns, lines, title, note, len(indices) + 2))
    return found
