"""Writing of blocks: where leaves are cut, how one is built from sorted chunks, and the files.

The cuts are those of `sparse.leaves`, found without the tree. A leaf is built from chunks of sorted ranges, so only one
range is in memory with its sort.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from plait._typing import AnyArray, Array
from plait.data.outofcore.block_file import add_marginals, to_pieces
from plait.data.outofcore.block_folder import Draft
from plait.data.outofcore.spill import SortedCells
from plait.data.sparse.csf_index import CSFIndex, row_type
from plait.data.sparse.leaves import cut_leaves, leaf_size
from plait.data.sparse.parallel import CHUNK_ROWS
from plait.data.sparse.sorting import is_uniform
from plait.likelihood import Likelihood, Sums

# --- cutting


class Cut(NamedTuple):
    """End of a block, in entries; `inside`: whether it is part of one giant root row."""

    end: int
    inside: bool


def cut(counts: AnyArray, sizes: Sequence[int], children: Callable[[int], AnyArray]) -> list[Cut]:
    """Ends of the blocks of a relation.

    `counts`: entries of every root row; `sizes`: of the axes in tree order; `children`: entries of each row of the next
    level under a root row, called for giants only.
    """
    roots = np.flatnonzero(counts)
    lengths = counts[roots]
    firsts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    size = leaf_size(int(firsts[-1]), sizes)
    giants = np.flatnonzero(lengths > 2 * size) if len(sizes) > 1 else roots[:0]
    cuts: list[Cut] = []
    at = 0
    for giant in [*giants.tolist(), len(roots)]:
        plain = cut_leaves(firsts[at : giant + 1], None, None, size)
        cuts += [Cut(int(firsts[at + leaf.hi]), False) for leaf in plain]
        if giant < len(roots):
            cuts += _cut_giant(int(firsts[giant]), children(int(roots[giant])), size)
        at = giant + 1
    return cuts


def _cut_giant(first: int, counts: AnyArray, size: int) -> list[Cut]:
    """Blocks of one root row, from the counts of its children."""
    below = first + np.concatenate([[0], np.cumsum(counts[counts > 0], dtype=np.int64)])
    leaves = cut_leaves(below[[0, -1]], np.array([0, len(below) - 1]), below, size)
    return [
        Cut(int(below[-1] if leaf.inside is None else below[leaf.inside[1]]), leaf.inside is not None)
        for leaf in leaves
    ]


def parted(pieces: Iterator[SortedCells], cuts: Sequence[Cut]) -> Iterator[tuple[SortedCells, Cut | None]]:
    """Sorted chunks, split where leaves end; with each the cut that ends there, if any."""
    passed, ends = 0, iter(cuts)  # passed: entries of earlier chunks
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


# --- building


class LeafBuilder:
    """Tree of one leaf, in the chunks received so far; `sizes`: of its axes, `kind`: dtype of values."""

    def __init__(self, sizes: Sequence[int], kind: "np.dtype[Any]") -> None:
        depth, self._sizes = len(sizes), tuple(sizes)
        self._rows: list[list[AnyArray]] = [[np.empty(0, row_type(size))] for size in sizes]
        self._starts: list[list[AnyArray]] = [[] for _ in range(depth - 1)]
        self._values: list[AnyArray] = [np.empty(0, kind)]
        self._weights: list[Array] = []
        self._fibres = [0] * depth
        self._first: tuple[int, ...] = ()
        self._last: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self._fibres[-1]

    def add(self, piece: SortedCells, values: AnyArray) -> None:
        """Append a chunk; `values`: as stored."""
        fibres = CSFIndex.of(tuple(map(str, self._sizes)), self._sizes, piece.coords)
        first, last = (tuple(piece.coords[n].tolist()) for n in (0, -1))
        begun = _alike(self._last, first)  # levels whose last fibre continues
        offsets = [count - (level < begun) for level, count in enumerate(self._fibres)]
        for level, array in enumerate(fibres.rows):
            skip = int(level < begun)
            self._rows[level].append(array[skip:])
            if level < len(fibres.starts):
                starts = fibres.starts[level][skip:-1].astype(np.uint32)
                self._starts[level].append(starts + np.uint32(offsets[level + 1]))
            self._fibres[level] = offsets[level] + len(array)
        self._values.append(values)
        if piece.weights is not None:
            self._weights.append(piece.weights)
        self._first, self._last = self._first or first, last

    @property
    def ends(self) -> tuple[int, int]:
        """First and last root row."""
        return self._first[0], self._last[0]

    @property
    def values(self) -> AnyArray:
        """All values, as stored."""
        self._values = [np.concatenate(self._values)]
        return self._values[0]

    @property
    def weights(self) -> Array | None:
        """Weight of every entry, if any."""
        if not self._weights:
            return None
        self._weights = [np.concatenate(self._weights)]
        return self._weights[0]

    def arrays(self) -> dict[str, Sequence[AnyArray]]:
        """Arrays of the file, each in chunks."""
        arrays: dict[str, Sequence[AnyArray]] = {f"rows{level}": some for level, some in enumerate(self._rows)}
        for level, some in enumerate(self._starts):
            arrays[f"starts{level}"] = [*some, np.array([self._fibres[level + 1]], np.uint32)]
        arrays["entries"] = self._values
        return arrays | ({"weights": self._weights} if self._weights else {})


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common prefix of two cells."""
    return next((level for level, (a, b) in enumerate(zip(one, other)) if a != b), len(one))


