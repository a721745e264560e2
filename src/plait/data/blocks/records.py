"""Entries as records that are spilled and sorted: one integer each where cell and value fit into it, else columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from plait.data.binding.entries import Entries
from plait.data.blocks.spill import Records
from plait.data.cells.fibres import repeats
from plait.data.cells.keys import coordinate_type
from plait.data.cells.sorting import sort_cells, taken
from plait.data.cells.words import NO_ORDER, Format
from plait.types import AnyArray, Array


@dataclass(frozen=True, eq=False)
class SortedCells:
    """Entries in tree order: coords (n, order), values (n,), weights (n,) or None, writing (n,) or None.

    repeated: whether several are about the same cell.
    """

    coords: AnyArray
    values: AnyArray
    weights: Array | None = None
    writing: AnyArray | None = None
    repeated: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def part(self, lo: int, hi: int) -> "SortedCells":
        """Some of them, as views."""
        arrays = (self.coords, self.values, self.weights, self.writing)
        return SortedCells(*(None if array is None else array[lo:hi] for array in arrays))  # type: ignore[arg-type]


class Columns:
    """Records of cells, values, and weights and writings where there are any.

    places: the columns of a cell in tree order; sizes: of the axes there.
    """

    def __init__(self, places: Sequence[int], sizes: Sequence[int]) -> None:
        self.places, self.sizes = tuple(places), tuple(sizes)

    @property
    def sorting_bytes(self) -> int:
        """Bytes of an entry while its range is sorted and becomes a tree, about.

        Its cell three times, value and weight twice, the words that are sorted and where they come from.
        """
        return 64 + 20 * len(self.sizes)

    def of_entries(self, entries: Entries) -> Records:
        """Entries, their cells in the order of the relation, as records."""
        coords = np.ascontiguousarray(entries.coords[:, self.places])
        return _records(coords, np.array(entries.values), entries.weights, entries.writing)

    def of_sorted(self, found: SortedCells) -> Records:
        """Sorted entries as records; how cells were written no longer matters."""
        return _records(found.coords, np.asarray(found.values, np.float64), found.weights)

    def rows(self, records: Records, level: int) -> AnyArray:
        """The row numbers of a level."""
        return records["coords"][:, level]

    def read(self, records: Records) -> SortedCells:
        """Records that are sorted already."""
        return SortedCells(records["coords"], records["values"], records.get("weights"), records.get("writing"))

    def sort(self, records: Records) -> SortedCells:
        """Records in tree order, equal cells in the order of the table; the arrays given may be written to."""
        order, coords = sort_cells(records.pop("coords"), self.sizes)
        if order is not None:
            records = {name: taken(array, order) for name, array in records.items()}
        return replace(self.read({"coords": coords, **records}), repeated=repeats(coords) > 0)


class Words(Columns):
    """Records of one integer, the root row in its highest bits, the value in its lowest; most: the largest value."""

    def __init__(self, places: Sequence[int], sizes: Sequence[int], most: int) -> None:
        super().__init__(places, sizes)
        self.format = Format(self.sizes, most.bit_length())

    @property
    def sorting_bytes(self) -> int:
        """Its word twice, its value, its cell, and the rows and starts of its fibres."""
        return 24 + 20 * len(self.sizes)

    def of_entries(self, entries: Entries) -> Records:
        """Entries, their cells in the order of the relation, as words."""
        from plait.data.cells.radix import place_bits

        words = entries.values.astype(np.uint64)
        for place, shift, mask in zip(self.places, self.format.shifts, self.format.masks):
            place_bits(entries.coords[:, place], NO_ORDER, 0, len(words), 0, mask, shift, words)
        return {"words": words}

    def rows(self, records: Records, level: int) -> AnyArray:
        """The row numbers of a level."""
        return (records["words"] >> np.uint64(self.format.shifts[level])) & np.uint64(self.format.masks[level])

    def read(self, records: Records) -> SortedCells:
        """The cells and values of words."""
        from plait.data.cells.radix import read_cells

        words, bits = records["words"], self.format.value
        coords = np.empty((len(words), len(self.sizes)), coordinate_type(self.sizes))
        shifts, masks = (np.array(one, np.uint64) for one in (self.format.shifts, self.format.masks))
        read_cells(words, 0, len(words), shifts, masks, coords)
        values = words.astype(np.uint16) & np.uint16((1 << bits) - 1)
        return SortedCells(coords, values.astype(np.uint8) if bits <= 8 else values)

    def sort(self, records: Records) -> SortedCells:
        """By a sort of the words themselves."""
        words = np.sort(records["words"])
        most = np.uint64((1 << self.format.value) - 1)  # words of one cell differ by no more than that
        return replace(self.read({"words": words}), repeated=bool(((words[1:] ^ words[:-1]) <= most).any()))


def _records(
    coords: AnyArray, values: AnyArray, weights: Array | None = None, writing: AnyArray | None = None
) -> Records:
    own = {"weights": weights, "writing": writing}
    return {"coords": coords, "values": values} | {
        name: np.array(array) for name, array in own.items() if array is not None
    }
