"""Memory limit of a pack, and the sizes of batches and ranges that follow from it.

It covers the memory of packing without Python and its libraries: reading, entity names, one leaf while it is built; the
rest is for rows between reading and writing.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plait.data.encoding.names import Labels
from plait.data.sparse.csf_index import row_type
from plait.data.sparse.leaves import leaf_size
from plait.data.sparse.parallel import CHUNK_ROWS
from plait.errors import ParameterError

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
WRITTEN_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "KB"))
WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?\s*", re.IGNORECASE)
MIN_BATCH_ROWS, MAX_BATCH_ROWS = 1 << 10, 1 << 17  # its columns stay in the second-level cache
BATCH_ROW_BYTES = 256  # of a row of a batch, measured
READ_BYTES = 50_000_000  # of the file readers, measured; independent of the batch
MIN_READ_ROWS = 1 << 20  # from which readers take that memory
ENTITY_BYTES = 40  # of an entity without its name: row, marginals, counts
SUM_ENTRY_BYTES = 32  # of an entry of a chunk while values are summed
RECORD_BYTES = 8  # of a spilled row, at least
MIN_WORK_BYTES, MAX_WORK_BYTES = 1 << 15, 1 << 25  # that rows between reading and writing need
MIN_MEMORY_BYTES = 100_000  # less cannot pack anything
MAX_HELD_BYTES = 1 << 26  # of rows in memory; beyond, appending to files is as fast
CACHED_ENTRIES = 1 << 18  # that are sorted within the cache
MAX_RANGES = 256  # written at a time; larger ones are split again


def bytes_of(memory: str | int) -> int:
    """``"4GB"``, ``"512 MiB"`` or a number of bytes."""
    match = WRITTEN.fullmatch(memory) if isinstance(memory, str) else None
    if match is not None:
        count = int(float(match[1]) * UNITS[(match[2] or "").upper()])
    elif isinstance(memory, int) and not isinstance(memory, bool):
        count = memory
    else:
        count = 0
    if count <= 0:
        raise ParameterError(
            f"`memory` must be a number of bytes, got {memory!r}.",
            actual=memory,
            hint='Examples: "4GB", "500MB" or "2GiB".',
        )
    if count < MIN_MEMORY_BYTES:
        raise ParameterError(
            f"`memory` must be at least {MIN_MEMORY_BYTES:,} bytes, got {memory!r}.",
            actual=memory,
            expected=f"at least {MIN_MEMORY_BYTES:,} bytes",
            hint='"500MB" is enough for most tables.',
        )
    return count


def batch_rows(memory: int) -> int:
    """Rows of a batch."""
    return min(max(memory // 8 // BATCH_ROW_BYTES, MIN_BATCH_ROWS), MAX_BATCH_ROWS)


@dataclass(frozen=True)
class PackShape:
    """Shape of a relation on disk: entries, sizes of axes in tree order, bytes of a value and its weight."""

    entries: int
    sizes: Sequence[int]
    value: int

    def leaf_bytes(self) -> int:
        """Bytes of a leaf while it is built, about: rows and starts, values twice, and scratch for their sums."""
        count = leaf_size(self.entries, self.sizes)
        fibres, total = -(-self.sizes[0] * count // max(self.entries, 1)), 0
        for level, size in enumerate(self.sizes):
            last = level == len(self.sizes) - 1
            fibres = count if last else min(fibres * (size if level else 1), count)
            total += fibres * (row_type(size).itemsize + (0 if last else 4))
        return total + 2 * count * self.value + SUM_ENTRY_BYTES * min(count, CHUNK_ROWS)


def working_bytes(memory: int, rows: int, names: Iterable[Labels], shapes: Sequence[PackShape]) -> int:
    """Bytes for rows between reading and writing, next to reading, names and the largest leaf; refused where too small.

    `rows`: of all tables, `shapes`: of all relations.
    """
    reading = READ_BYTES if rows >= MIN_READ_ROWS else 0
    held = sum(int(labels.names.estimated_size()) + ENTITY_BYTES * len(labels) for labels in names)
    leaf = max((shape.leaf_bytes() for shape in shapes), default=0)
    least = reading + held + leaf + min(max(rows * RECORD_BYTES // 8, MIN_WORK_BYTES), MAX_WORK_BYTES)
    if memory < least:
        parts = {"reading": reading, "the names of entities": held, "one block": leaf}
        said = ", ".join(f"{_in_words(size)} for {what}" for what, size in parts.items() if size)
        raise ParameterError(
            f"`memory` must be at least {_in_words(least)} for these tables, got {_in_words(memory)}: {said}.",
            actual=memory,
            expected=f"at least {least:,} bytes",
            hint=f'Set `memory="{_in_words(least)}"` or more.',
        )
    return memory - reading - held - leaf


def _in_words(size: int) -> str:
    """A size as users write it, rounded up."""
    unit, name = next(((unit, name) for unit, name in WRITTEN_UNITS if size >= 10 * unit), (1, "B"))
    return f"{-(-size // unit)}{name}"


# --- shares of the working bytes


def held_bytes(budget: int) -> int:
    """Bytes of rows that a spill holds in memory; a spill of a range that is split again holds half."""
    return min(budget // 4, MAX_HELD_BYTES)


def range_entries(budget: int, entry: int) -> int:
    """Largest number of entries of a range that is sorted in one go; `entry`: bytes per entry."""
    return max(budget // 2 // entry, MIN_BATCH_ROWS)


def range_count(rows: int, entries: int) -> int:
    """Number of ranges: small ones are sorted in the cache; `entries`: largest number of entries of one."""
    return min(-(-rows // min(entries, CACHED_ENTRIES)), MAX_RANGES)
