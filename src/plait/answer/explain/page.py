"""An explanation as a document: the words and numbers of `plait.answer.explain.text`, in tables."""

from typing import TYPE_CHECKING

from plait.answer.explain import text
from plait.show.document import Document, Note, Share, Table
from plait.show.words import percent

if TYPE_CHECKING:
    from plait.answer.explain.explanation import Explanation


def describe(e: "Explanation") -> Document:
    """The explanation as a document."""
    blocks = (Note(text.predicted(e), quiet=False), _components(e), _links(e), _rests_on(e))
    return Document(text.title(e), blocks, e.to_dict())


def _components(e: "Explanation") -> Table:
    rows = [
        (str(share), Share(share.share), *(text.names(e, number, index, 10**6) for index in e.cell))
        for number, share in enumerate(e.shares[: text.shown_components(e)])
    ]
    return Table(("component", "share", *e.cell), rows, "Components", text.other_components(e), left=2 + len(e.cell))


def _links(e: "Explanation") -> Table:
    rows = [(text.link_words(e, r), f"{r.value:g}", percent(r.loss), text.same(r)) for r in e.reasons]
    heading = f"Because of these known links ({text.measure(e)})" if rows else "Known links"
    return Table(("link", "value", "smaller by", "shares"), rows, heading, text.other_links(e) or _none(e), left=4)


def _none(e: "Explanation") -> str:
    return "" if e.reasons else text.no_reason(e)


def _rests_on(e: "Explanation") -> Table:
    part = text.has_prior(e)
    rows = [(text.row_words(e, row), row.factor, *([Share(row.data)] if part else []), row.links) for row in e.rows]
    return Table(("entity", "factor", *(["from data"] if part else []), "known links"), rows, text.basis(e), left=2)
