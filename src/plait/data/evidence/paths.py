"""`plait.paths`: how well two entities are joined by others, as evidence that a model can weigh."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plait.data.binding.bind import bind
from plait.data.bound import Data
from plait.data.cells.keys import coordinate_type
from plait.data.cells.sorting import sort_cells, taken
from plait.data.reading.arrays import is_array
from plait.data.reading.plain import own_indices, plain_model
from plait.data.reading.relation import Relation, as_relation
from plait.data.reading.tables import is_table
from plait.errors import DataError, SettingError
from plait.forked import refuse_in_fork
from plait.machine import memory
from plait.model.model import Model
from plait.types import AnyArray, Array

if TYPE_CHECKING:
    import polars as pl


ROOM = 1 << 22  # sums that are made at once
BYTES = 64  # of a pair while the table is made: sorted, mirrored and with names


def paths(relation: Any, length: int = 2, *, model: Model | str | None = None) -> "pl.DataFrame":
    """The classical neighbourhood evidence of a graph: a table of pairs that are joined by paths, with their ``value``.

    Given as ``fixed={"N": plait.Exposure(plait.paths(links), default=0)}`` it can be a term of a model beside the
    latent ones: ``w[] N[user, friend]``.

    relation: the links of the *training* data; whatever `plait.Relation` takes, or one. Hidden, missing and zero cells
    are no links; a link is a link, whatever its value and its direction. length: of the paths.

    - 2: resource allocation, Σ 1/degree(z) over the common neighbours z of a and b;
    - 3: its form of three steps, Σ 1/(degree(u) degree(v)) over the paths a–u–v–b. The only one between two axes
      (user–item–user–item).

    model: a `plait.Model` or its text. It names the ends of graphs and arrays, and says whether the two indices are one
    axis. Without it they are.

    A path visits nobody twice. So the value of a pair is the same whether or not it is linked itself: evidence that
    contained the link would explain the training data perfectly, and no other link. Within one axis a pair stands in
    the table both ways, with the same value; nobody is paired with himself. What is not listed is 0.
    """
    if length not in (2, 3) or isinstance(length, bool):
        raise SettingError(
            f"`length` is {length!r}.",
            hint="It is 2 or 3.",
        )
    refuse_in_fork("plait.paths")
    data = _bound(as_relation("paths", relation), model)
    (links,) = data.relations.values()
    first, second = links.indices
    one_axis = data.model.axis(first) == data.model.axis(second)
    if not one_axis and length == 2:
        raise SettingError(
            f"`length` is 2, but {first} and {second} are different axes, and two steps lead back to the first.",
            hint="Take `length=3`.",
        )
    if one_axis and model is None:
        _refuse_two_axes(links.cells, first, second)
    cells, values = _sums(links.cells, links.shape, length, one_axis)
    return _table({index: data.labels[index].names for index in links.indices}, cells, values)


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
            f"a graph has two indices, but there are {len(indices)}: {', '.join(indices)}.",
            location="paths",
            hint="Give a table of two, such as the pairs that occur.",
        )
    if model is None and is_array(relation.data) and len(set(relation.data.shape)) > 1:
        raise _undecided(*indices)
    return bind(plain_model({name: indices}, axes), {name: relation}, warn=False)


def _equation(relation: Relation, model: Model) -> tuple[str, tuple[str, ...]]:
    """The name and indices of the relation that is meant: the only one of two indices, or of those that it has."""
    known = relation.indices is not None or is_table(relation.data)
    own = sorted(own_indices("paths", relation)) if known else None
    found = {
        tuple(sorted(equation.indices)): equation
        for equation in model.equations
        if len(equation.indices) == 2 and own in (None, sorted(equation.indices))
    }
    if len(found) != 1:
        have = ", ".join(f"{e.relation}[{', '.join(e.indices)}]" for e in model.equations)
        which = f"no relation of {' and '.join(own)}" if own else f"{len(found) or 'no'} relations of two indices"
        raise DataError(
            f"the model has {which}: {have}.",
            location="paths",
            hint="Say which indices are meant: `indices`, or `columns` for a table.",
        )
    (equation,) = found.values()
    return equation.relation, equation.indices


def _refuse_two_axes(cells: AnyArray, first: str, second: str) -> None:
    """Refuse what looks like links between two kinds of entities, of which nobody said that they are one."""
    if len(cells) and not np.isin(cells[:, 0], cells[:, 1]).any():
        raise _undecided(first, second)


def _undecided(first: str, second: str) -> DataError:
    return DataError(
        f"are {first} and {second} one axis? Nothing stands on both sides.",
        location="paths",
        hint=f"Give `model`, which says so by a line {second}: {first}, or says that they are two by having none.",
    )


class _Links(NamedTuple):
    """For every entity of one side the ends of its links, compressed; share: 1/degree."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    shares: Array

    @classmethod
    def of(cls, links: Any) -> "_Links":
        degrees = np.diff(links.indptr)
        shares = np.divide(1.0, degrees, out=np.zeros(len(degrees)), where=degrees > 0)
        return cls(links.indptr.astype(np.int64), links.indices.astype(np.int64), shares)


def _sums(cells: AnyArray, shape: tuple[int, ...], length: int, one_axis: bool) -> tuple[AnyArray, Array]:
    """The pairs (n, 2) that paths join, in order, and their sums."""
    from scipy.sparse import csr_array

    rows, columns = cells[:, 0].astype(np.int64), cells[:, 1].astype(np.int64)
    if one_axis:
        apart = rows != columns
        rows, columns = np.concatenate([rows[apart], columns[apart]]), np.concatenate([columns[apart], rows[apart]])
    links: Any = csr_array((np.ones(len(rows)), (rows, columns)), shape=(shape[0], shape[1]))
    links.sum_duplicates()
    there = _Links.of(links)
    back = there if one_axis else _Links.of(links.T.tocsr())
    parts, total = [(np.zeros((0, 2), coordinate_type(shape)), np.zeros(0))], 0
    for part in _walked(there, back, length, one_axis, shape):
        parts.append(part)
        total += len(part[1]) * (2 if one_axis else 1)
        _refuse_too_many(total, length)
    found, values = (np.concatenate(some) for some in zip(*parts))
    if one_axis:  # made once and turned, so that both are the same number to the last bit
        found, values = np.concatenate([found, found[:, ::-1]]), np.concatenate([values, values])
    order, ordered = sort_cells(found, shape)
    return (ordered, values) if order is None else (ordered, taken(values, order))


def _walked(
    there: _Links, back: _Links, length: int, one_axis: bool, shape: tuple[int, ...]
) -> Iterator[tuple[AnyArray, Array]]:
    """Pairs and sums, of some entities at a time; within one axis of each pair once."""
    from plait.data.evidence.walks import walk

    room = max(ROOM, *shape)
    cells, values = np.empty((room, 2), coordinate_type(shape)), np.empty(room)
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
    if pairs * BYTES > memory() / 2:
        shorter = ", or take `length=2`" if length == 3 else ""
        raise DataError(
            f"more than {pairs:,} pairs are joined by paths of length {length}, more than memory is there for.",
            location="paths",
            hint=f"A few entities with very many links join nearly all others; leave these out{shorter}.",
        )


def _table(names: "dict[str, pl.Series]", cells: AnyArray, values: Array) -> "pl.DataFrame":
    import polars as pl

    columns = {index: labels.gather(cells[:, k].astype(np.int64)) for k, (index, labels) in enumerate(names.items())}
    return pl.DataFrame({**columns, "value": values})
