"""An explanation for a notebook: the words and numbers of `plait.answer.explain.text`, in tables."""

from typing import TYPE_CHECKING

from plait import show
from plait.answer.explain import text

if TYPE_CHECKING:
    from plait.answer.explain.explanation import Explanation


def html(e: "Explanation") -> str:
    """The explanation as HTML."""
    return show.page(show.title(text.title(e)), show.note(text.predicted(e)), _components(e), _links(e), _rests_on(e))


def _components(e: "Explanation") -> str:
    rows = [
        (str(share), show.bar(share.share), *(text.names(e, number, index, 10**6) for index in e.cell))
        for number, share in enumerate(e.shares[: text.shown_components(e)])
    ]
    return show.table("Components", ("component", "share", *e.cell), rows, text.other_components(e))


def _links(e: "Explanation") -> str:
    rows = [(str(r), f"{r.value:g}", show.percent(r.loss), text.same(r)) for r in e.reasons]
    heading = f"Because of these known links ({text.measure(e)})" if rows else "Known links"
    return show.table(heading, ("link", "value", "smaller by", "shares"), rows, text.other_links(e) or _none(e))


def _none(e: "Explanation") -> str:
    return "" if e.reasons else text.no_reason(e)


def _rests_on(e: "Explanation") -> str:
    part = text.has_prior(e)
    rows = [(str(row), row.factor, *([show.bar(row.data)] if part else []), row.links) for row in e.rows]
    return show.table(text.basis(e), ("entity", "factor", *(["from data"] if part else []), "known links"), rows)
