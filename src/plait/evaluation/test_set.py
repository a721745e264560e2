"""Test set as row numbers and values, from a table, an array or a `Relation`.

Columns are found by the names of the indices, or by those of the fit's data; values by `value`, or by their name there.
An unknown column that could hold the values is refused: without it, every row would be a link.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from narwhals.stable.v2 import selectors

from plait._typing import Array, Rows
from plait.analysis.predict.lookup import as_frame, require_indices, rows_of
from plait.data.encoding.columns import number_array
from plait.data.observation.structural_zeros import StructuralZeros
from plait.data.observation.symmetry import mirrored, writing
from plait.data.sources.arrays import ArraySource, as_floats, is_array, is_sparse, symmetric
from plait.data.sources.coercion import refuse_ambiguous
from plait.data.sources.relation import Relation
from plait.data.sources.tables import check_ignored
from plait.data.sparse.keys import columns_of, pack
from plait.errors import DataError, TableLocation, quoted, suggestion
from plait.likelihood import Likelihood

if TYPE_CHECKING:
    from plait.result import Fit


TEST = TableLocation("test")


def read_test(fit: "Fit", relation: str, test: Any) -> tuple[Rows, Array]:
    """Cells of a test set (n, order) and their values (n,), each cell once."""
    test = _as_relation(fit, relation, test, TEST)
    _refuse_senseless(fit, relation, test)
    column = None
    if is_array(test.data):
        rows, values = _of_array(fit, relation, test)
    else:
        rows, values, column = _of_table(fit, relation, test)
    kept = ~_excluded_cells(fit, relation, test).contain(rows)
    where = TEST if column is None else TEST.at(column)
    _check_values(np.where(kept, values, 0.0), fit.likelihood[relation], where)
    rows, values = _in_one_way(fit, relation, rows[kept], values[kept])
    if test.duplicates == "sum":
        return _summed(rows, values)
    _check_once(fit, relation, rows)
    return rows, values


def _as_relation(fit: "Fit", relation: str, given: Any, what: TableLocation) -> Relation:
    """A test, or a table of known links, in any form that data of a fit may have."""
    indices = fit.model.equation(relation).indices
    if isinstance(given, np.ndarray):
        refuse_ambiguous(given, len(indices), what.name)
    try:
        return (given if isinstance(given, Relation) else Relation(given)).with_names(what, indices)
    except DataError as error:
        raise error.within(what) from None


def _in_one_way(fit: "Fit", relation: str, rows: Rows, values: Array) -> tuple[Rows, Array]:
    """Cells (n, order) in canonical orientation; one that is listed in two, with one value, once."""
    known = fit.known[relation]
    if not known.groups:
        return rows, values
    cells, way = known.canonical(rows), writing(rows, known.groups)
    keys = pack(columns_of(cells), known.shape, len(cells))
    order = np.lexsort((way, keys))
    again = (keys[order[1:]] == keys[order[:-1]]) & (way[order[1:]] != way[order[:-1]])
    again &= values[order[1:]] == values[order[:-1]]
    kept = np.ones(len(cells), bool)
    kept[order[1:][again]] = False
    return cells[kept], values[kept]


def read_known(fit: "Fit", relation: str, known: Any, what: TableLocation) -> Rows:
    """Links (n, order) of a table of `known`, without entities unknown to the fit. `what`: the table in errors."""
    known = _as_relation(fit, relation, known, what)
    if is_array(known.data):
        rows, values = _of_array(fit, relation, known, what)
    else:
        rows, values, _ = _of_table(fit, relation, known, what, unknown="prior")
    rows = fit.known[relation].canonical(rows[(values > 0) & (rows >= 0).all(axis=1)])
    return rows[~_excluded_cells(fit, relation, known, what).contain(rows)]


# --- tables


def _of_table(
    fit: "Fit", relation: str, test: Relation, what: TableLocation = TEST, unknown: str = "error"
) -> tuple[Rows, Array, str | None]:
    """Cells, values and the column of the latter; `what`: the argument, for errors."""
    frame, known = as_frame(test.data, what), fit.known[relation]
    check_ignored(frame.columns, test.ignore_columns or (), [*(test.columns or {}).values(), test.value], what)
    frame = frame.drop(*(test.ignore_columns or ()))
    indices = fit.model.equation(relation).indices
    named = _index_columns(frame.columns, indices, test.columns or {}, known.columns, what)
    if len(named) < len(indices):
        require_indices(frame.columns, relation, indices, what)
    value = _value_column(frame.columns, list(named.values()), test.value, known.value, what)
    cells = frame.select(*named.values()).rename({c: i for i, c in named.items()}) if named else frame
    if test.strip:
        cells = cells.with_columns(selectors.string().str.strip_chars())
    _, rows = rows_of(fit, relation, cells, unknown=unknown, what=what)
    if value is None:
        return rows, np.ones(len(rows)), None
    return rows, number_array(frame.get_column(value), what.at(value)), value


def _index_columns(
    have: Sequence[str],
    indices: Sequence[str],
    said: Mapping[str, str],
    remembered: Mapping[str, str],
    what: TableLocation,
) -> dict[str, str]:
    """Index → column: as given, by the name of the index, or as in the data of the fit."""
    named: dict[str, str] = {}
    for index in indices:
        names = [said[index]] if index in said else [index, remembered.get(index, index)]
        columns = [name for name in names if name in have and name not in named.values()]
        if columns:
            named[index] = columns[0]
        elif index in said:
            raise DataError(
                f"there is no column {quoted(said[index])}; the table has {', '.join(map(quoted, have))}.",
                location=what,
                hint=f"{suggestion(said[index], have)}Set `columns` to a column of the table.",
            )
    return named


def _value_column(
    have: Sequence[str], used: Sequence[str], said: str | None, remembered: str | None, what: TableLocation
) -> str | None:
    """Column of values; None where every row is a link."""
    left = [column for column in have if column not in used]
    if said is not None:
        if said not in left:
            raise DataError(
                f"there is no column {quoted(said)}; the table has {', '.join(map(quoted, have))}.",
                location=what,
                hint=f"{suggestion(said, have)}Set `value` to the column of values.",
            )
        return said
    known = [column for column in dict.fromkeys(("value", remembered)) if column in left]
    if len(known) > 1:
        raise DataError(
            f"both columns 'value' and {quoted(remembered)} can be the values.",
            location=what,
            hint=f"Remove one, or choose with {value_of(what, remembered)}.",
        )
    if left and not known:
        raise DataError(
            f"column {quoted(left[0])} is not used, and the table has no column of values.",
            location=what,
            hint=f"Remove it, or use it as values with {value_of(what, left[0])}.",
        )
    return known[0] if known else None


def value_of(what: TableLocation, column: str | None) -> str:
    """How to name the column of values, for a hint."""
    return f"`value={column!r}`"


# --- relations


def _refuse_senseless(fit: "Fit", relation: str, test: Relation) -> None:
    """Refuse options of a `Relation` that a test set cannot have."""
    wrong = None
    if test.weight != 1:
        wrong = f"`weight` is {test.weight!r}, but all test cells have the same weight"
    elif not isinstance(test.observed, str):
        said = f"`observed` is {test.observed!r}"
        wrong = f"{said}, but a test uses only listed cells, with equal weights"
    elif test.likelihood not in (Relation.likelihood, fit.likelihood[relation]):
        wrong = f"the likelihood is {test.likelihood!s}, but {relation} was fitted as {fit.likelihood[relation]}"
    if wrong is not None:
        raise DataError(f"{wrong}.", location=TEST, hint="Remove it.")


def _of_array(fit: "Fit", relation: str, test: Relation, what: TableLocation = TEST) -> tuple[Rows, Array]:
    """All cells of a dense array but NaN; stored cells of a sparse one."""
    indices, shape = fit.model.equation(relation).indices, fit.known[relation].shape
    source = test.read(what, indices, fit.known[relation].groups)
    assert isinstance(source, ArraySource)
    if source.shape != shape:
        raise DataError(
            f"the array has shape {source.shape}, but {relation} has {shape}.",
            location=what,
            hint="Give one entry per cell, or a table.",
        )
    if is_sparse(test.data):
        return source.coords.astype(np.int64), source.values
    own = tuple(test.indices or indices)
    array = np.transpose(as_floats(test.data, what), [own.index(index) for index in indices])
    array = symmetric(array, what, fit.known[relation].groups)
    there = ~np.isnan(array)
    return np.argwhere(there).reshape(-1, len(indices)), array[there]


def _excluded_cells(fit: "Fit", relation: str, test: Relation, what: TableLocation = TEST) -> StructuralZeros:
    """Cells that `missing=` and `hidden=` exclude from a test set."""
    indices, shape = fit.model.equation(relation).indices, fit.known[relation].shape
    tables: dict[tuple[str, ...], Rows] = {}
    for where, labels in (*test.read_missing(what, indices), *test.read_hidden(what, indices)):
        over = tuple(index for index in indices if index in labels)
        rows = np.stack([fit.entities[i].encode(labels[i], where=where, unknown="mark") for i in over], axis=1)
        rows = rows[(rows >= 0).all(axis=1)]
        tables[over] = np.unique(np.concatenate([tables[over], rows]) if over in tables else rows, axis=0)
    return StructuralZeros(indices, shape, mirrored(tables, indices, shape, fit.known[relation].groups))


# --- values


def _check_values(values: Array, likelihood: Likelihood, where: TableLocation) -> None:
    bad = ~((values >= 0) & (values < np.inf))
    bad |= likelihood.bad(np.where(bad, 0.0, values))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"the value is {values[row]:g}, which is not valid for the likelihood {likelihood}.",
            location=where.at(row=row),
            actual=float(values[row]),
            expected=likelihood.wanted,
            hint=f"{likelihood.wanted}; correct it, or remove the row.",
        )


def _summed(rows: Rows, values: Array) -> tuple[Rows, Array]:
    """Distinct cells, with the sum of their values."""
    if not rows.shape[1]:
        return rows[:1], values.sum(keepdims=True)
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    return distinct, np.bincount(which.reshape(-1), values, len(distinct)).astype(np.float64, copy=False)


def _check_once(fit: "Fit", relation: str, rows: Rows) -> None:
    """Refuse repeated cells (n, order)."""
    keys = pack(columns_of(rows), fit.known[relation].shape, len(rows))
    order = np.argsort(keys, kind="stable")
    again = order[1:][keys[order[1:]] == keys[order[:-1]]]
    if not len(again):
        return
    second = int(again.min())
    first = int(np.argmax(keys == keys[second]))
    indices = fit.model.equation(relation).indices
    cell = ", ".join(f"{index}={quoted(fit.entities[index][int(row)])}" for index, row in zip(indices, rows[first]))
    more = len(again) - 1
    also = f"; {more:,} more row{'s repeat cells' if more > 1 else ' repeats a cell'}" if more else ""
    raise DataError(
        f"both rows contain {cell or 'the same cell'}{also}.",
        location=TableLocation("test", rows=(first, second)),
        hint="Remove one of the rows, or sum their values in one row.",
    )
