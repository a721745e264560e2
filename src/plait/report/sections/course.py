"""How the fit went, and what it went on."""

from collections.abc import Sequence

import numpy as np

from plait.chart import pictures
from plait.report.run import reached
from plait.report.subject import Subject
from plait.run.record import Fitted
from plait.show.document import Block, Note, Table
from plait.types import Rows


def course(subject: Subject) -> Sequence[Block]:
    """The bound by sweep, the search for a rank where there was one, and data by axis."""
    fit = subject.fit
    searched = [pictures.rank(fit)] if fit.settings.get("rank_by", {}).get("tried") else []
    return [Note(f"Bound {reached(fit)}: {fit.stop.sentence}", quiet=False), pictures.bound(fit), *searched, _axes(fit)]


def _axes(fit: Fitted) -> Table:
    rows = []
    for axis in fit.model.axes:
        for relation, counts in _links(fit, axis).items():
            linked = counts[counts > 0]
            typical = (float(np.median(linked)), int(linked.max())) if len(linked) else (None, None)
            rows.append((axis, relation, len(counts), len(linked), len(counts) - len(linked), *typical))
    note = "median and most: known links of an entity that has any."
    if not all(known.links.in_memory for known in fit.known.values()):
        note += " Relations on disk are not counted."
    columns = ("axis", "relation", "entities", "with links", "without", "median", "most")
    return Table(columns, rows, "Data by axis", note, left=2)


def _links(fit: Fitted, axis: str) -> dict[str, Rows]:
    """By relation how many known links every entity of an axis has there."""
    found = {}
    for name, known in fit.known.items():
        places = [n for n, index in enumerate(fit.model.equation(name).indices) if fit.model.axis(index) == axis]
        if places and known.links.in_memory:
            size = len(fit.labels[axis])
            found[name] = np.bincount(known.cells[:, places].ravel(), minlength=size)
    return found
