"""Overview pages: start page with the report's summary, components, and one component."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import polars as pl

from plait._typing import Array
from plait.analysis.components.component_members import components as members_of
from plait.analysis.components.component_names import names_of, title
from plait.analysis.components.entity_shares import holdings
from plait.analysis.explain.coupling import coupling as shares_of
from plait.analysis.explain.coupling import families
from plait.analysis.explain.leading_entities import largest
from plait.analysis.topk.surprising import surprising
from plait.analysis.topk.top import propose
from plait.explore.entity_pages import MIN_DATA_SHARE
from plait.explore.link_pages import predicted_rows
from plait.explore.request import PageRequest, PageView, Refused, whole
from plait.explore.site import Site
from plait.plotting import pictures
from plait.rendering.document import (
    Block,
    Cards,
    Details,
    Document,
    Facts,
    Faint,
    IntervalBar,
    Note,
    Ref,
    Section,
    Several,
    Share,
    Table,
    Tiles,
)
from plait.rendering.formatting import percent, write_shape
from plait.report.run_summary import description
from plait.report.sections import chance, lead, lift_words, quality, run_warnings, summary, tiles

BEST, STRANGE = 5, 3  # links of a relation on the home page
HOME_COMPONENTS = 6
HOME_ENTITIES = 8  # of an axis


def home(site: Site, asked: PageRequest) -> PageView:
    """What the run says: how good it is, the best predictions and surprises, components, entities."""
    asked.fields(())
    report_data = site.report_data
    settings = [block for block in summary(report_data) if isinstance(block, Details)]
    order = _by_share(site)
    table = members_of(site.fit, top=3, by="relevance") if site.component_indices else None
    named = [] if table is None else [_component_card(site, table, *one) for one in order[:HOME_COMPONENTS]]
    all_components = Facts([("more", Ref(f"all {len(order):,} components", "/components"))])
    blocks: list[Block] = [
        Note(lead(report_data), quiet=False),
        Tiles(tiles(report_data)),
        *run_warnings(report_data),
        Section("Ask", [Facts(_questions(site, order))]),
        Section("Relations", [Cards([_relation_card(site, name) for name in site.fit.model.relations])]),
        *([Section("Components", [Cards(named), all_components])] if named else []),
        Section("Entities", [Cards([_axis_card(site, axis) for axis in site.fit.model.axes])]),
        Section("Is it any good?", quality(report_data), "quality"),
        Section("The run", [relations(site), axes(site), *settings, pictures.objective(site.fit)]),
    ]
    title = f"{', '.join(site.fit.model.relations)}"
    return PageView(Document(title, blocks, description(site.fit, dict(site.header))), "home.html")


def _questions(site: Site, order: Sequence[tuple[str, int]]) -> list[tuple[str, Any]]:
    """Questions that the pages answer, each with the page that answers one of its kind."""
    names, model = site.names, site.fit.model
    questions: list[tuple[str, Any]] = []
    axes = [axis for axis in model.axes if _links_of(site, axis).any()][-2:]
    ends = [names.ref(axis, int(largest(_links_of(site, axis), 1)[0])) for axis in axes]
    if ends:
        questions.append(("What goes with an entity, and why?", Several(ends)))
    relation = model.relations[0]
    best, _ = propose(site.fit, relation, 1)
    if len(best):
        row = best.row(0, named=True)
        cell = [site.fit.entities[index].row(row[index]) for index in model.equation(relation).indices]
        questions.append(
            ("How sure is a prediction?", Ref(names.cell_text(relation, cell), names.cell_address(relation, cell)))
        )
    if order:
        questions.append(("What is a component?", Ref(_title(site, *order[0]), site.component_address(*order[0]))))
        compared = [axis for axis in model.axes if len(site.fit.entities[axis]) > 2 and _has_components(site, axis)]
        maps = [Ref(f"map of {axis}", f"/map/{quote(axis, safe='')}") for axis in compared]
        if maps:
            questions.append(("Who is like whom?", Several(maps)))
    questions.append(("Which links look wrong?", Ref("surprises", "/surprises")))
    tested = site.report_data.metrics is not None
    questions.append(("Is the model any good?", Ref("test" if tested else "how to measure it", "#quality")))
    return questions


def _has_components(site: Site, axis: str) -> bool:
    return any(site.fit.model.axis(holding.index) == axis for holding in holdings(site.fit))


def _links_of(site: Site, axis: str) -> Array:
    """Number of known links of each entity."""
    counts = np.zeros(len(site.fit.entities[axis]))
    for name, known in site.fit.known.items():
        for place, index in enumerate(site.fit.model.equation(name).indices):
            if site.fit.model.axis(index) == axis and known.links.in_memory:
                counts += np.bincount(known.cells[:, place].astype(np.int64), minlength=len(counts))
    return counts


def _relation_card(site: Site, name: str) -> Section:
    """The best predictions, and the known links that the model finds least probable."""
    indices = site.fit.model.equation(name).indices
    links, warning = propose(site.fit, name, BEST)
    rows = predicted_rows(site, name, links, ["probability"]) if len(links) else []
    lines = [[*row[:-1], chance(site.fit, name, own)] for row, own in zip(rows, links.to_dicts())]
    columns = [*indices, "reasons", "probability"]
    best = Table(columns, lines, "Best predictions", left=len(columns))
    strange = surprising(site.fit, name, STRANGE)
    word = "kind_" if "kind" in indices else "kind"
    strange = strange.filter(pl.col(word) == "link")
    odd = predicted_rows(site, name, strange, ["probability"]) if len(strange) else []
    blocks: list[Block] = [
        best if rows else Note(warning.message if warning is not None else "There are no new links.")
    ]
    if odd:
        odd = [[*row[:-1], IntervalBar(row[-1])] for row in odd]
        blocks.append(Table(columns, odd, "Known links that look wrong", left=len(columns)))
    return Section(name, blocks, address=site.relation_ref(name).address)


def _component_card(site: Site, table: pl.DataFrame, index: str, number: int) -> Section:
    shares = shares_of(site.fit).filter((pl.col("index") == index) & (pl.col("component") == number))
    said = ", ".join(f"{percent(row['share'])} of {row['relation']}" for row in shares.to_dicts())
    blocks = [Note(said), *_leading(site, table, index, number, brief=True)]
    return Section(_title(site, index, number), blocks, address=site.component_address(index, number))


def _axis_card(site: Site, axis: str) -> Section:
    """Entities with the most known links."""
    counts = _links_of(site, axis)
    first = largest(counts, HOME_ENTITIES)
    rows = [[site.names.ref(axis, int(row)), int(counts[row])] for row in first]
    return Section(f"{axis}: {len(counts):,}", [Table(["most links", "known links"], rows)],
                   address=f"/axis/{quote(axis, safe='')}")  # fmt: skip


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
    table = members_of(site.fit, top=LISTED_ENTITIES, by="relevance")
    if not site.component_indices:
        return PageView(
            Document(
                "Components", [Note("The model has no latent index, so there are no components.", quiet=False)], []
            )
        )
    order = _by_share(site)
    cards = [_component_card(site, table, index, number) for index, number in order]
    said = "Components by their share of the known links, with their most typical entities (weight × lift)."
    chart = [pictures.coupling(site.fit)] if len(site.fit.model.relations) > 1 else []
    return PageView(Document("Components", [Note(said, quiet=False), Cards(cards), *chart], table.to_dicts()))


def component(site: Site, asked: PageRequest) -> PageView:
    """One component by its number."""
    asked.fields(())
    index = _latent(site, asked.path.get("index"))
    size = site.fit.rank[index]
    try:
        number = whole(asked.path["number"], f"a component of {index}", 0, size - 1)
    except Refused as refused:
        raise Refused(404, refused.what, "The page /components lists them all.") from None
    table = members_of(site.fit, top=MAX_ENTITIES, by="relevance")
    trends = pictures.trends(site.fit, number, index)
    blocks = [*_relations(site, index, number), *trends, *_leading(site, table, index, number)]
    own = table.filter((pl.col("index") == index) & (pl.col("component") == number))
    coupled = shares_of(site.fit).filter((pl.col("index") == index) & (pl.col("component") == number))
    data = {"index": index, "component": number, "entities": own.to_dicts(), "relations": coupled.to_dicts()}
    return PageView(Document(_title(site, index, number), blocks, data))


def _latent(site: Site, given: str | None) -> str:
    known = site.component_indices
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
    return title(names_of(site.fit), index, number, several=len(site.component_indices) > 1)


def _by_share(site: Site) -> list[tuple[str, int]]:
    """All components, by their largest share of a relation."""
    table = shares_of(site.fit).filter(
        pl.col("component").is_not_null() & pl.col("index").is_in(site.component_indices)
    )
    best = table.group_by("index", "component").agg(pl.col("share").max())
    components = best.sort(["share", "index", "component"], descending=[True, False, False])
    return [(str(index), int(number)) for index, number in components.select("index", "component").rows()]


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
    """Most typical entities of a component, by factor and axis."""
    own = table.filter((pl.col("index") == index) & (pl.col("component") == number))
    sections: list[Section] = []
    for (factor, axis), rows in own.group_by(["factor", "axis"], maintain_order=True):
        places = site.names.rows_of_text(str(axis), rows["entity"])
        full = float((rows["weight"] + rows["sd"]).max())  # type: ignore[arg-type]
        lines = [_entity(site, str(axis), int(n), row, full, brief) for n, row in zip(places, rows.to_dicts())]
        columns = [axis, "weight", "lift", *([] if brief else ["from data"])]
        sections.append(Section(f"{axis}, in {factor}", [Table(columns, lines, left=2)]))
    if brief:
        return [block for section in sections for block in section.blocks]
    return [Section("Typical entities", [Cards(sections)])]


def _entity(site: Site, axis: str, place: int, row: dict[str, Any], full: float, brief: bool) -> list[Any]:
    named = site.names.ref(axis, place)
    ends = max(row["weight"] - row["sd"], 0.0), row["weight"] + row["sd"]
    numbers = [
        IntervalBar(row["weight"], *ends, full),
        lift_words(row["lift"]),
        *([] if brief else [Share(row["data"])]),
    ]
    return [named, *(map(Faint, numbers) if row["data"] < MIN_DATA_SHARE else numbers)]
