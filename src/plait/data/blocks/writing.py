"""Sorted entries in, blocks out: one file a leaf, and what is added up over all of them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from plait.data.blocks.cutting import Cut
from plait.data.blocks.file import to_pieces
from plait.data.blocks.folder import Draft
from plait.data.blocks.records import Sorted
from plait.data.cells.fibres import row_type
from plait.data.cells.ranges import PIECE
from plait.likelihood import Likelihood, Sums
from plait.types import AnyArray, Array


def leaves(pieces: Iterator[Sorted], cuts: Sequence[Cut]) -> Iterator[tuple[Cut, Sorted]]:
    """Sorted pieces of any sizes as those that cuts ask for."""
    held: list[Sorted] = []
    passed, ends = 0, iter(cuts)  # passed: entries of all pieces before this one
    end = next(ends, None)
    for piece in pieces:
        at = 0
        while end is not None and passed + len(piece) >= end.end:
            upto = end.end - passed
            first, *others = [*held, piece.part(at, upto)]
            yield end, first.joined(others)
            held, at, end = [], upto, next(ends, None)
        if at < len(piece):
            held.append(piece.part(at, len(piece)))
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
        self.marginals = {index: (np.zeros(size), np.zeros(size)) for index, size in zip(order, sizes)}

    def write(self, cut: Cut, leaf: Sorted) -> None:
        """Write one block."""
        rows, starts = leaf.fibres()
        arrays = {f"rows{level}": array for level, array in enumerate(rows)}
        arrays |= {f"starts{level}": array for level, array in enumerate(starts)}
        arrays["entries"] = leaf.values.astype(self.kind, copy=False)
        if leaf.weights is not None:
            arrays["weights"] = leaf.weights
        entry = self.draft.put(f"{self.name}-{len(self.blocks):06d}.safetensors", *to_pieces(arrays))
        ends = dict(zip(("first", "last"), leaf.ends()))
        self.blocks.append({**entry, "entries": len(leaf), **ends, "inside": cut.inside})
        self._add_up(leaf, arrays["entries"])

    def _add_up(self, leaf: Sorted, values: AnyArray) -> None:
        own = self._own_weights(leaf)
        all_links = bool(values.min() > 0 and own.min() > 0)
        links = slice(None) if all_links else (values > 0) & (own > 0)
        x, M = values[links], own[links]
        for at in range(0, len(x), PIECE):  # its scratch memory stays in the cache
            some = x[at : at + PIECE].astype(np.float64)  # logarithms of bytes are rounded to two
            self.sums = self.sums + self.likelihood.sums(some, M[at : at + PIECE])
        self.entries += len(leaf)
        self.links += len(x)
        self.zeros += int(np.count_nonzero(values == 0)) if not all_links else 0
        self.weightless += 0 if all_links else int(np.count_nonzero(own == 0))
        weights = own if leaf.weights is not None or own.strides != (0,) else own[:1]
        for level, index in enumerate(self.order):
            leaf.add_marginals(level, values, np.ascontiguousarray(weights), *self.marginals[index])

    def _own_weights(self, leaf: Sorted) -> Array:
        """M of every entry."""
        if leaf.weights is not None:
            return leaf.weights * self.weight
        if self.zero == 1 or leaf.values.min() > 0:
            return np.broadcast_to(self.weight, len(leaf))
        return np.where(leaf.values > 0, 1.0, self.zero) * self.weight
