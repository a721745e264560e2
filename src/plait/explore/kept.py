"""Answers that are kept: a run does not change, so a page that was made once is made."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import anyio
import anyio.to_thread


class Made(NamedTuple):
    """An answer: its status, its kind, its bytes, and whether it is the same the next time."""

    status: int
    kind: str
    body: bytes
    lasting: bool = False


class Kept:
    """The answers asked for last, up to a number of bytes. All of it happens on the event loop, but the making.

    Who asks for an answer that is being made waits for it; so many are made at once, in threads, others wait. Those
    of a lane wait for no other: what takes no time does not wait for what does.
    """

    def __init__(self, most: int, makers: int) -> None:
        self.most, self.size = most, 0
        self.made: OrderedDict[str, Made] = OrderedDict()
        self.making: dict[str, anyio.Event] = {}
        self.makers = defaultdict[str, anyio.CapacityLimiter](partial(anyio.CapacityLimiter, makers))

    async def get(self, key: str, make: Callable[[], Made], lane: str) -> Made:
        """The answer to a question; lane: those with which it waits for its turn."""
        while True:
            if (found := self.made.get(key)) is not None:
                self.made.move_to_end(key)
                return found
            if key not in self.making:
                return await self._make(key, make, lane)
            await self.making[key].wait()

    async def _make(self, key: str, make: Callable[[], Made], lane: str) -> Made:
        ready = self.making[key] = anyio.Event()
        try:
            made = await anyio.to_thread.run_sync(make, limiter=self.makers[lane])
            if made.lasting:
                self._keep(key, made)
            return made
        finally:
            del self.making[key]
            ready.set()

    def _keep(self, key: str, made: Made) -> None:
        self.made[key] = made
        self.size += len(made.body) + len(key)
        while self.size > self.most:
            old, gone = self.made.popitem(last=False)
            self.size -= len(gone.body) + len(old)
