"""Sums of leaves joined in a fixed binary tree, in whatever order and by whomever they come.

A node of level k joins leaves i · 2^k … (i + 1) · 2^k, the left half first; where there is no right half it is the left
one. So the sum has the same bits however many threads or workers bring its leaves.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Joined(Generic[T]):
    """The sum of `count` leaves; join(left, right) may reuse the memory of either."""

    def __init__(self, count: int, join: Callable[[T, T], T]) -> None:
        self.count, self.join = count, join
        self._waiting: dict[tuple[int, int], T] = {}
        self._lock = threading.Lock()

    def add(self, number: int, part: T, level: int = 0) -> None:
        """Bring the sum of a leaf, or of the node of a level; it is joined with what waits for it."""
        while 1 << level < self.count:
            alone = (number ^ 1) << level >= self.count
            if not alone:
                with self._lock:
                    other = self._waiting.pop((level, number ^ 1), None)
                    if other is None:
                        self._waiting[level, number] = part
                        return
                part = self.join(part, other) if number % 2 == 0 else self.join(other, part)
            level, number = level + 1, number // 2
        self._waiting[level, number] = part

    @property
    def total(self) -> T:
        """The sum of all leaves, once all were brought."""
        ((_, total),) = self._waiting.items()
        return total


def runs(count: int, parts: int) -> list[tuple[int, int]]:
    """Leaves 0 … count as nodes of one level, (level, number); at least `parts` of them if there are so many leaves."""
    level = max(count // max(parts, 1), 1).bit_length() - 1
    return [(level, number) for number in range(-(-count >> level) if count else 0)]
