"""Batches of rows of one relation, read twice: for their names, then as entries of row numbers.

Batches come from a scan or from slices of a table in memory. A source that is slow to read or may change is copied on
the first pass.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import AnyArray, Array
from plait.data.binding.entries import Entries, checked, without_hidden
from plait.data.binding.self_links import Pairs, without_self_links
from plait.data.encoding.columns import kind, number_array, widened
from plait.data.encoding.names import Labels, distinct_names
from plait.data.observation.structural_zeros import Tables
from plait.data.observation.symmetry import Groups
from plait.data.outofcore.block_file import look_at
from plait.data.outofcore.memory_budget import batch_rows
from plait.data.sources.relation import Relation
from plait.data.sources.tables import TableSource, column_names, frame_of, is_scan, named_labels, used_columns
from plait.data.sparse.keys import coordinate_type
from plait.errors import DataError, PlaitError, TableLocation
from plait.tuning import TUNING

if TYPE_CHECKING:
    import polars as pl


@dataclass
class BatchValues:
    """The largest value, whether all are integers, and whether float32 holds them exactly."""

    most: float = 0.0
    whole: bool = True
    floats: bool = True

    def add(self, values: Array) -> None:
        """Take more values into account; invalid ones are refused elsewhere."""
        if len(values) == 0:
            return
        some = values[:1] if values.strides == (0,) else values
        self.most, whole, floats = look_at(np.ascontiguousarray(some), self.most)
        self.whole, self.floats = self.whole and whole, self.floats and floats

    @property
    def type(self) -> "np.dtype[Any]":
        """Narrowest dtype that holds all values."""
        if self.whole and self.most < 2**16:
            return np.dtype(np.uint8 if self.most < 2**8 else np.uint16)
        return np.dtype(np.float32 if self.floats else np.float64)


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows as read: labels by index, values and weights, if there are such columns; `first`: number of
    the first row.
    """

    first: int
    labels: Mapping[str, "pl.Series"]
    values: Array
    weights: Array | None

    def __len__(self) -> int:
        return len(self.values)


class BatchNames:
    """Distinct labels of one column so far; deduplicated whenever their number has tripled."""

    def __init__(self, where: TableLocation) -> None:
        self.where, self.rows = where, 0
        self._parts: list[pl.Series] = []
        self._distinct = 0  # number of names in the first part

    def add(self, labels: "pl.Series") -> None:
        """Add the labels of a batch, as of `label_series`."""
        if len(labels) == 0:
            return
        if self._parts and kind(labels) != kind(self._parts[0]):
            raise DataError(
                f"the names are {kind(labels)}, but {kind(self._parts[0])} in earlier rows.",
                location=self.where.at(row=self.rows),
                hint="Convert the column to one type.",
            )
        self.rows += len(labels)
        self._parts.append(widened(labels))
        if sum(map(len, self._parts)) > 3 * self._distinct + TUNING.min_threaded_rows:
            self.distinct()

    def distinct(self) -> "pl.Series":
        """Distinct names in any order."""
        import polars as pl

        if not self._parts:
            return pl.Series(dtype=pl.Null)
        same = len({part.dtype for part in self._parts}) == 1  # integers of one batch may be within 63 bits
        names = distinct_names(pl.concat(self._parts if same else [part.cast(pl.UInt64) for part in self._parts]))
        self._parts, self._distinct = [names], len(names)
        return names


