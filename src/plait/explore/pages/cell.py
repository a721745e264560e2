"""A cell of a relation: what is predicted, which components and which known links say so, and what-ifs."""

from typing import Any

from plait.answer.explain import text
from plait.answer.explain.explanation import Explanation, Link
from plait.explore.asked import Asked, View
from plait.explore.site import Site
from plait.show.document import Block, Cards, Document, Facts, Note, Ref, Section, Several, Share, Table
from plait.show.words import percent
from plait.types import Rows

REASONS = 10
WORDS = {"mean": "expected value", "sd": "± sd", "probability": "probability of a link", "low": "90 % from",
         "high": "90 % to", "rate": "rate", "exposure": "exposure"}  # fmt: skip


def cell(site: Site, asked: Asked) -> View:
    """Why a cell is predicted as it is."""
    relation = site.names.relation(asked.path["relation"])
    at = site.names.cell(relation, asked.fields(site.names.keys(relation)))
    e = site.fit.explain(relation, site.names.of_cell(relation, at), top=REASONS)
    blocks: list[Block] = [
        Cards([Section("The cell", [_entities(site, relation, at, e)]), Section("Predicted", [_prediction(e)])]),
        Section("Components", [_components(site, e)] if text.possible(e) else [Note(text.RATE_0, quiet=False)]),
        Section("Because of these known links", [*_reasons(site, e, at), *_no_data(site)]),
        Section("What it rests on", [_rests_on(site, e)]),
    ]
    more = {"whatif": not site.no_data, "relation": relation, "token": site.token,
            "cell": site.names.cell_query(relation, at, "cell."), "relations": site.fit.model.relations,
            "equations": {q.relation: q.indices for q in site.fit.model.equations}, "value": e.value}  # fmt: skip
    return View(Document(site.names.cell_text(relation, at), blocks, e.to_dict()), "cell.html", more)


def claimed(site: Site, relation: str, at: Rows, changing: str, link: Rows) -> float | None:
    """What the page of a cell says of a known link to first order; None where the link is not among its reasons."""
    e = site.fit.explain(relation, site.names.of_cell(relation, at), top=REASONS)
    named = site.names.of_cell(changing, link)
    own = [reason for reason in e.reasons if reason.relation == changing and dict(reason.cell) == named]
    return own[0].responsibility if own else None


def _entities(site: Site, relation: str, at: Rows, e: Explanation) -> Facts:
    indices = site.fit.model.equation(relation).indices
    own: list[tuple[str, Any]] = [(i, site.names.ref(i, int(row))) for i, row in zip(indices, at)]
    told = "not a known link" if e.value is None else f"a known link of value {e.value:g}"
    return Facts([("relation", site.relation_ref(relation)), *own, ("in the data", told)])


def _prediction(e: Explanation) -> Facts:
    told = {name: value for name, value in e.prediction.items() if name in WORDS}
    shown = {WORDS[name]: Share(value) if name == "probability" else value for name, value in told.items()}
    return Facts.of(shown)


def _components(site: Site, e: Explanation) -> Table:
    rows = [
        [_component(site, share), Share(share.share), *(text.names(e, number, index, 10**6) for index in e.cell)]
        for number, share in enumerate(e.shares[: text.shown_components(e)])
    ]
    return Table(["component", "share", *e.cell], rows, note=text.other_components(e), left=2 + len(e.cell))


def _component(site: Site, share: Any) -> Any:
    """A component as a link to its page, where it is one value of one latent index."""
    if len(share.setting) != 1:
        return str(share)
    ((index, number),) = share.setting.items()
    return Ref(str(share), site.component_address(index, number))


def _reasons(site: Site, e: Explanation, at: Rows) -> list[Block]:
    if not e.reasons:
        return [Note(text.no_reason(e), quiet=False)]
    rows = [_reason(site, e, at, link) for link in e.reasons]
    columns = ["link", "smaller by", *(["what if"] if not site.no_data else []), "value", "shares"]
    words = text.measure(e)
    table = Table(columns, rows, note=text.other_links(e), left=len(columns))
    return [Note(f"Smaller by: {words}.", quiet=False), table]


def _reason(site: Site, e: Explanation, at: Rows, link: Link) -> list[Any]:
    row = [site.fit.labels[i].row(name) for i, name in link.cell.items()]
    named = Ref(site.names.cell_text(link.relation, row), site.names.cell_address(link.relation, row))
    first, last = [named, percent(link.loss)], [f"{link.value:g}", text.same(link)]
    if site.no_data:
        return [*first, *last]
    fields = [("relation", e.relation), *site.names.cell_query(e.relation, at, "cell."), ("changing", link.relation),
              *site.names.cell_query(link.relation, row, "link.")]  # fmt: skip
    hide = site.action("Hide", "/whatif", [*fields, ("change", "hide")])
    zero = site.action("Set to 0", "/whatif", [*fields, ("change", "zero")])
    return [*first, Several([hide, zero]), *last]


def _no_data(site: Site) -> list[Block]:
    """How to get what-ifs, where there are none."""
    if not site.no_data:
        return []
    return [Note(f"What-ifs fit again, which needs the data: {site.no_data} Make the run with `plait fit CONFIG`, and "
                 "say --data DIR where its files have moved.")]  # fmt: skip


def _rests_on(site: Site, e: Explanation) -> Table:
    part = text.has_prior(e)
    rows = []
    for row in e.rows:
        named = [site.names.ref(i, site.fit.labels[i].row(name)) for i, name in row.entities.items()]
        rows.append([Several(named), row.factor, *([Share(row.data)] if part else []), row.links])
    columns = ["entity", "factor", *(["from data"] if part else []), "known links"]
    return Table(columns, rows, note=text.basis(e), left=3 if part else 2)
