"""The rows of one relation, batch by batch, twice: for their names, then as entries of row numbers.

What is read are the batches of a scan, or slices of a table in memory. A source that is dear to read twice, or might be
another one then, is copied on the first pass.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plait.data.binding.entries import Entries, checked, without_hidden
from plait.data.binding.self_links import Pairs, without_self_links
from plait.data.blocks.collecting import Collected, Known
from plait.data.blocks.loops import count_from, look_at, look_up
from plait.data.blocks.memory import batch_rows, table_room
from plait.data.cells.keys import coordinate_type
from plait.data.labels.columns import kind, number_array
from plait.data.labels.names import Labels
from plait.data.observing.closed import Tables
from plait.data.observing.undirected import Groups
from plait.data.reading.relation import Relation
from plait.data.reading.scanned import is_scan
from plait.data.reading.tables import TableSource, column_names, frame_of, named_labels, used_columns
from plait.errors import DataError, PlaitError
from plait.saying import Place
from plait.types import AnyArray, Array

if TYPE_CHECKING:
    import polars as pl


@dataclass
class Values:
    """What values are like: the largest one, whether all are whole, and whether floats hold them exactly."""

    most: float = 0.0
    whole: bool = True
    floats: bool = True

    def add(self, values: Array) -> None:
        """Look at some more; those that are no numbers ≥ 0 are refused elsewhere."""
        if len(values) == 0:
            return
        some = values[:1] if values.strides == (0,) else values
        self.most, whole, floats = look_at(np.ascontiguousarray(some), self.most)
        self.whole, self.floats = self.whole and whole, self.floats and floats

    def said(self) -> tuple[float, bool, bool]:
        """All of it, as plain words."""
        return float(self.most), bool(self.whole), bool(self.floats)

    @property
    def type(self) -> "np.dtype[Any]":
        """The narrowest type that holds them all."""
        if self.whole and self.most < 2**16:
            return np.dtype(np.uint8 if self.most < 2**8 else np.uint16)
        return np.dtype(np.float32 if self.floats else np.float64)


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows as read: labels by index, values and weights, if there are such columns; first: the number of one."""

    first: int
    labels: Mapping[str, "pl.Series"]
    values: Array
    weights: Array | None

    def __len__(self) -> int:
        return len(self.values)


class SameHashError(Exception):
    """Two names of a table have one hash: it has to be read once more."""


