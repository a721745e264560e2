"""Block files: one block per safetensors file, aligned to 64 bytes, read by one `readinto` into a reusable buffer.

Arrays are views of the buffer. Safetensors allow no gaps between arrays, so byte arrays `pad0`, `pad1`, … fill them.
Buffers are reused by the next pass, since fresh memory has page faults. The compiled loops of packing and checking
release the GIL.
"""

import json
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray
from plait.jit import kernel

Array = Any


Bytes = NDArray[np.uint8]


@kernel
def look_at(values: Array, most: float) -> tuple[float, bool, bool]:
    """Largest of the values and `most`, whether all are integers, and whether float32 holds them."""
    fractions, wide = 0, 0
    for n in range(len(values)):
        value = values[n]
        most = max(most, value)
        if value != np.floor(value):
            fractions += 1
        if np.float64(np.float32(value)) != value:
            wide += 1
    return most, fractions == 0, wide == 0


@kernel
def count_rows(rows: Array, counts: Array) -> None:
    """Count occurrences of each row number."""
    for n in range(len(rows)):
        counts[np.int64(rows[n])] += 1


@kernel
def add_marginals(rows: Array, values: Array, weights: Array, value: Array, weight: Array) -> None:
    """Add M·x and M of entries to the totals of their rows; `weights` may have a single entry."""
    for n in range(len(rows)):
        row = np.int64(rows[n])
        own = weights[n] if len(weights) > 1 else weights[0]
        value[row] += own * values[n]
        weight[row] += own


@kernel
def count_falls(numbers: Array, starts: Array) -> int:
    """Count numbers that are not larger than the one before, except at starts of runs.

    `starts`: first position of each run, and the end of the last; not checked.
    """
    falls = 0
    for e in range(1, len(numbers)):
        falls += numbers[e] <= numbers[e - 1]
    for f in range(1, len(starts) - 1):
        at = np.int64(starts[f])
        falls -= numbers[at] <= numbers[at - 1]
    return falls


READ_AHEAD_BLOCKS = 4  # in memory while a pass reads ahead


class ReadPool:
    """Pool of buffers for blocks that are read."""

    def __init__(self) -> None:
        self._free: list[Bytes] = []
        self._lock = threading.Lock()

    def take(self, size: int) -> Bytes:
        """A buffer of at least `size` bytes."""
        with self._lock:
            fitting = [n for n, buffer in enumerate(self._free) if len(buffer) >= size]
            if fitting:
                return self._free.pop(min(fitting, key=lambda n: len(self._free[n])))
        return aligned(size)

    def give(self, buffer: Bytes) -> None:
        """Return a buffer; the pool keeps the largest ones, as many as one pass needs."""
        with self._lock:
            self._free.append(buffer)
            self._free.sort(key=len, reverse=True)
            del self._free[READ_AHEAD_BLOCKS:]


_shared: "weakref.ref[ReadPool] | None" = None
_making = threading.Lock()


def shared() -> ReadPool:
    """The buffers of this process, as long as a table of blocks holds them."""
    global _shared
    with _making:
        pool = _shared() if _shared is not None else None
        if pool is None:
            pool = ReadPool()
            _shared = weakref.ref(pool)
        return pool


ALIGNMENT_BYTES = 64
WORDS = {"uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "float32": "F32", "float64": "F64"}
TYPES = {word: np.dtype(name) for name, word in WORDS.items()}


def aligned(size: int) -> Bytes:
    """A buffer aligned to 64 bytes."""
    memory = np.empty(size + ALIGNMENT_BYTES, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT_BYTES
    return memory[begin : begin + size]


def to_pieces(arrays: Mapping[str, AnyArray | Sequence[AnyArray]]) -> list[Bytes]:
    """Content of a file: length of the header, header, then the arrays. An array may be given in several parts."""
    header: dict[str, Any] = {}
    parts = {name: [given] if isinstance(given, np.ndarray) else given for name, given in arrays.items()}
    at = 0
    for number, (name, some) in enumerate(parts.items()):
        begin = -(-at // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        if begin > at:
            header[f"pad{number}"] = {"dtype": "U8", "shape": [begin - at], "data_offsets": [at, begin]}
        at = begin + sum(array.nbytes for array in some)
        size = sum(map(len, some))
        header[name] = {"dtype": WORDS[some[0].dtype.name], "shape": [size], "data_offsets": [begin, at]}
    text = json.dumps(header, separators=(",", ":")).encode()
    first = -(-(8 + len(text)) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    head = (first - 8).to_bytes(8, "little") + text.ljust(first - 8)
    pieces = [np.frombuffer(head, np.uint8)]
    for name, entry in header.items():
        some = parts.get(name) or [np.zeros(entry["shape"], np.uint8)]
        pieces += [np.ascontiguousarray(array).view(np.uint8) for array in some]
    return pieces


def from_bytes(content: Bytes) -> dict[str, AnyArray]:
    """Arrays of a file as views of its bytes, aligned to 64; ValueError for other content."""
    if len(content) < 8:
        raise ValueError("too short")
    first = 8 + int(content[:8].view("<u8")[0])
    if first > len(content):
        raise ValueError("too short for its header")
    try:
        header = json.loads(content[8:first].tobytes().decode())
        items = [(name, TYPES[one["dtype"]], *one["shape"], *one["data_offsets"]) for name, one in header.items()]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it has no header of safetensors ({type(error).__name__})") from None
    arrays: dict[str, AnyArray] = {}
    for name, kind, *numbers in items:
        if len(numbers) != 3 or any(type(number) is not int for number in numbers):
            raise ValueError(f"{name} has no size or no place")
        size, begin, end = numbers
        if not 0 <= begin <= end <= len(content) - first:
            raise ValueError(f"{name} lies outside of the file")
        if name.startswith("pad"):
            continue
        if end - begin != size * kind.itemsize or (first + begin) % ALIGNMENT_BYTES:
            raise ValueError(f"{name} has another size or place")
        arrays[name] = content[first + begin : first + end].view(kind)
    return arrays
