"""Kernels of `plait.answer.search.boxes`: Σ_s Π_f maxima[block of axis f, s] for many boxes, one range of boxes a call.

All levels of all axes are rows of one array; `first` says where the level of each axis begins in it. `sizes` are norms
of the same rows: by Hölder's inequality their product over the axes bounds the sum as well.
"""

from typing import Any

import numpy as np

from plait.jit import WIDTH, add, fma, kernel, load, splat, store


@kernel
def split(
    lo: int, hi: int, nodes: Any, first: Any, axis: int, below: int, count: int, fan: int, maxima: Any, sizes: Any,
    floor: float, parent: Any, child: Any, bound: Any,
) -> int:  # fmt: skip
    """Children of boxes lo … hi − 1 along an axis whose bounds are above the floor: how many, and which."""
    axes, columns = nodes.shape[1], maxima.shape[1]
    rest = np.empty(columns)
    found = 0
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
                    parent[found], child[found], bound[found] = box, node, value
                    found += 1
    return found


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
    """Products of a box's maxima and norms over each axis and those behind it."""
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
    """Cells of boxes lo … hi − 1 whose rates are above the floor: how many, their places on the axes, their rates.

    Depth first over the rows of all axes but the last, whose rows `last` holds transposed, WIDTH of them at a time.
    `done` and `ahead` are products over the axes before and after; together they bound what is left.
    """
    axes, columns = nodes.shape[1], maxima.shape[1]
    done, ahead = np.ones((axes + 1, columns)), np.ones((axes + 1, columns))
    done_size, ahead_size = np.ones(axes + 1), np.ones(axes + 1)
    place, end = np.zeros(axes, np.int64), np.zeros(axes, np.int64)
    group = np.empty((1, WIDTH))
    found = 0
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
                            cells[found, axis] = place[axis] - 1
                        cells[found, axes - 1] = begin + n
                        rates[found] = group[0, n]
                        found += 1
    return found
