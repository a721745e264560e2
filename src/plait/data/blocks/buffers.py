"""Memory that blocks are read into, used again by the next pass: fresh memory would have to be fetched page by page."""

import threading
import weakref

from plait.data.blocks.file import Bytes, aligned

BUFFERS = 4  # blocks in memory at a time while a pass reads ahead


class Buffers:
    """Buffers that nobody reads from. Those of a pass are taken one by one, and given back."""

    def __init__(self) -> None:
        self._free: list[Bytes] = []
        self._lock = threading.Lock()

    def take(self, size: int) -> Bytes:
        """A buffer of so many bytes at least."""
        with self._lock:
            fitting = [n for n, buffer in enumerate(self._free) if len(buffer) >= size]
            if fitting:
                return self._free.pop(min(fitting, key=lambda n: len(self._free[n])))
        return aligned(size)

    def give(self, buffer: Bytes) -> None:
        """Give one back; of many the largest are kept, so that there are never more than one pass needs."""
        with self._lock:
            self._free.append(buffer)
            self._free.sort(key=len, reverse=True)
            del self._free[BUFFERS:]


_shared: "weakref.ref[Buffers] | None" = None
_making = threading.Lock()


def shared() -> Buffers:
    """The buffers of this process: there as long as anybody who reads blocks again and again holds them."""
    global _shared
    with _making:
        found = _shared() if _shared is not None else None
        if found is None:
            found = Buffers()
            _shared = weakref.ref(found)
        return found
