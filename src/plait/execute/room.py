"""Large arrays for sums, used again once nobody holds them: clearing old memory is faster than fetching fresh."""

import math
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from plait.types import AnyArray

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
