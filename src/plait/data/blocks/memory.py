"""How much memory a pack may take, as users write it, and what it means for batches and ranges."""

import re

from plait.errors import SettingError
from plait.saying import Argument

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?\s*", re.IGNORECASE)
LEAST_ROWS, MOST_ROWS = 1 << 10, 1 << 17  # of a batch: its columns stay in the second cache
BATCH = 256  # bytes that a row of a batch takes on its way, about
SORTED = 56  # bytes that an entry takes while its range is sorted, about
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
        raise SettingError(
            f"{Argument('memory')} is {memory!r}.",
            where=Argument("memory"),
            got=memory,
            cure='It is a number of bytes, such as "4GB", "500MB" or "2GiB".',
        )
    return count


def batch_rows(memory: int) -> int:
    """Rows that are read at a time."""
    return min(max(memory // 8 // BATCH, LEAST_ROWS), MOST_ROWS)


def range_entries(memory: int) -> int:
    """Entries of a range that is sorted at once, at most."""
    return max(memory // 2 // SORTED, LEAST_ROWS)


def range_count(rows: int, memory: int) -> int:
    """Into how many ranges rows are dealt: small ones are sorted in the cache, but no range has fewer than needed."""
    return min(-(-rows // min(range_entries(memory), CACHED)), MOST_PARTS)


def table_room(memory: int) -> int:
    """Places that a table of counts of 4 bytes may have."""
    return max(memory // 64, 1 << 16)
