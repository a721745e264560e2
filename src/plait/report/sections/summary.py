"""What a run is, warnings first."""

from collections.abc import Sequence

from plait.report.doubts import doubts
from plait.report.run import members, rank_words, reached, relations_table, weight_words
from plait.report.subject import Subject
from plait.show.document import Block, Code, Facts, Note
from plait.show.words import significant, write_sizes
from plait.version import __version__

NOTHING = (
    "Nothing to warn of: it has converged, is not known to explain less than popularity, and uses all its components."
)


def summary(subject: Subject) -> Sequence[Block]:
    """Warnings, the model, how the fit ended, its relations."""
    fit = subject.fit
    found = doubts(subject)
    return (
        *found,
        *([] if found else [Note(NOTHING)]),
        Code(str(fit.model)),
        _about(subject),
        relations_table(fit),
    )


def _about(subject: Subject) -> Facts:
    fit = subject.fit
    return Facts.of(
        {
            "method": f"{fit.method}, rank {rank_words(fit.rank, fit.settings)}",
            "entities": write_sizes({axis: len(fit.labels[axis]) for axis in fit.model.axes}),
            "known links": write_sizes({name: len(known) for name, known in fit.known.items()}),
            **weight_words(fit.settings),
            **members(fit),
            "bound": reached(fit),
            **_popularity(subject),
            "stopped": fit.stop.sentence,
            "seed": str(fit.seed),
            "fitted by": f"plait {subject.header.get('plait', __version__)}",
            "report by": f"plait {__version__}",
            "fingerprint of the data": fit.fingerprint,
        }
    )


def _popularity(subject: Subject) -> dict[str, str]:
    """What the bound is to be compared with, where it is known."""
    found = subject.fit.settings.get("popularity")
    if found is None or found["beside"] != subject.fit.bound:
        return {}
    return {"bound without latent indices": f"{significant(found['bound'])} or more: what popularity alone explains"}
