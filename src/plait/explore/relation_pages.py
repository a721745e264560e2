"""Page of a relation: known and predicted links in one table, filtered and sorted by any column, and as csv."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import polars as pl

from plait._typing import AnyArray, Array, Flags, Rows
from plait.analysis.predict.prediction import columns as predicted_columns
from plait.analysis.topk.top import propose
from plait.errors import PlaitError
from plait.explore.link_pages import Filter, matching
from plait.explore.request import PageRequest, PageView, Refused, real, shorten, whole
from plait.explore.site import Site
from plait.files.csv_dialect import escape_table
from plait.rendering.document import Document, Facts, IntervalBar, Ref, Sort, Table
from plait.rendering.formatting import write_shape

PREDICTED_LINKS = 50  # links of a table
PAGE_ROWS = 100  # of links
MAX_FACETS = 30  # entities of an axis that the form lists
MAX_SCORED = 300_000  # known links that are sorted or filtered by what the model predicts
MAX_FILE_LINKS = 1_000_000  # about the rows that a spreadsheet opens
CHUNK_ROWS = 20_000  # of a csv file
KNOWN, NEW = "known", "predicted"
ENDS = ("least", "most")
COLUMN_HELP = "Known links have the value of the data; predicted links are the {} most probable new ones."


@dataclass(frozen=True)
class TableQuery:
    """Parameters of the table. `ranges`: by column, from and to; `order`: column, and whether it descends."""

    fields: Mapping[str, str]
    rows: Mapping[int, int]  # position → row
    kind: str = ""
    ranges: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    order: tuple[str, bool] | None = None


@dataclass(frozen=True)
class LinkTable:
    """Links of a table: cells (n, order), values (n,) with NaN for predicted ones, and what the model says of them."""

    cells: AnyArray
    values: Array
    scores: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.cells)

    def take(self, rows: Any) -> "LinkTable":
        return LinkTable(self.cells[rows], self.values[rows], {name: own[rows] for name, own in self.scores.items()})

    def scored(self, site: Site, relation: str, names: tuple[str, ...]) -> "LinkTable":
        """With these columns of `predict`."""
        if not set(names) - set(self.scores):
            return self
        predicted = predicted_columns(site.fit, relation, np.asarray(self.cells, np.int64), list(names))
        return replace(self, scores={**self.scores, **predicted})


def relation(site: Site, asked: PageRequest) -> PageView:
    """Known and predicted links from a number on."""
    name = site.names.relation(asked.path["relation"])
    wanted = _read_query(site, name, asked.fields([*site.names.keys(name), *_special(site, name), "links.from"]))
    links = _links(site, name, wanted)
    count = len(links)
    start = whole(wanted.fields.get("links.from"), "the first link", 0, max(count - 1, 0))
    counted = not site.fit.likelihood[name].binary
    shown = ("mean", "probability") if counted else ("mean", "probability", "lower", "upper")
    here = links.take(slice(start, start + PAGE_ROWS)).scored(site, name, shown)
    indices = site.fit.model.equation(name).indices
    columns = [*indices, "status", "value", "probability", *(["expected"] if counted else []), ""]
    table = Table(
        columns, _rows(site, name, here, counted), _title(start, len(here), count), COLUMN_HELP.format(PREDICTED_LINKS),
        len(indices) + 3, sorts=[_sort(name, wanted, column) for column in columns],
    )  # fmt: skip
    data = {"relation": name, "indices": indices, **_facts(site, name), "matching": count, "from": start,
            "links": _frame(site, name, here, counted).to_dicts()}  # fmt: skip
    about = [] if wanted.fields else [Facts.of(_facts(site, name))]
    more = _around(site, name, wanted, start, count)
    return PageView(Document(f"Relation {name}", [table, *about], data), "relation.html", more)


def relation_csv(site: Site, asked: PageRequest) -> tuple[str, Iterator[bytes]]:
    """The links of the page as a file: its name and chunks."""
    name = site.names.relation(asked.path["relation"])
    wanted = _read_query(site, name, asked.fields([*site.names.keys(name), *_special(site, name)]))
    return f"{name}.csv", _csv(site, name, _links(site, name, wanted).take(slice(0, MAX_FILE_LINKS)))


def _csv(site: Site, relation: str, links: LinkTable) -> Iterator[bytes]:
    counted = not site.fit.likelihood[relation].binary
    for at in range(0, max(len(links), 1), CHUNK_ROWS):
        piece = links.take(slice(at, at + CHUNK_ROWS)).scored(site, relation, ("mean", "probability"))
        table = escape_table(_frame(site, relation, piece, counted))
        yield table.write_csv(include_header=at == 0).encode()


# --- the question


def _numeric(site: Site, name: str) -> tuple[str, ...]:
    """Columns of numbers."""
    return ("value", "probability") if site.fit.likelihood[name].binary else ("value", "probability", "expected")


def _special(site: Site, name: str) -> list[str]:
    """Parameters but for the indices, whose names have no dot."""
    return ["links.status", "links.sort", *(f"{column}.{end}" for column in _numeric(site, name) for end in ENDS)]


def _read_query(site: Site, name: str, fields: Mapping[str, str]) -> TableQuery:
    """Parameters of the form; blank ones match all."""
    fields = {key: text for key, text in fields.items() if text}
    indices, rows = site.fit.model.equation(name).indices, {}
    for place, index in enumerate(indices):
        text, number = fields.get(index), fields.get(f"{index}.row")
        if text is not None or number is not None:
            rows[place] = site.names.row(index, text, number)
    ranges = {}
    for column in _numeric(site, name):
        ends = [real(fields.get(f"{column}.{end}"), f"the {end} {column}") for end in ENDS]
        if ends != [None, None]:
            ranges[column] = (ends[0], ends[1])
    kind = fields.get("links.status", "")
    if kind not in ("", KNOWN, NEW):
        raise Refused(400, f"`links.status` must be {KNOWN} or {NEW}, got {shorten(kind)!r}.", "Use the form.")
    return TableQuery(fields, rows, kind, ranges, _order(site, name, fields.get("links.sort")))


def _order(site: Site, name: str, text: str | None) -> tuple[str, bool] | None:
    if text is None:
        return None
    column = text.removeprefix("-")
    known = (*site.fit.model.equation(name).indices, "status", *_numeric(site, name))
    if column not in known:
        raise Refused(400, f"`links.sort`: there is no column {shorten(column)!r}.", f"Use {', '.join(known)}.")
    return column, text.startswith("-")


# --- the links


def _links(site: Site, name: str, wanted: TableQuery) -> LinkTable:
    """Predicted links, then known ones, that match; sorted if wanted."""
    order, values = len(site.fit.known[name].shape), wanted.ranges.get("value", (None, None))
    tables = [_new(site, name, wanted)] if wanted.kind != KNOWN and "value" not in wanted.ranges else []
    if wanted.kind != NEW:
        cells, own, numbers = matching(site.fit.known[name], Filter(wanted.rows, *values))
        tables.append(LinkTable(cells, own) if numbers is None else LinkTable(cells[numbers], own[numbers]))
    links = tables[0] if len(tables) == 1 else _joined(tables, order)
    scored = {"probability", "expected"} & {*wanted.ranges, *([wanted.order[0]] if wanted.order else [])}
    if scored:
        if len(links) > MAX_SCORED:
            what = f"{len(links):,} links are too many to predict for one page, which are at most {MAX_SCORED:,}."
            raise Refused(400, what, "Choose an entity or a status first.")
        links = links.scored(site, name, ("mean", "probability"))
        links = links.take(np.flatnonzero(_inside(links, wanted)))
    if wanted.order is None:
        return links
    return links.take(_sorted(site, name, links, *wanted.order))


def _joined(tables: list[LinkTable], order: int) -> LinkTable:
    cells = [one.cells for one in tables] or [np.zeros((0, order), np.int64)]
    return LinkTable(np.concatenate(cells), np.concatenate([np.zeros(0), *(one.values for one in tables)]))


def _new(site: Site, name: str, wanted: TableQuery) -> LinkTable:
    """The most probable new links of the chosen entities; none where rules exclude all."""
    indices = site.fit.model.equation(name).indices
    given = {indices[place]: site.names.label(indices[place], row) for place, row in wanted.rows.items()}
    try:
        table, _ = propose(site.fit, name, PREDICTED_LINKS, given=given)
    except PlaitError:  # a self-link
        table = pl.DataFrame({index: [] for index in indices})
    rows = [site.fit.entities[i].encode(table[i]) for i in indices] if len(table) else []
    cells = np.stack(rows, axis=1) if rows else np.zeros((len(table) if not indices else 0, len(indices)), np.int64)
    return LinkTable(cells, np.full(len(cells), np.nan))


def _column(links: LinkTable, column: str) -> Array:
    return links.values if column == "value" else links.scores["mean" if column == "expected" else column]


def _inside(links: LinkTable, wanted: TableQuery) -> Flags:
    inside = np.ones(len(links), bool)
    for column, (least, most) in wanted.ranges.items():
        own = _column(links, column)
        inside &= (own >= (-np.inf if least is None else least)) & (own <= (np.inf if most is None else most))
    return inside


def _sorted(site: Site, name: str, links: LinkTable, column: str, descends: bool) -> Rows:
    """Row numbers in the order of a column; links without a value come last."""
    indices = site.fit.model.equation(name).indices
    if column in indices:
        labels = site.fit.entities[column]
        place = np.empty(len(labels), np.int64)
        place[labels.names.arg_sort().to_numpy()] = np.arange(len(labels))
        key = place[np.asarray(links.cells[:, indices.index(column)], np.int64)].astype(np.float64)
    else:
        key = np.isnan(links.values).astype(np.float64) if column == "status" else _column(links, column)
    return np.argsort(-key if descends else key, kind="stable")


# --- the page


def _frame(site: Site, relation: str, links: LinkTable, counted: bool) -> pl.DataFrame:
    """Links as a table of names and numbers."""
    indices = site.fit.model.equation(relation).indices
    named = {
        i: site.fit.entities[i].names.gather(np.asarray(links.cells[:, k], np.int64)) for k, i in enumerate(indices)
    }
    new = np.isnan(links.values)
    numbers = {
        "value": pl.Series(links.values).fill_nan(None),
        "probability": links.scores["probability"],
        **({"expected": links.scores["mean"]} if counted else {}),
    }
    return pl.DataFrame({**named, **_apart(indices, {"status": np.where(new, NEW, KNOWN), **numbers})})


def _apart(indices: tuple[str, ...], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns by names that no index has."""
    return {f"{name}_" if name in indices else name: own for name, own in columns.items()}


