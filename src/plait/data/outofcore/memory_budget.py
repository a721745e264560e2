"""How much memory a pack may take, as users write it, and what it means for batches and ranges.

It is what packing takes beside Python and its libraries: for reading, for the names of entities, for one leaf while it
grows; and what is left is the room for rows on their way.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plait.data.encoding.names import Labels
from plait.data.sparse.csf_index import row_type
from plait.data.sparse.leaves import leaf_size
from plait.data.sparse.parallel import PIECE
from plait.errors import ParameterError

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
WRITTEN_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "KB"))
WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?\s*", re.IGNORECASE)
LEAST_ROWS, MOST_ROWS = 1 << 10, 1 << 17  # of a batch: its columns stay in the second cache
BATCH = 256  # bytes that a row of a batch takes on its way, about
READING = 50_000_000  # bytes that files take while they are read, about, whatever a batch has
MANY_ROWS = 1 << 20  # from which on they do
NAMED = 40  # bytes that an entity takes beside its name: rows, marginals, counts
SUMMED = 32  # bytes that an entry of a piece takes while values are summed
RECORD = 8  # bytes of a spilled row, at least
LEAST_WORK, MOST_WORK = 1 << 15, 1 << 25  # bytes without which rows could not be on their way
LEAST = 100_000  # bytes below which nothing can be packed
MOST_HELD = 1 << 26  # bytes of rows in memory, beyond which appending them to files is as fast
CACHED = 1 << 18  # entries that are sorted fastest
MOST_PARTS = 256  # ranges that are written at a time; one that is still too large is split again


def bytes_of(memory: str | int) -> int:
    """``"4GB"``, ``"512 MiB"`` or a number of bytes."""
    found = WRITTEN.fullmatch(memory) if isinstance(memory, str) else None
    if found is not None:
        count = int(float(found[1]) * UNITS[(found[2] or "").upper()])
    elif isinstance(memory, int) and not isinstance(memory, bool):
        count = memory
    else:
        count = 0
    if count <= 0:
        raise ParameterError(
            f"`memory` is {memory!r}.",
            actual=memory,
            hint='It is a number of bytes, such as "4GB", "500MB" or "2GiB".',
        )
    if count < LEAST:
        raise ParameterError(
            f"`memory` is {memory!r}: nothing can be packed in so little.",
            actual=memory,
            expected=f"at least {LEAST:,} bytes",
            hint="500MB are enough for most tables.",
        )
    return count


def batch_rows(memory: int) -> int:
    """Rows that are read at a time."""
    return min(max(memory // 8 // BATCH, LEAST_ROWS), MOST_ROWS)


@dataclass(frozen=True)
class PackShape:
    """What a relation will be on disk: entries, sizes of axes in tree order, bytes of a value and its weight."""

    entries: int
    sizes: Sequence[int]
    value: int

    def leaf_bytes(self) -> int:
        """Bytes of a leaf while it grows, about: its rows and starts, its values twice, and scratch for their sums."""
        count = leaf_size(self.entries, self.sizes)
        fibres, total = -(-self.sizes[0] * count // max(self.entries, 1)), 0
        for level, size in enumerate(self.sizes):
            last = level == len(self.sizes) - 1
            fibres = count if last else min(fibres * (size if level else 1), count)
            total += fibres * (row_type(size).itemsize + (0 if last else 4))
        return total + 2 * count * self.value + SUMMED * min(count, PIECE)


def working_room(memory: int, rows: int, names: Iterable[Labels], shapes: Sequence[PackShape]) -> int:
    """What is left for rows on their way, beside reading, names and the largest leaf; refused where it is too little.

    rows: of all tables, shapes: of all relations.
    """
    reading = READING if rows >= MANY_ROWS else 0
    held = sum(int(labels.names.estimated_size()) + NAMED * len(labels) for labels in names)
    leaf = max((shape.leaf_bytes() for shape in shapes), default=0)
    least = reading + held + leaf + min(max(rows * RECORD // 8, LEAST_WORK), MOST_WORK)
    if memory < least:
        parts = {"reading": reading, "the names of entities": held, "one block": leaf}
        said = ", ".join(f"{_in_words(size)} for {what}" for what, size in parts.items() if size)
        raise ParameterError(
            f"`memory` is {_in_words(memory)}, but packing these tables takes {_in_words(least)}: {said}.",
            actual=memory,
            expected=f"at least {least:,} bytes",
            hint=f'Give `memory="{_in_words(least)}"`, or more.',
        )
    return memory - reading - held - leaf


def _in_words(size: int) -> str:
    """A size as users write it, never less than it is."""
    unit, name = next(((unit, name) for unit, name in WRITTEN_UNITS if size >= 10 * unit), (1, "B"))
    return f"{-(-size // unit)}{name}"


# --- shares of the room


def held_bytes(room: int) -> int:
    """Bytes of rows that a spill holds in memory; one for a part that is partitioned again holds half of it."""
    return min(room // 4, MOST_HELD)


def range_entries(room: int, entry: int) -> int:
    """Entries of a range that is sorted at once, at most; entry: the bytes that one takes meanwhile."""
    return max(room // 2 // entry, LEAST_ROWS)


def range_count(rows: int, entries: int) -> int:
    """Into how many ranges rows are partitioned: small ones are sorted in the cache; entries: that one may have."""
    return min(-(-rows // min(entries, CACHED)), MOST_PARTS)
