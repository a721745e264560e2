"""Compiled walks over the links of a graph. In exact arithmetic: subtracting a term from its sum leaves exactly 0.

`starts`, `ends`: for every entity a of the first side the ends u of its links; `back_starts`, `back_ends`: for every u
those of its links. `shares`: 1/degree of every u, `back_shares` of every a. On one axis the two are the same.

`plait.evidence.paths`: how well two entities are joined by others, as evidence that a model can weigh.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.binding.bind import bind
from plait.data.bound import Data
from plait.data.sources.arrays import is_array
from plait.data.sources.implicit_model import own_indices, plain_model
from plait.data.sources.relation import Relation, as_relation
from plait.data.sources.tables import as_kind, is_table
from plait.data.sparse.keys import coordinate_type
from plait.data.sparse.sorting import sort_cells, take
from plait.errors import DataError, ParameterError
from plait.forked import refuse_in_fork
from plait.jit import exact_kernel, inlined
from plait.machine import memory
from plait.model.model import Model
from plait.tuning import TUNING

if TYPE_CHECKING:
    import polars as pl
    from narwhals.stable.v2.typing import IntoDataFrame


@exact_kernel
def walk(
    begin: int,
    length: int,
    above: bool,
    starts: AnyArray,
    ends: AnyArray,
    back_starts: AnyArray,
    back_ends: AnyArray,
    shares: AnyArray,
    back_shares: AnyArray,
    cells: AnyArray,
    values: AnyArray,
) -> tuple[int, int]:
    """Sums over the simple paths from a, for a = begin, begin + 1, … as long as there is room for another one's.

    above: whether to compute only sums for b > a. They are written into cells (capacity, 2) and values (capacity,).
    Returns the first a that is not done, and how many sums were written.

    length 2: Σ over u of share(u), a–u–b.   length 3: Σ over u, v of share(u) share(v), a–u–v–b.
    """
    near, near_seen = np.zeros(len(starts) - 1), np.zeros(len(starts) - 1, np.int64)
    far, far_seen = np.zeros(len(back_starts) - 1), np.zeros(len(back_starts) - 1, np.int64)
    linked, count = np.zeros(len(far), np.bool_), 0
    for a in range(begin, len(near)):
        if count + max(len(near), len(far)) > len(values):
            return a, count
        reached = _two_steps(a, starts, ends, back_starts, back_ends, shares, near, near_seen, linked)
        if length == 2:
            count = _write(a, above, near, near_seen, reached, cells, values, count)
        else:
            beyond = _third_step(near, near_seen, reached, starts, ends, shares, back_shares, linked, far, far_seen)
            count = _write(a, above, far, far_seen, beyond, cells, values, count)
            far[far_seen[:beyond]] = 0.0
        near[near_seen[:reached]] = 0.0
        linked[ends[starts[a] : starts[a + 1]]] = False
    return len(near), count


@inlined
def _two_steps(
    a: int,
    starts: AnyArray,
    ends: AnyArray,
    back_starts: AnyArray,
    back_ends: AnyArray,
    shares: AnyArray,
    near: AnyArray,
    seen: AnyArray,
    linked: AnyArray,
) -> int:
    """near[v] = Σ share(u) over a–u–v, v ≠ a; marks the u as linked. Returns how many v were seen."""
    count = 0
    for at in range(starts[a], starts[a + 1]):
        u = ends[at]
        linked[u] = True
        for back in range(back_starts[u], back_starts[u + 1]):
            v = back_ends[back]
            if v != a:
                if near[v] == 0.0:
                    seen[count] = v
                    count += 1
                near[v] += shares[u]
    return count


@inlined
def _third_step(
    near: AnyArray,
    near_seen: AnyArray,
    reached: int,
    starts: AnyArray,
    ends: AnyArray,
    shares: AnyArray,
    back_shares: AnyArray,
    linked: AnyArray,
    far: AnyArray,
    seen: AnyArray,
) -> int:
    """far[b] = Σ near[v] share(v) over v–b, without u = b. Returns how many b were seen."""
    count = 0
    for k in range(reached):
        v = near_seen[k]
        for at in range(starts[v], starts[v + 1]):
            b = ends[at]
            # The way a–b–v–b is no path: where a is linked to b, b is among the u of near[v].
            rest = near[v] - (shares[b] if linked[b] else 0.0)
            if rest > 0.0:
                if far[b] == 0.0:
                    seen[count] = b
                    count += 1
                far[b] += rest * back_shares[v]
    return count


@inlined
def _write(
    a: int, above: bool, sums: AnyArray, seen: AnyArray, reached: int, cells: AnyArray, values: AnyArray, count: int
) -> int:
    """Append the sums for one a; returns how many there are now."""
    for k in range(reached):
        b = seen[k]
        if b > a or not above:
            cells[count, 0], cells[count, 1] = a, b
            values[count] = sums[b]
            count += 1
    return count


PAIR_BYTES = 64  # of a pair while the table is made: sorted, mirrored and with names


def paths(relation: Any, length: int = 2, *, model: Model | str | None = None) -> "IntoDataFrame":
    """Compute neighbourhood evidence of a graph from paths between its nodes.

    Parameters
    ----------
    relation : table or array or graph or Relation
        Links of the training data. Held-out, missing and zero cells are not links. Values
        and directions are ignored.
    length : int, default 2
        Length of the paths. 2: resource allocation, Σ 1/degree(z) over the common
        neighbours z. 3: Σ 1/(degree(u) degree(v)) over the paths a–u–v–b; required between
        two axes.
    model : Model or str, default None
        The model. It names the indices of graphs and arrays, and says whether they share
        entities; by default they do.

    Returns
    -------
    table
        Pairs that are joined by paths, with their ``value``. Other pairs have the value 0.

    Raises
    ------
    plait.errors.ParameterError
        If ``length`` is not 2 or 3, or is 2 between two axes.
    plait.errors.DataError
        If the relation does not have two indices.

    Notes
    -----
    Use it as a given factor in a separate term, ``w[] N[user, friend]``, with
    ``fixed={"N": plait.Exposure(plait.evidence.paths(links), default=0)}``.

    A path visits no node twice. So the value of a pair does not depend on whether it is
    linked itself. Pairs within one axis are listed in both orders.

    Examples
    --------
    >>> links = pl.DataFrame({"a": ["ann", "bob", "cem"], "b": ["bob", "cem", "dee"]})
    >>> plait.evidence.paths(links).rows()[0]
    ('ann', 'cem', 0.5)
    """
    if length not in (2, 3) or isinstance(length, bool):
        raise ParameterError(
            f"`length` must be 2 or 3, got {length!r}.",
            hint="Example: `length=3`.",
        )
    refuse_in_fork("plait.evidence.paths")
    data = _bound(as_relation("paths", relation), model)
    (links,) = data.relations.values()
    first, second = links.indices
    one_axis = data.model.axis(first) == data.model.axis(second)
    if not one_axis and length == 2:
        raise ParameterError(
            f"`length=2` requires one axis, but {first} and {second} are different axes.",
            hint="Use `length=3`.",
        )
    if one_axis and model is None:
        _refuse_two_axes(links.cells, first, second)
    cells, values = path_sums(links.cells, links.shape, length, one_axis)
    return as_kind(_table({index: data.entities[index].names for index in links.indices}, cells, values), links.kind)


def _bound(relation: Relation, model: Model | str | None) -> Data:
    """The relation alone, under the names and axes of its model."""
    if model is None:
        name, indices = "relation", own_indices("paths", relation)
        axes = dict.fromkeys(indices, "".join(indices[:1]))
    else:
        model = Model(model) if isinstance(model, str) else model
        name, indices = _equation(relation, model)
        axes = {index: model.axis(index) for index in indices}
    if len(indices) != 2:
        raise DataError(
            f"a graph has two indices, got {len(indices)}: {', '.join(indices)}.",
            location="paths",
            hint="Give a table with two columns.",
        )
    if model is None and is_array(relation.data) and len(set(relation.data.shape)) > 1:
        raise _undecided(*indices)
    return bind(plain_model({name: indices}, axes), {name: relation}, warn=False)


def _equation(relation: Relation, model: Model) -> tuple[str, tuple[str, ...]]:
    """The name and indices of the relation that is meant: the only one of two indices, or of those that it has."""
    known = relation.indices is not None or is_table(relation.data)
    own = sorted(own_indices("paths", relation)) if known else None
    equations = {
        tuple(sorted(equation.indices)): equation
        for equation in model.equations
        if len(equation.indices) == 2 and own in (None, sorted(equation.indices))
    }
    if len(equations) != 1:
        have = ", ".join(f"{e.relation}[{', '.join(e.indices)}]" for e in model.equations)
        which = f"no relation of {' and '.join(own)}" if own else f"{len(equations) or 'no'} relations of two indices"
        raise DataError(
            f"the model has {which}: {have}.",
            location="paths",
            hint="Choose the indices with `indices`, or with `columns` for a table.",
        )
    (equation,) = equations.values()
    return equation.relation, equation.indices


def _refuse_two_axes(cells: AnyArray, first: str, second: str) -> None:
    """Refuse links that seem to join two kinds of entities, where no model says that they are one axis."""
    if len(cells) and not np.isin(cells[:, 0], cells[:, 1]).any():
        raise _undecided(first, second)


def _undecided(first: str, second: str) -> DataError:
    return DataError(
        f"it is unknown whether {first} and {second} are one axis: they have no names in common.",
        location="paths",
        hint=f"Give `model`; a line {second}: {first} declares one axis.",
    )


class _LinkLists(NamedTuple):
    """For every entity of one side the ends of its links, compressed; share: 1/degree."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    shares: Array

    @classmethod
    def of(cls, links: Any) -> "_LinkLists":
        degrees = np.diff(links.indptr)
        shares = np.divide(1.0, degrees, out=np.zeros(len(degrees)), where=degrees > 0)
        return cls(links.indptr.astype(np.int64), links.indices.astype(np.int64), shares)