def _rows(site: Site, relation: str, links: LinkTable, counted: bool) -> list[list[Any]]:
    names, indices = site.names, site.fit.model.equation(relation).indices
    rows = []
    for n, cell in enumerate(links.cells):
        own = {name: float(column[n]) for name, column in links.scores.items()}
        new = np.isnan(links.values[n])
        rows.append(
            [
                *(names.ref(i, int(row)) for i, row in zip(indices, cell)),
                NEW if new else KNOWN,
                "" if new else f"{links.values[n]:g}",
                IntervalBar(own["probability"], own.get("lower"), own.get("upper")),
                *([own["mean"]] if counted else []),
                Ref("why", names.cell_address(relation, cell)),
            ]
        )
    return rows


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


def _page(name: str) -> str:
    return f"/relation/{quote(name, safe='')}"


def _sort(name: str, wanted: TableQuery, column: str) -> Sort | None:
    """The address that sorts by a column, the other way if it is sorted by it; numbers begin with the largest."""
    if not column:
        return None
    now = None if wanted.order is None or wanted.order[0] != column else wanted.order[1]
    down = not now if now is not None else column in ("value", "probability", "expected")
    fields = {key: text for key, text in wanted.fields.items() if key not in ("links.from", "links.sort")}
    query = urlencode({**fields, "links.sort": f"-{column}" if down else column})
    return Sort(f"{_page(name)}?{query}", "" if now is None else "descending" if now else "ascending")


