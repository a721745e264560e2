"""How an entry is kept while it is sorted: as one integer where cell and value have room in it, else as columns."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plait.data.binding.entries import Entries
from plait.data.blocks.spool import Records
from plait.data.cells.fibres import Fibres, repeats, row_type, start_type
from plait.data.cells.keys import coordinate_type
from plait.data.cells.sorting import sort_cells, taken
from plait.types import AnyArray, Array


class Sorted(ABC):
    """Entries in tree order: coords (n, order), values (n,), weights (n,) or None, writing (n,) or None."""

    coords: AnyArray
    values: AnyArray
    weights: Array | None
    writing: AnyArray | None

    def __len__(self) -> int:
        return len(self.values)

    @abstractmethod
    def part(self, lo: int, hi: int) -> "Sorted":
        """Some of them, as views."""

    @abstractmethod
    def repeats(self) -> int:
        """How many are about the same cell as the one before."""

    @abstractmethod
    def fibres(self) -> tuple[list[AnyArray], list[AnyArray]]:
        """Rows and starts of every level, where cells are distinct."""

    @abstractmethod
    def cell(self, n: int) -> tuple[int, ...]:
        """One of the cells."""

    @abstractmethod
    def add_marginals(self, level: int, values: AnyArray, weights: Array, value: Array, weight: Array) -> None:
        """Add M·x and M to the totals of the rows of a level; a single weight is everyone's."""


@dataclass(frozen=True, eq=False)
class SortedColumns(Sorted):
    """The cells themselves; sizes: of the axes."""

    sizes: tuple[int, ...]
    coords: AnyArray
    values: AnyArray
    weights: Array | None = None
    writing: AnyArray | None = None

    def part(self, lo: int, hi: int) -> "SortedColumns":
        """Some of them, as views."""
        own, way = self.weights, self.writing
        return replace(
            self,
            coords=self.coords[lo:hi],
            values=self.values[lo:hi],
            weights=None if own is None else own[lo:hi],
            writing=None if way is None else way[lo:hi],
        )

    def repeats(self) -> int:
        """How many are about the same cell as the one before."""
        return repeats(self.coords)

    def fibres(self) -> tuple[list[AnyArray], list[AnyArray]]:
        """As in memory."""
        found = Fibres.of(tuple(map(str, range(len(self.sizes)))), self.sizes, self.coords)
        return list(found.rows), list(found.starts)

    def cell(self, n: int) -> tuple[int, ...]:
        """One of the cells."""
        return tuple(self.coords[n].tolist())

    def add_marginals(self, level: int, values: AnyArray, weights: Array, value: Array, weight: Array) -> None:
        """By the column of the level."""
        from plait.data.blocks.loops import add_marginals

        add_marginals(self.coords[:, level], values, weights, value, weight)


