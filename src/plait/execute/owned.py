"""Rows of a factor that workers own, in blocks near the runs whose sums need them, each with a copy on a second worker.

Rows are cut into the pieces of `threads.cut_rows`, and a block has whole pieces: all that its run has rows in, so that
neighbours may both have a piece, change it alike, and tell the same of it. What is lost with both workers is sent again
from here if nothing was changed since it was sent or fetched; else it is gone, and whoever fits goes back to where it
was here.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from plait.errors import FitError
from plait.execute.cluster import Cluster, is_alive
from plait.execute.keeping import Block, News, Recipe, bundle, pass_on, take_block
from plait.execute.placing import Placement
from plait.execute.threads import cut_rows
from plait.types import Array

if TYPE_CHECKING:
    from distributed import Future

CURE = "Look at the workers' logs: memory, above all. Go on from the checkpoint, if there is one."
HOLD = 20  # sweeps after which whoever fits lets rows come home, to go back to: a twentieth of sending them in each
RUNS = 64  # so many take half a second of tasks, in which 256 MB go and come back
TRIES = 5  # in a row that bring nothing, after which rows are given up


class RowsLost(FitError):
    """Rows that were changed on workers are lost with all of them that had these."""


class UnderWay(Protocol):
    """A change that has told its news; its rows have no copies yet."""

    def finish(self) -> "list[Pair]":
        """The changed rows, once each of them is safe."""


@dataclass
class Pair:
    """A block on a worker, and on a second one, where it has a place among others."""

    first: "Future | None" = None
    second: "Future | None" = None
    place: int = 0


class Range(NamedTuple):
    """The rows of a block, lo … hi, made up of pieces; it speaks for those from `speaks` on: others have the rest."""

    pieces: range
    speaks: int
    lo: int
    hi: int


class Owned:
    """All rows of a factor, a block for each run of a placement; arrays: what is kept, recipe: of the operand."""

    def __init__(
        self, cluster: Cluster, placement: Placement, arrays: tuple[Array, ...], recipe: Recipe, dtype: np.dtype[Any]
    ) -> None:
        self.cluster, self.placement, self.recipe, self.dtype = cluster, placement, recipe, dtype
        self.shape, self.kinds = arrays[0].shape, [array.dtype for array in arrays]
        self.cuts = cut_rows(*self.shape)
        spans = [run.span for run in placement.runs if run.span is not None]
        self.each = self.shape[0] // spans[0].roots
        self.spans = [(span.first * self.each, span.last * self.each) for span in spans]
        self.ranges = cut_blocks(self.cuts, self.spans)
        self.pairs = [Pair() for _ in self.ranges]
        self.home: tuple[Array, ...] | None = arrays  # the rows as they are, if they are here
        self.under_way: UnderWay | None = None
        self.version = 0  # how many changes there were

    @cached_property
    def edges(self) -> list[list[tuple[int, int]]]:
        """By run, rows of it that are in blocks of others, too."""
        holders = np.zeros(len(self.cuts) - 1, np.int64)
        for block in self.ranges:
            holders[block.pieces.start : block.pieces.stop] += 1
        found = []
        for block, (lo, hi) in zip(self.ranges, self.spans):
            shared = (piece for piece in block.pieces if holders[piece] > 1)
            parts = ((max(lo, self.cuts[piece]), min(hi, self.cuts[piece + 1])) for piece in shared)
            found.append([(first, last) for first, last in parts if first < last])
        return found

    def futures(self) -> "list[Future]":
        """Every block, on some worker."""
        self.settle()
        self._send()
        found = [self._alive(pair) for pair in self.pairs]
        if self.home is None:
            self.spread(self.pairs)
        return found

    def settle(self) -> int:
        """Let a change that is under way come to its end; returns how many changes there were."""
        if self.under_way is not None:
            change, self.under_way = self.under_way, None
            self.pairs, self.home = change.finish(), None
            self.version += 1
        return self.version

    def doubt(self) -> None:
        """Believe the scheduler only: what it knows to be lost is lost."""
        both = (one for pair in self.pairs for one in (pair.first, pair.second))
        futures = [one for one in both if one is not None and self.cluster.has(one)]
        gone = {id(one) for one, owners in zip(futures, self.cluster.owners(futures)) if not owners}
        for pair in self.pairs:
            pair.first = None if id(pair.first) in gone else pair.first
            pair.second = None if id(pair.second) in gone else pair.second

    def _send(self) -> None:
        """Send what is lost again, if it is here."""
        if self.home is None:
            return
        lost = [n for n, pair in enumerate(self.pairs) if not self._is_there(pair)]
        things = [(self._block(n, self.home), str(self.placement.runs[n].worker)) for n in lost]
        for number, future in zip(lost, self.cluster.send(things)):
            self.pairs[number] = Pair(future)

    def _block(self, number: int, home: tuple[Array, ...]) -> Block:
        _, _, lo, hi = self.ranges[number]
        return Block(lo, self.each, tuple(array[lo:hi] for array in home), self.recipe)

    def _is_there(self, pair: Pair) -> bool:
        return (pair.first is not None and is_alive(pair.first)) or self.cluster.has(pair.second)

    def _alive(self, pair: Pair) -> "Future":
        """A block, or its copy."""
        if not self._is_there(pair):
            raise self.gone()
        if pair.first is None or not is_alive(pair.first):
            (pair.first,) = self.cluster.submit(take_block, [(pair.second, pair.place)], [None])
            pair.second = None
        return pair.first

    def gone(self) -> RowsLost:
        """What to say where rows are nowhere any more."""
        return RowsLost(
            f"rows of a factor were lost with the Dask workers that had them: {self.cluster.lost!r}.", cure=CURE
        )

    def spread(self, pairs: Sequence[Pair]) -> None:
        """Let a second worker have a copy of every block that has none, if there is one."""
        alone = [p for p in pairs if self.cluster.has(p.first) and (p.second is None or not is_alive(p.second))]
        if not alone or len(workers := sorted(self.cluster.workers())) == 1:
            return
        by_owner: dict[str, list[Pair]] = {}
        for pair, owners in zip(alone, self.cluster.owners([p.first for p in alone if p.first is not None])):
            by_owner.setdefault(owners[0] if owners else workers[0], []).append(pair)
        # What a peer fetches, Dask may take from either; so that is another thing than the blocks themselves.
        given = [tuple(pair.first for pair in together) for together in by_owner.values()]
        bundles = self.cluster.submit(bundle, given, list(by_owner))
        peers = [_next_to(owner, workers) for owner in by_owner]
        copies = self.cluster.submit(pass_on, [(one,) for one in bundles], peers)
        for copy, together in zip(copies, by_owner.values()):
            for place, pair in enumerate(together):
                pair.second, pair.place = copy, place

    def fetch(self) -> tuple[Array, ...]:
        """What is kept, here, in memory of its own."""
        found = tuple(np.empty(self.shape, kind) for kind in self.kinds)
        left, in_vain = set(range(len(self.ranges))), 0
        while left:
            futures = self.futures()
            before = len(left)
            for number, block in self.cluster.collect({n: futures[n] for n in sorted(left)}):
                for array, rows in zip(found, block.arrays):
                    array[block.first : self.ranges[number].hi] = rows
                left.discard(number)
            in_vain = self.lose(in_vain + 1) if len(left) == before else 0
        self.home = found
        return found

    def lose(self, in_vain: int) -> int:
        """After a try that brought nothing, the in_vain-th in a row: look what is there."""
        if in_vain >= TRIES:
            raise RowsLost(
                f"Dask workers were lost {in_vain} times in a row before they had answered: {self.cluster.lost!r}.",
                cure=CURE,
            )
        self.doubt()
        return in_vain

    def told(self, news: Sequence[News]) -> News:
        """What a change tells of all pieces and rows, from what it tells of blocks."""
        pieces, rows = [], []
        for (held, speaks, lo, _), (numbers, own) in zip(self.ranges, news):
            if speaks < held.stop:
                pieces.append(numbers[speaks - held.start :])
                rows.append(own[self.cuts[speaks] - lo :])
        return News(np.concatenate(pieces), np.concatenate(rows))


def least_bytes(own: int, runs: int) -> int:
    """Bytes of an operand from which on workers own its rows: more of them for many runs, which cost tasks."""
    return own * max(runs, RUNS) // RUNS


def cut_blocks(cuts: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[Range]:
    """For each span of rows, in order, the pieces that it touches; those that none touches go to the one before."""
    firsts = [bisect_right(cuts, lo) - 1 for lo, _ in spans]
    firsts[0] = 0
    ends = [bisect_left(cuts, hi) for _, hi in spans]
    ends = [max(end, following) for end, following in zip(ends, [*firsts[1:], len(cuts) - 1])]
    found, spoken = [], 0
    for first, end in zip(firsts, ends):
        found.append(Range(range(first, end), min(max(first, spoken), end), cuts[first], cuts[end]))
        spoken = max(spoken, end)
    return found


def _next_to(owner: str, workers: Sequence[str]) -> str:
    """The worker after one, in a ring."""
    return workers[bisect_right(workers, owner) % len(workers)]
