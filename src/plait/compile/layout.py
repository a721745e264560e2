"""How a factor is stored inside: visible indices as rows, latent ones as columns, the last padded to the vector width.

Three shapes of the same factor: *written* (as in the equation), *inside* (visible indices first, then latent ones,
exact ranks) and *stored* (rows × columns, padding 0).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plait.compile.step import padded

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """Sizes and axis order of one factor."""

    name: str
    indices: tuple[str, ...]  # as written
    visible: tuple[str, ...]
    latent: tuple[str, ...]
    sizes: tuple[int, ...]  # inside: visible, then latent
    scaled: bool = True  # whether rows of L are kept divided by their maxima; not where terms are added up

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
        """Columns of every block, padding included."""
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
        """A broadcastable inside array (axes of length 1 allowed) -> (rows or 1) × (columns or 1)."""
        if inside.size == 1:
            return inside.reshape(1, 1)
        split = len(self.visible)
        visible, latent = inside.shape[:split], inside.shape[split:]
        if math.prod(visible) != 1:
            visible = self.sizes[:split]
        if math.prod(latent) == 1:  # the same in every column, padding included: nothing reads it there
            return np.broadcast_to(inside, visible + latent).reshape(math.prod(visible), 1)
        stored = np.zeros((*visible, *self.sizes[split:-1], self.pad))
        stored[..., : self.real] = inside
        return stored.reshape(math.prod(visible), self.columns)
