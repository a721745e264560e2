"""Compiled walks over the links of a graph. In exact arithmetic: what is taken out of a sum again leaves exactly 0.

`starts`, `ends`: for every entity a of the first side the ends u of its links; `back_starts`, `back_ends`: for every u
those of its links. `shares`: 1/degree of every u, `back_shares` of every a. On one axis the two are the same.
"""

from typing import Any

import numpy as np

from plait.jit import exact_kernel, inlined

Array = Any


@exact_kernel
def walk(
    begin: int,
    length: int,
    above: bool,
    starts: Array,
    ends: Array,
    back_starts: Array,
    back_ends: Array,
    shares: Array,
    back_shares: Array,
    cells: Array,
    values: Array,
) -> tuple[int, int]:
    """Sums over the simple paths from a, for a = begin, begin + 1, … as long as there is room for another one's.

    above: whether only sums for b > a are wanted. They are written into cells (room, 2) and values (room,). Returns the
    first a that is not done, and how many sums were written.

    length 2: Σ over u of share(u), a–u–b.   length 3: Σ over u, v of share(u) share(v), a–u–v–b.
    """
    near, near_seen = np.zeros(len(starts) - 1), np.zeros(len(starts) - 1, np.int64)
    far, far_seen = np.zeros(len(back_starts) - 1), np.zeros(len(back_starts) - 1, np.int64)
    linked, count = np.zeros(len(far), np.bool_), 0
    for a in range(begin, len(near)):
        if count + max(len(near), len(far)) > len(values):
            return a, count
        reached = _two_steps(a, starts, ends, back_starts, back_ends, shares, near, near_seen, linked)
        if length == 2:
            count = _write(a, above, near, near_seen, reached, cells, values, count)
        else:
            beyond = _third_step(near, near_seen, reached, starts, ends, shares, back_shares, linked, far, far_seen)
            count = _write(a, above, far, far_seen, beyond, cells, values, count)
            far[far_seen[:beyond]] = 0.0
        near[near_seen[:reached]] = 0.0
        linked[ends[starts[a] : starts[a + 1]]] = False
    return len(near), count


@inlined
def _two_steps(
    a: int,
    starts: Array,
    ends: Array,
    back_starts: Array,
    back_ends: Array,
    shares: Array,
    near: Array,
    seen: Array,
    linked: Array,
) -> int:
    """near[v] = Σ share(u) over a–u–v, v ≠ a; marks the u as linked. Returns how many v were seen."""
    count = 0
    for at in range(starts[a], starts[a + 1]):
        u = ends[at]
        linked[u] = True
        for back in range(back_starts[u], back_starts[u + 1]):
            v = back_ends[back]
            if v != a:
                if near[v] == 0.0:
                    seen[count] = v
                    count += 1
                near[v] += shares[u]
    return count


@inlined
def _third_step(
    near: Array,
    near_seen: Array,
    reached: int,
    starts: Array,
    ends: Array,
    shares: Array,
    back_shares: Array,
    linked: Array,
    far: Array,
    seen: Array,
) -> int:
    """far[b] = Σ near[v] share(v) over v–b, without u = b. Returns how many b were seen."""
    count = 0
    for k in range(reached):
        v = near_seen[k]
        for at in range(starts[v], starts[v + 1]):
            b = ends[at]
            # The way a–b–v–b is no path: where a is linked to b, b is among the u of near[v].
            rest = near[v] - (shares[b] if linked[b] else 0.0)
            if rest > 0.0:
                if far[b] == 0.0:
                    seen[count] = b
                    count += 1
                far[b] += rest * back_shares[v]
    return count


@inlined
def _write(a: int, above: bool, sums: Array, seen: Array, reached: int, cells: Array, values: Array, count: int) -> int:
    """Append the sums for one a; returns how many there are now."""
    for k in range(reached):
        b = seen[k]
        if b > a or not above:
            cells[count, 0], cells[count, 1] = a, b
            values[count] = sums[b]
            count += 1
    return count
