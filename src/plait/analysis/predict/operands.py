"""Operands of predictions: the terms of an equation, their factors as tables of rows, and the row of each cell."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Rows
from plait.data.binding.sparse_factors import SparseFactor
from plait.data.encoding.names import declaring
from plait.data.observation.pairs import Pairs
from plait.data.observation.weights import Weights
from plait.errors import DataError, ParameterError, TableLocation
from plait.inference.gamma import GammaChain
from plait.model import network
from plait.model.model import Occurrence
from plait.model.network import CELLS, RowBlock
from plait.storage.fitted import Fitted, sparse_sums


@dataclass(frozen=True, eq=False)
class RowTable:
    """One factor of a term at some cells.

    `source`: the factor and its visible indices; operands of one source take the same row at every cell, others never.
    `at` (n,): row of the table for each cell. `latent`: names of the other axes. `mean`, `scale` (m, *latent): E and D
    of the rows. The variance is E·D and the concentration E/D; an entry with D = 0 is a point.
    """

    source: str
    at: Rows
    latent: tuple[str, ...]
    mean: Array
    scale: Array

    @cached_property
    def variance(self) -> Array:
        """Var = C D² = E D, (m, *latent)."""
        return self.mean * self.scale

    @property
    def alone(self) -> bool:
        """Whether all cells take the same row."""
        return len(self.mean) == 1

    @property
    def width(self) -> int:
        """Number of entries of a row."""
        return math.prod(self.mean.shape[1:])

    @cached_property
    def random(self) -> bool:
        """Whether any entry is uncertain."""
        return bool(self.scale.any())

    def block(self, table: Array, lo: int, hi: int) -> RowBlock:
        """Rows of a table like the mean for cells lo … hi − 1; one for all of them without `CELLS`."""
        return RowBlock(self.latent, table[0]) if self.alone else RowBlock((CELLS, *self.latent), table[self.at[lo:hi]])

    def at_cells(self, cells: Rows) -> "RowTable":
        return replace(self, at=self.at[cells])

    def without_repeats(self) -> "RowTable":
        """The same with that row alone which all cells take, if they do."""
        if self.alone or not len(self.at) or (self.at != self.at[0]).any():
            return self
        one = self.at[:1]
        return replace(self, at=np.zeros(len(self.at), np.int64), mean=self.mean[one], scale=self.scale[one])

    def summed_over(self, latent: str) -> "RowTable":
        """Without a latent index that no other factor has: means and variances add up."""
        axis = self.latent.index(latent)
        mean, variance = self.mean.sum(axis=axis + 1), self.variance.sum(axis=axis + 1)
        scale = np.divide(variance, mean, out=np.zeros(mean.shape), where=mean > 0)
        left = (*self.latent[:axis], *self.latent[axis + 1 :])
        return replace(self, latent=left, mean=mean, scale=scale)

    def ordered(self, latent: Sequence[str]) -> "RowTable":
        if tuple(latent) == self.latent:
            return self
        back = [0, *(self.latent.index(index) + 1 for index in latent)]
        return replace(self, latent=tuple(latent), mean=self.mean.transpose(back), scale=self.scale.transpose(back))

    def flat(self) -> tuple[Array, Array]:
        """`mean` and `scale` as (m, n_columns), contiguous and read-only, as kernels expect."""
        shape = (len(self.mean), self.width)
        flat = [np.ascontiguousarray(array.reshape(shape), np.float64).view() for array in (self.mean, self.scale)]
        for array in flat:
            array.flags.writeable = False
        return flat[0], flat[1]


@dataclass(frozen=True, eq=False)
class RateTerm:
    """One term of an equation at n cells: its factors, and V (n,), None for 1. A term of given factors has none."""

    operands: Sequence[RowTable]
    exposure: Array | None = None

    @property
    def count(self) -> int:
        return len(self.operands[0].at) if self.exposure is None else len(self.exposure)

    @property
    def width(self) -> int:
        """Number of settings of its latent indices."""
        return math.prod({i: size for o in self.operands for i, size in zip(o.latent, o.mean.shape[1:])}.values())

    @property
    def is_product(self) -> bool:
        """Whether all factors have the same latent indices, so that components are independent."""
        return all(set(operand.latent) == set(self.operands[0].latent) for operand in self.operands)

    @property
    def sources(self) -> frozenset[str]:
        """Sources of the uncertain factors."""
        return frozenset(operand.source for operand in self.operands if operand.random)

    def at_cells(self, cells: Rows) -> "RateTerm":
        exposure = None if self.exposure is None else self.exposure[cells]
        return RateTerm([operand.at_cells(cells) for operand in self.operands], exposure)

    def without_repeats(self) -> "RateTerm":
        """The same with rows alone that all cells take: contractions with them are products of matrices."""
        return RateTerm([operand.without_repeats() for operand in self.operands], self.exposure)

    def exposed(self, values: Array, lo: int, hi: int) -> Array:
        """V · values (n or 1, …) at cells lo … hi − 1."""
        if self.exposure is None:
            return values
        return values * self.exposure[lo:hi].reshape(-1, *(1,) * (values.ndim - 1))


def terms(fit: Fitted, relation: str, rows: Rows, running: str | None = None) -> list[RateTerm]:
    """Terms of a relation at cells given by row numbers (n, order); −1 takes the prior.

    `running`: an index treated as latent, so operands have an axis for all its entities; there is no exposure then.
    Cells at which rows of a factor meet must not be mixed with others: use `apart`.
    """
    equation = fit.model.equation(relation)
    places = {index: place for place, index in enumerate(equation.indices) if index != running}
    names = _same(fit, relation, rows)
    result = []
    for number, term in enumerate(equation.terms):
        sparse = fit.exposures.summed_in(relation, number)
        if sparse is None:
            own = [_operand(fit, places, names, o, rows) for o in term.occurrences if o.factor in fit.factors]
        else:
            own = [_summed_operand(fit, sparse, running, rows)]
        result.append(RateTerm(own, exposure(fit, relation, number, rows) if running is None else None))
    return result


def _summed_operand(fit: Fitted, sparse: SparseFactor, running: str | None, rows: Rows) -> RowTable:
    """Σ_q w[q] N at cells as one number, whose variance is the sum of those of its parts."""
    operands = []
    for numbers in sparse_sums(fit, sparse):
        if running is not None:
            operands.append(sparse.along_fibres(rows, running, numbers))
        else:
            at, there = sparse.find(rows)
            operands.append(np.where(there, numbers[at], 0.0) if len(numbers) else np.zeros(len(rows)))
    mean, variance = operands
    scale = np.divide(variance, mean, out=np.zeros(mean.shape), where=mean > 0)
    latent = () if running is None else (running,)
    return RowTable(f"{sparse.weights} {sparse.factor}", np.arange(len(rows)), latent, mean, scale)


def coupled(parts: Sequence[RateTerm]) -> list[list[RateTerm]]:
    """Groups of terms connected by uncertain rows; the groups are independent."""
    return [[parts[n] for n in group] for group in network.groups([tuple(term.sources) for term in parts])]


def apart(
    fit: Fitted, relation: str, rows: Rows, ask: Callable[[Rows], Sequence[NDArray[Any]]]
) -> Sequence[NDArray[Any]]:
    """Results of `ask` for cells (n, order), arrays (n,), called separately for cells at which the same rows of factors
    meet.

    In A[i, r] B[j, r] + A[j, r] B[i, r] the terms are independent except where i and j are one entity.
    """
    pairs = meetings(fit, relation)
    if not pairs or not len(rows):
        return ask(rows)
    kinds, which = np.unique(np.stack([_meet(rows, *pair) for pair in pairs], axis=1), axis=0, return_inverse=True)
    runs = [np.flatnonzero(which.reshape(-1) == kind) for kind in range(len(kinds))]
    if len(runs) == 1:
        return ask(rows)
    answers = [ask(rows[cells]) for cells in runs]
    back = np.argsort(np.concatenate(runs))
    return [np.concatenate(columns)[back] for columns in zip(*answers)]


def meetings(fit: Fitted, relation: str) -> list[tuple[int, int]]:
    """Positions of two indices by which a factor takes rows in different terms: cells may have one entity at both.

    Pairs within one term are not included: no cell has one entity there.
    """
    equation = fit.model.equation(relation)
    uses: dict[str, set[tuple[str, ...]]] = {}
    for occurrence in equation.occurrences:
        if occurrence.factor in fit.factors:
            uses.setdefault(occurrence.factor, set()).add(occurrence.indices)
    pairs = {
        (equation.indices.index(i), equation.indices.index(j))
        for own in uses.values()
        for first in own
        for second in own
        for i, j in zip(first, second)
        if i in equation.indices and (i, j) not in equation.doubled
    }
    return sorted((i, j) for i, j in pairs if i < j)


def _meet(rows: Rows, i: int, j: int) -> NDArray[np.bool_]:
    """Cells with one entity at two indices; unknown names are different entities."""
    return np.asarray((rows[:, i] == rows[:, j]) & (rows[:, i] >= 0))


def _same(fit: Fitted, relation: str, rows: Rows) -> dict[str, str]:
    """One name for all indices with the same entity at each of the cells."""
    indices = fit.model.equation(relation).indices
    same = {index: index for index in indices}
    for i, j in meetings(fit, relation):
        if _meet(rows, i, j).all():
            first, second = same[indices[i]], same[indices[j]]
            same = {index: first if name == second else name for index, name in same.items()}
    return same


def exposure(fit: Fitted, relation: str, term: int, rows: Rows) -> Array | None:
    """V of a term at cells given by row numbers, (n,); None without an exposure."""
    weights = fit.exposures.of(relation, term)
    if weights is None:
        return None
    unknown = rows < 0
    if unknown.any():
        _check_unknown(weights, relation, unknown)
        rows = np.where(unknown, 0, rows)
    return weights.at(rows)


def _check_unknown(weights: Weights, relation: str, unknown: NDArray[np.bool_]) -> None:
    needed = {index for part in weights.terms for index in (*part.vectors, *part.table_indices)}
    for place, index in enumerate(weights.indices):
        if index in needed and unknown[:, place].any():
            row = int(np.argmax(unknown[:, place]))
            raise DataError(
                f"the name is unknown, but {relation} has an exposure over {index}.",
                location=TableLocation("cells", index, (row,)),
                hint=f"Fit again with {declaring(index)} and with its exposure.",
            )


def _operand(
    fit: Fitted, places: Mapping[str, int], names: Mapping[str, str], occurrence: Occurrence, rows: Rows
) -> RowTable:
    """Rows of a factor at cells; `names`: of indices in its source."""
    posterior = fit.factors[occurrence.factor]
    visible = [n for n, index in enumerate(occurrence.indices) if index in places]
    order = [*visible, *(n for n in range(len(occurrence.indices)) if n not in visible)]
    picked = [occurrence.indices[n] for n in visible]
    latent = tuple(occurrence.indices[n] for n in order[len(visible) :])
    source = f"{occurrence.factor}[{', '.join(names[index] for index in picked)}]"
    if posterior.pairs is not None:
        return _pair_operand(fit, source, posterior.pairs, places, occurrence, rows)
    arrays = [array.transpose(order) for array in (posterior.mean, posterior.scale)]
    if not visible:
        return RowTable(source, np.zeros(len(rows), np.int64), latent, arrays[0][None], arrays[1][None])
    at, tables = _rows(fit, occurrence.factor, order, rows[:, [places[index] for index in picked]], arrays)
    return RowTable(source, at, latent, *tables)


def _pair_operand(
    fit: Fitted, source: str, pairs: Pairs, places: Mapping[str, int], occurrence: Occurrence, rows: Rows
) -> RowTable:
    """Rows of a factor over pairs, whose arrays have pairs in place of the visible axes.

    A pair with an unknown name has the shared row of its first entity, or that of the prior.
    """
    posterior = fit.factors[occurrence.factor]
    here = dict(zip(pairs.indices, occurrence.indices))
    own = [here[index] for index in pairs.visible]
    latent = tuple(here[index] for index in pairs.indices if index not in pairs.visible)
    running = [index for index in own if index not in places]
    if running:
        return _along_pairs(fit, source, pairs, places, own, running[0], latent, occurrence.factor, rows)
    columns = [rows[:, places[index]] for index in own]
    unknown = np.any([column < 0 for column in columns], axis=0)
    at = pairs.find([np.where(unknown & (column < 0), 0, column) for column in columns])
    at = np.where(unknown, len(pairs) + np.maximum(columns[0], 0), at)
    tables = [posterior.mean, posterior.scale]
    if len(posterior.mean) > len(rows):  # for few cells gathering is cheaper
        tables, at = [table[at] for table in tables], np.arange(len(rows))
    lost = columns[0] < 0
    if lost.any():
        prior = _prior(fit, occurrence.factor, range(len(pairs.indices)))
        more = [np.broadcast_to(pairs.for_rows(array), (1, *table.shape[1:])) for array, table in zip(prior, tables)]
        at = np.where(lost, len(tables[0]), at)
        tables = [np.concatenate(pair) for pair in zip(tables, more)]
    return RowTable(source, at, latent, *tables)


def _along_pairs(
    fit: Fitted,
    source: str,
    pairs: Pairs,
    places: Mapping[str, int],
    own: Sequence[str],
    running: str,
    latent: tuple[str, ...],
    factor: str,
    rows: Rows,
) -> RowTable:
    """A factor over pairs with an axis for all entities of one of its indices."""
    fixed = [index for index in own if index != running]
    distinct, at = np.unique(rows[:, [places[index] for index in fixed]], axis=0, return_inverse=True)
    size = pairs.sizes[own.index(running)]
    every = {index: np.repeat(distinct[:, k], size) for k, index in enumerate(fixed)}
    every[running] = np.tile(np.arange(size), len(distinct))
    positions = pairs.find([every[index] for index in own]).reshape(len(distinct), size)
    posterior = fit.factors[factor]
    return RowTable(source, at.reshape(-1), (running, *latent), posterior.mean[positions], posterior.scale[positions])


def _rows(
    fit: Fitted, factor: str, order: Sequence[int], picked: Rows, arrays: Sequence[Array]
) -> tuple[Rows, list[Array]]:
    """Position of each cell in the tables, and the tables of a factor's mean and scale, visible axes first."""
    unknown = np.asarray((picked < 0).any(axis=1))
    if not unknown.any():
        return _tables(picked, arrays)
    at, tables = _tables(np.where(unknown[:, None], 0, picked), arrays)
    patterns, which = np.unique(picked[unknown], axis=0, return_inverse=True)
    more = [_averaged(array, patterns, arrays[0].shape) for array in _prior(fit, factor, order)]
    at[unknown] = len(tables[0]) + which.reshape(-1)
    return at, [np.concatenate([table, rows_of_prior]) for table, rows_of_prior in zip(tables, more)]


