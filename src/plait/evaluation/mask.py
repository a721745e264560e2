"""Masking: a relation with more cells hidden or set to zero, and the same names.

Hidden rows stay in the table, so that every name is known, and are listed in `hidden=`. Under unseen="missing" an
entity without an unhidden row would lose its observed zeros, too; one of them is then listed as a row of 0. So the
weights M of the result are those of the original, and 0 at the hidden cells.

Thinning sets links to zero instead, like other unlisted cells. They must not become missing: as the only unlinked cells
of weight 0 they would reveal the number of hidden links of an entity, by which a fit would rank.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray
from plait.data.observation.symmetry import canonical, written
from plait.data.observation.weights import Weights, along
from plait.data.sources.arrays import as_floats, is_sparse
from plait.data.sources.relation import Relation
from plait.data.sources.tables import TableSource, is_table
from plait.data.sparse.csf_index import distinct
from plait.data.sparse.keys import columns_of, coordinate_type, find, pack_pair
from plait.evaluation.split_target import SplitTarget
from plait.tuning import TUNING

if TYPE_CHECKING:
    import polars as pl

Hidden = Mapping[tuple[str, ...], AnyArray]

# Random cells of an entity that are tried before a search in order.
RANDOM_TRIES = 20


def masked(target: SplitTarget, name: str, hidden: Hidden) -> Relation:
    """A relation with more cells hidden; `hidden`: coordinates (n, k) by index set."""
    relation = target.relations[name]
    tables = [*relation.hidden_tables, *(_table(target, name, over, rows) for over, rows in hidden.items())]
    train = replace(relation, hidden=tables)
    zeros = _lost_zeros(target, name, train)
    return train if zeros is None else _with_zeros(target, name, train, zeros)


def labelled(target: SplitTarget, indices: Sequence[str], coords: AnyArray) -> "dict[str, pl.Series]":
    """Names of coordinates (n, k), by index."""
    names = target.data.entities
    return {index: names[index].names.gather(coords[:, k].astype(np.int64)) for k, index in enumerate(indices)}


def free_name(name: str, source: TableSource) -> str:
    """A name for the column of values that no index column has."""
    while name in source.columns.values():
        name = f"{name}_"
    return name


def _table(target: SplitTarget, name: str, over: Sequence[str], coords: AnyArray) -> "pl.DataFrame":
    import polars as pl

    columns = target.relations[name].columns or {}
    return pl.DataFrame({columns.get(i, i): names for i, names in labelled(target, over, coords).items()})


def _lost_zeros(target: SplitTarget, name: str, train: Relation) -> AnyArray | None:
    """Observed zeros (n, order), one for each entity that only hidden rows mention and that has an observed cell."""
    before = target.data.relations[name]
    if train.unseen != "missing" or train.observed == "listed" or not is_table(train.data):
        return None
    after = target.rebound(name, train)
    if after.n_unseen == before.n_unseen:
        return None
    wanted = target.rebound(name, replace(train, unseen="zero")).weights
    for index in before.indices:
        here = (along(before.weights, [index]) > 0).astype(np.float64)
        wanted = wanted * Weights.from_vector(before.indices, before.shape, index, here)
    left = {index: along(wanted, [index]) > 0 for index in before.indices}
    zeros = []
    for k, index in enumerate(before.indices):
        lost = np.flatnonzero(left[index] & (along(after.weights, [index]) == 0))
        zeros.append(_one_cell_each(wanted, k, lost, [np.flatnonzero(left[i]) for i in before.indices]))
    cells = distinct(canonical(np.concatenate(zeros), before.groups), before.shape)
    return cells if len(cells) else None


def _one_cell_each(weights: Weights, axis: int, entities: AnyArray, rows: Sequence[AnyArray]) -> AnyArray:
    """A cell with M > 0 for each entity on an axis that has one; `rows`: candidates on the other axes."""
    rng = np.random.default_rng(0)  # the choice does not affect a fit
    cells = np.zeros((len(entities), len(rows)), coordinate_type(weights.shape))
    waiting = np.arange(len(entities))
    for _ in range(RANDOM_TRIES):
        for k, own in enumerate(rows):
            cells[waiting, k] = rng.choice(own, len(waiting)) if k != axis else entities[waiting]
        waiting = waiting[weights.at(cells[waiting]) <= 0]
        if not len(waiting):
            break
    for at in waiting:
        cells[at] = _first_cell(weights, [entities[at : at + 1] if k == axis else r for k, r in enumerate(rows)])
    return cells


def _first_cell(weights: Weights, rows: Sequence[AnyArray]) -> AnyArray:
    """First cell with M > 0 among these rows, which exists."""
    shape = [len(own) for own in rows]
    total = math.prod(shape)
    for start in range(0, total, TUNING.listing_chunk):
        places = np.unravel_index(np.arange(start, min(start + TUNING.listing_chunk, total)), shape)
        cells = np.stack([own[at] for own, at in zip(rows, places)], axis=1)
        open_cells = np.flatnonzero(weights.at(cells) > 0)
        if len(open_cells):
            return np.asarray(cells[open_cells[0]])
    raise AssertionError("an entity whose weights add up to more than 0 has a cell with a weight")


def _with_zeros(target: SplitTarget, name: str, train: Relation, zeros: AnyArray) -> Relation:
    """The relation with rows of 0 appended; as a polars table with the same column names."""
    import polars as pl

    indices = target.data.relations[name].indices
    source = train.read(name, indices)
    assert isinstance(source, TableSource)
    value = free_name(source.value_column, source)
    columns: dict[str, Any] = {}
    for index, names in labelled(target, indices, zeros).items():
        own = source.labels[index]
        columns[source.columns[index]] = pl.concat([own.cast(names.dtype), names])
    columns[value] = np.concatenate([source.values, np.zeros(len(zeros))])
    if source.weights is not None:
        zero = 1.0 if isinstance(train.observed, str) else float(train.observed)
        columns[source.weight_column] = np.concatenate([source.weights, np.full(len(zeros), zero)])
    return train._retabled(pl.DataFrame(columns), value, source)


def thinned(target: SplitTarget, links: AnyArray, observed: float) -> Relation:
    """The relation with these links (n, order) set to 0; `observed`: new weight of all zeros."""
    relation = replace(target.relation, observed=observed)
    links = written(links, target.bound.shape, target.bound.groups)
    source = relation.read(target.name, target.bound.indices)
    if isinstance(source, TableSource):
        return _of_table(target, relation, source, links)
    own = tuple(relation.indices or target.bound.indices)
    # In the order of the array's dimensions, and sorted by it.
    links = np.unique(links[:, [target.bound.indices.index(index) for index in own]], axis=0)
    data = _of_sparse(relation.data, links) if is_sparse(relation.data) else _of_dense(relation.data, links)
    return replace(relation, data=data)


def _of_table(target: SplitTarget, relation: Relation, source: TableSource, links: AnyArray) -> Relation:
    """A polars table with the same column names; hidden rows stay, so that every name is known."""
    import polars as pl

    indices = target.bound.indices
    value = free_name(source.value_column, source)
    values = np.where(_among(target, source, links), 0.0, source.values)
    columns: dict[str, Any] = {source.columns[index]: source.labels[index] for index in indices}
    columns[value] = values
    if source.weights is not None:
        columns[source.weight_column] = np.where(values > 0, source.weights, float(relation.observed))
    return relation._retabled(pl.DataFrame(columns), value, source)


def _among(target: SplitTarget, source: TableSource, links: AnyArray) -> NDArray[np.bool_]:
    """Which rows of a table are among some links."""
    import polars as pl

    indices = target.bound.indices
    if not indices:
        return np.full(len(source.values), len(links) > 0)
    hidden: pl.DataFrame = pl.DataFrame(labelled(target, indices, links)).with_columns(hidden=True)
    rows = pl.DataFrame({index: source.labels[index].cast(hidden[index].dtype) for index in indices})
    matches = rows.join(hidden, on=indices, how="left", maintain_order="left")
    return matches["hidden"].fill_null(False).to_numpy()


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
