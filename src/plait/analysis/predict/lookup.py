"""Lookup of cells: entity names to row numbers, for tables and for single cells."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plait._typing import Rows
from plait.data.encoding.names import Labels, listed
from plait.data.sources.coercion import columns_table
from plait.data.sources.tables import frame_of
from plait.errors import DataError, Named, ParameterError, TableLocation, quoted, suggestion
from plait.forked import refuse_in_fork
from plait.storage.fitted import Fitted

# Names among which a misspelt one is looked for.
MAX_COMPARED_NAMES = 10_000
PERIODS = "Use `predict` and `top` for periods of the fit, `forecast` for the next ones."


def rows_of(
    fit: Fitted, relation: str, cells: Any, *, unknown: str = "error", what: Named = "cells"
) -> tuple[Any, Rows]:
    """Row numbers (n, order) of a table of cells, and the table as a narwhals frame.

    `cells`: a table, or a dict of columns, with a column for each index of the relation; other columns are ignored.
    Unknown names are errors, or −1 with `unknown="prior"`. A relation without indices has one cell, given by a table
    without columns. `what`: name of the table in errors.
    """
    if unknown not in ("error", "prior"):
        hint = suggestion(unknown, ("error", "prior"))
        raise ParameterError.must_be("handle_unknown", "'error' or 'prior'", unknown, hint=hint.strip())
    indices = fit.model.equation(relation).indices
    what = TableLocation.of(what)
    frame = as_frame(cells, what)
    require_indices(frame.columns, relation, indices, what)
    if not indices:
        return frame, np.zeros((len(frame) if frame.columns else max(len(frame), 1), 0), np.int64)
    ordered = fit.model.ordered
    columns = [
        _encoded(fit.entities[i], frame.get_column(i), what.at(i), unknown, ordered=fit.model.axis(i) in ordered)
        for i in indices
    ]
    rows = np.stack(columns, axis=1)
    _refuse_self_links(fit, relation, rows, what)
    return frame, rows


def row_of(fit: Fitted, relation: str, cell: Mapping[str, Any]) -> Rows:
    """Row numbers (order,) of one cell, a mapping from every index of the relation to a name, in the orientation of
    known links.
    """
    indices = fit.model.equation(relation).indices
    if not isinstance(cell, Mapping):
        example = ", ".join(f"{index!r}: …" for index in indices)
        raise DataError(
            f"expected a dict with a name for each index, got {type(cell).__name__}.",
            location=TableLocation("cell"),
            hint=f"Give {{{example}}}.",
        )
    for index in cell:
        if index not in indices:
            near = suggestion(index, [other for other in indices if other not in cell])
            raise DataError(
                f"{quoted(index)} is not an index of {relation}.",
                location=TableLocation("cell"),
                hint=f"{near}The indices are {', '.join(indices) or 'none'}.",
            )
    require_indices(list(cell), relation, indices, TableLocation("cell"))
    rows = [
        _encoded(fit.entities[i], [cell[i]], TableLocation("cell", i, noun="index"), "error", alone=True)[0]
        for i in indices
    ]
    row = np.array([rows], np.int64).reshape(1, len(indices))
    _refuse_self_links(fit, relation, row, TableLocation("cell"))
    return np.asarray(fit.known[relation].canonical(row)[0])


def row_named(labels: Labels, name: Any, argument: str) -> int:
    """Row number of one entity of an axis; `argument`: name of the argument in errors."""
    return int(_encoded(labels, [name], TableLocation(argument), "error", alone=True)[0])


def _refuse_self_links(fit: Fitted, relation: str, rows: Rows, what: TableLocation) -> None:
    """Refuse self-links, cells (n, order) with one entity at two indices of a factor that occurs twice."""
    equation = fit.model.equation(relation)
    for pair in equation.doubled:
        first, second = (rows[:, equation.indices.index(index)] for index in pair)
        own = (first == second) & (first >= 0)
        if own.any():
            at = int(np.argmax(own))
            name, where = fit.entities[pair[0]][int(first[at])], what if what.table == "cell" else what.at(row=at)
            raise DataError(
                (
                    f"{pair[0]} and {pair[1]} are both {quoted(name)}, but {relation} has no self-links: its "
                    "equation contains a factor twice."
                ),
                location=where,
                hint="Choose two different entities." if what.table == "cell" else "Remove such cells.",
            )


def as_frame(cells: Any, where: Named = "cells") -> Any:
    """A table as an eager narwhals frame; a dict of columns becomes a polars table."""
    import narwhals.stable.v2 as nw

    refuse_in_fork("cells, a table")
    if not isinstance(cells, dict):
        return frame_of(cells, where)
    return nw.from_native(columns_table(cells, where), eager_only=True)


def require_indices(columns: Sequence[Any], relation: str, indices: Sequence[str], what: TableLocation) -> None:
    """Refuse cells without a column, or an entry of a dict, for each index."""
    for index in indices:
        if index not in columns:
            others = [column for column in columns if column not in indices]
            have = ", ".join(map(quoted, columns)) or "none"
            missing = (
                f"there is no column {quoted(index)}" if what.table != "cell" else f"index {quoted(index)} is missing"
            )
            raise DataError(
                f"{missing}; got {have}.",
                location=what,
                hint=f"{suggestion(index, others)}{relation} needs {', '.join(indices)}.",
            )


def _encoded(
    labels: Labels, column: Any, where: TableLocation, unknown: str, *, alone: bool = False, ordered: bool = False
) -> Rows:  # fmt: skip
    """Row numbers of a column's names; −1 for unknown ones where allowed. `alone`: the column is a single name.
    `ordered`: names are periods.
    """
    rows = labels.encode(column, where=where, unknown="mark")
    if unknown == "error" and (rows < 0).any():
        first = int(np.argmax(rows < 0))
        name = column[first]
        near = suggestion(name, labels.names.head(MAX_COMPARED_NAMES).to_list()) if isinstance(name, str) else ""
        place = where if alone else where.at(row=first)
        prior = (
            ', or predict unknown names from the prior with `handle_unknown="prior"`' if where.table == "cells" else ""
        )
        hint = PERIODS if ordered else "Choose one of them." if alone else f"Remove the row{prior}."
        raise DataError(
            f"{quoted(name)} is not an entity of axis {labels.axis}, which has {listed(labels.names)}.",
            location=place,
            actual=name,
            hint=f"{near}{hint}",
        )
    return rows
