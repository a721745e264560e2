"""Search: entities of all axes whose names have some letters."""

from plait.explore.asked import Asked, Refused, View
from plait.explore.site import Site
from plait.show.document import Block, Document, Note, Table

MOST = 12  # of an axis
LONGEST = 200


def finding(site: Site, asked: Asked) -> View:
    """What was found, by axis; of a page that is being typed into, that alone."""
    fields = asked.fields(("q",))
    query = fields.get("q", "").strip()
    if len(query) > LONGEST:
        raise Refused(400, f"a search has {LONGEST} characters at the most.", "Give the first ones of the name.")
    found = {axis: index.find(query, MOST) for axis, index in site.indices.items()} if query else {}
    tables: list[Block] = [_table(site, axis, rows, more) for axis, (rows, more) in found.items() if rows]
    said = "Type the beginning of a name." if not query else "No entity has these letters in its name."
    data = {"query": query, "found": {axis: [_plain(site, axis, row) for row in rows] for axis, (rows, _) in
                                      found.items()}}  # fmt: skip
    document = Document(f"Search: {query}" if query else "Search", tables or [Note(said, quiet=False)], data)
    return View(document, "part.html" if asked.part else "page.html", {"query": query})


def _table(site: Site, axis: str, rows: list[int], more: bool) -> Table:
    note = f"there are more: type on (the first {MOST} are shown)" if more else ""
    return Table([axis], [[site.names.ref(axis, row)] for row in rows], note=note)


def _plain(site: Site, axis: str, row: int) -> dict[str, object]:
    names = site.names
    title = names.title(axis, row)
    return {"name": names.label(axis, row), **({} if title is None else {"title": title}), "row": row,
            "address": names.address(axis, row)}  # fmt: skip
