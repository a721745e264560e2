"""The tree of one leaf, grown from sorted pieces: its arrays stay in the pieces that they came in.

So no more than one range is in memory with all that sorting needs; of a leaf it is what its file will hold.
"""

from collections.abc import Sequence

import numpy as np

from plait.data.blocks.records import Sorted
from plait.types import AnyArray, Array


class Growing:
    """A leaf so far; rows: the types of the row numbers of every level, kind: that of values."""

    def __init__(self, rows: Sequence["np.dtype[np.generic]"], kind: "np.dtype[np.generic]") -> None:
        depth = len(rows)
        self._rows: list[list[AnyArray]] = [[np.empty(0, one)] for one in rows]
        self._starts: list[list[AnyArray]] = [[] for _ in range(depth - 1)]
        self._values: list[AnyArray] = [np.empty(0, kind)]
        self._weights: list[Array] = []
        self._fibres = [0] * depth
        self._first: tuple[int, ...] = ()
        self._last: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self._fibres[-1]

    def add(self, piece: Sorted, values: AnyArray) -> None:
        """A piece that comes after all that is there; values: as they are stored."""
        rows, starts = piece.fibres()
        begun = _alike(self._last, piece.cell(0))  # levels whose first fibre goes on
        offsets = [count - (level < begun) for level, count in enumerate(self._fibres)]
        for level, array in enumerate(rows):
            skip = int(level < begun)
            self._rows[level].append(array[skip:])
            if level < len(starts):
                self._starts[level].append(starts[level][skip:-1].astype(np.uint32) + np.uint32(offsets[level + 1]))
            self._fibres[level] = offsets[level] + len(array)
        self._values.append(values)
        if piece.weights is not None:
            self._weights.append(piece.weights)
        self._first, self._last = self._first or piece.cell(0), piece.cell(-1)

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last root row."""
        return self._first[0], self._last[0]

    @property
    def values(self) -> AnyArray:
        """All values, as they are stored."""
        self._values = [np.concatenate(self._values)]
        return self._values[0]

    @property
    def weights(self) -> Array | None:
        """The weight of every entry, where they have one."""
        if not self._weights:
            return None
        self._weights = [np.concatenate(self._weights)]
        return self._weights[0]

    def arrays(self) -> dict[str, Sequence[AnyArray]]:
        """What the file holds, each array in pieces."""
        found: dict[str, Sequence[AnyArray]] = {f"rows{level}": some for level, some in enumerate(self._rows)}
        for level, some in enumerate(self._starts):
            found[f"starts{level}"] = [*some, np.array([self._fibres[level + 1]], np.uint32)]
        found["entries"] = self._values
        return found | ({"weights": self._weights} if self._weights else {})


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """How many of the first numbers of two cells are the same."""
    return next((level for level, (a, b) in enumerate(zip(one, other)) if a != b), len(one))
