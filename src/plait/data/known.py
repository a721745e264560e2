"""The observed links of a relation: what a fit remembers of its data, for `top`, `explain` and filtered ranking."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plait.data.fibres import Fibres
from plait.data.keys import Array, Keys, columns_of, find, pack, pack_pair

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Known:
    """Cells with X > 0 and M > 0: cells (n, order) in lexicographic order, values (n,) X, weights (n,) M.

    links and stored are what they are made from when first asked for: a fit keeps no more.
    """

    shape: tuple[int, ...]
    links: Array | Fibres
    stored: NDArray[np.floating]
    weights: Floats

    def __len__(self) -> int:
        return len(self.stored)

    @cached_property
    def cells(self) -> Array:
        """Coordinates (n, order) in lexicographic order."""
        return self.links.cells() if isinstance(self.links, Fibres) else self.links

    @cached_property
    def values(self) -> Floats:
        """X at the cells, (n,)."""
        return self.stored.astype(np.float64, copy=False)

    def contain(self, cells: Array) -> NDArray[np.bool_]:
        """Which of some cells (m, order), as row numbers, are known links."""
        if self._keys is None:
            mine, theirs = pack_pair(
                columns_of(self.cells), columns_of(cells), self.shape, (len(self.cells), len(cells))
            )
            return find(theirs, mine)[1]
        return find(pack(columns_of(cells), self.shape, len(cells)), self._keys)[1]

    @cached_property
    def _keys(self) -> Keys | None:
        """Sorted keys, where 64 bits suffice for all cells."""
        if np.prod([float(size) for size in self.shape]) >= 2.0**63:
            return None
        return pack(columns_of(self.cells), self.shape, len(self.cells))
