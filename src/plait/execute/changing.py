"""A change of rows that workers own: a task for each block, asked again until all have told what is new.

The gradients that it needs were left with the workers by a sum; what is lost of them is summed again. The old rows are
kept until all new ones have a copy on a second worker.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from plait.execute.cluster import is_alive
from plait.execute.keeping import Message, News, Patch, Work, change_block, news_of
from plait.execute.owned import Pair
from plait.execute.remote import own_of
from plait.types import Array

if TYPE_CHECKING:
    from distributed import Future

    from plait.execute.passing import Passing


class AwayGradient:
    """The gradient of rows that workers own, left with them by a sum; place: among the wanted ones.

    edges: by run rows that other blocks have, too; aside: parts of root rows that are cut.
    """

    def __init__(
        self, passing: "Passing", place: int, edges: Mapping[int, Sequence[Patch]], aside: Sequence[Patch]
    ) -> None:
        self.passing, self.place, self.edges, self.aside = passing, place, edges, aside
        self.owned = passing.kept[place]

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.owned.shape

    def here(self) -> Array:
        """The gradient, in this process."""
        left, in_vain, total = set(range(len(self.owned.ranges))), 0, np.zeros(0)
        while left:
            before, numbers = len(left), sorted(left)
            for number, own in self.passing.cluster.collect(dict(zip(numbers, self._own(numbers)))):
                (written,) = (one for one in own if one.place == self.place)
                total = total if total.size else np.zeros(self.shape, written.gradient.dtype)
                total[written.rows] += written.gradient
                left.discard(number)
            in_vain = self.lose(in_vain + 1) if len(left) == before else 0
        for row, gradient in self.aside:
            total[row : row + len(gradient)] += gradient
        return total

    def _own(self, numbers: Sequence[int]) -> "list[Future]":
        nodes = self.passing.nodes(numbers)
        owners = [self.passing.placement.runs[n].worker for n in numbers]
        return self.passing.cluster.submit(own_of, [(node,) for node in nodes], owners)

    def lose(self, in_vain: int) -> int:
        """After a try that brought nothing, the in_vain-th in a row."""
        self.passing.lose(in_vain)
        return self.owned.lose(in_vain)

    def change(self, work: Work) -> News:
        """Change the rows by this gradient; what is new of them, in the order of pieces and rows."""
        self.owned.settle()
        change = Change(self, work)
        news = change.ask()
        self.owned.under_way = change
        return self.owned.told(news)

    def patches(self, number: int) -> tuple[Patch, ...]:
        """What others know of the rows of a block."""
        _, _, lo, hi = self.owned.ranges[number]
        others = (patch for other, own in self.edges.items() if other != number for patch in own)
        return tuple(_cut(p, lo, hi) for p in (*others, *self.aside) if p.row < hi and p.row + len(p.gradient) > lo)


class Change:
    """A change that is under way, from the old blocks to the new ones."""

    def __init__(self, gradient: AwayGradient, work: Work) -> None:
        self.gradient, self.owned = gradient, gradient.owned
        self.cluster, self.runs = self.owned.cluster, self.owned.placement.runs
        self.messages = [self._message(number, work) for number in range(len(self.owned.ranges))]
        self.sent: list[Future | None] = [None] * len(self.messages)
        self.new = [Pair() for _ in self.messages]
        self.news: dict[int, News] = {}

    def _message(self, number: int, work: Work) -> Message:
        held, _, lo, _ = self.owned.ranges[number]
        cuts = tuple(self.owned.cuts[piece] - lo for piece in range(held.start, held.stop + 1))
        return Message(self.gradient.place, self.gradient.patches(number), cuts, work)

    def ask(self) -> list[News]:
        """Ask until all blocks have told their news; then let others have copies of them."""
        in_vain = 0
        while left := [number for number in range(len(self.new)) if number not in self.news]:
            tasks, groups = self._tasks(left), self.owned.placement.by_worker(left)
            given = [tuple(tasks[number] for number in group) for group in groups.values()]
            goals = {
                group[0]: task
                for group, task in zip(groups.values(), self.cluster.submit(news_of, given, list(groups)))
            }
            together, before = {group[0]: group for group in groups.values()}, len(self.news)
            for first, news in self.cluster.collect(goals):
                self.news |= dict(zip(together[first], news))
            in_vain = self.gradient.lose(in_vain + 1) if len(self.news) == before else 0
        self.owned.spread(self.new)
        return [self.news[number] for number in range(len(self.new))]

    def _tasks(self, numbers: Sequence[int]) -> "dict[int, Future]":
        """A task for each of some blocks, done or under way."""
        again = [n for n in numbers if (task := self.new[n].first) is None or not is_alive(task)]
        nodes, blocks = self.gradient.passing.nodes(again), self.owned.futures()
        self._send(again)
        given = [(self.sent[n], node, blocks[n]) for n, node in zip(again, nodes)]
        for number, task in zip(again, self.cluster.submit(change_block, given, [self.runs[n].worker for n in again])):
            self.new[number].first = task
        return {n: task for n in numbers if (task := self.new[n].first) is not None}

    def _send(self, numbers: Sequence[int]) -> None:
        """Messages to where they are wanted; since they are let go with the change, nobody computes it again later."""
        lost = [n for n in numbers if not self.cluster.has(self.sent[n])]
        things = [(self.messages[n], str(self.runs[n].worker)) for n in lost]
        for number, future in zip(lost, self.cluster.send(things)):
            self.sent[number] = future

    def finish(self) -> list[Pair]:
        """The new blocks, once each of them has a copy; what was lost before is changed again."""
        in_vain = 0
        while True:
            self.cluster.wait([one for pair in self.new for one in (pair.first, pair.second) if one is not None])
            lost = [n for n, pair in enumerate(self.new) if not any(map(self.cluster.has, (pair.first, pair.second)))]
            if not lost:
                return self.new
            in_vain = self.gradient.lose(in_vain + 1)
            for number in lost:
                self.new[number] = Pair()
                del self.news[number]
            self.ask()


def _cut(patch: Patch, lo: int, hi: int) -> Patch:
    """What of some rows lies between lo and hi."""
    first = max(patch.row, lo)
    return Patch(first, patch.gradient[first - patch.row : hi - patch.row])
