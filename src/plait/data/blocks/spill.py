"""Records by part: batches are partitioned, held in memory up to a budget, then appended to one file a part."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from plait.types import AnyArray

Records = dict[str, AnyArray]  # arrays with one element an entry, or one row


class Spill:
    """Records of some parts, in the order in which they came; name: of its files, budget: bytes held in memory."""

    def __init__(self, folder: Path, name: str, parts: int, budget: int) -> None:
        self.folder, self.name, self.budget = folder, name, budget
        self.counts = np.zeros(parts, np.int64)
        self._held: list[tuple[Records, list[int]]] = []  # records part by part, and where the parts end
        self._types: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}

    def add(self, records: Records, parts: AnyArray | int) -> None:
        """Add records; parts: the part of each, or of all of them."""
        count = len(next(iter(records.values())))
        if count == 0:
            return
        if isinstance(parts, int):
            counts = np.zeros(len(self.counts), np.int64)
            counts[parts] = count
        else:
            counts = np.bincount(parts, minlength=len(self.counts))
            order = np.argsort(parts, kind="stable")
            records = {name: array[order] for name, array in records.items()}
        self._types = self._types or {name: (array.dtype, array.shape[1:]) for name, array in records.items()}
        self.counts += counts
        self._held.append((records, [0, *np.cumsum(counts).tolist()]))
        if sum(array.nbytes for held, _ in self._held for array in held.values()) > self.budget:
            self._write()

    def _write(self) -> None:
        self.folder.mkdir(exist_ok=True)
        for part in range(len(self.counts)):
            for name in self._types:
                some = self._in_memory(part, name)
                if some:
                    with open(self._file(part, name), "ab") as stream:
                        stream.write(np.ascontiguousarray(np.concatenate(some)).data.cast("B"))
        self._held.clear()

    def _in_memory(self, part: int, name: str) -> list[AnyArray]:
        return [held[name][ends[part] : ends[part + 1]] for held, ends in self._held if ends[part] < ends[part + 1]]

    def _file(self, part: int, name: str) -> Path:
        return self.folder / f"{self.name}-{part}-{name}"

    def take(self, part: int) -> Records:
        """All records of a part, in arrays of their own; they are then forgotten here."""
        pieces = list(self.pieces(part, max(int(self.counts[part]), 1)))
        self.drop(part)
        if len(pieces) == 1:
            return pieces[0]
        return {name: np.concatenate([piece.pop(name) for piece in pieces]) for name in self._types}

    def pieces(self, part: int, rows: int) -> Iterator[Records]:
        """The records of a part, those on disk at most `rows` at a time."""
        if not self.counts[part]:
            return
        held = {name: self._in_memory(part, name) for name in self._types}
        in_memory = sum(map(len, next(iter(held.values()))))
        on_disk = int(self.counts[part]) - in_memory
        for at in range(0, on_disk, rows):
            yield {name: self._read(part, name, at, min(rows, on_disk - at)) for name in self._types}
        if in_memory:
            yield {name: np.concatenate(some) for name, some in held.items()}

    def _read(self, part: int, name: str, at: int, count: int) -> AnyArray:
        kind, shape = self._types[name]
        width = int(np.prod(shape, dtype=np.int64))
        found = np.fromfile(self._file(part, name), kind, count * width, offset=at * width * kind.itemsize)
        return found.reshape(count, *shape)

    def drop(self, part: int) -> None:
        """Forget a part; memory that it shares with others is freed with the last of them."""
        self.counts[part] = 0
        if not self.counts.any():
            self._held.clear()
        for name in self._types:
            self._file(part, name).unlink(missing_ok=True)
