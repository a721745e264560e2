"""Tree reduction: sums of leaves joined in a fixed binary tree, in any order of arrival; and reuse of large arrays.

A node of level k joins leaves i · 2^k … (i + 1) · 2^k, the left half first; without a right half it is the left one. So
sums are bitwise identical on any number of threads or workers. Large arrays are reused once they are free: clearing old
memory is faster than page faults of fresh memory.
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

MIN_POOLED_BYTES = 1 << 20  # smaller arrays are fast to allocate
MAX_IDLE_REQUESTS = 64  # requests after which an unused block is freed


@dataclass
class _PooledBuffer:
    """Memory, the number of its last request, and that request's array while it is in use."""

    memory: memoryview
    asked: int
    holder: Callable[[], AnyArray | None]


class BufferPool:
    """Buffer pool of one executor; thread-safe."""

    def __init__(self) -> None:
        self._blocks: list[_PooledBuffer] = []
        self._asked = 0
        self._lock = threading.Lock()

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> tuple[AnyArray, bool]:
        """An array, and whether it is all zeros."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < MIN_POOLED_BYTES:
            return np.zeros(shape, dtype), True
        with self._lock:
            return self._take(size, shape, dtype)

    def _take(self, size: int, shape: tuple[int, ...], dtype: DTypeLike) -> tuple[AnyArray, bool]:
        self._asked += 1
        self._blocks = [block for block in self._blocks if self._asked - block.asked < MAX_IDLE_REQUESTS]
        free = [block for block in self._blocks if block.memory.nbytes == size and block.holder() is None]
        block = free[0] if free else _PooledBuffer(np.zeros(size, np.uint8).data, 0, lambda: None)
        if not free:
            self._blocks.append(block)
        # Views hold a reference to the first array that is not a view: this one, since the memory is no array.
        holder = np.frombuffer(block.memory, dtype)
        block.asked, block.holder = self._asked, weakref.ref(holder)
        return holder.reshape(shape), not free


T = TypeVar("T")


class Joined(Generic[T]):
    """Sum of `count` leaves; join(left, right) may reuse the memory of either."""

    def __init__(self, count: int, join: Callable[[T, T], T]) -> None:
        self.count, self.join = count, join
        self._waiting: dict[tuple[int, int], T] = {}
        self._lock = threading.Lock()

    def add(self, number: int, part: T, level: int = 0) -> None:
        """Add the sum of a leaf, or of a node of a level; it is joined with its sibling."""
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
        """Sum of all leaves, after all were added."""
        ((_, total),) = self._waiting.items()
        return total


def runs(count: int, parts: int) -> list[tuple[int, int]]:
    """Leaves 0 … count as nodes of one level, (level, number); at least `parts` of them if there are enough leaves."""
    level = max(count // max(parts, 1), 1).bit_length() - 1
    return [(level, number) for number in range(-(-count >> level) if count else 0)]
