"""Occurrences of factors in the terms of an equation, and contractions over named indices."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import opt_einsum
from numpy.typing import NDArray

from plait._typing import Array
from plait.codegen.layout import Layout, PairRows
from plait.data.sparse.csf import CSFTensor
from plait.inference.gamma import FactorState

Indices = tuple[str, ...]


@dataclass(frozen=True)
class Use:
    """Occurrence of a factor in a term, with its inside indices under the names of the equation.

    `name` differs from that of the factor where it occurs twice in the term. `pairs` are the pairs of a factor over
    pairs; `shared` marks the rows that pairs without their own row share.
    """

    name: str
    factor: str
    visible: Indices
    latent: Indices
    layout: Layout
    pairs: PairRows | None = None
    shared: bool = False

    @classmethod
    def of(cls, layout: Layout, indices: Indices, name: str) -> "Use":
        """Occurrence of a factor whose indices have other names here."""
        pairs = layout.pairs
        here = dict(zip(layout.indices if pairs is None else pairs.indices, indices))
        visible = tuple(here[i] for i in (layout.visible if pairs is None else pairs.visible))
        return cls(name, layout.name, visible, tuple(here[i] for i in layout.latent), layout, pairs)

    @property
    def listed(self) -> bool:
        return self.pairs is not None and not self.shared

    def of_others(self) -> "Use":
        """Occurrence for the pairs without their own row."""
        return replace(self, visible=self.visible[:1], layout=self.layout.shared, shared=True)

    def take(self, factors: Mapping[str, FactorState]) -> FactorState:
        """The factor, or its rows that pairs share."""
        return factors[self.factor].shared if self.shared else factors[self.factor]

    def mean_of_others(self, exposure: Array) -> Array:
        """Mean exposure of the pairs that share each row, from their sum; 0 where no pair does."""
        assert self.pairs is not None
        others = self.pairs.others[:, None]
        return np.asarray(exposure / np.where(others > 0, others, np.inf))

    @property
    def indices(self) -> Indices:
        return self.visible + self.latent


class Einsum:
    """Contraction over named indices with a path found once; output indices without an input get length 1."""

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
        if self._alike:
            return np.asarray(math.prod(arrays)).reshape(self.shape) if arrays else np.ones(self.shape)
        return np.asarray(self._call(*arrays)).reshape(self.shape)


def numbered(tree: CSFTensor, pairs: PairRows, visible: Indices) -> NDArray[np.uint32]:
    """Row of a factor over pairs at every fibre of the level at which the last of its indices is known."""
    level = max(tree.order.index(index) for index in visible)
    return pairs.find([tree.column(index, level) for index in visible]).astype(np.uint32)
