"""What the model finds hardest to believe of the data."""

from collections.abc import Iterator, Sequence

from plait.report.names import called
from plait.report.subject import Subject
from plait.show.document import Block, Note, Section, Table

SURPRISES = 10  # of each kind and relation

KINDS = {"link": "Known links that it finds least likely", "zero": "Observed zeros where it expects a link"}
NONE = {
    "link": "There are no known links.",
    "zero": "No zeros are kept: only links were observed, or the run is of a version that did not keep them.",
}


def surprises(subject: Subject) -> Sequence[Block]:
    """A section for each relation."""
    words = (
        "Known links and zeros that the model would not have guessed: mistakes in the data, or what it has not "
        "understood. surprise: −log of the probability of what was observed, in nats."
    )
    relations = subject.fit.model.relations
    sections = [Section(name, list(_of_relation(subject, name)), f"surprises-{n}") for n, name in enumerate(relations)]
    return [Note(words, quiet=False), *sections]


def _of_relation(subject: Subject, relation: str) -> Iterator[Block]:
    import polars as pl

    indices = subject.fit.model.equation(relation).indices
    whole = subject.fit.surprising(relation, SURPRISES)
    for kind, title in KINDS.items():
        rows = [
            (
                *(called(row, index) for index in indices),
                row["value"],
                row["surprise"],
                row["probability"],
            )
            for row in whole.filter(pl.col("kind") == kind).to_dicts()
        ]
        columns = (*indices, "value", "surprise", "probability of a link")
        yield Table(columns, rows, title, left=len(indices)) if rows else Note(NONE[kind])