class Reader:
    """A table and what its columns are; after `collect` also the names in it, how many rows, what values are like."""

    def __init__(
        self, relation: Relation, name: str, indices: tuple[str, ...], copy: Path, memory: int, *, exact: bool = False
    ) -> None:
        self.relation, self.name, self.indices, self.memory = relation, name, indices, memory
        self.batch, self.exact = batch_rows(memory), exact
        self.copy, self.copies = copy, 0
        self.weight = relation.weight_column
        relation.check_indices(name, indices)
        self.columns, self.value = used_columns(
            column_names(relation.data, name), name, indices, relation.columns or {}, relation.value, self.weight,
            "Relation", tuple(relation.ignore or ()),
        )  # fmt: skip
        self.rows = 0
        self.values = Values()
        self.found: dict[str, Collected | Known] = {}

    @property
    def source(self) -> TableSource:
        """The table as errors and checks know it, without its rows; the labels are each name once."""
        names = {index: found.names for index, found in self.found.items()}
        return TableSource(
            self.name, self.columns, names, np.zeros(0), None, self.rows, self.value or "value", self.weight or "weight"
        )

    def located(self, place: Place) -> Any:
        """A place in the table as the user knows it: in its file, if it is one."""
        data = self.relation.data
        return data.located(place) if is_scan(data) and place.table == self.name and place.part is None else place

    @contextmanager
    def naming(self, first: int = 0) -> Iterator[None]:
        """Errors about rows of a batch name those of the table, and its file; first: the batch's first row."""
        try:
            yield
        except PlaitError as error:
            if isinstance(error.where, Place):
                rows = tuple(row + first for row in error.where.rows)
                error.where = self.located(replace(error.where, rows=rows))
            raise

    # --- the first pass

    def collect(self) -> Iterator[int]:
        """Go through all rows: which names occur, what values are like; tells how many rows were read."""
        found = self._begin()
        for columns in self._read():
            if columns is None:
                found = self._begin()
                continue
            with self.naming(self.rows):
                batch = self._batch(columns)
                for index, labels in batch.labels.items():
                    found[index].add(labels)
            self.values.add(batch.values)
            self.rows += len(batch)
            self._keep(batch)
            yield len(batch)

    def _begin(self) -> dict[str, Collected]:
        self.rows, self.copies, self.values = 0, 0, Values()
        found = {
            index: Collected(Place(self.name, column), table_room(self.memory), exact=self.exact)
            for index, column in self.columns.items()
        }
        self.found = {**found}
        return found

    def _read(self) -> "Iterator[Mapping[str, Any] | None]":
        """The columns that are used, some rows at a time; None where all begins again."""
        used = [*self.columns.values(), *(column for column in (self.value, self.weight) if column is not None)]
        data = self.relation.data
        if is_scan(data):
            for table in data.batches(used, self.batch):
                yield None if table is None else {column: table[column] for column in used}
            return
        frame = frame_of(data, self.name)
        for at in range(0, len(frame), self.batch):
            some = frame[at : at + self.batch]
            yield {column: some.get_column(column) for column in used}

    def _batch(self, columns: Mapping[str, Any]) -> Batch:
        place = Place(self.name)
        labels = {
            index: named_labels(columns[column], place.at(column), self.relation.strip)
            for index, column in self.columns.items()
        }
        numbers = {
            column: number_array(columns[column], place.at(column))
            for column in (self.value, self.weight)
            if column is not None
        }
        count = len(next(iter(labels.values())))
        values = np.broadcast_to(1.0, count) if self.value is None else numbers[self.value]
        return Batch(self.rows, labels, values, None if self.weight is None else numbers[self.weight])

    # --- copies

    @property
    def copied(self) -> bool:
        """Whether the source is kept as it was on the first pass."""
        data = self.relation.data
        return is_scan(data) and not data.stays

    def _keep(self, batch: Batch) -> None:
        import polars as pl

        if not self.copied:
            return
        self.copy.mkdir(parents=True, exist_ok=True)
        named = {f"label {k}": batch.labels[index] for k, index in enumerate(self.indices)}
        table = pl.DataFrame(named)
        if self.value is not None:
            table = table.with_columns(value=pl.Series(batch.values))
        if batch.weights is not None:
            table = table.with_columns(weight=pl.Series(batch.weights))
        table.write_ipc(self._file(self.copies), compression="uncompressed")
        self.copies += 1

    @property
    def copied_files(self) -> list[Path]:
        """The files of the copy."""
        return [self._file(number) for number in range(self.copies)]

    def _file(self, number: int) -> Path:
        return self.copy / f"{number}.arrow"

    def _batches(self) -> Iterator[Batch]:
        """All rows once more."""
        first = 0
        if self.copied:
            for number in range(self.copies):
                batch = self._kept(number, first)
                first += len(batch)
                yield batch
            return
        for columns in self._read():
            if columns is None:
                raise self._changed()
            with self.naming(first):
                batch = replace(self._batch(columns), first=first)
            first += len(batch)
            yield batch
        if first != self.rows:
            raise self._changed()

    def _changed(self) -> DataError:
        return DataError(
            "the table has changed while it was read.",
            where=self.located(Place(self.name)),
            cure="Pack again, once nobody writes to it.",
        )

    def _kept(self, number: int, first: int) -> Batch:
        import polars as pl

        table = pl.read_ipc(self._file(number))
        labels = {index: table[f"label {k}"] for k, index in enumerate(self.indices)}
        values = np.broadcast_to(1.0, len(table)) if self.value is None else table["value"].to_numpy()
        return Batch(first, labels, values, None if self.weight is None else table["weight"].to_numpy())

    # --- the second pass

    def entries(
        self, names: Mapping[str, Labels], hidden: Tables, apart: Pairs, groups: Groups
    ) -> "Iterator[tuple[Entries, int, int]]":
        """All rows as entries, as binding has them: without hidden ones and self-links, checked, in one writing.

        With each: the number of the batch's first row, and how many self-links were dropped.
        """
        source = self.source
        labelled = tuple((index, names[index]) for index in self.indices)
        tables = {index: near for index in self.indices if (near := self._table(index, names[index])) is not None}
        for batch in self._batches():
            with self.naming(batch.first):
                coords = self._coords(batch, names, tables)
                entries = Entries(source, labelled, coords, batch.values, batch.weights)
                if hidden:
                    entries = without_hidden(entries, hidden)
                entries, dropped = without_self_links(entries, apart) if apart else (entries, 0)
                yield checked(entries).in_one_way(groups), batch.first, dropped

    def _table(self, index: str, labels: Labels) -> "tuple[int, AnyArray | int] | None":
        """Where all labels of a column are integers close together: the least, and the rows of it and those after.

        Where labels are counted as rows are: how many there are."""
        found = self.found[index].counts
        if found is None or len(found[0]) == 0:
            return None
        names = found[0].to_numpy()
        table = np.full(int(names[-1]) - int(names[0]) + 1, -1, np.int64)
        table[names - names[0]] = labels.encode(found[0])
        if np.array_equal(table, np.arange(len(table))):  # nothing to look up
            return int(names[0]), len(table)
        return int(names[0]), table.astype(np.int32) if len(labels) < 2**31 else table

    def _coords(
        self, batch: Batch, names: Mapping[str, Labels], tables: "Mapping[str, tuple[int, AnyArray | int]]"
    ) -> AnyArray:
        """The rows (n, order) of the labels of a batch, column after column in memory."""
        kind = coordinate_type([len(names[index]) for index in self.indices])
        coords = np.empty((len(self.indices), len(batch)), kind).T
        for k, (index, labels) in enumerate(batch.labels.items()):
            if index not in tables:
                self._write(labels, names[index], coords[:, k])
            elif not self._look_up(labels, *tables[index], coords[:, k]):
                raise self._changed()
        return coords

    def _look_up(self, labels: "pl.Series", least: int, table: AnyArray | int, rows: AnyArray) -> bool:
        if isinstance(table, int):
            return bool(count_from(labels.to_numpy(), least, table, rows))
        return bool(look_up(labels.to_numpy(), least, table, rows))

    def _write(self, labels: "pl.Series", names: Labels, rows: AnyArray) -> None:
        try:
            names.write(labels, rows, where=Place(self.name))
        except DataError:
            if self.exact or kind(labels) != kind(names.names):
                raise self._changed() from None
            raise SameHashError from None
