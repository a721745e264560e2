"""Surprises: known links that the model finds unlikely, and zeros that it did not expect."""

from urllib.parse import quote

import polars as pl

from plait.explore.asked import Asked, View
from plait.explore.pages.links import predicted_rows
from plait.explore.site import Site
from plait.show.document import Block, Document, Note, Section, Share, Table

MOST = 20


def surprises(site: Site, asked: Asked) -> View:
    """Those of every relation, or of one."""
    fields = asked.fields(("relation",))
    names = [site.names.relation(fields["relation"])] if "relation" in fields else list(site.fit.model.relations)
    found = {name: site.fit.surprising(name, MOST) for name in names}
    blocks: list[Block] = [Note("What was observed, and what the model says of it.", quiet=False)]
    blocks += [Section(name, _tables(site, name, table), f"relation-{quote(name)}") for name, table in found.items()]
    return View(Document("Surprises", blocks, {name: table.to_dicts() for name, table in found.items()}))


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
