"""Sorted entries in, blocks out: one file a leaf, and what is added up over all of them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from plait.data.blocks.cutting import Cut
from plait.data.blocks.file import to_pieces
from plait.data.blocks.folder import Draft
from plait.data.blocks.growing import Growing
from plait.data.blocks.records import Sorted
from plait.data.cells.fibres import row_type
from plait.data.cells.ranges import PIECE
from plait.data.cells.sorting import is_uniform
from plait.likelihood import Likelihood, Sums
from plait.types import AnyArray, Array


def parted(pieces: Iterator[Sorted], cuts: Sequence[Cut]) -> Iterator[tuple[Sorted, Cut | None]]:
    """Sorted pieces, taken apart where leaves end; with each the cut, where one ends there."""
    passed, ends = 0, iter(cuts)  # passed: entries of all pieces before this one
    end = next(ends, None)
    for piece in pieces:
        at = 0
        while end is not None and passed + len(piece) >= end.end:
            upto = end.end - passed
            yield piece.part(at, upto), end
            at, end = upto, next(ends, None)
        if at < len(piece):
            yield piece.part(at, len(piece)), None
        passed += len(piece)


class Writer:
    """Writes the blocks of a relation, and adds up what its manifest says.

    order: indices in tree order; kind: the type of values; zero: what a listed 0 weighs, weight: the relation itself.
    """

    def __init__(
        self,
        draft: Draft,
        name: str,
        order: tuple[str, ...],
        sizes: Sequence[int],
        likelihood: Likelihood,
        kind: "np.dtype[Any]",
        zero: float,
        weight: float,
    ) -> None:
        self.draft, self.name, self.order, self.sizes = draft, name, order, tuple(sizes)
        self.likelihood, self.kind, self.zero, self.weight = likelihood, kind, zero, weight
        self.rows = [row_type(size) for size in sizes]
        self.blocks: list[dict[str, Any]] = []
        self.sums = Sums(0.0, 0.0, 0.0, 0.0)
        self.entries = self.links = self.zeros = self.weightless = 0
        self.least, self.most = np.inf, 0.0  # values of links
        self.marginals = {index: (np.zeros(size), np.zeros(size)) for index, size in zip(order, sizes)}
        self.leaf = self._begin()

    def add(self, piece: Sorted) -> None:
        """Sorted entries of the leaf that is being written."""
        values = piece.values.astype(self.kind, copy=False)
        self.leaf.add(piece, values)
        own = self._own_weights(values, piece.weights)
        all_links = bool(values.min() > 0 and own.min() > 0)
        self.entries += len(piece)
        self.zeros += 0 if all_links else int(np.count_nonzero(values == 0))
        self.weightless += 0 if all_links else int(np.count_nonzero(own == 0))
        for level, index in enumerate(self.order):
            piece.add_marginals(level, values, np.ascontiguousarray(_one_if_all(own)), *self.marginals[index])

    def end(self, cut: Cut) -> None:
        """Write the leaf as a block."""
        leaf, self.leaf = self.leaf, self._begin()
        self._sum(leaf)
        entry = self.draft.put(f"{self.name}-{len(self.blocks):06d}.safetensors", *to_pieces(leaf.arrays()))
        ends = dict(zip(("first", "last"), leaf.ends))
        self.blocks.append({**entry, "entries": len(leaf), **ends, "inside": cut.inside})

    def _begin(self) -> Growing:
        return Growing(self.rows, self.kind)

    def _sum(self, leaf: Growing) -> None:
        """Add up what the likelihood needs, in the pieces in which a leaf in memory is added up."""
        values = leaf.values
        own = self._own_weights(values, leaf.weights)
        links = slice(None) if values.min() > 0 and own.min() > 0 else (values > 0) & (own > 0)
        x, M = values[links], own[links]
        if len(x):
            self.least, self.most = min(self.least, float(x.min())), max(self.most, float(x.max()))
        for at in range(0, len(x), PIECE):  # its scratch memory stays in the cache
            some = x[at : at + PIECE].astype(np.float64)  # logarithms of bytes are rounded to two
            self.sums = self.sums + self.likelihood.sums(some, M[at : at + PIECE])
        self.links += len(x)

    def _own_weights(self, values: AnyArray, weights: Array | None) -> Array:
        """M of every entry."""
        if weights is not None:
            return weights * self.weight
        if self.zero == 1 or values.min() > 0:
            return np.broadcast_to(self.weight, len(values))
        return np.where(values > 0, 1.0, self.zero) * self.weight


def _one_if_all(weights: Array) -> Array:
    """One weight, if all are the same by construction."""
    return weights[:1] if is_uniform(weights) else weights
