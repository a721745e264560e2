"""Make a failing case smaller: `python -m tests.audit.shrink 12345` prints the plainest decisions that still fail."""

import sys
import warnings
from collections.abc import Iterator
from dataclasses import fields, replace

import plait
from tests.audit.claims import CLAIMS
from tests.audit.drawn import Decided, build, decide
from tests.audit.equations import Drawn
from tests.audit.observing import PLAIN, Way
from tests.support.tuning import tuned


def failure(decided: Decided) -> str | None:
    """What a case fails with, in a line; None where it holds."""
    try:
        CLAIMS[decided.kind](build(decided))
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return None


def simpler(decided: Decided) -> Iterator[Decided]:
    """The same case with one decision replaced by a plainer one."""
    plain = {
        "dtype": "float64",
        "threads": 0,
        "concentration": 1.0,
        "mean": 1.0,
        "accelerate": False,
    }
    for name, value in plain.items():
        if getattr(decided, name) != value:
            yield replace(decided, **{name: value})
    if decided.held:
        yield replace(decided, held=None)
    if decided.given and decided.given.scale != "plain":
        yield replace(decided, given=replace(decided.given, scale="plain"))
    for relation, way in decided.ways.items():
        for other in [PLAIN, *(_plainer(way))]:
            if other != way:
                yield replace(decided, ways=decided.ways | {relation: other})
    yield from _smaller(decided)


def _plainer(way: Way) -> Iterator[Way]:
    for field in fields(Way):
        if getattr(way, field.name) != field.default:
            yield replace(way, **{field.name: field.default})


def _smaller(decided: Decided) -> Iterator[Decided]:
    """Smaller sizes and ranks; indices of one axis stay alike."""
    drawn = decided.drawn
    for index, size in (drawn.sizes | drawn.ranks).items():
        if size > 1 and index not in ("i", "x"):
            sizes = {i: size // 2 if i == index else n for i, n in drawn.sizes.items()}
            ranks = {i: size // 2 if i == index else n for i, n in drawn.ranks.items()}
            yield replace(decided, drawn=Drawn(drawn.text, sizes, ranks))


def shrunk(decided: Decided) -> Decided:
    """One plainer decision after the other, as long as the case fails."""
    for other in simpler(decided):
        if failure(other):
            return shrunk(other)
    return decided


if __name__ == "__main__":
    warnings.simplefilter("ignore", plait.PlaitWarning)
    case = decide(int(sys.argv[1]))
    with tuned(min_parallel_entries=2):
        if failure(case) is None:
            print(f"case {case.number} holds")
        else:
            print(small := shrunk(case))
            print(failure(small))
