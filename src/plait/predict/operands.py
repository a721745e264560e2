"""The factors of one equation as prediction reads them: tables of rows, and which row each cell takes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.errors import DataError, SettingError
from plait.fitted import Fitted
from plait.model.model import Occurrence

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Operand:
    """One factor of an equation at some cells.

    at (n,): the row of the table that each cell takes. latent: names of the axes behind it. mean, scale (m, *latent):
    E and D of the rows. The variance is E·D and the concentration E/D; where D = 0 the entry is a point.
    """

    factor: str
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

    @cached_property
    def random(self) -> bool:
        """Whether any entry is uncertain."""
        return bool(self.scale.any())

    def at_cells(self, cells: Rows) -> "Operand":
        """The same at some of the cells."""
        return replace(self, at=self.at[cells])

    def summed_over(self, latent: str) -> "Operand":
        """Without a latent index that no other factor has: means and variances add up."""
        axis = self.latent.index(latent)
        mean, variance = self.mean.sum(axis=axis + 1), self.variance.sum(axis=axis + 1)
        scale = np.divide(variance, mean, out=np.zeros(mean.shape), where=mean > 0)
        left = (*self.latent[:axis], *self.latent[axis + 1 :])
        return replace(self, latent=left, mean=mean, scale=scale)

    def ordered(self, latent: Sequence[str]) -> "Operand":
        """The same with its latent indices in another order."""
        if tuple(latent) == self.latent:
            return self
        back = [0, *(self.latent.index(index) + 1 for index in latent)]
        return replace(self, latent=tuple(latent), mean=self.mean.transpose(back), scale=self.scale.transpose(back))

    def flat(self) -> tuple[Array, Array]:
        """mean and scale as (m, columns), contiguous and read-only: kernels are compiled for that one kind."""
        shape = (len(self.mean), math.prod(self.mean.shape[1:]))
        flat = [np.ascontiguousarray(array.reshape(shape), np.float64).view() for array in (self.mean, self.scale)]
        for array in flat:
            array.flags.writeable = False
        return flat[0], flat[1]


def operands(fit: Fitted, relation: str, rows: Rows, running: str | None = None) -> list[Operand]:
    """The factors of a relation at cells given by row numbers (n, order); −1 takes the prior.

    running: an index that is treated like a latent one, so that operands have an axis for all its entities.
    """
    equation = fit.model.equation(relation)
    fixed = tuple(index for index in equation.indices if index != running)
    places = {index: equation.indices.index(index) for index in fixed}
    return [_operand(fit, places, o, rows) for o in equation.occurrences if o.factor in fit.factors]


def exposure(fit: Fitted, relation: str, rows: Rows) -> Array | None:
    """V at cells given by row numbers, (n,); None where the relation has no exposure."""
    weights = fit.exposures.of(relation, 0)
    if weights is None:
        return None
    unknown = rows < 0
    if unknown.any():
        needed = {index for term in weights.terms for index in (*term.vectors, *term.table_indices)}
        for place, index in enumerate(weights.indices):
            if index in needed and unknown[:, place].any():
                row = int(np.argmax(unknown[:, place]))
                raise DataError(
                    f"cells, column {index!r}, row {row} (counting from 0): the name is unknown, and {relation} has an "
                    f"exposure that depends on {index}.\nFit again with labels={{{index!r}: […]}} and its exposure."
                )
        rows = np.where(unknown, 0, rows)
    return weights.at(rows)


def _operand(fit: Fitted, places: Mapping[str, int], occurrence: Occurrence, rows: Rows) -> Operand:
    posterior = fit.factors[occurrence.factor]
    visible = [n for n, index in enumerate(occurrence.indices) if index in places]
    latent = [n for n in range(len(occurrence.indices)) if n not in visible]
    names = tuple(occurrence.indices[n] for n in latent)
    arrays = [array.transpose(*visible, *latent) for array in (posterior.mean, posterior.scale)]
    if not visible:
        return Operand(occurrence.factor, np.zeros(len(rows), np.int64), names, arrays[0][None], arrays[1][None])
    picked = rows[:, [places[occurrence.indices[n]] for n in visible]]
    unknown = np.asarray((picked < 0).any(axis=1))
    at, tables = _tables(np.where(unknown[:, None], 0, picked) if unknown.any() else picked, arrays)
    if unknown.any():
        prior = _prior(fit, occurrence.factor, [*visible, *latent])
        patterns, which = np.unique(picked[unknown], axis=0, return_inverse=True)
        more = [_averaged(array, patterns, arrays[0].shape) for array in prior]
        at[unknown] = len(tables[0]) + which.reshape(-1)
        tables = [np.concatenate([table, rows_of_prior]) for table, rows_of_prior in zip(tables, more)]
    return Operand(occurrence.factor, at, names, *tables)


def _tables(picked: Rows, arrays: Sequence[Array]) -> tuple[Rows, list[Array]]:
    """Rows of arrays (visible axes first) in one table, and each cell's place in it: all of them, or those needed."""
    count = picked.shape[1]
    shape = arrays[0].shape
    if np.prod(shape[:count], dtype=float) > len(picked):  # few cells: gathering them is cheaper than a copy
        return np.arange(len(picked)), [array[tuple(picked.T)] for array in arrays]
    at = np.array(np.ravel_multi_index(tuple(picked.T), shape[:count]), np.int64)
    return at, [array.reshape(-1, *shape[count:]) for array in arrays]


def _prior(fit: Fitted, name: str, order: Sequence[int]) -> tuple[Array, Array]:
    """Mean B and scale B/A of a factor's prior, axes in an order, of length 1 where the prior is tied."""
    if name not in fit.prior:
        why, cure = f"with {name} given, which has no prior", f"Give {name} a row for the entity"
        if fit.method == "em":
            why, cure = "by EM, which has no prior", 'Fit with method="vb"'
        raise SettingError(f'unknown="prior": the fit was made {why}.\n{cure}, or remove the cells with unknown names.')
    A, B = np.asarray(fit.prior[name].concentration), np.asarray(fit.prior[name].mean)
    full = [np.reshape(array, (1,) * (len(order) - array.ndim) + array.shape).transpose(order) for array in (A, B)]
    return full[1], full[1] / full[0]


def _averaged(prior: Array, patterns: Rows, shape: tuple[int, ...]) -> Array:
    """Rows of a prior (visible axes first) for some row numbers; −1 takes the average over the entities of its axis."""
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