class Reader:
    """A table and its columns; after `collect` also its names, number of rows and kind of values."""

    def __init__(self, relation: Relation, name: str, indices: tuple[str, ...], copy: Path, memory: int) -> None:
        self.relation, self.name, self.indices = relation, name, indices
        self.batch = batch_rows(memory)
        self.copy, self.copies = copy, 0
        self.weight = relation.weight_column
        relation.check_indices(name, indices)
        self.columns, self.value = used_columns(
            column_names(relation.data, name), name, indices, relation.columns or {}, relation.value, self.weight,
            "Relation", tuple(relation.ignore_columns or ()),
        )  # fmt: skip
        self.rows = 0
        self.values = BatchValues()
        self.names: dict[str, pl.Series] = {}

    @property
    def source(self) -> TableSource:
        """The table without its rows, for errors and checks; labels are the distinct names."""
        return TableSource(
            self.name, self.columns, self.names, np.zeros(0), None, self.rows, self.value or "value",
            self.weight or "weight",
        )  # fmt: skip

    def located(self, place: TableLocation) -> Any:
        """A place in the table, or in its file."""
        data = self.relation.data
        return data.located(place) if is_scan(data) and place.table == self.name and place.part is None else place

    @contextmanager
    def naming(self, first: int = 0) -> Iterator[None]:
        """Context in which errors about rows of a batch name those of the table and its file; `first`: first row of the
        batch.
        """
        try:
            yield
        except PlaitError as error:
            if isinstance(error.location, TableLocation):
                rows = tuple(row + first for row in error.location.rows)
                error.location = self.located(replace(error.location, rows=rows))
            raise

    # --- the first pass

    def collect(self) -> Iterator[int]:
        """First pass over all rows: names and values; yields the number of rows read."""
        names = self._begin()
        for columns in self._read():
            if columns is None:
                names = self._begin()
                continue
            with self.naming(self.rows):
                batch = self._batch(columns)
                for index, labels in batch.labels.items():
                    names[index].add(labels)
            self.values.add(batch.values)
            self.rows += len(batch)
            self._keep(batch)
            yield len(batch)
        self.names = {index: some.distinct() for index, some in names.items()}

    def _begin(self) -> dict[str, BatchNames]:
        self.rows, self.copies, self.values = 0, 0, BatchValues()
        return {index: BatchNames(TableLocation(self.name, column)) for index, column in self.columns.items()}

    def _read(self) -> "Iterator[Mapping[str, Any] | None]":
        """Used columns, in batches; None where reading starts again."""
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
        place = TableLocation(self.name)
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
        """Whether the source is copied on the first pass."""
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

    def _file(self, number: int) -> Path:
        return self.copy / f"{number}.arrow"

    def _batches(self) -> Iterator[Batch]:
        """All rows again."""
        first = 0
        if self.copied:
            for number in range(self.copies):
                batch = self._batch_without_hidden(number, first)
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
            "the table changed while it was read.",
            location=self.located(TableLocation(self.name)),
            hint="Pack again when the table no longer changes.",
        )

    def _batch_without_hidden(self, number: int, first: int) -> Batch:
        import polars as pl

        table = pl.read_ipc(self._file(number))
        labels = {index: table[f"label {k}"] for k, index in enumerate(self.indices)}
        values = np.broadcast_to(1.0, len(table)) if self.value is None else table["value"].to_numpy()
        return Batch(first, labels, values, None if self.weight is None else table["weight"].to_numpy())

    # --- the second pass

    def entries(
        self, names: Mapping[str, Labels], hidden: Tables, apart: Pairs, groups: Groups
    ) -> "Iterator[tuple[Entries, int, int]]":
        """All rows as checked entries in canonical orientation, without hidden ones and self-links.

        With each: the number of the batch's first row, and the number of dropped self-links.
        """
        source = self.source
        labelled = tuple((index, names[index]) for index in self.indices)
        for batch in self._batches():
            with self.naming(batch.first):
                coords = self._coords(batch, names)
                entries = Entries(source, labelled, coords, batch.values, batch.weights)
                if hidden:
                    entries = without_hidden(entries, hidden)
                entries, dropped = without_self_links(entries, apart) if apart else (entries, 0)
                yield checked(entries).in_one_way(groups), batch.first, dropped

    def _coords(self, batch: Batch, names: Mapping[str, Labels]) -> AnyArray:
        """Rows (n, order) of the labels of a batch, contiguous by column."""
        coordinates = coordinate_type([len(names[index]) for index in self.indices])
        coords = np.empty((len(self.indices), len(batch)), coordinates).T
        for k, (index, labels) in enumerate(batch.labels.items()):
            try:
                names[index].write(labels, coords[:, k], where=TableLocation(self.name))
            except DataError:
                raise self._changed() from None
        return coords
