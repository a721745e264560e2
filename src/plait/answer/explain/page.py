"""An explanation as a document: what `plait.answer.explain.text` says of its numbers, in order."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from plait.answer.explain import text
from plait.show.document import Block, Document, Facts, Note, Section, Share, Table
from plait.show.words import percent

if TYPE_CHECKING:
    from plait.answer.explain.explanation import Explanation


def describe(e: "Explanation") -> Document:
    """The explanation as a document, about forty lines of text at most."""
    blocks = [Note(text.predicted(e), quiet=False), *_components(e), *_reasons(e), *_rests_on(e)]
    return Document(text.title(e), blocks, e.to_dict())


def _components(e: "Explanation") -> Iterator[Block]:
    if not text.possible(e):
        yield Note(text.RATE_0, quiet=False)
        return
    shown = text.shown_components(e)
    for number in range(shown):
        indices = [i for i in e.cell if any(s.component == number and s.index == i for s in e.standings)]
        facts = Facts([(index, text.names(e, number, index)) for index in indices])
        yield Section(text.heading(e, number), [facts] if indices else [])
    if e.component_count > shown:
        yield Section(text.other_components(e), [])


def _reasons(e: "Explanation") -> Iterator[Block]:
    if e.reasons:
        rows = [(text.link_words(e, r), f"{r.value:g}", percent(r.loss), text.same(r)) for r in e.reasons]
        heading = f"Because of these known links ({text.measure(e)})"
        yield Table(("link", "value", "smaller by", "shares"), rows, heading, text.other_links(e), left=4)
    elif text.possible(e):  # else said with the components
        yield Section(text.no_reason(e), [])


def _rests_on(e: "Explanation") -> Iterator[Block]:
    part = text.has_prior(e)
    rows = [(text.row_words(e, row), row.factor, *([Share(row.data)] if part else []), row.links) for row in e.rows]
    if rows:
        columns = ("entity", "factor", *(["from data"] if part else []), "known links")
        yield Table(columns, rows, text.basis(e), left=2)