def _tables(picked: Rows, arrays: Sequence[Array]) -> tuple[Rows, list[Array]]:
    """Rows of arrays (visible axes first) in one table, all or the needed ones, and each cell's position in it."""
    count = picked.shape[1]
    shape = arrays[0].shape
    if np.prod(shape[:count], dtype=float) > len(picked):  # for few cells gathering is cheaper
        return np.arange(len(picked)), [array[tuple(picked.T)] for array in arrays]
    at = np.array(np.ravel_multi_index(tuple(picked.T), shape[:count]), np.int64)
    return at, [array.reshape(-1, *shape[count:]) for array in arrays]


def _prior(fit: Fitted, name: str, order: Sequence[int]) -> tuple[Array, Array]:
    """Mean B and scale B/A of a factor's prior, with axes in an order, of length 1 where tied."""
    if name not in fit.prior:
        why, hint = f"with the fixed factor {name}, which has no prior", f"Give {name} a row for the entity"
        if fit.method == "em":
            why, hint = "by EM, which has no prior", 'Fit with `method="vb"`'
        raise ParameterError(
            f'`handle_unknown="prior"`: the fit was made {why}.',
            hint=f"{hint}, or remove the cells with unknown names.",
        )
    prior = fit.prior[name]
    if isinstance(prior, GammaChain):
        raise ParameterError(
            f'`handle_unknown="prior"`: factor {name} has a chain along an ordered axis.',
            hint="Use `fit.forecast` for the next periods, or remove the cells with unknown names.",
        )
    A, B = np.asarray(prior.concentration), np.asarray(prior.mean)
    full = [np.reshape(array, (1,) * (len(order) - array.ndim) + array.shape).transpose(order) for array in (A, B)]
    return full[1], full[1] / full[0]


def _averaged(prior: Array, patterns: Rows, shape: tuple[int, ...]) -> Array:
    """Rows of a prior (visible axes first) for row numbers; −1 takes the average over the axis."""
    count = patterns.shape[1]
    result = np.empty((len(patterns), *shape[count:]))
    for mask in np.unique(patterns < 0, axis=0):
        mine = ((patterns < 0) == mask).all(axis=1)
        missing = tuple(int(axis) for axis in np.flatnonzero(mask))
        average = prior.mean(axis=missing, keepdims=True)
        whole = np.broadcast_to(average, [1 if axis in missing else size for axis, size in enumerate(shape)])
        index: Any = tuple(np.where(mask, 0, patterns[mine]).T)
        result[mine] = whole[index]
    return result
