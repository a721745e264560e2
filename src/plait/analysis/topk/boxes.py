"""Bounds and scores of boxes of cells, for branch and bound.

Rows of an axis are ordered so that neighbours are similar, and form a tree: level 0 are the rows, a block of
level l + 1 is `tree_fan_out` consecutive blocks of level l, and the last level has one block. Each block has the
componentwise maxima of its rows.

For rates Σ_s Π_f rows_f[n_f, s] (CP, and everything that contracts to it; `RowBoxes`, compiled and threaded) a box has
two bounds. The sum at componentwise maxima is sharp where rows are sparse or similar. Hölder's inequality,

    Σ_s Π_f x_fs ≤ Π_f (Σ_s x_fs^F)^(1/F),

is sharp where rows are dense and differ mainly in size. The smaller of the two is used. `GeneralBoxes` bounds any other
equation by contractions of maxima, term by term, for many boxes at a time.

In kernels all levels of all axes are rows of one array; `first` is the first row of the level of each axis. `sizes` are
the norms of these rows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import opt_einsum

from plait._typing import Array, Rows
from plait.analysis.topk.contraction import Contraction, ContractionPart, Product
from plait.data.sparse.parallel import in_pieces
from plait.jit import WIDTH, add, fma, kernel, load, splat, store
from plait.model.network import RowBlock, contract, subscripts
from plait.tuning import TUNING


@dataclass(frozen=True, eq=False)
class Tree:
    """`order` (n,): the row at each position. `counts`: number of blocks of each level, down to 1."""

    order: Rows
    counts: tuple[int, ...]
    fan: int

    @classmethod
    def of(cls, contributions: Array) -> "Tree":
        """Sort rows by their largest component, then by its size, descending; contributions (n, n_columns). Ties keep
        their order.
        """
        total = contributions.sum(axis=1)
        order = np.lexsort((-total, contributions.argmax(axis=1)))
        counts = [len(order)]
        while counts[-1] > 1:
            counts.append(-(-counts[-1] // TUNING.tree_fan_out))
        return cls(order, tuple(counts), TUNING.tree_fan_out)

    def __len__(self) -> int:
        return self.counts[0]

    @property
    def height(self) -> int:
        """The level of the single block."""
        return len(self.counts) - 1


def block_maxima(array: Array, axis: int, fan: int) -> Array:
    return np.asarray(np.maximum.reduceat(array, np.arange(0, array.shape[axis], fan), axis=axis))


def levels_of(rows: Array, tree: Tree) -> list[Array]:
    """Rows (n, …) in the tree's order, then the maxima of each level."""
    levels = [rows[tree.order]]
    while len(levels) < len(tree.counts):
        levels.append(block_maxima(levels[-1], 0, tree.fan))
    return levels


def start_of(trees: Sequence[Tree]) -> tuple[int, ...]:
    """Levels of the box of all cells."""
    return tuple(tree.height for tree in trees)


@kernel
def split(
    lo: int, hi: int, nodes: Any, first: Any, axis: int, below: int, count: int, fan: int, maxima: Any, sizes: Any,
    floor: float, parent: Any, child: Any, bound: Any,
) -> int:  # fmt: skip
    """Children of boxes lo … hi − 1 along an axis with bounds above the floor: their number, and which."""
    axes, columns = nodes.shape[1], maxima.shape[1]
    rest = np.empty(columns)
    n_children = 0
    for box in range(lo, hi):
        size = 1.0
        rest[:] = 1.0
        for other in range(axes):
            if other != axis:
                row = first[other] + nodes[box, other]
                size *= sizes[row]
                for s in range(columns):
                    rest[s] *= maxima[row, s]
        start = nodes[box, axis] * fan
        for node in range(start, min(start + fan, count)):
            value = size * sizes[below + node]
            if value > floor:
                total = 0.0
                for s in range(columns):
                    total += rest[s] * maxima[below + node, s]
                value = min(value, total)
                if value > floor:
                    parent[n_children], child[n_children], bound[n_children] = box, node, value
                    n_children += 1
    return n_children


