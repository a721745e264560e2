"""Given factors over visible indices (exposures V, docs/math.md, section 7) as `Weights`."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait.data.binding.entries import HINTS, WANTED, checked, entries_of, hint, merge_duplicates
from plait.data.binding.sparse_factors import SparseFactor, bind_sparse_factors
from plait.data.observation.symmetry import Groups
from plait.data.observation.terms import Term, WeightTable
from plait.data.observation.weights import Weights
from plait.data.sources.arrays import ArraySource, as_floats, is_array, is_sparse, read_array
from plait.data.sources.relation import KINDS, Exposure
from plait.data.sources.tables import TableSource, is_table, read_table
from plait.data.sparse.keys import columns_of, coordinate_type, pack
from plait.errors import DataError, TableLocation
from plait.machine import in_range
from plait.model.model import Model

if TYPE_CHECKING:
    from plait.data.bound import Data


class ComputedFactor(ABC):
    """A given factor that is computed from the links of the data that it is bound to."""

    is_fitted_first = False  # whether its scale is fitted alone, before components (docs/decisions/0020-sums.md)

    @abstractmethod
    def weights(self, data: "Data", indices: Sequence[str], name: str) -> Weights:
        """The factor over its indices, name: as in the model."""

    @abstractmethod
    def words(self, data: "Data") -> dict[str, Any]:
        """What a run keeps of it."""


def bind_exposure(
    exposure: Any, factor_indices: Sequence[str], data: "Data", name: str, groups: Groups = ()
) -> Weights:
    """V = default + Σ (table − default) of a given factor, over its indices; from an Exposure, a table or an array.

    `groups`: exchangeable positions, for a factor of an undirected relation.
    """
    if isinstance(exposure, ComputedFactor):
        return exposure.weights(data, factor_indices, name)
    if not isinstance(exposure, Exposure):
        if not is_array(exposure) and not is_table(exposure):
            raise DataError(
                f"an exposure must be a table or an array, got {type(exposure).__name__}.",
                location=TableLocation.of(name),
                hint=KINDS,
            )
        exposure = Exposure(exposure)
    indices = tuple(factor_indices)
    shape = tuple(data.sizes[index] for index in indices)
    if is_array(exposure.table) and not is_sparse(exposure.table):
        return _from_array(exposure.table, indices, shape, name, groups)
    return _from_table(exposure, indices, shape, data, name, groups)


def _from_array(array: Any, indices: tuple[str, ...], shape: tuple[int, ...], name: str, groups: Groups) -> Weights:
    values = as_floats(array, name)
    _check_shape(values.shape, indices, shape, name)
    for first, second in groups:
        if not np.array_equal(values, values.swapaxes(first, second)):
            raise DataError(
                "the array must be symmetric, because the equation is.",
                location=TableLocation.of(name),
                hint=BOTH_WAYS,
            )
    bad = ~in_range(values)
    if bad.any():
        cell = [int(place[0]) for place in np.nonzero(bad)]
        raise DataError(
            f"the exposure is {values[tuple(cell)]:g}.",
            location=TableLocation(name, cell=tuple(cell)),
            actual=float(values[tuple(cell)]),
            expected=WANTED,
            hint=hint(values[tuple(cell)], "exposure"),
        )
    if len(indices) == 0:
        return Weights.constant(indices, shape, float(values))
    if len(indices) == 1:
        return Weights.from_vector(indices, shape, indices[0], values)
    # The most frequent value is the constant, for a short table.
    distinct, counts = np.unique(values, return_counts=True)
    default = float(distinct[np.argmax(counts)])
    coords = np.argwhere(values != default)
    return _spread(indices, shape, coords, values[values != default], default)


def _check_shape(got: tuple[int, ...], indices: tuple[str, ...], shape: tuple[int, ...], name: str) -> None:
    if got != shape:
        wanted = ", ".join(f"{index}: {size}" for index, size in zip(indices, shape)) or "one number"
        raise DataError(
            f"the array has shape {got}, expected {shape} ({wanted}).",
            location=TableLocation.of(name),
            hint="Give one entry per cell.",
        )


def _from_table(
    exposure: Exposure, indices: tuple[str, ...], shape: tuple[int, ...], data: "Data", name: str, groups: Groups
) -> Weights:
    source: TableSource | ArraySource
    if is_sparse(exposure.table):
        source = read_array(exposure.table, name, len(indices))
        _check_shape(source.shape, indices, shape, name)
        if len(source.hidden):
            raise DataError(
                "the exposure is nan.",
                location=TableLocation(name, cell=tuple(source.hidden[0].tolist())),
                expected=WANTED,
                hint=HINTS["exposure"],
            )
        complete = not source.unlisted_missing
    else:
        source = read_table(exposure.table, name, indices, exposure.columns or {}, exposure.value, spec="Exposure")
        complete = source.rows >= math.prod(shape)
    entries, _ = merge_duplicates(checked(entries_of(source, indices, data.entities), "exposure"), "error")
    if exposure.default is None and not complete:
        raise DataError(
            f"the table lists {len(entries):,} of {math.prod(shape):,} cells.",
            location=TableLocation.of(name),
            hint="Set the value of all other cells, such as `default=1.0`.",
        )
    coords, values = _in_both_ways(entries.coords, entries.values, shape, groups, name)
    return _spread(indices, shape, coords, values, float(exposure.default or 0.0))


def _in_both_ways(
    coords: Any, values: Any, shape: tuple[int, ...], groups: Groups, name: str
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Sorted coordinates (n, order) and values, with both orientations of each pair."""
    for first, second in groups:
        turned = coords.copy()
        turned[:, [first, second]] = coords[:, [second, first]]
        both = np.concatenate([coords, turned])
        keys = pack(columns_of(both), shape, len(both))
        _, at, which = np.unique(keys, return_index=True, return_inverse=True)
        twice = np.concatenate([values, values])
        if not np.array_equal(twice, twice[at][which.reshape(-1)]):
            raise DataError(
                "a pair has two different values, one for each direction, but the equation is symmetric.",
                location=TableLocation.of(name),
                hint=BOTH_WAYS,
            )
        coords, values = both[at], twice[at]
    return coords, values


