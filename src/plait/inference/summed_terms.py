"""Terms ``w[q] N[…, q]`` with a sparse given factor N (docs/math.md, section 17).

Kernels see one number per link, Σ_q w[q] N, as a factor over the cells of N that are links. Its gradient times N is
that of w. The exposure of w is a constant, Σ M V N over the entries of N.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from plait._typing import AnyArray, Array
from plait.codegen.layout import Layout
from plait.codegen.step import Operand
from plait.data.binding.sparse_factors import SparseFactor
from plait.data.observation.pairs import Pairs
from plait.data.observation.weights import Weights
from plait.data.sparse.csf import SummedTable
from plait.inference.gamma import FactorState
from plait.inference.occurrences import Use


class SummedTerm:
    """One term of an equation; `number`: its position. `cells`: the links of the relation, `weights`: M·V."""

    def __init__(
        self, number: int, sparse: SparseFactor, weights: Weights, cells: AnyArray, layouts: Mapping[str, Layout]
    ) -> None:
        self.number, self.name = number, f"{sparse.weights} {sparse.factor}"
        layout = layouts[sparse.weights]
        self.members = [Use.of(layout, (sparse.index,), sparse.weights)]
        self.uses = Counter({sparse.weights: 1})
        self.trees: list[SummedTable] = []
        at, there = sparse.find(cells)
        own = np.sort(at[there])
        self.matrix = sparse.matrix[own]
        self.columns = self.matrix.T.tocsr()
        pairs = Pairs(sparse.indices, sparse.indices, sparse.shape, sparse.cells[own])
        self.layout = Layout.of_pairs(self.name, pairs, (), (), scaled=False)
        self._exposure = _stored(layout, np.maximum(sparse.matrix.T @ weights.at(sparse.cells), 0.0))

    @property
    def weights(self) -> str:
        """Name of the factor that is summed with N."""
        return self.members[0].factor

    @property
    def operand(self) -> Operand:
        """The number per link, as kernels see it."""
        assert self.layout.pairs is not None
        return Operand(self.layout.pairs.visible, (), self.number, listed=True)

    def member(self, name: str) -> Use:
        """The only occurrence of a factor."""
        return self.members[0]

    def exposed(self, name: str, factors: Mapping[str, FactorState]) -> Array:
        """Exposure of the weights, which does not depend on any factor."""
        return self._exposure

    def total(
        self, factors: Mapping[str, FactorState], name: str | None = None, exposure: Array | None = None
    ) -> float:
        """Σ M·V·Xhat_E over all cells."""
        return float(np.sum(factors[self.weights].mean * self._exposure, dtype=np.float64))

    def state(self, factors: Mapping[str, FactorState]) -> FactorState:
        """Σ_q L N at the links, as a factor that is known."""
        weights, rows = factors[self.weights], self.layout.rows
        sums = np.zeros((rows, 1), weights.exp_mean_log.dtype)
        sums[: self.matrix.shape[0], 0] = self.matrix @ (
            weights.layout.unpack(weights.exp_mean_log).reshape(-1) * np.exp(weights.shift[0])
        )
        with np.errstate(divide="ignore"):
            return FactorState(self.layout, (sums,), np.log(sums), sums, np.zeros(rows))

    def gradient(self, factors: Mapping[str, FactorState], gradient: Array) -> Array:
        """Gradient of the weights, as stored, from that of the numbers per link."""
        weights = factors[self.weights]
        links = np.asarray(gradient[: self.matrix.shape[0], 0], np.float64)
        return _stored(weights.layout, self.columns @ links * np.exp(weights.shift[0]))

    def counts(self, factors: Mapping[str, FactorState], counts: Array, sums: FactorState) -> Array:
        """Counts of the weights, as stored, from those of the numbers per link."""
        value = sums.exp_mean_log
        each = np.divide(counts, value, out=np.zeros(counts.shape), where=value > 0)
        return self.gradient(factors, each) * factors[self.weights].exp_mean_log


def _stored(layout: Layout, inside: Array) -> Array:
    return layout.pack(inside.reshape(layout.sizes))
