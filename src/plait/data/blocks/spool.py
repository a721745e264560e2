"""Entries on their way: dealt into parts that are sorted one by one, in memory as long as they fit, then on disk."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.types import AnyArray

Records = dict[str, AnyArray]  # arrays with one element an entry, or one row

WORDS = 1 << 22  # that are fetched at a time


class Spool:
    """Records by part, in the order in which they came. What is in its folder is read by nobody else; and never twice,
    unless it is to stay."""

    def __init__(self, folder: Path, parts: int, budget: int, name: str | None = None) -> None:
        self.folder, self.budget = folder, budget
        self.name = name or f"{id(self):x}"
        self.spilled = self._stays = False
        self.counts = np.zeros(parts, np.int64)
        self._held: list[tuple[Records, list[int]]] = []  # records part by part, and where the parts end
        self._bytes = 0
        self._words = np.empty(0, np.uint64)  # memory that is handed out piece by piece, and again once all is on disk
        self._handed = 0
        self._kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return len(self.counts)

    def put(self, part: int, records: Records) -> None:
        """Add records to one part."""
        counts = np.zeros(self.parts, np.int64)
        counts[part] = len(next(iter(records.values())))
        self._put(records, counts)

    def deal(self, records: Records, rows: AnyArray, table: AnyArray) -> None:
        """Add records of any parts; rows: of the records, table: the part of every row."""
        from plait.data.blocks.loops import count_parts, deal_words, order_parts

        counts = np.zeros(self.parts, np.int64)
        count_parts(rows, table, counts)
        places = np.cumsum(counts) - counts
        if list(records) == ["words"]:
            turned: Records = {"words": self._room_for(len(rows))}
            deal_words(rows, table, places, records["words"], turned["words"])
        else:
            order = np.empty(len(rows), np.int64)
            order_parts(rows, table, places, order)
            turned = {name: array[order] for name, array in records.items()}
        self._put(turned, counts)

    def _put(self, records: Records, counts: AnyArray) -> None:
        """Add records that lie part by part; counts: of every part. The arrays are kept as they are."""
        if not counts.any():
            return
        self._kinds = self._kinds or {name: (array.dtype, array.shape[1:]) for name, array in records.items()}
        self.counts += counts
        self._held.append((records, [0, *np.cumsum(counts).tolist()]))
        self._bytes += sum(array.nbytes for array in records.values())

    def _room_for(self, count: int) -> NDArray[np.uint64]:
        """Memory for so many words that are to be put: large pieces of it are fetched faster, and used again."""
        if self._handed + count > len(self._words):
            self._words, self._handed = np.empty(max(count, min(self.budget // 8, WORDS)), np.uint64), 0
        self._handed += count
        return self._words[self._handed - count : self._handed]

    def settle(self) -> None:
        """Write all to disk where memory has no more room: after a batch, so that its arrays go as a whole."""
        if self._bytes > self.budget:
            self._spill()

    def _spill(self) -> None:
        self.spilled = True
        self.folder.mkdir(exist_ok=True)
        for part in range(self.parts if self._held else 0):
            for name in self._kinds:
                some = self._held_of(part, name)
                if some:
                    with open(self._file(part, name), "ab") as stream:
                        stream.write(np.ascontiguousarray(np.concatenate(some)).data.cast("B"))
        self._held.clear()
        self._bytes = self._handed = 0

    def _held_of(self, part: int, name: str) -> list[AnyArray]:
        """What is in memory of a part."""
        return [one[name][at[part] : at[part + 1]] for one, at in self._held if at[part] < at[part + 1]]

    def _free(self) -> None:
        """Give memory back."""
        self._held.clear()
        self._words, self._bytes, self._handed = self._words[:0].copy(), 0, 0

    def _file(self, part: int, name: str) -> Path:
        return self.folder / f"{self.name}-{part}-{name}"

    # --- what stays

    def stay(self) -> None:
        """From here on all is on disk, and parts that are taken stay there until `clear`."""
        self._spill()
        self._free()
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
        self._free()
        for part in range(self.parts):
            self.drop(part)

    # --- taking

    def take(self, part: int) -> Records:
        """All records of a part, which it then no longer has, in arrays of their own."""
        pieces = list(self.pieces(part, max(int(self.counts[part]), 1)))
        self.drop(part)
        if len(pieces) == 1:
            return pieces[0]
        return {name: np.concatenate([piece.pop(name) for piece in pieces]) for name in self._kinds}

    def pieces(self, part: int, rows: int) -> Iterator[Records]:
        """The records of a part, those on disk about so many at a time."""
        if not self.counts[part]:
            return
        held = {name: self._held_of(part, name) for name in self._kinds}
        in_memory = sum(map(len, next(iter(held.values()))))
        on_disk = int(self.counts[part]) - in_memory
        for at in range(0, on_disk, rows):
            count = min(rows, on_disk - at)
            yield {name: self._read(part, name, at, count) for name in self._kinds}
        if in_memory:
            yield {name: np.concatenate(some) for name, some in held.items()}

    def _read(self, part: int, name: str, at: int, count: int) -> AnyArray:
        kind, shape = self._kinds[name]
        width = int(np.prod(shape, dtype=np.int64))
        begin = at * width * kind.itemsize
        found = np.fromfile(self._file(part, name), kind, count * width, offset=begin)
        return found.reshape(count, *shape)

    def drop(self, part: int) -> None:
        """Forget a part; memory that it shares with others goes with the last of them."""
        self.counts[part] = 0
        if not self.counts.any():
            self._free()
        for name in self._kinds:
            if not self._stays and os.path.exists(self._file(part, name)):
                os.unlink(self._file(part, name))