@kernel
def products(x: Any, row: int, last: Any, group: Any) -> None:
    """Σ_s x[s] · last[row + s] for WIDTH rows of the last axis at once, into group (1, WIDTH)."""
    columns = x.shape[0]
    # Four sums, so that one product need not wait for another.
    a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for s in range(0, columns - 3, 4):
        a = fma(splat(x[s]), load(last, row + s, 0), a)
        b = fma(splat(x[s + 1]), load(last, row + s + 1, 0), b)
        c = fma(splat(x[s + 2]), load(last, row + s + 2, 0), c)
        d = fma(splat(x[s + 3]), load(last, row + s + 3, 0), d)
    for s in range(columns // 4 * 4, columns):
        a = fma(splat(x[s]), load(last, row + s, 0), a)
    store(group, 0, 0, add(add(a, b), add(c, d)))


@kernel
def look_ahead(box: int, nodes: Any, first: Any, maxima: Any, sizes: Any, ahead: Any, ahead_size: Any) -> None:
    """Products of a box's maxima and norms over each axis and those after it."""
    for axis in range(nodes.shape[1] - 1, -1, -1):
        row = first[axis] + nodes[box, axis]
        ahead_size[axis] = ahead_size[axis + 1] * sizes[row]
        for s in range(maxima.shape[1]):
            ahead[axis, s] = ahead[axis + 1, s] * maxima[row, s]


@kernel
def score(
    lo: int, hi: int, nodes: Any, first: Any, blocks: Any, counts: Any, rows: Any, maxima: Any, sizes: Any, last: Any,
    floor: float, cells: Any, rates: Any,
) -> int:  # fmt: skip
    """Cells of boxes lo … hi − 1 with rates above the floor: their number, positions on the axes, and rates.

    Depth first over the rows of all axes but the last, whose rows `last` holds transposed, WIDTH at a time. `done` and
    `ahead` are products over the axes before and after; together they bound the rest.
    """
    axes, columns = nodes.shape[1], maxima.shape[1]
    done, ahead = np.ones((axes + 1, columns)), np.ones((axes + 1, columns))
    done_size, ahead_size = np.ones(axes + 1), np.ones(axes + 1)
    place, end = np.zeros(axes, np.int64), np.zeros(axes, np.int64)
    group = np.empty((1, WIDTH))
    count = 0
    for box in range(lo, hi):
        look_ahead(box, nodes, first, maxima, sizes, ahead, ahead_size)
        for axis in range(axes):
            end[axis] = min((nodes[box, axis] + 1) * blocks[axis], counts[axis])
        depth = 0
        place[0] = nodes[box, 0] * blocks[0]
        while depth >= 0:
            at = place[depth]
            if at >= end[depth]:
                depth -= 1
            elif depth < axes - 1:
                place[depth] += 1
                row = rows[depth] + at
                done_size[depth + 1] = done_size[depth] * sizes[row]
                if done_size[depth + 1] * ahead_size[depth + 1] > floor:
                    total = 0.0
                    for s in range(columns):
                        done[depth + 1, s] = done[depth, s] * maxima[row, s]
                        total += done[depth + 1, s] * ahead[depth + 1, s]
                    if total > floor:
                        depth += 1
                        place[depth] = nodes[box, depth] * blocks[depth]
            else:
                begin = at // WIDTH * WIDTH
                place[depth] = begin + WIDTH
                products(done[depth], at // WIDTH * columns, last, group)
                for n in range(at - begin, min(WIDTH, end[depth] - begin)):
                    if group[0, n] > floor:
                        for axis in range(axes - 1):
                            cells[count, axis] = place[axis] - 1
                        cells[count, axes - 1] = begin + n
                        rates[count] = group[0, n]
                        count += 1
    return count


Levels = tuple[int, ...]

# Scores are relative to the largest sum of maxima, so they neither overflow nor underflow; the unit must not be 0.
MIN_UNIT = 1e-300


class RowBoxes:
    """Bounds and scores of boxes (`branch_and_bound.Boxes`) from non-negative arrays (n_f, S)."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        scaled, self.unit = _scaled(arrays)
        self.trees = [_tree(scaled, axis) for axis in range(len(arrays))]
        levels = [levels_of(rows, tree) for rows, tree in zip(scaled, self.trees)]
        norms = [levels_of(norm, tree) for norm, tree in zip(_norms(scaled), self.trees)]
        starts = np.cumsum([0, *(len(level) for axis in levels for level in axis)])
        self._starts: list[Rows] = np.split(starts[:-1], np.cumsum([len(axis) for axis in levels])[:-1])
        self._maxima = np.concatenate([level for axis in levels for level in axis])
        self._sizes = np.concatenate([level for axis in norms for level in axis])
        self._last = _transposed(levels[-1][0])

    def _first(self, levels: Levels) -> Rows:
        return np.array([starts[level] for starts, level in zip(self._starts, levels)], np.int64)

    def children(self, nodes: Rows, levels: Levels, axis: int, floor: float) -> tuple[Rows, Array]:
        tree, below = self.trees[axis], levels[axis] - 1

        def part(lo: int, hi: int) -> tuple[Rows, Array]:
            size = (hi - lo) * tree.fan
            parent, child, bound = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)
            count = split(
                lo, hi, nodes, self._first(levels), axis, self._starts[axis][below], tree.counts[below], tree.fan,
                self._maxima, self._sizes, floor / self.unit, parent, child, bound,
            )  # fmt: skip
            children = nodes[parent[:count]]
            children[:, axis] = child[:count]
            return children, bound[:count] * self.unit

        return threaded(part, len(nodes))

    def cells(self, nodes: Rows, levels: Levels, floor: float) -> tuple[Rows, Array]:
        blocks = np.array([tree.fan**level for tree, level in zip(self.trees, levels)], np.int64)
        counts = np.array([len(tree) for tree in self.trees], np.int64)
        rows = self._first((0,) * len(levels))

        def part(lo: int, hi: int) -> tuple[Rows, Array]:
            size = (hi - lo) * int(blocks.prod())
            cells, rates = np.empty((size, len(levels)), np.int64), np.empty(size)
            count = score(
                lo, hi, nodes, self._first(levels), blocks, counts, rows, self._maxima, self._sizes, self._last,
                floor / self.unit, cells, rates,
            )  # fmt: skip
            return cells[:count].copy(), rates[:count] * self.unit

        places, rates = threaded(part, len(nodes))
        return rows_at(self.trees, places), rates


def rows_at(trees: Sequence[Tree], places: Rows) -> Rows:
    """Row numbers of cells given by positions in the trees' orders, (m, n_axes)."""
    return np.stack([tree.order[places[:, axis]] for axis, tree in enumerate(trees)], axis=1)


def threaded(part: Callable[[int, int], tuple[Rows, Array]], count: int) -> tuple[Rows, Array]:
    """Results of part(lo, hi) over all boxes, in the order of the boxes, independent of the order of threads."""
    results: dict[int, tuple[Rows, Array]] = {}

    def work(lo: int, hi: int) -> None:
        results[lo] = part(lo, hi)

    in_pieces(work, count, -(-count // 2))
    ordered = [results[lo] for lo in sorted(results)]
    return np.concatenate([nodes for nodes, _ in ordered]), np.concatenate([values for _, values in ordered])


def _scaled(arrays: Sequence[Array]) -> tuple[list[Array], float]:
    """Arrays with columns of equal size on all axes, and the divisor of their product."""
    maxima = [array.max(axis=0) for array in arrays]
    used = np.all([m > 0 for m in maxima], axis=0)
    if not used.any():
        return [np.zeros((len(array), 1)) for array in arrays], 1.0
    logs = np.sum([np.log(m[used]) for m in maxima], axis=0)
    share = np.exp((logs - logs.max()) / len(arrays))
    unit = math.exp(min(logs.max(), 700.0))
    return [np.ascontiguousarray(a[:, used] / m[used] * share) for a, m in zip(arrays, maxima)], max(unit, MIN_UNIT)


def _tree(scaled: Sequence[Array], axis: int) -> Tree:
    """Tree of an axis, by the contributions of its rows next to the largest rows of the other axes."""
    others = [rows.max(axis=0) for n, rows in enumerate(scaled) if n != axis]
    contributions = scaled[axis] * np.prod(others, axis=0) if others else scaled[axis]
    tell = np.ptp(contributions, axis=0) > 0  # rows do not differ in a term without this axis
    return Tree.of(contributions[:, tell] if tell.any() else contributions)


def _norms(scaled: Sequence[Array]) -> list[Array]:
    """(Σ_s x_s^F)^(1/F) of every row, with columns balanced to the same mean on all axes."""
    power = len(scaled)
    means = [rows.mean(axis=0) for rows in scaled]
    if not np.all(means):  # a column cannot be balanced: no such bound
        return [np.full(len(rows), np.inf) for rows in scaled]
    common = np.exp(np.mean(np.log(means), axis=0))
    norms = []
    for rows, mean in zip(scaled, means):
        balanced = rows * (common / mean)
        peak = balanced.max(axis=1)
        balanced /= np.where(peak > 0, peak, 1.0)[:, None]  # so that powers do not underflow
        norms.append(peak * np.sum(balanced**power, axis=1) ** (1 / power))
    return norms


def _transposed(rows: Array) -> Array:
    """(n, S) → (⌈n / WIDTH⌉ · S, WIDTH): the columns of each group of WIDTH rows; zeros fill the last group."""
    groups = -(-len(rows) // WIDTH)
    padded = np.zeros((groups * WIDTH, rows.shape[1]))
    padded[: len(rows)] = rows
    return np.ascontiguousarray(padded.reshape(groups, WIDTH, -1).transpose(0, 2, 1)).reshape(-1, WIDTH)


BOX = ""  # the axis that runs over boxes; no axis or latent index has this name
MAX_INTERMEDIATE_DOUBLES = 1 << 21  # of a contraction


class GeneralBoxes:
    """Bounds and scores of boxes (`branch_and_bound.Boxes`) of any contraction."""

    def __init__(self, form: Contraction) -> None:
        self.trees = [Tree.of(_contributions(form, axis)) for axis in range(len(form.shape))]
        self._terms = [_Bounds(term, self.trees) for term in form.terms]

    def children(self, nodes: Rows, levels: Levels, axis: int, floor: float) -> tuple[Rows, Array]:
        below = (*levels[:axis], levels[axis] - 1, *levels[axis + 1 :])
        return self._above(nodes, levels, below, floor)

    def cells(self, nodes: Rows, levels: Levels, floor: float) -> tuple[Rows, Array]:
        places, rates = self._above(nodes, levels, (0,) * len(levels), floor)
        return rows_at(self.trees, places), rates

    def _above(self, nodes: Rows, levels: Levels, below: Levels, floor: float) -> tuple[Rows, Array]:
        """Boxes of lower levels inside boxes, with bounds above the floor."""
        fans = tuple(tree.fan ** (up - down) for tree, up, down in zip(self.trees, levels, below))
        batch = max(1, MAX_INTERMEDIATE_DOUBLES // max(term.path(fans)[1] for term in self._terms))
        children, bounds = [], []
        for at in range(0, len(nodes), batch):
            inner = [nodes[at : at + batch, n, None] * fan + np.arange(fan) for n, fan in enumerate(fans)]
            values = np.zeros((len(inner[0]), *fans))
            for term in self._terms:
                values += term.contract(inner, below)
            for n, (tree, level) in enumerate(zip(self.trees, below)):  # the last block may be short
                shape = [-1, *(fan if m == n else 1 for m, fan in enumerate(fans))]
                values = np.where((inner[n] < tree.counts[level]).reshape(shape), values, -np.inf)
            hits = np.nonzero(values > floor)
            children.append(np.stack([inner[n][hits[0], hits[n + 1]] for n in range(len(fans))], axis=1))
            bounds.append(values[hits])
        return np.concatenate(children), np.concatenate(bounds)


class _Bounds:
    """Bounds of one term: maxima of its parts over blocks, contracted along cached paths."""

    def __init__(self, parts: Product, trees: list[Tree]) -> None:
        self._parts, self._trees = parts, trees
        self._maxima: list[dict[Levels, Array]] = [{(0,) * len(part.axes): self._sorted(part)} for part in parts]
        self._paths: dict[tuple[int, ...], tuple[Any, int]] = {}
        whole = (BOX, *range(len(trees)))
        inputs = [((BOX,) if part.axes else ()) + part.block.indices for part in parts]
        self._text = subscripts([*inputs, whole], whole)

    def _sorted(self, part: ContractionPart) -> Array:
        return part.array[np.ix_(*(self._trees[axis].order for axis in part.axes))] if part.axes else part.array

    def _part_maxima(self, part: int, levels: Levels) -> Array:
        """Maxima of a part over blocks of these levels of its axes; cached."""
        known = self._maxima[part]
        if levels not in known:
            n = next(n for n, level in enumerate(levels) if level)
            finer = self._part_maxima(part, (*levels[:n], levels[n] - 1, *levels[n + 1 :]))
            known[levels] = block_maxima(finer, n, self._trees[self._parts[part].axes[n]].fan)
        return known[levels]

    def contract(self, inner: Sequence[Rows], below: Levels) -> Array:
        """Values (n_boxes, *fans) at blocks inner[axis] (n_boxes, fan)."""
        fans = tuple(rows.shape[1] for rows in inner)
        arrays = []
        for number, part in enumerate(self._parts):
            maxima = self._part_maxima(number, tuple(below[axis] for axis in part.axes))
            at = []
            for n, axis in enumerate(part.axes):
                shape = [len(inner[axis]), *(fans[axis] if m == n else 1 for m in range(len(part.axes)))]
                at.append(np.minimum(inner[axis], self._trees[axis].counts[below[axis]] - 1).reshape(shape))
            arrays.append(maxima[tuple(at)] if part.axes else maxima)
        arrays.append(np.ones((len(inner[0]), *fans)))
        return np.asarray(opt_einsum.contract(self._text, *arrays, optimize=self.path(fans)[0]))

    def path(self, fans: tuple[int, ...]) -> tuple[Any, int]:
        """Contraction path for boxes that are split this way, and the doubles per box."""
        if fans not in self._paths:
            shapes = []
            for part in self._parts:
                latent = part.array.shape[len(part.axes) :]
                shapes.append((1, *(fans[axis] for axis in part.axes), *latent) if part.axes else latent)
            path, cost = opt_einsum.contract_path(self._text, *shapes, (1, *fans), shapes=True, optimize="greedy")
            self._paths[fans] = path, max([int(cost.largest_intermediate), *(int(np.prod(shape)) for shape in shapes)])
        return self._paths[fans]


def _contributions(form: Contraction, axis: int) -> Array:
    """Largest contribution of every row, (n_rows, columns of all terms with the axis)."""
    columns = [_of_term(term, axis) for term in form.terms if any(axis in part.axes for part in term)]
    return np.concatenate(columns, axis=1) if columns else np.ones((form.shape[axis], 1))


def _of_term(term: Product, axis: int) -> Array:
    """The same for one term, by latent index of the axis' widest part."""
    blocks = []
    for part in term:
        others = tuple(n for n, other in enumerate(part.axes) if other != axis)
        kept = tuple(other for other in part.axes if other == axis)
        blocks.append(
            RowBlock((*kept, *part.latent), np.asarray(part.array.max(axis=others)) if others else part.array)
        )
    widest = max((b for b in blocks if axis in b.indices), key=lambda b: b.values.size)
    return contract(blocks, widest.indices).reshape(len(widest.values), -1)
