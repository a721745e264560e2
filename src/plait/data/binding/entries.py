"""Entries: the listed cells of one relation as row numbers, checked, sorted, without hidden cells and duplicates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.encoding.names import Labels
from plait.data.observation.symmetry import Groups, canonical, writing
from plait.data.sources.arrays import ArraySource
from plait.data.sources.tables import TableSource
from plait.data.sparse.csf_index import repeats
from plait.data.sparse.keys import columns_of, coordinate_type, find, pack_pair
from plait.data.sparse.sorting import sort_cells, take
from plait.errors import DataError, Named, TableLocation, quoted
from plait.machine import MAX_NUMBER, MIN_NUMBER, in_range

if TYPE_CHECKING:
    import polars as pl

    from plait.likelihood import Likelihood


@dataclass(frozen=True, eq=False)
class Entries:
    """Listed cells: coords (n, order), values (n,), weights (n,) or None; `rows`: position of each in the source.

    `writing`: orientation of each (`observation.symmetry`) in undirected relations.
    """

    source: TableSource | ArraySource
    labels: tuple[tuple[str, Labels], ...]
    coords: AnyArray
    values: Array
    weights: Array | None
    rows: NDArray[np.integer] | None = None
    writing: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Shape of the relation."""
        return tuple(len(labels) for _, labels in self.labels)

    def chosen(self, which: AnyArray, coords: AnyArray | None = None) -> "Entries":
        """Some of the entries, by mask or position; `coords`: theirs, if known."""
        places = np.flatnonzero(which) if which.dtype == bool else which
        weights = None if self.weights is None else take(self.weights, places)
        rows = places if self.rows is None else take(self.rows, places)
        writing = None if self.writing is None else take(self.writing, places)
        coords = take(self.coords, places) if coords is None else coords
        values = take(self.values, places)
        return replace(self, coords=coords, values=values, weights=weights, rows=rows, writing=writing)

    def in_one_way(self, groups: Groups) -> "Entries":
        """Every cell in its canonical orientation; `groups`: exchangeable positions."""
        if not groups:
            return self
        return replace(self, coords=canonical(self.coords, groups), writing=writing(self.coords, groups))

    def row(self, entry: int) -> int:
        """Source row of an entry."""
        return entry if self.rows is None else int(self.rows[entry])

    def named(self, entry: int) -> str:
        """Labels of an entry: ``user='u1', place=3``."""
        return ", ".join(
            f"{index}={quoted(labels[int(row)])}" for (index, labels), row in zip(self.labels, self.coords[entry])
        )

    def place(self, entry: int, column: str | None = None) -> TableLocation:
        """Location of an entry, for errors."""
        if isinstance(self.source, ArraySource):
            return TableLocation(self.source.name, cell=tuple(self.coords[entry].tolist()))
        return TableLocation(self.source.name, column, (self.row(entry),))


def encode(
    labels: Mapping[str, "pl.Series"], names: Mapping[str, Labels], columns: Mapping[str, str], name: Named
) -> AnyArray:
    """Coordinates (n, k) of labels by index, in the order of the mapping."""
    count = len(next(iter(labels.values())))
    coords = np.empty((count, len(labels)), coordinate_type([len(names[index]) for index in labels]))
    for k, (index, series) in enumerate(labels.items()):
        names[index].write(series, coords[:, k], where=TableLocation.of(name).at(columns.get(index, index)))
    return coords


def entries_of(
    source: TableSource | ArraySource, indices: Sequence[str], names: Mapping[str, Labels], rows: slice | None = None
) -> Entries:
    """Listed cells of a source, or of some of its rows, in the order of the source."""
    labels = tuple((index, names[index]) for index in indices)
    part = slice(None) if rows is None else rows
    if isinstance(source, ArraySource):
        return Entries(source, labels, source.coords[part], source.values[part], None)
    if indices:
        some = source.labels if rows is None else {index: column[rows] for index, column in source.labels.items()}
        coords = encode(some, names, source.columns, source.name)
    else:
        coords = np.zeros((source.rows, 0), np.uint32)[part]
    values = source.values if rows is None else source.values_in(rows)
    return Entries(source, labels, coords, values, None if source.weights is None else source.weights[part])


