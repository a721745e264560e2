"""An entity in pictures: who is near it, and its components. Its page, which is there sooner, asks for them."""

from plait.answer.groups.profile import profile
from plait.chart import pictures
from plait.explore.asked import Asked, Refused, View, shorten
from plait.explore.site import Site
from plait.show.document import Block, Document, Facts, Note


def picture(site: Site, asked: Asked) -> View:
    """The pictures of an entity; of its own page, them alone. For programs they are charts of Vega-Lite."""
    axis = site.names.axis(asked.path["axis"])
    row = _row(site, asked, axis)
    label = site.names.label(axis, row)
    found = [pictures.neighbourhood(site.fit, axis, label)]
    if len(profile(site.fit, axis, label)):
        found.append(pictures.entity(site.fit, axis, label))
    charts = [(one, chart) for one in found if (chart := one.chart())["concat"]]
    blocks: list[Block] = [one for one, _ in charts] or [Note("There is nothing to be drawn of it.", quiet=False)]
    data = {"axis": axis, "name": label, "row": row,
            "pictures": [{"alt": one.alt, "chart": chart} for one, chart in charts]}  # fmt: skip
    title = f"{axis}: {shorten(site.names.text(axis, row), 200)}, in pictures"
    if asked.part:
        return View(Document(title, blocks, data), "part.html")
    return View(Document(title, [Facts([("all of it", site.names.ref(axis, row))]), *blocks], data))


def _row(site: Site, asked: Asked, axis: str) -> int:
    """Who is meant, by a name in the path or by what a path cannot carry."""
    if "name" in asked.path:
        asked.fields(())
        return site.names.row(axis, asked.path["name"])
    fields = asked.fields(("name", "row"))
    if not fields:
        raise Refused(404, f"pictures of which {axis}?", f"Ask for /picture/{axis}/NAME.")
    return site.names.row(axis, fields.get("name"), fields.get("row"))
