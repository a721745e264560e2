"""Spill of records by part: batches are partitioned, held in memory up to a budget, then appended to one file per part.

Records are single integers where cell and value fit into one, else columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from plait._typing import AnyArray, Array
from plait.data.binding.entries import Entries
from plait.data.sparse.csf_index import repeats
from plait.data.sparse.keys import coordinate_type
from plait.data.sparse.sorting import sort_cells, take
from plait.data.sparse.words import NO_ORDER, WordFormat

Records = dict[str, AnyArray]  # arrays with one element or row per entry


class Spill:
    """Records by part, in order; `name`: of its files, `budget`: bytes in memory."""

    def __init__(self, folder: Path, name: str, parts: int, budget: int) -> None:
        self.folder, self.name, self.budget = folder, name, budget
        self.counts = np.zeros(parts, np.int64)
        self._held: list[tuple[Records, list[int]]] = []  # records sorted by part, and the ends of the parts
        self._types: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}

    def add(self, records: Records, parts: AnyArray | int) -> None:
        """Add records; `parts`: the part of each, or of all of them."""
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
        """Remove and return all records of a part."""
        pieces = list(self.pieces(part, max(int(self.counts[part]), 1)))
        self.drop(part)
        if len(pieces) == 1:
            return pieces[0]
        return {name: np.concatenate([piece.pop(name) for piece in pieces]) for name in self._types}

    def pieces(self, part: int, rows: int) -> Iterator[Records]:
        """Records of a part; those on disk in chunks of at most `rows`."""
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
        numbers = np.fromfile(self._file(part, name), kind, count * width, offset=at * width * kind.itemsize)
        return numbers.reshape(count, *shape)

    def drop(self, part: int) -> None:
        """Drop a part; memory shared with other parts is freed with the last of them."""
        self.counts[part] = 0
        if not self.counts.any():
            self._held.clear()
        for name in self._types:
            self._file(part, name).unlink(missing_ok=True)


@dataclass(frozen=True, eq=False)
class SortedCells:
    """Entries in tree order: coords (n, order), values (n,), weights (n,) or None, writing (n,) or None.

    `repeated`: whether there are duplicates.
    """

    coords: AnyArray
    values: AnyArray
    weights: Array | None = None
    writing: AnyArray | None = None
    repeated: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def part(self, lo: int, hi: int) -> "SortedCells":
        arrays = (self.coords, self.values, self.weights, self.writing)
        return SortedCells(*(None if array is None else array[lo:hi] for array in arrays))  # type: ignore[arg-type]


class Columns:
    """Records of cells, values, and weights and orientations where there are any.

    `places`: columns of a cell in tree order; `sizes`: of the axes there.
    """

    def __init__(self, places: Sequence[int], sizes: Sequence[int]) -> None:
        self.places, self.sizes = tuple(places), tuple(sizes)

    @property
    def sorting_bytes(self) -> int:
        """Bytes per entry while its range is sorted and becomes a tree: the cell three times, value and weight twice,
        words and positions.
        """
        return 64 + 20 * len(self.sizes)

    def of_entries(self, entries: Entries) -> Records:
        """Entries with cells in the order of the relation, as records."""
        coords = np.ascontiguousarray(entries.coords[:, self.places])
        return _records(coords, np.array(entries.values), entries.weights, entries.writing)

    def of_sorted(self, cells: SortedCells) -> Records:
        """Sorted entries as records, without orientations."""
        return _records(cells.coords, np.asarray(cells.values, np.float64), cells.weights)

    def rows(self, records: Records, level: int) -> AnyArray:
        """Row numbers of a level."""
        return records["coords"][:, level]

    def read(self, records: Records) -> SortedCells:
        """Records that are sorted already."""
        return SortedCells(records["coords"], records["values"], records.get("weights"), records.get("writing"))

    def sort(self, records: Records) -> SortedCells:
        """Records in tree order, ties in the order of the table; input arrays may be overwritten."""
        order, coords = sort_cells(records.pop("coords"), self.sizes)
        if order is not None:
            records = {name: take(array, order) for name, array in records.items()}
        return replace(self.read({"coords": coords, **records}), repeated=repeats(coords) > 0)


class Words(Columns):
    """Records of one integer, the root row in its highest bits, the value in its lowest; `most`: the largest value."""

    def __init__(self, places: Sequence[int], sizes: Sequence[int], most: int) -> None:
        super().__init__(places, sizes)
        self.format = WordFormat(self.sizes, most.bit_length())

    @property
    def sorting_bytes(self) -> int:
        """The word twice, its value, its cell, and the rows and starts of its fibres."""
        return 24 + 20 * len(self.sizes)

    def of_entries(self, entries: Entries) -> Records:
        from plait.data.sparse.sparse_kernels import place_bits

        words = entries.values.astype(np.uint64)
        for place, shift, mask in zip(self.places, self.format.shifts, self.format.masks):
            place_bits(entries.coords[:, place], NO_ORDER, 0, len(words), 0, mask, shift, words)
        return {"words": words}

    def rows(self, records: Records, level: int) -> AnyArray:
        return (records["words"] >> np.uint64(self.format.shifts[level])) & np.uint64(self.format.masks[level])

    def read(self, records: Records) -> SortedCells:
        from plait.data.sparse.sparse_kernels import read_cells

        words, bits = records["words"], self.format.value
        coords = np.empty((len(words), len(self.sizes)), coordinate_type(self.sizes))
        shifts, masks = (np.array(one, np.uint64) for one in (self.format.shifts, self.format.masks))
        read_cells(words, 0, len(words), shifts, masks, coords)
        values = words.astype(np.uint16) & np.uint16((1 << bits) - 1)
        return SortedCells(coords, values.astype(np.uint8) if bits <= 8 else values)

    def sort(self, records: Records) -> SortedCells:
        words = np.sort(records["words"])
        most = np.uint64((1 << self.format.value) - 1)  # largest difference of words of one cell
        return replace(self.read({"words": words}), repeated=bool(((words[1:] ^ words[:-1]) <= most).any()))


def _records(
    coords: AnyArray, values: AnyArray, weights: Array | None = None, writing: AnyArray | None = None
) -> Records:
    own = {"weights": weights, "writing": writing}
    return {"coords": coords, "values": values} | {
        name: np.array(array) for name, array in own.items() if array is not None
    }
