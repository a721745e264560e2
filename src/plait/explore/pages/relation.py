"""A relation: its known links, a page at a time, filtered, and as a csv file."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from plait.explore.asked import Asked, View, real, whole
from plait.explore.pages.links import Filter, chosen, csv, frame, matching, table_rows
from plait.explore.site import Site
from plait.show.document import Document, Facts, Table
from plait.show.words import write_shape

ROWS = 100  # of a page
MOST_IN_FILE = 1_000_000
SPECIAL = ("links.from", "links.least", "links.most")  # no index has a dot in its name


def relation(site: Site, asked: Asked) -> View:
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
    return View(Document(f"Relation {name}", [*shown, table], data), "relation.html", _around(name, fields, indices,
                start, count))  # fmt: skip


def relation_csv(site: Site, asked: Asked) -> tuple[str, Iterator[bytes]]:
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
        "likelihood": fit.likelihood[name].describe(fit.learnt[name]),
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
