"""Which cases of a large cross `make test` runs; `make test-all` runs them all.

A test says by `@pytest.mark.sampled(40)` that forty of its cases are enough from day to day. They are chosen so that
every value of every parameter is among them if the number allows, then as many pairs of values as it allows; always the
same ones. Who asks for few cases by name (`-k`, `file::test[case]`) gets them all: what is asked for is sampled.

Compiling takes most of the time, and a kernel is made for a model and a likelihood. So the samples of all tests begin
with the same models, and each model has the same likelihood in all of them where it can.
"""

import itertools
import zlib
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pytest

Case = Sequence[Hashable]  # the value of every parameter, in an order that is the same for all cases

# Of every shape one, and all are fitted by tests that are not sampled or by several that are.
FIRST = (
    "cp3", "matrix", "tucker", "coupled_paper", "train", "two_visible", "bias", "coupled_tucker", "tucker_mixed_order",
    "friends_two_names", "cp3_mixed_order", "sums_only", "scalar", "lone_latent", "disconnected_vector", "coupled_core",
    "pairwise", "given_in_terms", "symmetric_coupled", "rescal_bias", "coupled_sum",
    "alone", "memory", "both_terms",
)  # fmt: skip
COMPILED = {"likelihood": ("poisson", "bernoulli")}


def chosen(cases: Sequence[Case], count: int, dear: Sequence[tuple[int, int]] | None = None) -> list[int]:
    """The positions of `count` cases, in order.

    Greedily, those with most values that are not met yet, then the least dear by the first number, then with most pairs
    of values that are not met yet, then, of new values, the least dear by the second; then the first by a hash of the
    case.
    """
    dear = dear or [(0, 0)] * len(cases)
    parts = [(set(enumerate(case)), set(itertools.combinations(enumerate(case), 2))) for case in cases]
    left = sorted(range(len(cases)), key=lambda n: zlib.crc32(repr(cases[n]).encode()))
    values: set[object] = set()
    pairs: set[object] = set()
    found = []
    while left and len(found) < count:
        new = [len(part - values) for part, _ in parts]
        best = max(left, key=lambda n: (new[n], -dear[n][0], len(parts[n][1] - pairs), -dear[n][1] if new[n] else 0))
        left.remove(best)
        found.append(best)
        values |= parts[best][0]
        pairs |= parts[best][1]
    return sorted(found)


def dearness(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """How many parameters are not the usual ones of the model, which other tests compile, and its place in FIRST."""
    name = parameters.get("name")
    if not isinstance(name, str):
        return 0, 0
    others = sum(parameters[one] != usual(name, one) for one in COMPILED if one in parameters)
    return others, FIRST.index(name) if name in FIRST else len(FIRST)


def usual(name: str, parameter: str) -> str:
    """The value of a parameter that a model has wherever one is as good as another."""
    return max(COMPILED[parameter], key=lambda value: zlib.crc32(f"{name} {value}".encode()))


def value_of(parameter: Any) -> Hashable:
    """What tells values of a parameter apart: itself, or the object, of which a cross has one for all its cases."""
    try:
        hash(parameter)
    except TypeError:
        return id(parameter)
    return parameter  # type: ignore[no-any-return]


def numbered(cases: Sequence[Mapping[str, Any]]) -> list[Case]:
    """Cases by numbers of their values, in the order in which they are met.

    `callspec.indices` would be that, but in some versions of pytest it is the position of the case.
    """
    known: dict[str, dict[Hashable, int]] = defaultdict(dict)
    return [
        tuple(known[name].setdefault(value_of(value), len(known[name])) for name, value in case.items())
        for case in cases
    ]


def split(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that `make test` runs, and those that it leaves to `make test-all`."""
    crosses: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            crosses[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    for cross in crosses.values():
        (count,) = cross[0].get_closest_marker("sampled").args
        cases = [item.callspec.params for item in cross]
        kept = set(chosen(numbered(cases), count, [dearness(case) for case in cases]))
        left_out.update(item for n, item in enumerate(cross) if n not in kept)
    return [item for item in items if item not in left_out], [item for item in items if item in left_out]
