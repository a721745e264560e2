"""Given factors with a summed index, stored by their nonzero entries (docs/math.md, section 17).

A term ``w[q] N[h, p, q, t]`` has as many parts at a cell as N has entries there. N is a csr matrix of its cells by the
values of q, whose number it decides.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.binding.entries import checked, entries_of, merge_duplicates
from plait.data.encoding.names import AxisLabels, Labels, build
from plait.data.sources.arrays import is_sparse, read_array
from plait.data.sources.relation import Exposure
from plait.data.sources.tables import is_table, read_table
from plait.data.sparse.keys import FibreLookup, Lookup, columns_of, coordinate_type, pack
from plait.errors import DataError, ParameterError, TableLocation
from plait.model.model import Equation, Model, Summand

if TYPE_CHECKING:
    from plait.data.bound import Data


@dataclass(frozen=True, eq=False)
class SparseFactor:
    """A given factor with one summed index, over the indices of a relation.

    `factor`: its name; `weights`: the free or given factor over the summed `index`. `cells` (n, order): sorted and
    distinct. `matrix`: csr array (n, size). `labels`: names of the values of the index, where they have any.
    """

    factor: str
    weights: str
    index: str
    indices: tuple[str, ...]
    shape: tuple[int, ...]
    cells: AnyArray = field(repr=False)
    matrix: Any = field(repr=False)
    labels: tuple[Hashable, ...] = ()

    @property
    def size(self) -> int:
        """Number of values of the summed index."""
        return int(self.matrix.shape[1])

    @cached_property
    def _fibres(self) -> dict[str, FibreLookup]:
        return {}

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.cells, self.shape)

    def find(self, cells: AnyArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Rows of the matrix for cells (n, order), and whether they have one; −1 is an unknown entity."""
        unknown = np.any(cells < 0, axis=1)
        at, there = self._lookup.find(np.where(unknown[:, None], 0, cells))
        return at, there & ~unknown

    def rows(self, cells: AnyArray) -> Any:
        """Entries at cells (n, order) as a csr array (n, size)."""
        from scipy.sparse import csr_array

        at, there = self.find(cells)
        some = self.matrix[at[there]]
        counts = np.zeros(len(cells) + 1, np.int64)
        counts[1:][there] = np.diff(some.indptr)
        return csr_array((some.data, some.indices, np.cumsum(counts)), shape=(len(cells), self.size))

    def along_fibres(self, cells: AnyArray, index: str, numbers: Array) -> Array:
        """Numbers (n_cells,) of its cells with one index running over all entities: cells (n, order) → (n, size)."""
        place = self.indices.index(index)
        if index not in self._fibres:
            self._fibres[index] = FibreLookup(self.cells, self.shape, place)
        known = np.flatnonzero((np.delete(cells, place, axis=1) >= 0).all(axis=1))
        which, hits, rows = self._fibres[index].find(np.where(cells[known] < 0, 0, cells[known]))
        values = np.zeros((len(cells), self.shape[place]))
        values[known[which], rows] = numbers[hits]
        return values

    def sums(self, numbers: Array) -> Array:
        """Σ_q of the entries times numbers (size,), at all of its cells."""
        return np.asarray(self.matrix @ numbers, np.float64)

    def squares(self, numbers: Array) -> Array:
        """Σ_q of the squared entries times numbers (size,), at all of its cells."""
        squared = self.matrix.copy()
        squared.data **= 2
        return np.asarray(squared @ numbers, np.float64)


def is_sparse_factor(given: Any) -> bool:
    """Whether a given factor is stored by its entries: a table, a sparse array, or one that computes itself."""
    return isinstance(given, Exposure) or hasattr(given, "sparse_factor") or is_sparse(given) or is_table(given)


