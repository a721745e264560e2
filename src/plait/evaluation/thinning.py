"""A relation from which some links are taken as if nobody had told of them: their cells become zeros like all others.

They must not become missing cells: of all cells without a known link only these would weigh nothing, so the weights of
an entity would tell how many hidden links it has, and a fit ranks entities without a known link by that.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.data.cells.keys import columns_of, find, pack_pair
from plait.data.observing.undirected import written
from plait.data.reading.arrays import as_floats, is_sparse
from plait.data.reading.relation import Relation
from plait.data.reading.tables import TableSource
from plait.evaluation.masking import free_name, labelled
from plait.evaluation.subject import Subject
from plait.types import AnyArray


def thinned(subject: Subject, links: AnyArray, observed: float) -> Relation:
    """The relation to split with these links (n, order) set to 0; observed: what all zeros weigh now."""
    relation = replace(subject.relation, observed=observed)
    links = written(links, subject.bound.shape, subject.bound.groups)
    source = relation.read(subject.name, subject.bound.indices)
    if isinstance(source, TableSource):
        return _of_table(subject, relation, source, links)
    own = tuple(relation.indices or subject.bound.indices)
    # In the order of the array's dimensions, and sorted by it.
    links = np.unique(links[:, [subject.bound.indices.index(index) for index in own]], axis=0)
    data = _of_sparse(relation.data, links) if is_sparse(relation.data) else _of_dense(relation.data, links)
    return replace(relation, data=data)


def _of_table(subject: Subject, relation: Relation, source: TableSource, links: AnyArray) -> Relation:
    """A polars table under the same names of columns; hidden rows stay, so that every name is still known."""
    import polars as pl

    indices = subject.bound.indices
    value = free_name(source.value_column, source)
    values = np.where(_among(subject, source, links), 0.0, source.values)
    columns: dict[str, Any] = {source.columns[index]: source.labels[index] for index in indices}
    columns[value] = values
    if source.weights is not None:
        columns[source.weight_column] = np.where(values > 0, source.weights, float(relation.observed))
    return relation.retabled(pl.DataFrame(columns), value, source)


def _among(subject: Subject, source: TableSource, links: AnyArray) -> NDArray[np.bool_]:
    """Which rows of a table are among some links."""
    import polars as pl

    indices = subject.bound.indices
    if not indices:
        return np.full(len(source.values), len(links) > 0)
    hidden: pl.DataFrame = pl.DataFrame(labelled(subject, indices, links)).with_columns(hidden=True)
    rows = pl.DataFrame({index: source.labels[index].cast(hidden[index].dtype) for index in indices})
    found = rows.join(hidden, on=indices, how="left", maintain_order="left")
    return found["hidden"].fill_null(False).to_numpy()


def _of_dense(data: Any, links: AnyArray) -> Any:
    array = np.array(as_floats(data, "data"))
    array[tuple(columns_of(links))] = 0.0
    return array


def _of_sparse(data: Any, links: AnyArray) -> Any:
    coo = data.asformat("coo").copy()
    positions = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
    cells = np.stack([np.asarray(column, links.dtype) for column in positions], axis=1)
    counts = (len(cells), len(links))
    mine, theirs = pack_pair(columns_of(cells), columns_of(links), coo.shape, counts)
    coo.data[find(mine, theirs)[1]] = 0
    return coo