def without_hidden(entries: Entries, hidden: Mapping[tuple[str, ...], AnyArray]) -> Entries:
    """The entries that no hidden table covers."""
    indices = [index for index, _ in entries.labels]
    covered = np.zeros(len(entries), bool)
    for over, coords in hidden.items():
        places = [indices.index(index) for index in over]
        columns = [entries.coords[:, k] for k in places]
        sizes = [entries.sizes[k] for k in places]
        mine, theirs = pack_pair(columns, columns_of(coords), sizes, (len(entries), len(coords)))
        covered |= find(mine, np.unique(theirs))[1]
    return entries.chosen(~covered) if covered.any() else entries


WANTED = "a finite number of at least 0"
HINTS = {
    "value": "Values are finite numbers of at least 0.",
    "weight": "A weight is a finite number of at least 0.",
    "exposure": "An exposure is a finite number of at least 0.",
}
OUT_OF_RANGE = f"Positive numbers must be between {MIN_NUMBER:g} and {MAX_NUMBER:g}; use another unit."
GAPS = {
    "value": "Remove the row and put its cell into `missing`.",
    "weight": "Remove the row.",
    "exposure": "Remove the row.",
}


SUM = '`duplicates="sum"`'


def checked(entries: Entries, noun: str = "value") -> Entries:
    """Refuse values and weights out of range; values of weight 0 are not checked."""
    source = entries.source
    if entries.weights is not None and isinstance(source, TableSource):
        _refuse_bad(entries, entries.weights, source.weight_column, "weight")
        entries = replace(entries, values=np.where(entries.weights == 0, 0.0, entries.values))
    _refuse_bad(entries, entries.values, getattr(source, "value_column", "value"), noun)
    return entries


def _refuse_bad(entries: Entries, numbers: Array, column: str, noun: str) -> None:
    if len(numbers) == 0 or (float(numbers.min()) >= MIN_NUMBER and float(numbers.max()) <= MAX_NUMBER):  # no NaN
        return
    bad = ~in_range(numbers)
    if not bad.any():
        return
    entry = int(np.argmax(bad))
    place, number = entries.place(entry, column), numbers[entry]
    if np.isnan(number):
        raise DataError(f"the {noun} is missing.", location=place, expected=WANTED, hint=GAPS[noun])
    what = f"the {noun} is {number:g}."
    raise DataError(what, location=place, actual=float(number), expected=WANTED, hint=hint(number, noun))


def hint(number: float, noun: str) -> str:
    """Hint for a number out of range."""
    return OUT_OF_RANGE if 0 < number < np.inf else HINTS[noun]


def refuse_values(entries: Entries, likelihood: "Likelihood | None", *, summed: bool) -> None:
    """Refuse values that the likelihood does not allow; `summed`: whether duplicates were summed."""
    if likelihood is None or not (bad := likelihood.bad(entries.values)).any():
        return
    entry = int(np.argmax(bad))
    where, what = entries.place(entry, getattr(entries.source, "value_column", None)), "the value is"
    if summed:  # no row has this value
        where, what = (
            TableLocation(entries.source.name),
            f"the sum of the values of {entries.named(entry) or 'the cell'} is",
        )
    raise DataError(
        f"{what} {entries.values[entry]:g}, but the likelihood is {likelihood}.",
        location=where,
        actual=float(entries.values[entry]),
        expected=likelihood.wanted,
        hint=f"{likelihood.wanted}. {likelihood.hint}",
    )


def merge_duplicates(entries: Entries, duplicates: str) -> tuple[Entries, int]:
    """Sorted entries without duplicates, and the number of entries that were added to another one."""
    order, coords = sort_cells(entries.coords, entries.sizes)
    if order is not None:
        entries = entries.chosen(order, coords)
    if repeats(entries.coords) == 0:
        return entries, 0
    if entries.writing is None:
        return _each_once(entries, _same_cell(entries), duplicates)
    entries, summed = _each_way_once(entries, duplicates)
    entries, more = _all_ways_once(entries, duplicates)
    return entries, summed + more


def _same_cell(entries: Entries) -> AnyArray:
    """Which of sorted entries repeat the cell before, (n − 1,)."""
    return np.asarray((entries.coords[1:] == entries.coords[:-1]).all(axis=1))


def _each_once(entries: Entries, same: AnyArray, duplicates: str) -> tuple[Entries, int]:
    """Sorted entries without duplicates, and the number summed; `same`: which repeat the cell before."""
    # Duplicates of sparse arrays are summed, as in SciPy.
    if duplicates == "error" and isinstance(entries.source, TableSource):
        raise _twice(entries, same)
    return _summed(entries, same), int(np.count_nonzero(same))


