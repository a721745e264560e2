"""Cells by outside names -> row numbers: whole tables of them, or one as a mapping."""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from plait._typing import Rows
from plait.data.encoding.names import Labels, listed
from plait.data.sources.tables import frame_of
from plait.errors import DataError, Named, ParameterError, TableLocation, quoted, suggestion
from plait.forked import refuse_in_fork
from plait.storage.fitted import Fitted

# Names among which a misspelt one is looked for.
MOST_COMPARED = 10_000


def rows_of(
    fit: Fitted, relation: str, cells: Any, *, unknown: str = "error", what: Named = "cells"
) -> tuple[Any, Rows]:
    """A table of cells as a narwhals frame, and the row numbers of its cells.

    cells: any table, or a dict of columns, with a column for each index of the relation; other columns are left alone.
    Rows are (n, order), in the order of the relation's indices. A name that the fit has not seen is an error, or −1
    where unknown is "prior". A relation without indices has one cell, which a table without columns means. what: the
    table in errors.
    """
    if unknown not in ("error", "prior"):
        hint = suggestion(unknown, ("error", "prior"))
        raise ParameterError.must_be("unknown", "'error' or 'prior'", unknown, hint=hint.strip())
    indices = fit.model.equation(relation).indices
    what = TableLocation.of(what)
    frame = as_frame(cells, what)
    _check_columns(frame.columns, relation, indices, what)
    if not indices:
        return frame, np.zeros((len(frame) if frame.columns else max(len(frame), 1), 0), np.int64)
    columns = [_encoded(fit.entities[i], frame.get_column(i), what.at(i), unknown) for i in indices]
    rows = np.stack(columns, axis=1)
    _refuse_self_links(fit, relation, rows, what)
    return frame, rows


def row_of(fit: Fitted, relation: str, cell: Mapping[str, Any]) -> Rows:
    """The row numbers (order,) of one cell, given as a mapping from every index of the relation to a name.

    A cell that can be written in several ways is given in that in which known links are kept.
    """
    indices = fit.model.equation(relation).indices
    if not isinstance(cell, Mapping):
        example = ", ".join(f"{index!r}: …" for index in indices)
        raise DataError(
            f"wanted a name for each index, got {type(cell).__name__}.",
            location=TableLocation("cell"),
            hint=f"Give {{{example}}}.",
        )
    for index in cell:
        if index not in indices:
            near = suggestion(index, [other for other in indices if other not in cell])
            raise DataError(
                f"{quoted(index)} is no index of {relation}.",
                location=TableLocation("cell"),
                hint=f"{near}It has {', '.join(indices) or 'none'}.",
            )
    _check_columns(list(cell), relation, indices, TableLocation("cell"), part="index")
    rows = [
        _encoded(fit.entities[i], [cell[i]], TableLocation("cell", i, noun="index"), "error", alone=True)[0]
        for i in indices
    ]
    row = np.array([rows], np.int64).reshape(1, len(indices))
    _refuse_self_links(fit, relation, row, TableLocation("cell"))
    return np.asarray(fit.known[relation].canonical(row)[0])


def row_named(labels: Labels, name: Any, argument: str) -> int:
    """The row of one entity of an axis; argument: what the name was given as, for errors."""
    return int(_encoded(labels, [name], TableLocation(argument), "error", alone=True)[0])


def _refuse_self_links(fit: Fitted, relation: str, rows: Rows, what: TableLocation) -> None:
    """Refuse cells (n, order) that are none: a factor that stands twice takes two entities."""
    equation = fit.model.equation(relation)
    for pair in equation.doubled:
        first, second = (rows[:, equation.indices.index(index)] for index in pair)
        own = (first == second) & (first >= 0)
        if own.any():
            at = int(np.argmax(own))
            name, where = fit.entities[pair[0]][int(first[at])], what if what.table == "cell" else what.at(row=at)
            raise DataError(
                (
                    f"{pair[0]} and {pair[1]} are both {quoted(name)}, but in {relation} no entity is "
                    "observed with itself: a factor stands twice in its equation."
                ),
                location=where,
                hint="Remove such cells.",
            )


def as_frame(cells: Any, where: Named = "cells") -> Any:
    """Any table as an eager narwhals frame; a dict of columns becomes a polars table."""
    refuse_in_fork("cells, a table")
    if not isinstance(cells, dict):
        return frame_of(cells, where)
    import polars as pl

    try:
        return nw.from_native(pl.DataFrame(cells), eager_only=True)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise DataError(
            f"the dict is no table: {error}.",
            location=TableLocation.of(where),
            hint="Give each index a list of names, all of one length.",
        ) from None


def _check_columns(
    columns: Sequence[Any], relation: str, indices: Sequence[str], what: TableLocation, part: str = "column"
) -> None:
    for index in indices:
        if index not in columns:
            others = [column for column in columns if column not in indices]
            have = ", ".join(map(quoted, columns)) or "none"
            raise DataError(
                f"there is no {part} {quoted(index)}; got {have}.",
                location=what,
                hint=f"{suggestion(index, others)}{relation} needs {', '.join(indices)}.",
            )


def _encoded(labels: Labels, column: Any, where: TableLocation, unknown: str, *, alone: bool = False) -> Rows:
    """Rows of a column's names; −1 for unknown ones where they are allowed. alone: the column is one name."""
    rows = labels.encode(column, where=where, unknown="mark")
    if unknown == "error" and (rows < 0).any():
        first = int(np.argmax(rows < 0))
        name = column[first]
        near = suggestion(name, labels.names.head(MOST_COMPARED).to_list()) if isinstance(name, str) else ""
        place = where if alone else where.at(row=first)
        prior = ', or score unknown names by the prior: `handle_unknown="prior"`' if where.table == "cells" else ""
        hint = "Take one of them." if alone else f"Remove the row{prior}."
        raise DataError(
            f"{quoted(name)} is no entity of axis {labels.axis}, which has {listed(labels.names)}.",
            location=place,
            actual=name,
            hint=f"{near}{hint}",
        )
    return rows
