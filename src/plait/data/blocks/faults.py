"""What is wrong with cells, found while they were sorted, where no row is known: a second, slow pass names the rows.

It collects all rows of the cells in question and has binding look at them: so the words are those of data in memory.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from plait.data.binding.entries import Entries, refuse_values, settled
from plait.data.blocks.reader import Reader
from plait.data.cells.fibres import distinct
from plait.data.cells.keys import Lookup
from plait.errors import PlaitError
from plait.types import AnyArray

if TYPE_CHECKING:
    from plait.likelihood import Likelihood

MOST = 1 << 20  # cells that are kept: of more, an earlier row may be wrong too


class Faults:
    """Cells (n, order of the relation) that are repeated, or have values that the likelihood does not know."""

    def __init__(self) -> None:
        self._cells: list[AnyArray] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, cells: AnyArray) -> None:
        """Some more cells."""
        if self._count < MOST:
            self._cells.append(cells[: MOST - self._count])
        self._count += len(cells)

    def refuse(
        self,
        reader: Reader,
        entries: Iterator[tuple[Entries, int, int]],
        duplicates: str,
        likelihood: "Likelihood",
    ) -> None:
        """Say what is wrong; entries: all of them once more, as the reader gives them."""
        found = _gathered(np.concatenate(self._cells), entries)
        try:
            once, summed = settled(found, duplicates)
            refuse_values(once, likelihood, summed=summed > 0)
        except PlaitError as error:
            with reader.naming():
                raise error


def _gathered(cells: AnyArray, entries: Iterator[tuple[Entries, int, int]]) -> Entries:
    """All entries of some cells, with their rows in the table."""
    found: list[Entries] = []
    lookup: Lookup | None = None
    for batch, first, _ in entries:
        lookup = lookup or Lookup(distinct(cells, batch.sizes), batch.sizes)
        rows = np.arange(len(batch)) if batch.rows is None else batch.rows
        here = np.flatnonzero(lookup.contain(batch.coords))
        chosen = batch.chosen(here)
        object.__setattr__(chosen, "rows", rows[here] + first)
        found.append(chosen)
    parts: dict[str, Any] = {
        name: None if getattr(found[0], name) is None else np.concatenate([getattr(one, name) for one in found])
        for name in ("coords", "values", "weights", "rows", "writing")
    }
    return Entries(found[0].source, found[0].labels, **parts)
