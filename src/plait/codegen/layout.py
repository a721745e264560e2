"""Storage layout of factors: visible indices as rows, latent ones as columns, the last padded to the vector width.

A factor has three shapes: *written* (as in the equation), *inside* (visible indices first, then latent ones, exact
ranks) and *stored* (n_rows × n_columns, padding 0).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.codegen.step import padded


class PairRows(Protocol):
    """Rows of a factor over pairs (`plait.data.observation.pairs`): pairs, then shared rows."""

    @property
    def indices(self) -> tuple[str, ...]:
        """Indices of the factor as first written, including latent ones."""

    @property
    def visible(self) -> tuple[str, ...]: ...

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of entities of each visible index."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def others(self) -> Array:
        """Number of pairs that the shared row of each entity of the first index represents."""

    @property
    def weights(self) -> Array:
        """Number of pairs that each row represents."""

    def __len__(self) -> int:
        """Number of pairs with their own rows."""

    def find(self, columns: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
        """Rows of pairs given by a column for each visible index."""

    def for_rows(self, array: Array) -> Array:
        """Array that broadcasts to the factor as written, equal for all pairs → (1, *latent)."""

    def table(self, indices: Sequence[str], shape: Sequence[int], over: Sequence[str]) -> Any:
        """1 at the pairs and 0 elsewhere, as weights of a relation."""


@dataclass(frozen=True)
class Layout:
    """Sizes and axis order of one factor."""

    name: str
    indices: tuple[str, ...]  # as written
    visible: tuple[str, ...]
    latent: tuple[str, ...]
    sizes: tuple[int, ...]  # inside: visible, then latent
    scaled: bool = True  # whether rows of L are divided by their maxima; not in sums of terms
    pairs: PairRows | None = field(default=None, compare=False)  # of a factor over pairs

    @classmethod
    def of_pairs(
        cls, name: str, pairs: PairRows, latent: tuple[str, ...], ranks: tuple[int, ...], scaled: bool
    ) -> "Layout":
        """Layout of a factor over pairs."""
        own = f"pairs of {name}"
        indices = (own, *(index for index in pairs.indices if index in latent))
        return cls(name, indices, (own,), latent, (pairs.rows, *ranks), scaled, pairs)

    @property
    def shared(self) -> "Layout":
        """Layout of the rows that pairs share, by the first index."""
        assert self.pairs is not None
        first = self.pairs.visible[0]
        sizes = (self.pairs.sizes[0], *self.sizes[1:])
        return Layout(self.name, (first, *self.latent), (first,), self.latent, sizes, self.scaled)

    @property
    def inside(self) -> tuple[str, ...]:
        """Index names in inside order."""
        return self.visible + self.latent

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes as written."""
        return tuple(self.sizes[self.inside.index(index)] for index in self.indices)

    @property
    def rows(self) -> int:
        """Rows as stored."""
        return math.prod(self.sizes[: len(self.visible)])

    @property
    def real(self) -> int:
        """Columns of every block that are not padding."""
        return self.sizes[-1] if self.latent else 1

    @property
    def pad(self) -> int:
        """Columns of every block, including padding."""
        return padded(self.sizes[-1]) if self.latent else 1

    @property
    def columns(self) -> int:
        """Columns as stored."""
        return math.prod(self.sizes[len(self.visible) : -1]) * self.pad if self.latent else 1

    def moved(self, written: Array) -> Array:
        """Written order -> inside order (a view)."""
        return written.transpose([self.indices.index(index) for index in self.inside])

    def pack(self, inside: Array) -> Array:
        """Inside -> stored, full size."""
        stored = np.zeros((self.rows, self.columns), inside.dtype)
        self.unpack(stored)[...] = inside
        return stored

    def unpack(self, stored: Array) -> Array:
        """Stored -> inside (a view without the padding)."""
        if not self.latent:
            return stored.reshape(self.sizes)
        return stored.reshape(*self.sizes[:-1], self.pad)[..., : self.real]

    def written(self, stored: Array) -> Array:
        """Stored -> written order, a contiguous copy, in doubles."""
        back = [self.inside.index(index) for index in self.indices]
        return np.array(self.unpack(stored).transpose(back), np.float64, order="C")

    def spread(self, inside: Array) -> Array:
        """Broadcastable inside array → (n_rows or 1, n_columns or 1)."""
        if inside.size == 1:
            return inside.reshape(1, 1)
        split = len(self.visible)
        visible, latent = inside.shape[:split], inside.shape[split:]
        if math.prod(visible) != 1:
            visible = self.sizes[:split]
        if math.prod(latent) == 1:  # equal in every column; padding is not read
            return np.broadcast_to(inside, visible + latent).reshape(math.prod(visible), 1)
        stored = np.zeros((*visible, *self.sizes[split:-1], self.pad))
        stored[..., : self.real] = inside
        return stored.reshape(math.prod(visible), self.columns)
