"""Pages of entities: known and predicted links, similar entities, components; lists and maps of an axis; search."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import polars as pl

from plait.analysis.components.entity_shares import profile
from plait.analysis.components.similar import similar
from plait.analysis.explain.explain import explain
from plait.analysis.explain.explanation import Explanation
from plait.analysis.explain.explanation_text import drop, link_words, measure
from plait.analysis.topk.top import propose
from plait.errors import ParameterError
from plait.explore.link_pages import Filter, chosen, frame, matching, predicted_rows, table_rows
from plait.explore.request import PageRequest, PageView, Refused, shorten, whole
from plait.explore.site import Site
from plait.plotting import pictures
from plait.rendering.document import Block, Cards, Document, Facts, Faint, IntervalBar, Note, Ref, Section, Share, Table
from plait.report.sections import chance

MAX_LINKS = 20  # known links of a relation
PREDICTED_LINKS = 10
SIMILAR_ENTITIES = 10
SHOWN_COMPONENTS = 12
MIN_SHARE = 0.005  # of a listed component
MIN_DATA_SHARE = 0.5  # below, a value comes mainly from the prior


def entity(site: Site, asked: PageRequest) -> PageView:
    """Page of an entity by its name."""
    asked.fields(())
    axis = site.names.axis(asked.path["axis"])
    return entity_page(site, axis, site.names.row(axis, asked.path["name"]))


def entity_page(site: Site, axis: str, row: int) -> PageView:
    """Page of an entity by its row."""
    held = profile(site.fit, axis, site.names.label(axis, row))
    uses = list(_uses(site, axis))
    known = [_known(site, relation, index, row) for relation, index in uses]
    predicted = [_predicted(site, relation, index, row) for relation, index in uses]
    alike, similar = _similar(site, axis, row)
    label, title = site.names.label(axis, row), site.names.title(axis, row)
    data = {
        "axis": axis, "name": label, **({} if title is None else {"title": title}), "row": row,
        "components": held.to_dicts(),
        "known": {_called(*use): own[1] for use, own in zip(uses, known)},
        "predicted": {_called(*use): own[1] for use, own in zip(uses, predicted)},
        "similar": similar,
    }  # fmt: skip
    links = sum(own[1]["count"] for own in known)
    blocks = [
        *_facts(site, axis, row, held, links),
        Cards(
            [
                Section("Predicted links", [block for own in predicted for block in own[0]], "predicted-links"),
                Section("Known links", [block for own in known for block in own[0]], "known-links"),
                *alike,
                *_components(site, held),
            ]
        ),
    ]
    document = Document(f"{axis}: {shorten(site.names.text(axis, row), 200)}", blocks, data)
    return PageView(document, "entity.html", {"map": site.names.address(axis, row, "map") if alike else ""})


def _uses(site: Site, axis: str) -> Iterator[tuple[str, str]]:
    """The relations and indices in which entities of an axis stand; of indices without an order, the first."""
    model = site.fit.model
    for equation in model.equations:
        later = {place for group in site.fit.known[equation.relation].groups for place in group[1:]}
        for place, index in enumerate(equation.indices):
            if model.axis(index) == axis and place not in later:
                yield equation.relation, index


def _called(relation: str, index: str) -> str:
    return f"{relation}[{index}]"


def _facts(site: Site, axis: str, row: int, held: pl.DataFrame, links: int) -> list[Block]:
    """Subject of the page, and the share of data."""
    text = site.names.text(axis, row)
    about: list[tuple[str, Any]] = [("name", text)] if len(text) > 200 else []
    about.append(("known links", links))
    if site.fit.method != "em":
        for factor in held["factor"].unique(maintain_order=True):
            own = held.filter(pl.col("factor") == factor)
            about.append((f"data in {factor}", Share(float((own["share"] * own["data"]).sum()))))
    return [Facts(about)]


def _components(site: Site, held: pl.DataFrame) -> list[Section]:
    """Profile of the entity in every factor."""
    tables: list[Block] = []
    for (factor, index), own in held.group_by(["factor", "index"], maintain_order=True):
        largest = own.sort("share", descending=True, maintain_order=True).head(SHOWN_COMPONENTS)
        rows = [_component(site, str(index), row) for row in largest.to_dicts()]
        rows = [line for line, row in zip(rows, largest["share"]) if row >= MIN_SHARE] or rows[:1]
        note = "share: part of the expected counts of this entity, ± sd; faint: more from the prior than from data"
        columns = ["component", "share"]
        tables.append(Table(columns, rows, f"In {factor}", note, 2, len(own) - len(rows)))
    return [Section("Components", tables, "components")] if tables else []


def _component(site: Site, index: str, row: dict[str, Any]) -> list[Any]:
    named = Ref(site.component_label(index, row["component"]), site.component_address(index, row["component"]))
    ends = max(row["share"] - row["sd"], 0.0), min(row["share"] + row["sd"], 1.0)
    numbers = [IntervalBar(row["share"], *ends)]
    return [named, *(map(Faint, numbers) if row["data"] < MIN_DATA_SHARE else numbers)]


def _known(site: Site, relation: str, index: str, row: int) -> tuple[list[Block], dict[str, Any]]:
    indices = site.fit.model.equation(relation).indices
    cells, values, numbers = matching(site.fit.known[relation], Filter({indices.index(index): row}))
    count = len(cells) if numbers is None else len(numbers)
    here = chosen(cells, values, numbers, slice(0, MAX_LINKS))
    others = _others(indices, index)
    plain = bool((here[1] == 1.0).all())  # then values say nothing
    lines = [
        [*(line[place] for place in others), *([] if plain else [line[-1]]), line[-2]]
        for line in table_rows(site, relation, *here)
    ]
    columns = [*(indices[place] for place in others), *([] if plain else ["value"]), ""]
    table = Table(columns, lines, _as(site, relation, index), "" if count else "none", len(others))
    every = site.relation_address(relation, index, row)
    more: list[Block] = [Facts([("more", Ref(f"all {count:,}", every))])] if count > MAX_LINKS else []
    return [table, *more], {"count": count, "links": frame(site, relation, *here).to_dicts()}


def _others(indices: tuple[str, ...], index: str) -> list[int]:
    """Positions of the other indices of a relation."""
    return [place for place, other in enumerate(indices) if other != index] or [0]


def _predicted(site: Site, relation: str, index: str, row: int) -> tuple[list[Block], list[dict[str, Any]]]:
    indices = site.fit.model.equation(relation).indices
    links, warning = propose(site.fit, relation, PREDICTED_LINKS, given={index: site.names.label(index, row)})
    if warning is not None and links.is_empty():
        return [Note(f"{relation}: {warning.message}")], []
    others = _others(indices, index)
    lines, words = [], ""
    for line, own in zip(predicted_rows(site, relation, links, []), links.to_dicts()):
        e = explain(site.fit, relation, {i: own[i] for i in indices}, top=1)
        words = words or (measure(e) if e.reasons else "")
        lines.append([*(line[place] for place in others), chance(site.fit, relation, own), _why(e, line[-1])])
    columns = [*(indices[place] for place in others), "probability", "because of"]
    note = (
        f"Because of: the link that supports it most, with the {words}." if words else "" if lines else "no new links"
    )
    return [Table(columns, lines, _as(site, relation, index), note, len(others) + 2)], links.to_dicts()


def _why(e: Explanation, address: Ref) -> Ref:
    """The known link that supports a prediction most, as a link to the explanation."""
    if not e.reasons:
        return address
    return Ref(shorten(f"{link_words(e, e.reasons[0])} {drop(e.reasons[0].loss)}", 80), address.address)


def _as(site: Site, relation: str, index: str) -> str:
    """The title of a table; where a relation is undirected, the place of the entity says nothing."""
    indices, groups = site.fit.model.equation(relation).indices, site.fit.known[relation].groups
    placed = len(indices) > 1 and not any(indices.index(index) in group for group in groups)
    return f"{relation}, as {index}" if placed else relation


def _similar(site: Site, axis: str, row: int) -> tuple[list[Section], list[dict[str, Any]]]:
    try:
        similar_entities = similar(site.fit, axis, site.names.label(axis, row), SIMILAR_ENTITIES)
    except ParameterError:  # no factor of the axis has components
        return [], []
    rows = site.fit.entities[axis].encode(similar_entities[axis])
    values = similar_entities.select(axis, pl.nth(-2, -1)).rows()
    low = max(0.0, 1.0 - 2.0 * (1.0 - min((value for _, value, _ in values), default=0.0)))  # differences are visible
    lines = [
        [site.names.ref(axis, int(n)), IntervalBar(value - low, full=1.0 - low or 1.0, text=f"{value:.3f} ± {sd:.3f}")]
        for n, (_, value, sd) in zip(rows, values)
    ]
    note = f"1: same components; 0: no component in common. The bars start at {low:.3g}."
    table = Table([axis, "similarity"], lines, note=note, left=2)
    return [Section("Similar", [table], "similar")], similar_entities.to_dicts()


PAGE_ROWS = 200  # of the list of an axis


def axis(site: Site, asked: PageRequest) -> PageView:
    """Entities in row order; with ?name= or ?row= the page of one of them."""
    name = site.names.axis(asked.path["axis"])
    fields = asked.fields(("name", "row", "from"))
    if "name" in fields or "row" in fields:
        return entity_page(site, name, site.names.row(name, fields.get("name"), fields.get("row")))
    labels = site.fit.entities[name]
    start = whole(fields.get("from"), "the first entity", 0, len(labels) - 1)
    rows = range(start, min(start + PAGE_ROWS, len(labels)))
    page = f"/axis/{quote(name, safe='')}"
    table = Table(["entity"], [[site.names.ref(name, row)] for row in rows],
                  f"Entities {start + 1:,} to {rows.stop:,} of {len(labels):,}")  # fmt: skip
    data = {"axis": name, "entities": len(labels), "from": start, "names": labels[start : rows.stop]}
    more = {"before": f"{page}?from={max(0, start - PAGE_ROWS)}" if start else "",
            "after": f"{page}?from={rows.stop}" if rows.stop < len(labels) else ""}  # fmt: skip
    return PageView(Document(f"Axis {name}", [table], data), "paged.html", more)


def entity_map(site: Site, asked: PageRequest) -> PageView:
    """Map of an axis, or around one of its entities, as SVG or as a Vega-Lite specification."""
    axis = site.names.axis(asked.path["axis"])
    row = _row(site, asked, axis)
    label = None if row is None else site.names.label(axis, row)
    picture = pictures.entity_map(site.fit, axis, label)
    data = {"axis": axis, "name": label, "row": row, "alt": picture.alt, "chart": picture.chart()}
    title = f"Map of {axis}" if row is None else f"{axis}: {shorten(site.names.text(axis, row), 200)}, map"
    if asked.part:
        return PageView(Document(title, [replace(picture, title=AROUND)], data), "part.html")
    blocks: list[Block] = [replace(picture, note=NEAR)]
    if row is not None:
        blocks = [Facts([("all of it", site.names.ref(axis, row))]), *blocks]
    return PageView(Document(title, blocks, data), "map.html", {"axis": axis, "page": f"/map/{quote(axis, safe='')}"})


AROUND = "Map of similar entities"
NEAR = "Near points have like components; the symbol is the largest one. Names are shown where there is room."


def _row(site: Site, asked: PageRequest, axis: str) -> int | None:
    """Row of an entity, by a name in the path or by the query; None without one."""
    if "name" in asked.path:
        asked.fields(())
        return site.names.row(axis, asked.path["name"])
    fields = asked.fields(("name", "row"))
    return site.names.row(axis, fields.get("name"), fields.get("row")) if fields else None


MAX_MATCHES = 12  # of an axis
MAX_QUERY_CHARACTERS = 200


def finding(site: Site, asked: PageRequest) -> PageView:
    """Search results by axis; for search-as-you-type only the list."""
    fields = asked.fields(("q",))
    query = fields.get("q", "").strip()
    if len(query) > MAX_QUERY_CHARACTERS:
        raise Refused(
            400, f"a search can have at most {MAX_QUERY_CHARACTERS} characters.", "Type the beginning of the name."
        )
    matches = {axis: index.find(query, MAX_MATCHES) for axis, index in site.indices.items()} if query else {}
    tables: list[Block] = [_table(site, axis, rows, more) for axis, (rows, more) in matches.items() if rows]
    said = "Type the beginning of a name." if not query else "No name matches."
    data = {"query": query, "found": {axis: [_plain(site, axis, row) for row in rows] for axis, (rows, _) in
                                      matches.items()}}  # fmt: skip
    document = Document(f"Search: {query}" if query else "Search", tables or [Note(said, quiet=False)], data)
    return PageView(document, "part.html" if asked.part else "page.html", {"query": query})


def _table(site: Site, axis: str, rows: list[int], more: bool) -> Table:
    note = f"the first {MAX_MATCHES} matches; type more letters" if more else ""
    return Table([axis], [[site.names.ref(axis, row)] for row in rows], note=note)


def _plain(site: Site, axis: str, row: int) -> dict[str, object]:
    names = site.names
    title = names.title(axis, row)
    return {"name": names.label(axis, row), **({} if title is None else {"title": title}), "row": row,
            "address": names.address(axis, row)}  # fmt: skip
