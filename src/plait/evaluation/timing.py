"""When: a column of a relation's table that says the time of each row, and is no part of the relation itself."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from plait.data.cells.keys import columns_of, find, pack_pair
from plait.data.observing.undirected import canonical
from plait.data.reading.relation import Relation
from plait.data.reading.tables import TableSource, frame_of, is_table
from plait.errors import DataError, TableLocation, quoted, suggestion
from plait.types import AnyArray, Rows

if TYPE_CHECKING:
    from plait.evaluation.subject import Subject


def take_times(relation: Relation, name: str, time: str, used: tuple[str, ...] | None) -> tuple[Relation, Rows]:
    """The relation without its column of times, and the times of its rows as whole numbers in their order.

    used: the columns that the relation needs, so that one of them may say the time, too; None: all others.
    """
    if not is_table(relation.data):
        raise DataError(
            "`time` names a column, but this is no table.",
            location=TableLocation.of(name),
            hint="Give a table with a column of times.",
        )
    frame = frame_of(relation.data, name)
    if time not in frame.columns:
        raise DataError(
            f"there is no column {quoted(time)}; the table has {', '.join(map(quoted, frame.columns))}.",
            location=TableLocation.of(name),
            hint=f"{suggestion(time, frame.columns)}`time` names the column that says when.",
        )
    times = _in_order(frame.get_column(time), TableLocation(name, time))
    if used is not None and time in used:
        return relation, times
    ignore = [column for column in relation.ignore or () if column != time]
    return replace(relation, data=frame.drop(time).to_native(), ignore=ignore or None), times


def _in_order(column: Any, where: TableLocation) -> Rows:
    """Times of any kind that can be compared, as whole numbers."""
    series = column.to_polars()
    missing = series.is_null() | (series.is_nan() if series.dtype.is_float() else False)
    if missing.any():
        row = int(missing.arg_max())
        raise DataError("there is no time.", location=where.at(row=row), hint="Give one, or remove the row.")
    return np.asarray(series.rank("dense").to_numpy(), np.int64)


def times_at(subject: "Subject", cells: AnyArray) -> Rows:
    """The times of listed cells (n, order), (n,)."""
    bound, times = subject.bound, subject.times
    source = subject.relation.read(subject.name, bound.indices)
    assert isinstance(source, TableSource)
    assert times is not None
    labels = subject.data.labels
    rows = np.stack([labels[index].encode(source.labels[index]) for index in bound.indices], axis=1)
    rows = canonical(rows, bound.groups)
    mine, theirs = pack_pair(columns_of(cells), columns_of(rows), bound.shape, (len(cells), len(rows)))
    order = np.lexsort((times, theirs))
    keys, first = np.unique(theirs[order], return_index=True)
    last = np.append(first[1:], len(order)) - 1
    at, _ = find(mine, keys)
    earliest, latest = times[order[first[at]]], times[order[last[at]]]
    if (earliest != latest).any():
        cell = cells[int(np.argmax(earliest != latest))]
        named = ", ".join(f"{i}={quoted(labels[i][int(row)])}" for i, row in zip(bound.indices, cell))
        raise DataError(
            f"{named} has rows of several times, but a cell is hidden as a whole.",
            location=TableLocation.of(subject.name),
            hint="Give each cell one row, with the sum of its values and the time that counts, such as its first.",
        )
    return np.asarray(latest)