@dataclass(frozen=True, eq=False)
class SortedWords(Sorted):
    """Words of cell and value, and how they are made."""

    how: "AsWords"
    words: NDArray[np.uint64]
    weights: None = None
    writing: None = None

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def values(self) -> AnyArray:  # type: ignore[override]
        """The low bits of the words."""
        from plait.data.blocks.loops import some_bits

        low = self.how.low
        values = np.empty(len(self.words), np.uint8 if low <= 8 else np.uint16)
        some_bits(self.words, 0, (1 << low) - 1, values)
        return values

    @cached_property
    def coords(self) -> AnyArray:  # type: ignore[override]
        """The words taken apart."""
        coords = np.empty((len(self.words), len(self.how.sizes)), coordinate_type(self.how.sizes))
        for level in range(len(self.how.sizes)):
            coords[:, level] = self.how.rows({"words": self.words}, level)
        return coords

    def part(self, lo: int, hi: int) -> "SortedWords":
        """Some of them, as views."""
        return SortedWords(self.how, self.words[lo:hi])

    def repeats(self) -> int:
        """How many are about the same cell as the one before."""
        from plait.data.blocks.loops import count_repeats

        return int(count_repeats(self.words, self.how.low))

    def fibres(self) -> tuple[list[AnyArray], list[AnyArray]]:
        """Read from the words: what has changed since the one before begins a fibre."""
        from plait.data.blocks.loops import some_bits, write_level

        count, last = len(self.words), len(self.how.sizes) - 1
        rows = [np.empty(count, row_type(size)) for size in self.how.sizes]
        starts = [np.empty(count + 1, start_type(count)) for _ in range(last)]
        shifts, masks = self.how.shifts.tolist(), self.how.masks.tolist()
        for level in range(last):
            found = write_level(self.words, shifts[level], masks[level], shifts[level + 1], rows[level], starts[level])
            rows[level], starts[level] = rows[level][:found], starts[level][: found + 1]
        some_bits(self.words, shifts[last], masks[last], rows[last])
        return rows, starts

    def cell(self, n: int) -> tuple[int, ...]:
        """One of the words taken apart."""
        word = int(self.words[n])
        return tuple(word >> shift & mask for shift, mask in zip(self.how.shifts.tolist(), self.how.masks.tolist()))

    def add_marginals(self, level: int, values: AnyArray, weights: Array, value: Array, weight: Array) -> None:
        """By the bits of the level."""
        from plait.data.blocks.loops import add_word_marginals

        shift, mask = int(self.how.shifts[level]), int(self.how.masks[level])
        add_word_marginals(self.words, shift, mask, values, weights, value, weight)


class Keeping(ABC):
    """A way of keeping entries; places: the columns of a cell in tree order, sizes: of the axes there."""

    def __init__(self, places: Sequence[int], sizes: Sequence[int]) -> None:
        self.places, self.sizes = tuple(places), tuple(sizes)

    @property
    @abstractmethod
    def sorting_bytes(self) -> int:
        """Bytes that an entry takes while its range is sorted and becomes a tree, about."""

    @abstractmethod
    def keep(self, entries: Entries) -> Records:
        """Entries, their cells in the order of the relation, as records."""

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
        self.shifts = np.array([self.low + sum(widths[level + 1 :]) for level in range(len(widths))], np.int64)
        self.masks = np.array([(1 << width) - 1 for width in widths], np.int64)

    @property
    def sorting_bytes(self) -> int:
        """Its word twice, its value, and its row on every level with the starts."""
        return 20 + 8 * len(self.sizes)

    @staticmethod
    def have_room(sizes: Sequence[int], value: int) -> bool:
        """Whether 64 bits suffice."""
        return sum((size - 1).bit_length() for size in sizes) + value.bit_length() <= 64

    def keep(self, entries: Entries) -> Records:
        """One word each."""
        from plait.data.blocks.loops import add_bits, begin_words

        words = np.empty(len(entries), np.uint64)
        begin_words(entries.values, words)
        for place, shift in zip(self.places, self.shifts.tolist()):
            add_bits(entries.coords[:, place], shift, words)
        return {"words": words}

    def rows(self, records: Records, level: int) -> AnyArray:
        """Some bits of the words."""
        return (records["words"] >> np.uint64(self.shifts[level])) & np.uint64(self.masks[level])

    def sort(self, records: Records) -> Sorted:
        """By a sort of the words themselves."""
        return SortedWords(self, np.sort(records["words"]))

    def read(self, records: Records) -> Sorted:
        """The words."""
        return SortedWords(self, records["words"])


class AsColumns(Keeping):
    """Cells, values, and weights and ways of writing where there are any."""

    @property
    def sorting_bytes(self) -> int:
        """Its cell three times, value and weight twice, the words that are sorted and where they come from."""
        return 64 + 20 * len(self.sizes)

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
        own, way = records.get("weights"), records.get("writing")
        if order is None:
            return SortedColumns(self.sizes, coords, records["values"], own, way)
        return SortedColumns(
            self.sizes,
            coords,
            taken(records["values"], order),
            None if own is None else taken(own, order),
            None if way is None else taken(way, order),
        )

    def read(self, records: Records) -> Sorted:
        """The arrays."""
        own, way = records.get("weights"), records.get("writing")
        return SortedColumns(self.sizes, records["coords"], records["values"], own, way)
