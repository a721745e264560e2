"""Entries on their way: dealt into parts that are sorted one by one, in memory as long as they fit, then on disk."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plait.types import AnyArray

Records = dict[str, AnyArray]  # arrays with one element an entry, or one row


class Spool:
    """Records by part, in the order in which they came. What is in its folder is read by nobody else; and never twice,
    unless it is to stay."""

    def __init__(self, folder: Path, parts: int, budget: int, name: str | None = None) -> None:
        self.folder, self.budget = folder, budget
        self.name = name or f"{id(self):x}"
        self.spilled = self._stays = False
        self.counts = np.zeros(parts, np.int64)
        self._held: list[list[Records]] = [[] for _ in range(parts)]
        self._bytes = 0
        self._kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return len(self.counts)

    def put(self, part: int, records: Records) -> None:
        """Add records to a part; the arrays are kept as they are."""
        count = len(next(iter(records.values())))
        if count == 0:
            return
        self._kinds = self._kinds or {name: (array.dtype, array.shape[1:]) for name, array in records.items()}
        self.counts[part] += count
        self._held[part].append(records)
        self._bytes += sum(array.nbytes for array in records.values())

    def settle(self) -> None:
        """Write all to disk where memory has no more room: after a batch, so that its arrays go as a whole."""
        if self._bytes > self.budget:
            self._spill()

    def _spill(self) -> None:
        self.spilled = True
        self.folder.mkdir(exist_ok=True)
        for part, held in enumerate(self._held):
            for name in self._kinds:
                if held:
                    with open(self._file(part, name), "ab") as stream:
                        for records in held:
                            stream.write(np.ascontiguousarray(records[name]).data.cast("B"))
            held.clear()
        self._bytes = 0

    def _file(self, part: int, name: str) -> Path:
        return self.folder / f"{self.name}-{part}-{name}"

    # --- what stays

    def stay(self) -> None:
        """From here on all is on disk, and parts that are taken stay there until `clear`."""
        self._spill()
        self._stays = True

    @property
    def files(self) -> list[Path]:
        """The files that hold all, once it stays."""
        return [self._file(part, name) for part in np.flatnonzero(self.counts).tolist() for name in self._kinds]

    def said(self) -> dict[str, Any]:
        """What else is to be known of them."""
        kinds = {name: [kind.str, list(shape)] for name, (kind, shape) in self._kinds.items()}
        return {"counts": self.counts.tolist(), "kinds": kinds}

    def take_over(self, said: Mapping[str, Any]) -> None:
        """Have the files of a spool of this name that stayed."""
        self.counts, self.spilled, self._stays = np.array(said["counts"], np.int64), True, True
        self._kinds = {name: (np.dtype(kind), tuple(shape)) for name, (kind, shape) in said["kinds"].items()}

    def clear(self) -> None:
        """Forget all."""
        self._stays = False
        for part in range(self.parts):
            self.drop(part)

    # --- taking

    def take(self, part: int) -> Records:
        """All records of a part, which it then no longer has."""
        pieces = list(self.pieces(part, max(int(self.counts[part]), 1)))
        self.drop(part)
        if len(pieces) == 1:
            return pieces[0]
        return {name: np.concatenate([piece.pop(name) for piece in pieces]) for name in self._kinds}

    def pieces(self, part: int, rows: int) -> Iterator[Records]:
        """The records of a part, those on disk about so many at a time."""
        first = next(iter(self._kinds), None)
        if first is None:
            return
        on_disk = int(self.counts[part]) - sum(len(records[first]) for records in self._held[part])
        for at in range(0, on_disk, rows):
            count = min(rows, on_disk - at)
            yield {name: self._read(part, name, at, count) for name in self._kinds}
        for records in self._held[part]:
            yield dict(records)

    def _read(self, part: int, name: str, at: int, count: int) -> AnyArray:
        kind, shape = self._kinds[name]
        width = int(np.prod(shape, dtype=np.int64))
        begin = at * width * kind.itemsize
        found = np.fromfile(self._file(part, name), kind, count * width, offset=begin)
        return found.reshape(count, *shape)

    def drop(self, part: int) -> None:
        """Forget a part."""
        for records in self._held[part]:
            self._bytes -= sum(array.nbytes for array in records.values())
        self._held[part].clear()
        self.counts[part] = 0
        for name in self._kinds:
            if not self._stays and os.path.exists(self._file(part, name)):
                os.unlink(self._file(part, name))


def dealt(records: Mapping[str, AnyArray], parts: AnyArray, counts: AnyArray) -> Iterator[tuple[int, Records]]:
    """Records by part; parts: that of every one, counts: how many each has."""
    from plait.data.blocks.loops import deal_parts, order_parts

    ends = np.cumsum(counts)
    if len(records) == 1 and next(iter(records.values())).ndim == 1:
        ((name, words),) = records.items()
        arranged = np.empty_like(words)
        deal_parts(parts, ends - counts, words, arranged)
        turned: Records = {name: arranged}
    else:
        order = np.empty(len(parts), np.int64)
        order_parts(parts, ends - counts, order)
        turned = {name: array[order] for name, array in records.items()}
    for part in np.flatnonzero(counts).tolist():
        begin, end = int(ends[part] - counts[part]), int(ends[part])
        yield part, {name: array[begin:end] for name, array in turned.items()}
