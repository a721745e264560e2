"""What a relation's sums are made of: its factors under the names of its equation, and contractions of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import opt_einsum
from numpy.typing import NDArray

from plait.compile.layout import Layout

Array = NDArray[np.float64]
Indices = tuple[str, ...]


@dataclass(frozen=True)
class Member:
    """A factor's occurrence in a term: its inside indices under the names that the equation uses.

    name: of the occurrence, which differs from the factor's where that stands twice in the term.
    """

    name: str
    factor: str
    visible: Indices
    latent: Indices
    layout: Layout

    @property
    def indices(self) -> Indices:
        """Visible, then latent."""
        return self.visible + self.latent


class Einsum:
    """A contraction over named indices whose path is found once; output indices that no input has get length 1."""

    def __init__(self, inputs: Sequence[Indices], output: Indices, sizes: Mapping[str, int]) -> None:
        names = list(dict.fromkeys(index for indices in inputs for index in indices))
        letter = {index: opt_einsum.get_symbol(n) for n, index in enumerate(names)}
        present = [index for index in output if index in letter]
        self.shape = tuple(sizes[index] if index in letter else 1 for index in output)
        text = ",".join("".join(letter[i] for i in indices) for indices in inputs)
        text += "->" + "".join(letter[i] for i in present)
        shapes = [tuple(sizes[index] for index in indices) for indices in inputs]
        self._alike = all(list(indices) == present for indices in inputs)  # nothing but a product, entry by entry
        self._call: Any = None if self._alike else opt_einsum.contract_expression(text, *shapes, optimize="greedy")

    def __call__(self, *arrays: Array) -> Array:
        """Contract."""
        if self._alike:
            return np.asarray(math.prod(arrays)).reshape(self.shape) if arrays else np.ones(self.shape)
        return np.asarray(self._call(*arrays)).reshape(self.shape)
