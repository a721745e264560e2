"""Overview pages: start page with the report's summary, components, and one component."""

from typing import Any
from urllib.parse import quote

import polars as pl

from plait.analysis.components.component_members import components as members_of
from plait.analysis.components.component_names import names_of, title
from plait.analysis.explain.coupling import coupling as shares_of
from plait.analysis.explain.coupling import families
from plait.explore.entity_pages import MIN_DATA_SHARE
from plait.explore.request import PageRequest, PageView, Refused, whole
from plait.explore.site import Site
from plait.plotting import pictures
from plait.rendering.document import Block, Cards, Code, Document, Facts, Faint, Note, Ref, Section, Share, Table, Warn
from plait.rendering.formatting import write_shape
from plait.report.report_data import ReportData
from plait.report.run_summary import description
from plait.report.sections import summary


def home(site: Site, asked: PageRequest) -> PageView:
    """Warnings, relations and axes, and the fit."""
    asked.fields(())
    told = summary(ReportData(site.fit, str(site.run), site.header))
    first = [block for block in told if isinstance(block, (Warn, Note))]
    fit = [block for block in told if isinstance(block, (Code, Facts))]
    blocks = [*first, relations(site), axes(site), Section("The fit", [*fit, pictures.objective(site.fit)])]
    return PageView(Document(f"Run {site.run.name}", blocks, description(site.fit, dict(site.header))))


def relations(site: Site) -> Table:
    """One row per relation."""
    fit = site.fit
    rows = [
        [
            site.relation_ref(name),
            fit.likelihood[name].describe(fit.likelihood_params[name]),
            write_shape(known.shape),
            len(known),
        ]
        for name, known in fit.known.items()
    ]
    return Table(["relation", "likelihood", "size", "known links"], rows, "Relations", left=3)


def axes(site: Site) -> Table:
    """One row per axis."""
    fit = site.fit
    rows = [
        [Ref(axis, f"/axis/{quote(axis, safe='')}"), ", ".join(_relations_of(site, axis)), len(fit.entities[axis])]
        for axis in fit.model.axes
    ]
    return Table(["axis", "in relations", "entities"], rows, "Axes", left=2)


def _relations_of(site: Site, axis: str) -> list[str]:
    model = site.fit.model
    return [e.relation for e in model.equations if any(model.axis(index) == axis for index in e.indices)]


LISTED_ENTITIES = 5  # of an axis in the list of components
MAX_ENTITIES = 20  # on the component's own page


def components(site: Site, asked: PageRequest) -> PageView:
    """All components, largest first, with their leading entities."""
    asked.fields(())
    table = members_of(site.fit, top=LISTED_ENTITIES)
    if not site.fit.rank:
        return PageView(
            Document(
                "Components", [Note("The model has no latent index, so there are no components.", quiet=False)], []
            )
        )
    order = _by_share(site)
    cards = [
        Section(_title(site, index, number), _leading(site, table, index, number, brief=True),
                address=site.component_address(index, number))
        for index, number in order
    ]  # fmt: skip
    said = "Components by their share of the known links, with their leading entities."
    return PageView(
        Document("Components", [pictures.coupling(site.fit), Note(said, quiet=False), Cards(cards)], table.to_dicts())
    )


def component(site: Site, asked: PageRequest) -> PageView:
    """One component by its number."""
    asked.fields(())
    index = _latent(site, asked.path.get("index"))
    size = site.fit.rank[index]
    try:
        number = whole(asked.path["number"], f"a component of {index}", 0, size - 1)
    except Refused as refused:
        raise Refused(404, refused.what, "The page /components lists them all.") from None
    table = members_of(site.fit, top=MAX_ENTITIES)
    picture = pictures.components(site.fit, number, index)
    blocks = [*_relations(site, index, number), picture, *_leading(site, table, index, number)]
    own = table.filter((pl.col("index") == index) & (pl.col("component") == number))
    coupled = shares_of(site.fit).filter((pl.col("index") == index) & (pl.col("component") == number))
    data = {"index": index, "component": number, "entities": own.to_dicts(), "relations": coupled.to_dicts()}
    return PageView(Document(_title(site, index, number), blocks, data))


def _latent(site: Site, given: str | None) -> str:
    known = list(site.fit.rank)
    if given is None and len(known) == 1:
        return known[0]
    if given is None or given not in known:
        wanted = ", ".join(known) or "none"
        raise Refused(
            404, f"the latent index is missing; the model has {wanted}.", "Use the address /component/INDEX/NUMBER."
        )
    together = [indices for family in families(site.fit.model) for indices in family.terms.values()]
    return next(indices[0] for indices in together if given in indices)  # of A[h, p] G[p, q] A[t, q], p has those of q


def _title(site: Site, index: str, number: int) -> str:
    return title(names_of(site.fit), index, number, several=len(site.fit.rank) > 1)


def _by_share(site: Site) -> list[tuple[str, int]]:
    """All components, by their largest share of a relation."""
    table = shares_of(site.fit).filter(pl.col("component").is_not_null())
    best = table.group_by("index", "component").agg(pl.col("share").max())
    found = best.sort(["share", "index", "component"], descending=[True, False, False])
    return [(str(index), int(number)) for index, number in found.select("index", "component").rows()]


def _relations(site: Site, index: str, number: int) -> list[Block]:
    """Shares of the component by relation."""
    own = shares_of(site.fit).filter((pl.col("index") == index) & (pl.col("component") == number))
    rows = [
        [site.relation_ref(row["relation"]), *([row["term"]] if row["term"] else []), Share(row["share"]),
         Share(row["part"]), row["counts"], row["sd"]]
        for row in own.to_dicts()
    ]  # fmt: skip
    term = ["term"] if own["term"].is_not_null().all() and len(own) else []
    kinds = own["kind"].drop_nulls().unique().to_list()
    note = "share: part of the links of the relation; part: part of the component"
    words = {
        "private": "One relation determines this component.",
        "shared": "Several relations determine this component.",
    }
    said: list[Block] = [Note(words[kind], quiet=False) for kind in kinds if len(site.fit.model.relations) > 1]
    columns = ["relation", *term, "share", "part", "counts", "± sd"]
    return [Section("Relations", [*said, Table(columns, rows, note=note, left=len(term) + 3)])]


def _leading(site: Site, table: pl.DataFrame, index: str, number: int, brief: bool = False) -> list[Block]:
    """Heaviest entities of a component, by factor and axis."""
    own = table.filter((pl.col("index") == index) & (pl.col("component") == number))
    found: list[Block] = []
    for (factor, axis), rows in own.group_by(["factor", "axis"], maintain_order=True):
        places = site.names.rows_of_text(str(axis), rows["entity"])
        lines = [_entity(site, str(axis), int(n), row, brief) for n, row in zip(places, rows.to_dicts())]
        columns = [f"{axis}, in {factor}", "weight", *([] if brief else ["from data", "± sd", "lift"])]
        found.append(Table(columns, lines, left=2 if brief else 3))
    return found if brief else [Section("Leading entities", found)]


def _entity(site: Site, axis: str, place: int, row: dict[str, Any], brief: bool) -> list[Any]:
    named = site.names.ref(axis, place)
    numbers = [Share(row["weight"]), *([] if brief else [Share(row["data"]), row["sd"], row["lift"]])]
    return [named, *(map(Faint, numbers) if row["data"] < MIN_DATA_SHARE else numbers)]