def _spread(indices: tuple[str, ...], shape: tuple[int, ...], coords: Any, values: Any, default: float) -> Weights:
    cells = np.ascontiguousarray(coords, coordinate_type(shape))
    return Weights.constant(indices, shape, default).replaced(cells, default, values)


BOTH_WAYS = "List each pair once, or with the same value in both directions; or use two factors, U[i, r] V[j, r]."


@dataclass(frozen=True, eq=False)
class Exposures:
    """Given factors without latent indices: their names, and their product in each term, over the relation's indices.

    `terms`: by `term_key`; only terms with an exposure. `summed`: sparse factors with a summed index, likewise.
    """

    names: frozenset[str]
    terms: Mapping[str, Weights]
    summed: Mapping[str, SparseFactor] = field(default_factory=dict)

    def of(self, relation: str, term: int) -> Weights | None:
        """V of a term; None without an exposure."""
        return self.terms.get(term_key(relation, term))

    def summed_in(self, relation: str, term: int) -> SparseFactor | None:
        """The sparse factor of a term; None without one."""
        return self.summed.get(term_key(relation, term))

    def at(self, relation: str, term: int, cells: NDArray[np.integer]) -> NDArray[np.float64] | None:
        """V of a term at cells of the relation; None without an exposure."""
        weights = self.of(relation, term)
        return None if weights is None else weights.at(cells)

    def indices(self, relation: str) -> frozenset[str]:
        """Indices of a relation on which any of its exposures depends."""
        own = [weights for key, weights in self.terms.items() if relation_of(key) == relation]
        indices = frozenset(i for w in own for term in w.terms for i in (*term.vectors, *term.table_indices))
        return indices.union(*(sparse.indices for key, sparse in self.summed.items() if relation_of(key) == relation))


def term_key(relation: str, term: int) -> str:
    """Key of a term; that of the first is the relation's name, as in run format 3."""
    return f"{relation} + {term}" if term else relation


def relation_of(key: str) -> str:
    """The relation of a key."""
    return key.partition(" ")[0]


def bind_exposures(data: "Data", fixed: Mapping[str, Any]) -> Exposures:
    """Read the given factors without latent indices."""
    model = data.model
    visible = [name for name in fixed if not model.factor(name).latent]
    sparse = bind_sparse_factors(data, fixed)
    bound = {
        name: bind_exposure(fixed[name], model.factor(name).indices, data, name, _groups(model, name))
        for name in visible
    }
    products: dict[str, Weights] = {}
    for equation in model.equations:
        shape = data.relations[equation.relation].shape
        for number, term in enumerate(equation.terms):
            key = term_key(equation.relation, number)
            for occurrence in term.occurrences:
                if occurrence.factor in bound:
                    here = renamed(bound[occurrence.factor], occurrence.indices).over(equation.indices, shape)
                    products[key] = products[key] * here if key in products else here
    summed = {term_key(*place): factor for place, factor in sparse.items()}
    return Exposures(frozenset([*visible, *(factor.factor for factor in summed.values())]), products, summed)


def _groups(model: Model, name: str) -> Groups:
    """Exchangeable positions of a factor's indices."""
    groups = {
        (occurrence.indices.index(i), occurrence.indices.index(j))
        for equation in model.equations
        for occurrence in equation.occurrences
        for i, j in equation.exchanged
        if occurrence.factor == name and equation.is_of_pairs(occurrence, (i, j))
    }
    return tuple(sorted((min(pair), max(pair)) for pair in groups))


def renamed(weights: Weights, indices: tuple[str, ...]) -> Weights:
    """Weights under the index names of one equation."""
    new = dict(zip(weights.indices, indices))

    def rename(term: Term) -> Term:
        table = term.table
        if table is not None:
            table = WeightTable(tuple(new[index] for index in table.indices), table.cells, table.values)
        return replace(term, vectors={new[index]: vector for index, vector in term.vectors.items()}, table=table)

    return replace(weights, indices=indices, terms=tuple(rename(term) for term in weights.terms))