def path_sums(cells: AnyArray, shape: tuple[int, ...], length: int, one_axis: bool) -> tuple[AnyArray, Array]:
    """The pairs (n, 2) that paths join, in order, and their sums."""
    from scipy.sparse import csr_array

    rows, columns = cells[:, 0].astype(np.int64), cells[:, 1].astype(np.int64)
    if one_axis:
        apart = rows != columns
        rows, columns = np.concatenate([rows[apart], columns[apart]]), np.concatenate([columns[apart], rows[apart]])
    links: Any = csr_array((np.ones(len(rows)), (rows, columns)), shape=(shape[0], shape[1]))
    links.sum_duplicates()
    there = _LinkLists.of(links)
    back = there if one_axis else _LinkLists.of(links.T.tocsr())
    parts, total = [(np.zeros((0, 2), coordinate_type(shape)), np.zeros(0))], 0
    for part in _walked(there, back, length, one_axis, shape):
        parts.append(part)
        total += len(part[1]) * (2 if one_axis else 1)
        _refuse_too_many(total, length)
    path_cells, values = (np.concatenate(some) for some in zip(*parts))
    if one_axis:  # made once and turned, so that both values are bitwise identical
        path_cells, values = np.concatenate([path_cells, path_cells[:, ::-1]]), np.concatenate([values, values])
    order, ordered = sort_cells(path_cells, shape)
    return (ordered, values) if order is None else (ordered, take(values, order))


