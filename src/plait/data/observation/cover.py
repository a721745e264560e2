"""Cover of observation weights by disjoint boxes: every cell with M > 0 is in one box, no other cell in any.

A box is one entity or one node per index. Nodes are ranges of a binary tree over the entities, so all but a few
entities are a few nodes. Sums over boxes only add, so they keep full precision however little is observed (`1 − T`
loses it where T hides nearly all).

Along an index of n entities, positions 0 … n−1 are the entities and n + h is node h of a heap: the root is 1, the
children of h are 2h and 2h + 1, and entity e is also the leaf `leaves(n) + e`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from plait._typing import Array, Rows
from plait.data.observation.terms import Term, add_up, same_vector
from plait.data.observation.weights import Weights
from plait.data.sparse.csf_index import CSFIndex


def leaves(size: int) -> int:
    """Number of leaves of the tree over `size` entities: a power of two."""
    return 1 << max(size - 1, 0).bit_length()


def places(size: int) -> int:
    """Number of positions of an index with `size` entities: entities, then nodes."""
    return size + 2 * leaves(size)


def gather(array: Array, axis: int, weights: Array | None) -> Array:
    """Sums of an array over every position of one axis; nodes are weighted sums of entities."""
    inside = np.moveaxis(array, axis, 0)
    size = len(inside)
    half = leaves(size)
    result = np.zeros((size + 2 * half, *inside.shape[1:]))
    result[:size] = inside
    nodes = result[size:]
    nodes[half : half + size] = inside if weights is None else (inside.T * weights).T
    while half > 1:
        half //= 2
        nodes[half : 2 * half] = nodes[2 * half : 4 * half : 2] + nodes[2 * half + 1 : 4 * half : 2]
    return np.moveaxis(result, 0, axis)


def spread(array: Array, axis: int, size: int, weights: Array | None) -> Array:
    """Gradient of `gather`: the values of every position of one axis, added to its entities."""
    inside = np.moveaxis(array, axis, 0)
    nodes, half = inside[size:].copy(), 1
    while half < leaves(size):
        nodes[2 * half : 4 * half : 2] += nodes[half : 2 * half]
        nodes[2 * half + 1 : 4 * half : 2] += nodes[half : 2 * half]
        half *= 2
    own = nodes[half : half + size]
    return np.moveaxis(inside[:size] + (own if weights is None else (own.T * weights).T), 0, axis)


@dataclass(frozen=True, eq=False)
class Cover:
    """Boxes (n, order) by their positions along every index, their values (n,), and the weights of entities in nodes,
    by index.
    """

    boxes: Rows
    values: Array
    vectors: Mapping[str, Array]


def cover(weights: Weights, single: Collection[str] = ()) -> Cover:
    """Boxes that add up to non-negative weights; along `single` indices they hold one entity each.

    Index by index, the boxes so far are cut into the entities that a table lists there, and nodes for the others.
    """
    if not weights.terms:
        return Cover(np.zeros((0, len(weights.shape)), np.int64), np.zeros(0), {})
    plain = next((term.vectors for term in weights.terms if term.table is None), None)
    boxes, walks = np.zeros((1, 0), np.int64), [_Walk.begin(term, weights) for term in weights.terms]
    for index, size in weights.sizes.items():
        if index in single:
            which, places = np.divmod(np.arange(len(boxes) * size), size)
        else:
            which, places = _cut(walks, index, size, (plain or {}).get(index), len(boxes))
        boxes = np.concatenate([boxes[which], places[:, None]], axis=1)
        walks = [walk.follow(index, which, places, size) for walk in walks]
        if plain is None:  # only cells of tables are left
            some = np.any([walk.at >= 0 for walk in walks], axis=0)
            boxes, walks = boxes[some], [replace(walk, at=walk.at[some]) for walk in walks]
    values = add_up([walk.values(boxes, weights) for walk in walks])
    kept = values > 0
    return Cover(boxes[kept], values[kept], plain or {})


@dataclass(frozen=True, eq=False)
class _Walk:
    """A term on the way through the indices: for every box, the fibre of its table that agrees with it;
    −1 without one.
    """

    term: Term
    fibres: CSFIndex
    depth: int
    at: Rows

    @classmethod
    def begin(cls, term: Term, weights: Weights) -> "_Walk":
        over = term.table_indices
        if term.table is not None:
            term = replace(term, table=term.table.held())
        cells = np.zeros((1, 0), np.int64) if term.table is None else term.table.cells
        shape = tuple(weights.sizes[index] for index in over)
        fibres = cells if isinstance(cells, CSFIndex) else CSFIndex.of(over, shape, cells)
        return cls(term, fibres, 0, np.zeros(1, np.int64))

    def children(self) -> tuple[Rows, Rows, Rows]:
        """Fibres of the next level for every box: the box, the fibre and its row."""
        boxes = np.flatnonzero(self.at >= 0)
        starts = self.fibres.starts[self.depth - 1] if self.depth else np.array([0, len(self.fibres.rows[0])])
        first = starts[self.at[boxes]].astype(np.int64)
        count = starts[self.at[boxes] + 1].astype(np.int64) - first
        fibres = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
        return np.repeat(boxes, count), fibres, self.fibres.rows[self.depth][fibres].astype(np.int64)

    def follow(self, index: str, which: Rows, places: Rows, size: int) -> "_Walk":
        """The walk for new boxes: box `which` of the old ones at a position of one more index."""
        if index not in self.term.table_indices:
            return replace(self, at=self.at[which])
        boxes, fibres, rows = self.children()
        keys, wanted = (boxes * size + rows), np.where(places < size, which * size + places, -1)
        at = np.searchsorted(keys, wanted)
        at[at == len(keys)] = 0
        is_there = keys[at] == wanted if len(keys) else np.zeros(len(wanted), bool)
        return replace(self, depth=self.depth + 1, at=np.where(is_there, fibres[at] if len(keys) else -1, -1))

    def values(self, boxes: Rows, weights: Weights) -> Array:
        """Value of the term on whole boxes; entity weights of nodes are left out."""
        result = np.where(self.at >= 0, self.term.coefficient, 0.0)
        if self.term.table is not None:
            result *= self.term.table.values[np.maximum(self.at, 0)]
        for index, vector in self.term.vectors.items():
            column = boxes[:, weights.indices.index(index)]
            single = column < len(vector)
            result[single] *= vector[column[single]]
        return result


def _cut(walks: Sequence[_Walk], index: str, size: int, plain: Array | None, boxes: int) -> tuple[Rows, Rows]:
    """Old boxes and the positions of one more index that they are cut into: listed entities, nodes for the rest."""
    keys = [np.zeros(0, np.int64)]
    for walk in walks:
        if index in walk.term.table_indices:
            which, _, rows = walk.children()
            keys.append(which * size + rows)
        elif not same_vector(walk.term.vectors.get(index), plain):  # nodes weight entities differently from this term
            keys.append((np.flatnonzero(walk.at >= 0)[:, None] * size + np.arange(size)).ravel())
    singles = np.unique(np.concatenate(keys))
    which, rows = np.divmod(singles, size)
    gap_boxes, begin, end = _gaps(which, rows, size, boxes)
    gaps, nodes = _nodes(begin, end, leaves(size))
    return np.concatenate([which, gap_boxes[gaps]]), np.concatenate([rows, size + nodes])


def _gaps(which: Rows, rows: Rows, size: int, boxes: int) -> tuple[Rows, Rows, Rows]:
    """Ranges of unlisted rows: their box, begin and end; the last one may extend to the end of the tree."""
    edges = np.concatenate([which * (size + 1) + rows, np.arange(boxes) * (size + 1) + size])
    edges.sort()
    box, end = np.divmod(edges, size + 1)
    begin = np.zeros(len(edges), np.int64)
    begin[1:] = np.where(box[1:] == box[:-1], end[:-1] + 1, 0)
    open_ = begin < end
    return box[open_], begin[open_], np.where(end == size, leaves(size), end)[open_]


def _nodes(begin: Rows, end: Rows, half: int) -> tuple[Rows, Rows]:
    """The fewest nodes that make up ranges of entities: number of the range, and node."""
    left, right = begin + half, end + half
    gaps, nodes = [], []
    while (left < right).any():
        for odd, node in (((left & 1) == 1, left), ((right & 1) == 1, right - 1)):
            taken = np.flatnonzero(odd & (left < right))
            gaps.append(taken)
            nodes.append(node[taken])
        left, right = (left + 1) >> 1, right >> 1
    return np.concatenate([np.zeros(0, np.int64), *gaps]), np.concatenate([np.zeros(0, np.int64), *nodes])
