"""What a reader should know before anything else of a run."""

from collections.abc import Iterator

import numpy as np

from plait.chart.components import LEFTOVER
from plait.data.traps.doubts import name_traps
from plait.errors import PlaitWarning
from plait.fitting.traps import bound_traps
from plait.infer.stop import Reason
from plait.report.subject import Subject
from plait.run.record import Fitted
from plait.show.document import Warn
from plait.warn import merged

ENDED = (Reason.CONVERGED, Reason.NOTHING)


def doubts(subject: Subject) -> list[Warn]:
    """Warnings about a run, the gravest first."""
    found = (*_unfinished(subject), *_traps(subject), *_leftover(subject), *subject.leaks)
    return [Warn(text.replace("\n", " ")) for text in found]


def _unfinished(subject: Subject) -> Iterator[str]:
    stop = subject.fit.stop
    if stop.reason not in ENDED:
        yield f"not converged: {stop.sentence}"


def _traps(subject: Subject) -> list[str]:
    found = merged([*_below_popularity(subject.fit), *_strangers(subject.fit)])
    return [str(warning) for warning in found]


def _below_popularity(fit: Fitted) -> Iterator[PlaitWarning]:
    found = fit.settings.get("popularity")
    if found is not None and found["beside"] == fit.bound:  # else it has learnt since
        yield from bound_traps(fit.model.relations, fit.method, found, bool(fit.settings["adapt"]))


def _strangers(fit: Fitted) -> Iterator[PlaitWarning]:
    """Coupling without shared names, as far as known links tell."""
    if not all(known.links.in_memory for known in fit.known.values()):
        return  # links on disk were looked at when they were bound
    mentioned = {}
    for name, known in fit.known.items():
        indices = fit.model.equation(name).indices
        mentioned[name] = {
            index: np.bincount(known.cells[:, place], minlength=size) > 0
            for place, (index, size) in enumerate(zip(indices, known.shape))
        }
    yield from name_traps(fit.model, fit.labels, mentioned)


def _leftover(subject: Subject) -> Iterator[str]:
    """Components that explain next to nothing of any relation."""
    import polars as pl

    whole = subject.coupling.filter(pl.col("index").is_not_null())
    most = whole.group_by("index", "component", maintain_order=True).agg(pl.col("share").max())
    for (index,), own in most.group_by("index", maintain_order=True):
        count = int((own["share"] < LEFTOVER).sum())
        if count:
            yield (
                f"leftover components: {count:,} of the {len(own):,} values of {index} explain less than 0.1 % of any "
                "relation. A smaller rank, or prune, would do as well."
            )
