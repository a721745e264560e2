"""An axis: its entities, a page at a time."""

from urllib.parse import quote

from plait.explore.asked import Asked, View, whole
from plait.explore.pages.entity import entity_page
from plait.explore.site import Site
from plait.show.document import Document, Table

ROWS = 200  # of a page


def axis(site: Site, asked: Asked) -> View:
    """Entities in row order; with ?name= or ?row= the page of one of them."""
    name = site.names.axis(asked.path["axis"])
    fields = asked.fields(("name", "row", "from"))
    if "name" in fields or "row" in fields:
        return entity_page(site, name, site.names.row(name, fields.get("name"), fields.get("row")))
    labels = site.fit.labels[name]
    start = whole(fields.get("from"), "the first entity", 0, len(labels) - 1)
    rows = range(start, min(start + ROWS, len(labels)))
    page = f"/axis/{quote(name, safe='')}"
    table = Table(["entity"], [[site.names.ref(name, row)] for row in rows],
                  f"Entities {start + 1:,} to {rows.stop:,} of {len(labels):,}")  # fmt: skip
    data = {"axis": name, "entities": len(labels), "from": start, "names": labels[start : rows.stop]}
    more = {"before": f"{page}?from={max(0, start - ROWS)}" if start else "",
            "after": f"{page}?from={rows.stop}" if rows.stop < len(labels) else ""}  # fmt: skip
    return View(Document(f"Axis {name}", [table], data), "paged.html", more)