def _each_way_once(entries: Entries, duplicates: str) -> tuple[Entries, int]:
    """Sorted entries without duplicates of equal orientation."""
    assert entries.writing is not None
    same = _same_cell(entries)
    again = same & (entries.writing[1:] == entries.writing[:-1])
    if (same[1:] & same[:-1]).any():  # equal orientations need not be adjacent
        number = np.cumsum(np.concatenate([[True], ~same]))
        entries = entries.chosen(np.lexsort((entries.writing, number)))
        assert entries.writing is not None
        again = same & (entries.writing[1:] == entries.writing[:-1])
    return _each_once(entries, again, duplicates) if again.any() else (entries, 0)


def _all_ways_once(entries: Entries, duplicates: str) -> tuple[Entries, int]:
    """Sorted entries, each cell once: its orientations must agree."""
    same = _same_cell(entries)
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    unlike = np.zeros(len(first), bool)
    for numbers in (entries.values, entries.weights):
        if numbers is not None:
            unlike |= np.minimum.reduceat(numbers, first) != np.maximum.reduceat(numbers, first)
    once = entries.chosen(first)
    if not unlike.any():
        return once, 0
    if duplicates == "error":
        raise _unlike(entries, int(first[np.argmax(unlike)]))
    summed = _summed(entries, same)
    rows = np.diff(np.append(first, len(entries)))
    return replace(once, values=np.where(unlike, summed.values, once.values)), int((rows - 1)[unlike].sum())


def _unlike(entries: Entries, first: int) -> DataError:
    """Error for an undirected cell with two values or weights; `first`: its first entry."""
    second = first + 1
    if entries.weights is not None and entries.weights[first] != entries.weights[second]:
        noun, numbers = "weight", entries.weights
    else:
        noun, numbers = "value", entries.values
        while numbers[first] == numbers[second]:
            second += 1
    said = f"the {noun} is {numbers[first]:g} in one direction and {numbers[second]:g} in the other"
    rows = (entries.row(first), entries.row(second)) if isinstance(entries.source, TableSource) else ()
    sums = f", or sum them with {SUM}" if noun == "value" else ""
    return DataError(
        f"{entries.named(first)} has no direction because the equation is symmetric, but {said}.",
        location=TableLocation(entries.source.name, rows=rows),
        hint=f"Remove one of the rows{sums}; if links have a direction, use two different factors.",
    )


def _twice(entries: Entries, same: AnyArray) -> DataError:
    """Error with the earliest row that repeats a cell, and the first row of that cell; `same`: which repeat the cell
    before.
    """
    repeated = np.flatnonzero(same) + 1
    second = int(repeated[0 if entries.rows is None else np.argmin(entries.rows[repeated])])
    first = int(np.flatnonzero(~np.concatenate([[False], same[:second]]))[-1])
    more = int(same.sum()) - 1
    also = f"; {more} more row{'s repeat cells' if more > 1 else ' repeats a cell'}" if more else ""
    named = entries.named(first) or "the same cell"
    sums = isinstance(entries.source, TableSource) and entries.source.spec == "Relation"
    hint = f", or sum them with {SUM}" if sums else ""
    return DataError(
        f"both rows contain {named}{also}.",
        location=TableLocation(entries.source.name, rows=(entries.row(first), entries.row(second))),
        hint=f"Remove one{hint}.",
    )


def _summed(entries: Entries, same: AnyArray) -> Entries:
    """Sorted entries with duplicates summed, smallest value first, so the result does not depend on the
    order of rows.
    """
    new = np.concatenate([[True], ~same])
    order, first = np.lexsort((entries.values, np.cumsum(new))), np.flatnonzero(new)
    values = np.add.reduceat(entries.values[order], first)
    if entries.weights is not None:
        least, most = (f.reduceat(entries.weights, first) for f in (np.minimum, np.maximum))
        if (least != most).any():
            entry = int(first[np.argmax(least != most)])
            raise DataError(
                f"the rows of {entries.named(entry)} cannot be summed: their weights differ.",
                location=TableLocation.of(entries.source.name),
                hint="Give all rows of a cell the same weight, or sum them before the fit.",
            )
    return replace(entries.chosen(first), values=values)