def _walked(
    there: _LinkLists, back: _LinkLists, length: int, one_axis: bool, shape: tuple[int, ...]
) -> Iterator[tuple[AnyArray, Array]]:
    """Pairs and sums, of some entities at a time; within one axis of each pair once."""

    capacity = max(TUNING.path_sums, *shape)
    cells, values = np.empty((capacity, 2), coordinate_type(shape)), np.empty(capacity)
    begin = 0
    while begin < shape[0]:
        begin, count = walk(
            begin,
            length,
            one_axis,
            there.starts,
            there.ends,
            back.starts,
            back.ends,
            back.shares,
            there.shares,
            cells,
            values,
        )
        yield cells[:count].copy(), values[:count].copy()


def _refuse_too_many(pairs: int, length: int) -> None:
    if pairs * PAIR_BYTES > memory() / 2:
        shorter = ", or use `length=2`" if length == 3 else ""
        raise DataError(
            f"more than {pairs:,} pairs have paths of length {length}, which is too many for the memory.",
            location="paths",
            hint=f"Remove entities with very many links{shorter}.",
        )


def _table(names: "dict[str, pl.Series]", cells: AnyArray, values: Array) -> "pl.DataFrame":
    import polars as pl

    columns = {index: labels.gather(cells[:, k].astype(np.int64)) for k, (index, labels) in enumerate(names.items())}
    return pl.DataFrame({**columns, "value": values})
