"""All that is known of a run, as one document."""

from collections.abc import Callable, Sequence

from plait.report.sections.again import again
from plait.report.sections.course import course
from plait.report.sections.groups import cards, sharing
from plait.report.sections.links import predicted_links
from plait.report.sections.quality import quality
from plait.report.sections.summary import summary
from plait.report.sections.surprises import surprises
from plait.report.subject import Subject
from plait.show.document import Block, Document, Section

SECTIONS: dict[str, tuple[str, Callable[[Subject], Sequence[Block]]]] = {
    "summary": ("Summary", summary),
    "links": ("Predicted links", predicted_links),
    "components": ("Components", cards),
    "sharing": ("Sharing", sharing),
    "quality": ("Is it any good?", quality),
    "surprises": ("Surprises", surprises),
    "fit": ("The fit", course),
    "reproduce": ("How to reproduce it", again),
}


def describe_whole(subject: Subject) -> Document:
    """The report, section by section."""
    sections = [Section(title, make(subject), name) for name, (title, make) in SECTIONS.items()]
    return Document(f"Plait: {', '.join(subject.fit.model.relations)}", sections)
