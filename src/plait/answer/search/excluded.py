"""Tables of what is not to be proposed, by outside names, as coordinates."""

from typing import Any

import numpy as np

from plait.data.observing.closed import Closed, Tables
from plait.data.observing.undirected import mirrored
from plait.data.reading.relation import tables_of
from plait.data.reading.tables import is_table, read_missing
from plait.errors import DataError, TableLocation
from plait.run.record import Fitted


def read_excluded(fit: Fitted, relation: str, exclude: Any) -> Closed:
    """One table or several (or dicts of columns), each over some of the indices; names unknown to the fit say nothing.

    Columns are called like the indices, or as in the data of the fit. A column of values is not looked at: what is
    listed is excluded. Of a cell that can be written in several ways, any will do.
    """
    indices, known = fit.model.equation(relation).indices, fit.known[relation]
    given = tables_of(exclude)
    tables: Tables = {}
    for n, one in enumerate(given):
        where = TableLocation("exclude", number=None if len(given) == 1 else n)
        labels = read_missing(_without_values(one, where, known.value), where, indices, known.columns)
        over = tuple(index for index in indices if index in labels)
        rows = [fit.labels[index].encode(labels[index], where=where.at(index), unknown="mark") for index in over]
        coords = np.stack(rows, axis=1)
        coords = coords[(coords >= 0).all(axis=1)]
        tables[over] = np.unique(np.concatenate([tables[over], coords]) if over in tables else coords, axis=0)
    found = mirrored(tables, indices, known.shape, known.groups)
    return Closed(indices, known.shape, {over: coords for over, coords in found.items() if len(coords)})


def _without_values(table: Any, where: TableLocation, value: str | None) -> Any:
    """The table without its column of values, if it has one."""
    import narwhals as nw

    from plait.answer.predict.lookup import as_frame

    if not isinstance(table, dict) and not is_table(table):
        raise DataError(
            f"wanted a table, got {type(table).__name__}.",
            location=where,
            hint=(
                "Give a table or a dict of columns, whose columns are some of the indices, or a list of such tables."
            ),
        )
    frame = as_frame(table, where)
    names = [column for column in dict.fromkeys(("value", value)) if column in frame.columns]
    return nw.to_native(frame.drop(*names) if names else frame)