def _around(site: Site, name: str, wanted: TableQuery, start: int, count: int) -> dict[str, Any]:
    """Context of the table: the form, neighbouring pages, and the file."""
    kept = {key: text for key, text in wanted.fields.items() if key != "links.from"}
    page, query = _page(name), urlencode(kept)

    def at(number: int) -> str:
        return f"{page}?{urlencode({**kept, 'links.from': number})}"

    return {
        "page": page, "given": kept, "orders": _orders(site, name), "numeric": _numeric(site, name),
        "statuses": (KNOWN, NEW),
        "facets": {index: _facet(site, name, index) for index in site.fit.model.equation(name).indices},
        "before": at(max(0, start - PAGE_ROWS)) if start else "",
        "after": at(start + PAGE_ROWS) if start + PAGE_ROWS < count else "",
        "file": f"{page}.csv" + (f"?{query}" if query else ""),
        "file_words": "download as csv" if count <= MAX_FILE_LINKS else f"download the first {MAX_FILE_LINKS:,} as csv",
    }  # fmt: skip


def _orders(site: Site, name: str) -> list[tuple[str, str]]:
    """Orders of the form, as parameters and words."""
    columns = (*site.fit.model.equation(name).indices, *_numeric(site, name))
    return [(sign + column, f"{column} {arrow}") for column in columns for sign, arrow in (("", "↑"), ("-", "↓"))]


def _facet(site: Site, name: str, index: str) -> list[tuple[str, str]]:
    """Entities of a small axis with their number of known links, as parameters and words; else nothing."""
    known, place = site.fit.known[name], site.fit.model.equation(name).indices.index(index)
    size = known.shape[place]
    texts = [site.names.query(index, row) for row in range(size)] if size <= MAX_FACETS else []
    if not texts or not known.links.in_memory or any(key != index or not text for key, text in texts):
        return []
    ends = next((group for group in known.groups if place in group), (place,))
    counts = np.bincount(np.asarray(known.cells[:, list(ends)], np.int64).ravel(), minlength=size)
    return [
        (text, f"{shorten(site.names.text(index, row), 60)} ({counts[row]:,})") for row, (_, text) in enumerate(texts)
    ]
