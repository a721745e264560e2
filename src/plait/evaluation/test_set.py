"""A test as row numbers and values: which columns of its table mean what, and what a Relation says about it.

Columns are found by the names of the indices, or by those that the data of the fit had; values by `value`, or by the
name that they had there. A column that could hold the values but is not understood is refused: were it ignored, every
row would be a link.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from narwhals import selectors

from plait._typing import Array, Rows
from plait.analysis.predict.lookup import as_frame, rows_of
from plait.data.encoding.columns import number_array
from plait.data.observation.structural_zeros import Closed
from plait.data.observation.symmetry import mirrored, writing
from plait.data.sources.arrays import ArraySource, as_floats, is_array, is_sparse, symmetric
from plait.data.sources.relation import Relation
from plait.data.sources.tables import check_ignored
from plait.data.sparse.keys import columns_of, pack
from plait.errors import DataError, TableLocation, quoted, suggestion
from plait.likelihood import Likelihood

if TYPE_CHECKING:
    from plait.result import Fit


TEST = TableLocation("test")


def read_test(fit: "Fit", relation: str, test: Any) -> tuple[Rows, Array]:
    """The cells of a test (n, order) and their values (n,), each cell once."""
    if not isinstance(test, Relation):
        test = Relation(as_frame(test, TEST).to_native())
    _refuse_senseless(fit, relation, test)
    column = None
    if is_array(test.data):
        rows, values = _of_array(fit, relation, test)
    else:
        rows, values, column = _of_table(fit, relation, test)
    kept = ~_not_tested(fit, relation, test).contain(rows)
    where = TEST if column is None else TEST.at(column)
    _check_values(np.where(kept, values, 0.0), fit.likelihood[relation], where)
    rows, values = _in_one_way(fit, relation, rows[kept], values[kept])
    if test.duplicates == "sum":
        return _summed(rows, values)
    _check_once(fit, relation, rows)
    return rows, values


def _in_one_way(fit: "Fit", relation: str, rows: Rows, values: Array) -> tuple[Rows, Array]:
    """Cells (n, order) in the writing in which known links are kept; one that is there in two, with one value, once."""
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
    """The links (n, order) of a table of further known ones; those of entities that the fit does not know left out.

    what: the table in errors.
    """
    if not isinstance(known, Relation):
        known = Relation(as_frame(known, what).to_native())
    if is_array(known.data):
        rows, values = _of_array(fit, relation, known, what)
    else:
        rows, values, _ = _of_table(fit, relation, known, what, unknown="prior")
    rows = fit.known[relation].canonical(rows[(values > 0) & (rows >= 0).all(axis=1)])
    return rows[~_not_tested(fit, relation, known, what).contain(rows)]


# --- tables


def _of_table(
    fit: "Fit", relation: str, test: Relation, what: TableLocation = TEST, unknown: str = "error"
) -> tuple[Rows, Array, str | None]:
    """Cells, values and the column of the latter; what: the argument that the table is, for errors."""
    frame, known = as_frame(test.data, what), fit.known[relation]
    check_ignored(frame.columns, test.ignore_columns or (), [*(test.columns or {}).values(), test.value], what)
    frame = frame.drop(*(test.ignore_columns or ()))
    indices = fit.model.equation(relation).indices
    named = _index_columns(frame.columns, indices, test.columns or {}, known.columns, what)
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
    """Index -> column: as the test says, by the name of the index, or as the data of the fit had it."""
    named: dict[str, str] = {}
    for index in indices:
        names = [said[index]] if index in said else [index, remembered.get(index, index)]
        found = [name for name in names if name in have and name not in named.values()]
        if found:
            named[index] = found[0]
        elif index in said:
            raise DataError(
                f"there is no column {quoted(said[index])}; the table has {', '.join(map(quoted, have))}.",
                location=what,
                hint=f"{suggestion(said[index], have)}`columns` names it: give the name of a column of the table.",
            )
    return named


def _value_column(
    have: Sequence[str], used: Sequence[str], said: str | None, remembered: str | None, what: TableLocation
) -> str | None:
    """The column of values; None where every row is a link."""
    left = [column for column in have if column not in used]
    if said is not None:
        if said not in left:
            raise DataError(
                f"there is no column {quoted(said)}; the table has {', '.join(map(quoted, have))}.",
                location=what,
                hint=f"{suggestion(said, have)}`value` names the column of values.",
            )
        return said
    known = [column for column in dict.fromkeys(("value", remembered)) if column in left]
    if len(known) > 1:
        raise DataError(
            f"columns 'value' and {quoted(remembered)} may both hold the values.",
            location=what,
            hint=f"Drop one, or say which does: {value_of(what, remembered)}.",
        )
    if left and not known:
        raise DataError(
            f"column {quoted(left[0])} is not used, and there is no column of values.",
            location=what,
            hint=f"Drop it, or say that it holds the values: {value_of(what, left[0])}.",
        )
    return known[0] if known else None


def value_of(what: TableLocation, column: str | None) -> str:
    """How one says which column holds the values."""
    return f"`value={column!r}`"


# --- what a Relation says


def _refuse_senseless(fit: "Fit", relation: str, test: Relation) -> None:
    """Options that would change figures if they meant anything here."""
    wrong = None
    if test.weight != 1:
        wrong = f"`weight` is {test.weight!r}, but all cells of a test count alike"
    elif not isinstance(test.observed, str):
        said = f"`observed` is {test.observed!r}"
        wrong = f"{said}, but only the listed cells of a test count, zeros as much as links"
    elif test.likelihood not in (Relation.likelihood, fit.likelihood[relation]):
        wrong = f"the likelihood is {test.likelihood!s}, but {relation} was fitted as {fit.likelihood[relation]}"
    if wrong is not None:
        raise DataError(f"{wrong}.", location=TEST, hint="Leave it out.")


def _of_array(fit: "Fit", relation: str, test: Relation, what: TableLocation = TEST) -> tuple[Rows, Array]:
    """All cells of a dense array but NaN; those that a sparse one stores."""
    indices, shape = fit.model.equation(relation).indices, fit.known[relation].shape
    source = test.read(what, indices, fit.known[relation].groups)
    assert isinstance(source, ArraySource)
    if source.shape != shape:
        raise DataError(
            f"the array has shape {source.shape}, but {relation} has {shape}.",
            location=what,
            hint="Give one entry a cell, or a table.",
        )
    if is_sparse(test.data):
        return source.coords.astype(np.int64), source.values
    own = tuple(test.indices or indices)
    array = np.transpose(as_floats(test.data, what), [own.index(index) for index in indices])
    array = symmetric(array, what, fit.known[relation].groups)
    there = ~np.isnan(array)
    return np.argwhere(there).reshape(-1, len(indices)), array[there]


def _not_tested(fit: "Fit", relation: str, test: Relation, what: TableLocation = TEST) -> Closed:
    """The cells that `missing=` and `hidden=` of a test take out of it."""
    indices, shape = fit.model.equation(relation).indices, fit.known[relation].shape
    tables: dict[tuple[str, ...], Rows] = {}
    for where, labels in (*test.read_missing(what, indices), *test.read_hidden(what, indices)):
        over = tuple(index for index in indices if index in labels)
        rows = np.stack([fit.entities[i].encode(labels[i], where=where, unknown="mark") for i in over], axis=1)
        rows = rows[(rows >= 0).all(axis=1)]
        tables[over] = np.unique(np.concatenate([tables[over], rows]) if over in tables else rows, axis=0)
    return Closed(indices, shape, mirrored(tables, indices, shape, fit.known[relation].groups))


# --- values


def _check_values(values: Array, likelihood: Likelihood, where: TableLocation) -> None:
    bad = ~((values >= 0) & (values < np.inf))
    bad |= likelihood.bad(np.where(bad, 0.0, values))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"the value is {values[row]:g}.",
            location=where.at(row=row),
            actual=float(values[row]),
            expected=likelihood.wanted,
            hint=f"{likelihood.wanted}; correct it, or remove the row.",
        )


def _summed(rows: Rows, values: Array) -> tuple[Rows, Array]:
    """Each cell once, with the sum of its values."""
    if not rows.shape[1]:
        return rows[:1], values.sum(keepdims=True)
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    return distinct, np.bincount(which.reshape(-1), values, len(distinct)).astype(np.float64, copy=False)


def _check_once(fit: "Fit", relation: str, rows: Rows) -> None:
    """No cell (n, order) may count twice."""
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
        f"both are about {cell or 'the same cell'}{also}.",
        location=TableLocation("test", rows=(first, second)),
        hint="Remove one, or give the cell one row with the sum of the values.",
    )
