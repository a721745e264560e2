"""How an entry is kept while it is sorted: as one integer where cell and value have room in it, else as columns."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from plait.data.binding.entries import Entries
from plait.data.blocks.spool import Records
from plait.data.cells.keys import coordinate_type
from plait.data.cells.sorting import sort_cells, sort_words, taken
from plait.types import AnyArray, Array


@dataclass(frozen=True, eq=False)
class Sorted:
    """Entries in tree order: coords (n, order), values (n,), weights (n,) or None, writing (n,) or None."""

    coords: AnyArray
    values: AnyArray
    weights: Array | None = None
    writing: AnyArray | None = None

    def __len__(self) -> int:
        return len(self.values)

    def part(self, lo: int, hi: int) -> "Sorted":
        """Some of them, as views."""
        own, way = self.weights, self.writing
        return Sorted(
            self.coords[lo:hi],
            self.values[lo:hi],
            None if own is None else own[lo:hi],
            None if way is None else way[lo:hi],
        )

    def chosen(self, which: AnyArray) -> "Sorted":
        """Some of them, by mask or position."""
        own, way = self.weights, self.writing
        return Sorted(
            self.coords[which],
            self.values[which],
            None if own is None else own[which],
            None if way is None else way[which],
        )

    @classmethod
    def joined(cls, parts: "Sequence[Sorted]") -> "Sorted":
        """Several behind each other."""
        if len(parts) == 1:
            return parts[0]
        own = None if parts[0].weights is None else np.concatenate([p.weights for p in parts if p.weights is not None])
        coords = np.concatenate([part.coords for part in parts])
        return cls(coords, np.concatenate([part.values for part in parts]), own)


class Keeping(ABC):
    """A way of keeping entries; places: the columns of a cell in tree order, sizes: of the axes there."""

    def __init__(self, places: Sequence[int], sizes: Sequence[int]) -> None:
        self.places, self.sizes = tuple(places), tuple(sizes)

    @abstractmethod
    def keep(self, entries: Entries) -> Records:
        """Entries, their cells in the order of the relation, as records."""

    @abstractmethod
    def back(self, found: Sorted) -> Records:
        """Sorted entries as records again."""

    @abstractmethod
    def rows(self, records: Records, level: int) -> AnyArray:
        """The row numbers of a level."""

    @abstractmethod
    def sort(self, records: Records) -> Sorted:
        """Records in tree order, equal cells behind each other as they came; the arrays given may be written to."""

    @abstractmethod
    def read(self, records: Records) -> Sorted:
        """Records as they are."""


class AsWords(Keeping):
    """Cell and value in one integer of 64 bits, the root in its highest bits; value: the largest one."""

    def __init__(self, places: Sequence[int], sizes: Sequence[int], value: int) -> None:
        super().__init__(places, sizes)
        widths = [(size - 1).bit_length() for size in self.sizes]
        self.low = value.bit_length()
        self.bits = sum(widths)
        self.shifts = np.array([self.low + sum(widths[level + 1 :]) for level in range(len(widths))], np.int64)
        self.masks = np.array([(1 << width) - 1 for width in widths], np.int64)

    @staticmethod
    def have_room(sizes: Sequence[int], value: int) -> bool:
        """Whether 64 bits suffice."""
        return sum((size - 1).bit_length() for size in sizes) + value.bit_length() <= 64

    def keep(self, entries: Entries) -> Records:
        """One word each."""
        from plait.data.blocks.loops import make_words

        words = np.empty(len(entries), np.uint64)
        make_words(entries.coords, np.array(self.places), self.shifts, entries.values, words)
        return {"words": words}

    def back(self, found: Sorted) -> Records:
        """One word each."""
        from plait.data.blocks.loops import make_words

        words = np.empty(len(found), np.uint64)
        make_words(found.coords, np.arange(len(self.places)), self.shifts, found.values, words)
        return {"words": words}

    def rows(self, records: Records, level: int) -> AnyArray:
        """Some bits of the words."""
        return (records["words"] >> np.uint64(self.shifts[level])) & np.uint64(self.masks[level])

    def sort(self, records: Records) -> Sorted:
        """By a radix sort of the words themselves."""
        return self.read({"words": sort_words(records["words"], self.low, self.bits)})

    def read(self, records: Records) -> Sorted:
        """The words taken apart."""
        from plait.data.blocks.loops import split_words

        words = records["words"]
        coords = np.empty((len(words), len(self.sizes)), coordinate_type(self.sizes))
        values = np.empty(len(words), np.uint8 if self.low <= 8 else np.uint16 if self.low <= 16 else np.float64)
        split_words(words, self.shifts, self.masks, (1 << self.low) - 1, coords, values)
        return Sorted(coords, values)


class AsColumns(Keeping):
    """Cells, values, and weights and ways of writing where there are any."""

    def keep(self, entries: Entries) -> Records:
        """Its arrays, cells in tree order."""
        found = {"coords": np.ascontiguousarray(entries.coords[:, self.places]), "values": np.array(entries.values)}
        if entries.weights is not None:
            found["weights"] = np.array(entries.weights)
        if entries.writing is not None:
            found["writing"] = np.array(entries.writing)
        return found

    def back(self, found: Sorted) -> Records:
        """Its arrays; how cells were written no longer matters."""
        own = {} if found.weights is None else {"weights": found.weights}
        return {"coords": found.coords, "values": np.asarray(found.values, np.float64), **own}

    def rows(self, records: Records, level: int) -> AnyArray:
        """A column of the cells."""
        return records["coords"][:, level]

    def sort(self, records: Records) -> Sorted:
        """By the sort of cells in memory."""
        order, coords = sort_cells(records["coords"], self.sizes)
        found = replace(self.read(records), coords=coords)
        if order is None:
            return found
        own, way = found.weights, found.writing
        return Sorted(
            coords,
            taken(found.values, order),
            None if own is None else taken(own, order),
            None if way is None else taken(way, order),
        )

    def read(self, records: Records) -> Sorted:
        """The arrays."""
        return Sorted(records["coords"], records["values"], records.get("weights"), records.get("writing"))