# --- writing


class BlockWriter:
    """Writer of a relation's blocks, which also sums up its manifest.

    `order`: indices in tree order; `kind`: dtype of values; `zero`: weight of a listed 0; `weight`: of the relation.
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

    def add(self, piece: SortedCells) -> None:
        """Append sorted entries to the current leaf."""
        values = piece.values.astype(self.kind, copy=False)
        self.leaf.add(piece, values)
        own = self._own_weights(values, piece.weights)
        all_links = bool(values.min() > 0 and own.min() > 0)
        self.entries += len(piece)
        self.zeros += 0 if all_links else int(np.count_nonzero(values == 0))
        self.weightless += 0 if all_links else int(np.count_nonzero(own == 0))
        for level, index in enumerate(self.order):
            weights = np.ascontiguousarray(_one_if_all(own))
            add_marginals(piece.coords[:, level], values, weights, *self.marginals[index])

    def end(self, cut: Cut) -> None:
        """Write the leaf as a block."""
        leaf, self.leaf = self.leaf, self._begin()
        self._sum(leaf)
        entry = self.draft.put(f"{self.name}-{len(self.blocks):06d}.safetensors", *to_pieces(leaf.arrays()))
        ends = dict(zip(("first", "last"), leaf.ends))
        self.blocks.append({**entry, "entries": len(leaf), **ends, "inside": cut.inside})

    def _begin(self) -> LeafBuilder:
        return LeafBuilder(self.sizes, self.kind)

    def _sum(self, leaf: LeafBuilder) -> None:
        """Add up the sums of the likelihood, in the same chunks as a leaf in memory."""
        values = leaf.values
        own = self._own_weights(values, leaf.weights)
        links = slice(None) if values.min() > 0 and own.min() > 0 else (values > 0) & (own > 0)
        x, M = values[links], own[links]
        if len(x):
            self.least, self.most = min(self.least, float(x.min())), max(self.most, float(x.max()))
        for at in range(0, len(x), CHUNK_ROWS):  # keeps scratch memory in the cache
            some = x[at : at + CHUNK_ROWS].astype(np.float64)  # NumPy's logarithm of bytes is float16
            self.sums = self.sums + self.likelihood.sums(some, M[at : at + CHUNK_ROWS])
        self.links += len(x)

    def _own_weights(self, values: AnyArray, weights: Array | None) -> Array:
        """M of every entry."""
        if weights is not None:
            return weights * self.weight
        if self.zero == 1 or values.min() > 0:
            return np.broadcast_to(self.weight, len(values))
        return np.where(values > 0, 1.0, self.zero) * self.weight


def _one_if_all(weights: Array) -> Array:
    """A single weight, if all are equal by construction."""
    return weights[:1] if is_uniform(weights) else weights
