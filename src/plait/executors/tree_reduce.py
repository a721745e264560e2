"""Large arrays for sums, used again once nobody holds them: clearing old memory is faster than fetching fresh.

Sums of leaves joined in a fixed binary tree, in whatever order and by whomever they come.

A node of level k joins leaves i · 2^k … (i + 1) · 2^k, the left half first; where there is no right half it is the left
one. So the sum has the same bits however many threads or workers bring its leaves.
"""

import math
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from plait._typing import AnyArray

LARGE = 1 << 20  # bytes below which the system has fresh memory at hand
KEPT = 64  # arrays asked for since a block was last used, until it is given back


@dataclass
class _Block:
    """Memory, the number of the request that had it last, and that request's array while anybody holds it."""

    memory: memoryview
    asked: int
    holder: Callable[[], AnyArray | None]


class Room:
    """The memory of one executor; several fits may ask it at once."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._asked = 0
        self._lock = threading.Lock()

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> tuple[AnyArray, bool]:
        """An array, and whether it is all zeros already."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < LARGE:
            return np.zeros(shape, dtype), True
        with self._lock:
            return self._taken(size, shape, dtype)

    def _taken(self, size: int, shape: tuple[int, ...], dtype: DTypeLike) -> tuple[AnyArray, bool]:
        self._asked += 1
        self._blocks = [block for block in self._blocks if self._asked - block.asked < KEPT]
        free = [block for block in self._blocks if block.memory.nbytes == size and block.holder() is None]
        block = free[0] if free else _Block(np.zeros(size, np.uint8).data, 0, lambda: None)
        if not free:
            self._blocks.append(block)
        # NumPy lets views hold the first array that is not a view of another: that one, for the memory is no array.
        holder = np.frombuffer(block.memory, dtype)
        block.asked, block.holder = self._asked, weakref.ref(holder)
        return holder.reshape(shape), not free


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
