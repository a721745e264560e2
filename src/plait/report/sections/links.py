"""The most probable links that are not known yet, with reasons."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from plait.answer.explain import explain
from plait.answer.explain.text import link_words, measure, no_reason
from plait.answer.search.top import propose
from plait.report.names import called
from plait.report.subject import Subject
from plait.show.document import Block, Details, Note, Section, Table
from plait.show.words import percent

if TYPE_CHECKING:
    import polars as pl

    from plait.answer.explain.explanation import Explanation

LINKS = 50  # a relation
EXPLAINED, FEWEST = 150, 5  # links with reasons, of all relations together; of each at least
MANY, EXPLAINED_OF_MANY = 50_000, 30  # entities from which on reasons take so long that fewer are given


def predicted_links(subject: Subject) -> Sequence[Block]:
    """A section for each relation."""
    most = explained(subject)
    relations = subject.fit.model.relations
    return [Section(name, list(_of_relation(subject, name, most)), f"links-{n}") for n, name in enumerate(relations)]


def explained(subject: Subject) -> int:
    """Of how many links of each relation reasons are given."""
    fit = subject.fit
    entities = sum(len(fit.labels[axis]) for axis in fit.model.axes)
    total = EXPLAINED_OF_MANY if entities > MANY else EXPLAINED
    return min(LINKS, max(FEWEST, total // len(fit.model.relations)))


def _of_relation(subject: Subject, relation: str, most: int) -> Iterator[Block]:
    found, closed = propose(subject.fit, relation, LINKS)
    if found.is_empty():
        known = "Every cell that may have a link is a known link already."
        yield Note(known if closed is None else str(closed).replace("\n", " "))
        return
    indices = subject.fit.model.equation(relation).indices
    cells = [{index: row[index] for index in indices} for row in found.head(most).to_dicts()]
    reasons = [explain(subject.fit, relation, cell) for cell in cells]
    yield _table(indices, found, reasons)


def _table(indices: Sequence[str], found: "pl.DataFrame", reasons: "list[Explanation]") -> Table:
    # Under Bernoulli the mean is the probability.
    numbers = ["probability", "low", "high", *(["mean"] if "rate" not in found.columns else [])]
    rows = [(*(called(row, index) for index in indices), *(row[name] for name in numbers)) for row in found.to_dicts()]
    behind = [Details(_leading(e), e.describe().blocks) for e in reasons]
    note = _note(len(rows), reasons, "mean" in numbers)
    return Table((*indices, *numbers), rows, note=note, left=len(indices), behind=behind)


def _leading(e: "Explanation") -> str:
    """The known link that says most for it, and how much of the mean goes without it."""
    return f"because of {link_words(e, e.reasons[0])}: {percent(e.reasons[0].loss)}" if e.reasons else no_reason(e)


def _note(count: int, reasons: "list[Explanation]", counts: bool) -> str:
    first, of = ("The largest means come first. ", "the value") if counts else ("", "the probability")
    said = [f"{first}low and high: a 90 % interval of {of}."]
    if reasons and reasons[0].reasons:
        said.append(f"The percentage of a reason is {measure(reasons[0])}; a click opens all reasons.")
    if len(reasons) < count:
        said.append(f"Reasons are given for the first {len(reasons)}: each takes a look at many links.")
    return " ".join(said)