def sparse_names(model: Model, fixed: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Given factors with a summed index that are stored by their entries."""
    return tuple(
        name
        for name, given in (fixed or {}).items()
        if name in model.factors and model.factor(name).latent and is_sparse_factor(given)
    )


def bind_sparse_factors(data: "Data", fixed: Mapping[str, Any]) -> dict[tuple[str, int], SparseFactor]:
    """Given factors with a summed index, by relation and number of the term."""
    sparse: dict[tuple[str, int], SparseFactor] = {}
    names, model = sparse_names(data.model, fixed), data.model
    for equation in model.equations:
        for number, term in enumerate(equation.terms):
            for name in [name for name in names if name in term.factors]:
                weights, index = _checked_term(model, equation, term, name, fixed)
                relation = data.relations[equation.relation]
                relation.links.require_memory(relation.name, f"the sparse factor {name}", "Fit in memory.")
                if relation.groups:
                    raise ParameterError(
                        f"`fixed`: factor {name} has a summed index, but the equation of {relation.name} is symmetric.",
                        hint="Use two factors for the two sides, U[i, r] V[j, r].",
                    )
                sparse[equation.relation, number] = _bound(data, equation, name, weights, index, fixed[name])
    return sparse


def _checked_term(
    model: Model, equation: Equation, term: Summand, name: str, fixed: Mapping[str, Any]
) -> tuple[str, str]:
    """Name of the weights and of the summed index of a term ``w[q] N[h, p, q, t]``."""
    factor = next(o for o in term.occurrences if o.factor == name)
    inside = [index for index in factor.indices if index not in equation.indices]
    others = [
        o for o in term.occurrences if o.factor != name and (o.factor not in fixed or model.factor(o.factor).latent)
    ]
    uses = [o.factor for e in model.equations for o in e.occurrences]
    index = inside[0] if inside else ""
    alone = (
        len(inside) == 1
        and set(equation.indices) < set(factor.indices)
        and len(others) == 1
        and others[0].indices == (index,)
        and uses.count(name) == uses.count(others[0].factor) == 1
        and all(index not in o.indices for e in model.equations for o in e.occurrences if o not in (factor, *others))
    )
    if not alone:
        wanted = f"w[q] {name}[{', '.join(equation.indices)}, q]"
        raise ParameterError(
            f"`fixed`: factor {name} is a table with a summed index, so its term must be like {wanted}, got {term}.",
            hint="Give an array, or write the weights w[q] in this term only.",
        )
    return others[0].factor, index


def _bound(data: "Data", equation: Equation, name: str, weights: str, index: str, given: Any) -> SparseFactor:
    written = data.model.factor(name).indices
    shape = tuple(data.sizes[i] for i in equation.indices)
    if hasattr(given, "sparse_factor"):
        cells, matrix, labels = given.sparse_factor(data, equation.relation)
        return SparseFactor(name, weights, index, equation.indices, shape, cells, matrix, labels)
    if isinstance(given, Exposure) and given.default:
        raise ParameterError(
            f"`fixed`: factor {name} has a summed index and a default of {given.default:g}.",
            hint="Use 0, or list all cells in an array.",
        )
    exposure = given if isinstance(given, Exposure) else Exposure(given)
    if is_sparse(exposure.table):
        source: Any = read_array(exposure.table, name, len(written))
        own = Labels.count(index, source.shape[written.index(index)])
        names = {**data.entities, index: own}
        wanted = tuple(len(names[i]) for i in written)
        if source.shape != wanted:
            raise DataError(
                f"the array has shape {source.shape}, expected {wanted}.",
                location=TableLocation.of(name),
                hint="Give one entry per cell and value of the summed index.",
            )
    else:
        source = read_table(exposure.table, name, written, exposure.columns or {}, exposure.value, spec="Exposure")
        own = build(index, [AxisLabels(TableLocation(name, index), source.labels[index])])
        names = {**data.entities, index: own}
    entries, _ = merge_duplicates(checked(entries_of(source, written, names), "exposure"), "error")
    labels = () if is_sparse(exposure.table) else tuple(own)
    cells = entries.coords[:, [written.index(i) for i in equation.indices]]
    distinct, matrix = sparse_entries(cells, shape, entries.coords[:, written.index(index)], entries.values, len(own))
    return SparseFactor(name, weights, index, equation.indices, shape, distinct, matrix, labels)


def sparse_entries(
    cells: AnyArray, shape: Sequence[int], at: AnyArray, values: AnyArray, size: int
) -> tuple[AnyArray, Any]:
    """Sorted distinct cells (n, order), and entries at cells (m, order) and values `at` of an index as (n, size)."""
    from scipy.sparse import csr_array

    keys = pack(columns_of(cells), shape, len(cells))
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    matrix = csr_array((values, (which.reshape(-1), at)), shape=(len(first), size))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return np.ascontiguousarray(cells[first], coordinate_type(shape)), matrix
