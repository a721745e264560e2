"""Which cases of a large cross `make test` runs; `make test-all` runs them all.

A test says by `@pytest.mark.sampled(40)` that forty of its cases are enough from day to day. They are chosen so that
every value of every parameter is among them if the number allows, then as many pairs of values as it allows; always the
same ones. Who asks for few cases by name (`-k`, `file::test[case]`) gets them all: what is asked for is sampled.
"""

import itertools
import zlib
from collections import defaultdict
from collections.abc import Hashable, Sequence

import pytest

Case = Sequence[Hashable]  # the value of every parameter, in an order that is the same for all cases


def chosen(cases: Sequence[Case], count: int) -> list[int]:
    """The positions of `count` cases, in order.

    Greedily, those with most values that are not met yet, then with most such pairs of values; of equal ones the first
    by a hash of the case.
    """
    parts = [(set(enumerate(case)), set(itertools.combinations(enumerate(case), 2))) for case in cases]
    left = sorted(range(len(cases)), key=lambda n: zlib.crc32(repr(cases[n]).encode()))
    values: set[object] = set()
    pairs: set[object] = set()
    found = []
    while left and len(found) < count:
        best = max(left, key=lambda n: (len(parts[n][0] - values), len(parts[n][1] - pairs)))
        left.remove(best)
        found.append(best)
        values |= parts[best][0]
        pairs |= parts[best][1]
    return sorted(found)


def split(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that `make test` runs, and those that it leaves to `make test-all`."""
    crosses: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            crosses[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    for cross in crosses.values():
        (count,) = cross[0].get_closest_marker("sampled").args
        kept = set(chosen([tuple(item.callspec.indices.values()) for item in cross], count))
        left_out.update(item for n, item in enumerate(cross) if n not in kept)
    return [item for item in items if item not in left_out], [item for item in items if item in left_out]
