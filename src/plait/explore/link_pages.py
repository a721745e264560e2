"""Known links as rows of tables: which ones match, and a page of them at a time.

A relation: its known links, a page at a time, filtered, and as a csv file.

Surprises: known links that the model finds unlikely, and zeros that it did not expect.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import polars as pl

from plait._typing import AnyArray, Array, Flags, Rows
from plait.data.binding.known import Known
from plait.explore.request import PageRequest, PageView, real, whole
from plait.explore.site import Site
from plait.files.csv_dialect import escape_table
from plait.rendering.document import Block, Document, Facts, Note, Ref, Section, Share, Table
from plait.rendering.formatting import write_shape

PIECE = 20_000  # rows of a csv file that are written at once


@dataclass(frozen=True)
class Filter:
    """Links of some entities, and of values from least to most."""

    rows: Mapping[int, int]  # place -> row
    least: float | None = None
    most: float | None = None

    @property
    def empty(self) -> bool:
        """Whether all links pass."""
        return not self.rows and self.least is None and self.most is None


def matching(known: Known, wanted: Filter) -> tuple[AnyArray, Array, Rows | None]:
    """Cells and values that links are taken from, and which of them match; None: all."""
    if wanted.empty:
        return known.cells, known.values, None
    near = known.among(partial(_has, wanted.rows)) if wanted.rows else known
    cells, values = near.cells, near.values
    found = _has(wanted.rows, cells)
    if wanted.least is not None:
        found &= values >= wanted.least
    if wanted.most is not None:
        found &= values <= wanted.most
    return cells, values, np.flatnonzero(found)


def _has(rows: Mapping[int, int], cells: AnyArray) -> Flags:
    found = np.ones(len(cells), bool)
    for place, row in rows.items():
        found &= cells[:, place] == row
    return found


def chosen(cells: AnyArray, values: Array, numbers: Rows | None, at: slice) -> tuple[AnyArray, Array]:
    """A page of them."""
    own: Any = at if numbers is None else numbers[at]
    return cells[own], values[own]


def table_rows(site: Site, relation: str, cells: AnyArray, values: Array) -> list[list[Any]]:
    """Names that lead to their pages, the value, and a way to the reasons."""
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
    """A csv file of links, piece by piece, of so many rows at the most."""
    cells, values, numbers = matching(site.fit.known[relation], wanted)
    count = min(most, len(cells) if numbers is None else len(numbers))
    for at in range(0, max(count, 1), PIECE):
        piece = frame(site, relation, *chosen(cells, values, numbers, slice(at, min(at + PIECE, count))))
        yield escape_table(piece).write_csv(include_header=at == 0).encode()


def predicted_rows(site: Site, relation: str, table: pl.DataFrame, columns: Sequence[str]) -> list[list[Any]]:
    """Rows of a table of `fit.top` or `fit.surprising`: names that lead to their pages, and some of its columns."""
    names, indices = site.names, site.fit.model.equation(relation).indices
    rows = np.stack([site.fit.entities[i].encode(table[i]) for i in indices], axis=1) if indices else np.zeros((1, 0))
    return [
        [*(names.ref(i, int(row)) for i, row in zip(indices, cell)), Ref("why", names.cell_address(relation, cell)),
         *(table[column][n] for column in columns)]
        for n, cell in enumerate(rows)
    ]  # fmt: skip


ROWS = 100  # of a page
MOST_IN_FILE = 1_000_000
SPECIAL = ("links.from", "links.least", "links.most")  # no index has a dot in its name


def relation(site: Site, asked: PageRequest) -> PageView:
    """Known links from some number on."""
    name = site.names.relation(asked.path["relation"])
    fields = asked.fields([*site.names.keys(name), *SPECIAL])
    wanted = _filter(site, name, fields)
    cells, values, numbers = matching(site.fit.known[name], wanted)
    count = len(cells) if numbers is None else len(numbers)
    start = whole(fields.get("links.from"), "the first link", 0, max(count - 1, 0))
    here = chosen(cells, values, numbers, slice(start, start + ROWS))
    indices = site.fit.model.equation(name).indices
    table = Table([*indices, "reasons", "value"], table_rows(site, name, *here), _title(start, len(here[0]), count),
                  left=len(indices) + 1)  # fmt: skip
    data = {"relation": name, "indices": indices, **_facts(site, name), "matching": count, "from": start,
            "links": frame(site, name, *here).to_dicts()}  # fmt: skip
    shown = [] if not wanted.empty or start else [Facts.of(_facts(site, name))]
    return PageView(Document(f"Relation {name}", [*shown, table], data), "relation.html", _around(name, fields, indices,
                start, count))  # fmt: skip


def relation_csv(site: Site, asked: PageRequest) -> tuple[str, Iterator[bytes]]:
    """The matching links as a file: its name and its pieces."""
    name = site.names.relation(asked.path["relation"])
    fields = asked.fields([*site.names.keys(name), *SPECIAL[1:]])
    return f"{name}.csv", csv(site, name, _filter(site, name, fields), MOST_IN_FILE)


def _filter(site: Site, name: str, fields: Mapping[str, str]) -> Filter:
    """Which links are wanted; what is left blank in the form is any."""
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
    return f"Links {start + 1:,} to {start + here:,} of {count:,}" if here else "No link is like that"


def _around(name: str, fields: Mapping[str, str], indices: tuple[str, ...], start: int, count: int) -> dict[str, Any]:
    """What stands around the table: the form, ways to the pages beside it, and the file."""
    kept = {key: value for key, value in fields.items() if value and key != "links.from"}
    page, query = f"/relation/{quote(name, safe='')}", urlencode(kept)

    def at(number: int) -> str:
        return f"{page}?{urlencode({**kept, 'links.from': number})}"

    return {
        "page": page, "indices": indices, "given": kept,
        "least": fields.get("links.least", ""), "most": fields.get("links.most", ""),
        "before": at(max(0, start - ROWS)) if start else "",
        "after": at(start + ROWS) if start + ROWS < count else "",
        "file": f"{page}.csv" + (f"?{query}" if query else ""),
        "file_words": "as csv" if count <= MOST_IN_FILE else f"the first {MOST_IN_FILE:,} as csv",
    }  # fmt: skip


MOST = 20


def surprises(site: Site, asked: PageRequest) -> PageView:
    """Those of every relation, or of one."""
    fields = asked.fields(("relation",))
    names = [site.names.relation(fields["relation"])] if "relation" in fields else list(site.fit.model.relations)
    found = {name: site.fit.surprising(name, MOST) for name in names}
    blocks: list[Block] = [Note("What was observed, and what the model says of it.", quiet=False)]
    blocks += [Section(name, _tables(site, name, table), f"relation-{quote(name)}") for name, table in found.items()]
    return PageView(Document("Surprises", blocks, {name: table.to_dicts() for name, table in found.items()}))


def _tables(site: Site, relation: str, table: pl.DataFrame) -> list[Block]:
    indices = site.fit.model.equation(relation).indices
    kind, surprise = (f"{word}_" if word in indices else word for word in ("kind", "surprise"))
    titles = {"link": "Links that are least likely", "zero": "Zeros where a link was expected"}
    found: list[Block] = []
    for word, title in titles.items():
        own = table.filter(pl.col(kind) == word)
        rows = predicted_rows(site, relation, own, ["probability", "mean", "value", surprise]) if len(own) else []
        note = "" if rows else "none"
        columns = [*indices, "reasons", "probability", "expected", "value", "surprise (nats)"]
        lines = [[*row[:-4], Share(row[-4]), *row[-3:]] for row in rows]
        found.append(Table(columns, lines, title, note, len(indices) + 2))
    return found
