"""Evidence from the other links of an entity: ridge self-regression over the unfoldings of a relation.

An unfolding has the entities of one axis as rows and the facts about them as columns: a fact is a place of the axis in
the relation with the entities at all other places. `ridge` regresses every fact on the others (docs/math.md, section
15). The evidence of a cell is the sum of its predictions over all unfoldings, where they are positive.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from plait._typing import AnyArray, Array, Rows
from plait.data.binding.bind import bind
from plait.data.binding.given import ComputedFactor
from plait.data.bound import BoundRelation, Data
from plait.data.observation.symmetry import Groups, canonical, written
from plait.data.observation.weights import Weights
from plait.data.sources.implicit_model import own_indices, plain_model
from plait.data.sources.relation import as_relation
from plait.data.sparse.keys import columns_of, pack
from plait.errors import DataError, EvidenceWarning, ParameterError, suggestion, warn_of
from plait.evidence.graph_walks import path_sums
from plait.evidence.ridge import (
    MatrixEntries,
    choose_restricted_ridge,
    choose_ridge,
    contributions,
    exact_entries,
    restricted_entries,
)
from plait.forked import refuse_in_fork
from plait.machine import memory as machine_memory
from plait.model.model import Model

MIN_READ_SHARE = 0.1  # of the cells: with fewer, unlisted cells are mostly unknown, and regressions read them as zeros
MIN_OBSERVED_SHARE = 0.5  # of the cells, below which there is a warning
ENTRIES_PER_LINK = 30  # that evidence may have at most, and …
MIN_ENTRIES = 1_000_000  # … that it may have in any case
MAX_EXACT_ROWS = 20_000  # sides up to which a matrix is inverted: beyond, it takes many minutes
INVERSE_BYTES = 12  # of an entry of a matrix while it is inverted in floats: three arrays
SAMPLE_SEED = 0  # of the sample by which a ridge is chosen


@dataclass(frozen=True, eq=False)
class Unfolding:
    """Links of a relation as a matrix: entities of an axis × facts.

    X: csr array of ones (n_entities, n_facts). facts (n_facts, order): the place of the entity, then the rows at all
    other places.
    """

    axis: str
    X: Any
    facts: Rows
    is_first: bool

    def column(self, place: int, cell: AnyArray) -> int | None:
        """The fact that a cell is for the entity at one of its places; None where no link has it."""
        wanted = np.concatenate([[place], np.delete(cell, place)])
        columns = np.flatnonzero((self.facts == wanted).all(axis=1))
        return int(columns[0]) if len(columns) else None

    def cells(self, rows: AnyArray, columns: AnyArray) -> Rows:
        """The cells (n, order) of entries of the matrix."""
        facts = self.facts[columns]
        order = facts.shape[1]
        cells = np.empty((len(rows), order), np.int64)
        for place in np.unique(facts[:, 0]):
            at = facts[:, 0] == place
            cells[at, place] = rows[at]
            cells[np.ix_(at, [k for k in range(order) if k != place])] = facts[at, 1:]
        return cells


def unfold(cells: AnyArray, shape: Sequence[int], axes: Sequence[str], groups: Groups = ()) -> list[Unfolding]:
    """The unfoldings of links (n, order), one for each axis with two entities or more."""
    from scipy.sparse import csr_array

    cells, order, result = written(cells, shape, groups).astype(np.int64), len(shape), []
    images = {place for group in groups for place in group[1:]}  # of undirected pairs one place says all
    for axis in dict.fromkeys(axes):
        places = [k for k in range(order) if axes[k] == axis and k not in images]
        others = [[other for other in range(order) if other != k] for k in places]
        if shape[places[0]] < 2 or order < 2:
            continue
        facts = np.concatenate(
            [np.column_stack([np.full(len(cells), k), cells[:, rest]]) for k, rest in zip(places, others)]
        )
        rows = np.concatenate([cells[:, k] for k in places])
        sizes = [order, *(max(shape[rest[n]] for rest in others) for n in range(order - 1))]
        _, first, which = np.unique(pack(columns_of(facts), sizes, len(facts)), return_index=True, return_inverse=True)
        X = csr_array((np.ones(len(rows)), (rows, which.reshape(-1))), shape=(shape[places[0]], len(first)))
        X.sort_indices()
        result.append(Unfolding(axis, X, facts[first], 0 in places))
    return result


def neighbour_entries(
    relation: BoundRelation, axes: Sequence[str], ridges: Mapping[str, float], max_rows: int
) -> tuple[Rows, Array, dict[str, float]]:
    """Cells (n, order) with evidence, all writings of each, its values (n,), and the ridge of each axis."""
    max_entries = max(MIN_ENTRIES, ENTRIES_PER_LINK * len(relation.links))
    cells: list[AnyArray] = []
    values: list[AnyArray] = []
    used = dict(ridges)
    for unfolding in unfold(relation.cells, relation.shape, axes, relation.groups):
        predicted, used[unfolding.axis] = _predicted(unfolding, ridges.get(unfolding.axis), max_entries, max_rows)
        cells.append(canonical(unfolding.cells(predicted.rows, predicted.columns), relation.groups))
        values.append(predicted.values)
    if not cells:
        return np.zeros((0, len(relation.shape)), np.int64), np.zeros(0), used
    total, summed = _combine(cells, values, relation)
    if relation.groups:
        total, summed = _all_writings(total, summed, relation)
    return total, summed, used


def _combine(cells: Sequence[AnyArray], values: Sequence[Array], relation: BoundRelation) -> tuple[Rows, Array]:
    """The predictions of all unfoldings as one, each scaled so that together they predict the links best.

    The scales are those of least squares, not negative. A prediction that is not kept counts as 0. An undirected pair
    has one from either side.
    """
    from scipy.optimize import nnls

    every = np.concatenate(cells)
    keys = pack(columns_of(every), relation.shape, len(every))
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    total = every[first].astype(np.int64)
    parts = np.split(which.reshape(-1), np.cumsum([len(part) for part in cells])[:-1])
    columns = np.column_stack([np.bincount(at, part, len(first)) for at, part in zip(parts, values)])
    linked = relation.links.contain(total).astype(np.float64)
    scales, _ = nnls(columns.T @ columns, columns.T @ linked)
    summed = columns @ scales
    kept = summed > 0
    return total[kept], summed[kept]


def _predicted(
    unfolding: Unfolding, ridge: float | None, max_entries: int, max_rows: int
) -> tuple[MatrixEntries, float]:
    X = unfolding.X
    if min(X.shape) <= max_rows:
        ridge = choose_ridge(X, SAMPLE_SEED) if ridge is None else ridge
        return exact_entries(X, ridge, max_entries), ridge
    ridge = choose_restricted_ridge(X, SAMPLE_SEED) if ridge is None else ridge
    return restricted_entries(X, ridge, per_row=unfolding.is_first), ridge


def _all_writings(cells: Rows, values: Array, relation: BoundRelation) -> tuple[Rows, Array]:
    every = written(cells, relation.shape, relation.groups)
    own = pack(columns_of(cells), relation.shape, len(cells))
    asked = pack(columns_of(canonical(every, relation.groups)), relation.shape, len(every))
    return every.astype(np.int64), values[np.searchsorted(own, asked)]


@dataclass(frozen=True, eq=False, repr=False)
class LinkEvidence(ComputedFactor):
    """Evidence for the links of a relation: a factor to give to `plait.fit`.

    Each fit computes it from its own training links, so a held-out link adds nothing to it.
    `plait.evidence.neighbours` returns it.

    Attributes
    ----------
    relation : str
        The relation that it is computed from.
    kind : str
        ``"neighbours"``: ridge regressions on the other links of an entity. ``"paths"``:
        paths between two entities.
    params : mapping of str to float
        The ridge of each axis, or the length of the paths.
    max_rows : int
        Entities or facts up to which regressions are exact. Larger ones use the nearest
        facts only.

    Examples
    --------
    >>> import plait
    >>> likes = {"user": ["ann", "ann", "bob"], "film": ["Alien", "Heat", "Alien"]}
    >>> plait.evidence.neighbours({"likes": likes}, "likes", ridge=10)
    Evidence of likes by neighbours (user 10, film 10)
    """

    relation: str
    kind: str
    params: Mapping[str, float]
    max_rows: int = MAX_EXACT_ROWS
    is_fitted_first = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "_built", WeakKeyDictionary())
        object.__setattr__(self, "_seconds", 0.0)

    def entries(self, data: Data) -> tuple[Rows, Array]:
        """Cells (n, order) and values (n,) of the evidence that the links of `data` give."""
        relation = data.relations[self.relation]
        built: WeakKeyDictionary[Any, tuple[Rows, Array]] = self._built  # type: ignore[attr-defined]
        if relation.links not in built:
            axes = [data.entities[index].axis for index in relation.indices]
            check_relation(relation)
            began = time.perf_counter()
            if self.kind == "paths":
                cells = path_sums(relation.cells, relation.shape, int(self.params["length"]), axes[0] == axes[-1])
            else:
                cells = neighbour_entries(relation, axes, self.params, self.max_rows)[:2]
            self._keep(relation, cells, time.perf_counter() - began)
        return built[relation.links]

    def weights(self, data: Data, indices: Sequence[str], name: str) -> Weights:
        """The evidence as a given factor over the indices of its relation."""
        if self.relation not in data.relations:
            raise ParameterError(
                f"`fixed`: factor {name} is evidence of the relation {self.relation}, which the model does not have.",
                hint=suggestion(self.relation, list(data.relations)).strip() or None,
            )
        own = data.relations[self.relation].indices
        if sorted(own) != sorted(indices):
            raise ParameterError(
                f"`fixed`: factor {name} has the indices {', '.join(indices)}, but evidence of {self.relation} has "
                f"{', '.join(own)}.",
                hint=f"Write {name}[{', '.join(own)}].",
            )
        cells, values = self.entries(data)
        return Weights.from_table(indices, [data.sizes[i] for i in indices], own, cells, values)

    def _keep(self, relation: BoundRelation, entries: tuple[Rows, Array], seconds: float) -> None:
        self._built[relation.links] = entries  # type: ignore[attr-defined]
        object.__setattr__(self, "_seconds", self._seconds + seconds)  # type: ignore[attr-defined]

    def cost(self, data: Data) -> tuple[int, float]:
        """The number of its entries, and the seconds that its computations took, with the choice of ridges."""
        return len(self.entries(data)[1]), self._seconds  # type: ignore[attr-defined]

    def words(self, data: Data) -> dict[str, Any]:
        """What a run keeps of it."""
        return {"relation": self.relation, "kind": self.kind, "params": dict(self.params), "max_rows": self.max_rows}

    def __repr__(self) -> str:
        about = ", ".join(f"{name} {value:g}" for name, value in self.params.items())
        return f"Evidence of {self.relation} by {self.kind} ({about})"


def check_relation(relation: BoundRelation) -> None:
    """Refuse or warn where unlisted cells are not observed zeros: evidence would read them as zeros."""
    relation.links.require_memory(relation.name, "evidence", "Fit in memory.")
    observed = relation.observed_cells / max(relation.total_cells, 1)
    if observed < MIN_READ_SHARE:
        raise DataError(
            f"evidence reads unlisted cells as zeros, but only {observed:.1%} of the cells are observed.",
            location=relation.name,
            hint='Use `observed="all"` if unlisted cells are zeros; otherwise remove the evidence.',
        )
    if observed < MIN_OBSERVED_SHARE:
        warn_of(
            [
                EvidenceWarning(
                    f"evidence reads unlisted cells as zeros, but only {observed:.0%} of the cells are observed.",
                    location=relation.name,
                    hint="Compare with a fit without evidence on held-out links.",
                )
            ]
        )


def neighbours(
    data: Any,
    relation: str,
    *,
    model: Model | str | None = None,
    ridge: float | Mapping[str, float] | None = None,
    memory: int | str | None = None,
) -> LinkEvidence:
    """Compute evidence from the other links of each entity.

    Parameters
    ----------
    data : Data or mapping of str to table, array or Relation
        The training data: the result of ``model.bind(data)``, or one entry per relation.
    relation : str
        The relation whose links are predicted.
    model : Model or str, default None
        The model, which says which indices share an axis. Not needed for bound data.
    ridge : float or dict of str to float, default None
        Strength of the regularisation, or one per axis. ``None`` takes the ridge under
        which training links rank best with their own link left out.
    memory : int or str, default None
        Memory that an exact regression may use, for example ``"4GB"``. Larger relations
        use the nearest facts only. ``None`` is a quarter of the machine's memory.

    Returns
    -------
    LinkEvidence
        A non-negative factor over the indices of the relation, to give to `plait.fit`.

    Raises
    ------
    plait.errors.DataError
        If most cells of the relation are unobserved.

    Notes
    -----
    The evidence is that of EASE (Steck 2019): each fact about an entity is regressed on its
    other facts. The own link of a cell is left out, so evidence of a known link and of a
    missing one can be compared. `plait.fit` computes the evidence again from the links that
    it is given, so rank searches and splits do not leak.

    Examples
    --------
    >>> import plait
    >>> likes = {
    ...     "user": ["ann", "ann", "bob", "bob", "cid"],
    ...     "film": ["Alien", "Heat", "Alien", "Heat", "Alien"],
    ... }
    >>> evidence = plait.evidence.neighbours({"likes": likes}, "likes", ridge=1)
    >>> model = "likes[user, film] = U[user, r] F[film, r] + w[] N[user, film]"
    >>> fixed = {"N": evidence}
    >>> fit = plait.fit(model, {"likes": likes}, rank=2, fixed=fixed, max_iter=5, seed=0)
    >>> fit.top("likes", k=1, given={"user": "cid"})["film"].to_list()
    ['Heat']
    """
    refuse_in_fork("plait.evidence.neighbours")
    bound = bound_of(data, relation, model)
    if relation not in bound.relations:
        raise ParameterError(
            f"`relation`: the data have no relation {relation!r}.",
            hint=suggestion(relation, list(bound.relations)).strip() or f"It is one of {', '.join(bound.relations)}.",
        )
    relation_data = bound.relations[relation]
    axes = [bound.entities[index].axis for index in relation_data.indices]
    ridges = _ridges(ridge, axes)
    return compute_neighbours(relation_data, axes, ridges, rows_in(memory))


def compute_neighbours(
    relation: BoundRelation, axes: Sequence[str], ridges: Mapping[str, float], max_rows: int
) -> LinkEvidence:
    """Evidence with a ridge for each axis, chosen where it is not given."""
    check_relation(relation)
    began = time.perf_counter()
    cells, values, used = neighbour_entries(relation, axes, ridges, max_rows)
    evidence = LinkEvidence(relation.name, "neighbours", used, max_rows)
    evidence._keep(relation, (cells, values), time.perf_counter() - began)
    return evidence


def rows_in(limit: int | str | None) -> int:
    """Rows of the largest matrix that is inverted within a limit of memory, by default a quarter of the machine's."""
    from plait.data.outofcore.memory_budget import bytes_of

    size = machine_memory() / 4 if limit is None else bytes_of(limit)
    return min(MAX_EXACT_ROWS, int((size / INVERSE_BYTES) ** 0.5))


def _ridges(ridge: Any, axes: Sequence[str]) -> dict[str, float]:
    given = ridge if isinstance(ridge, Mapping) else {} if ridge is None else dict.fromkeys(axes, ridge)
    for axis, value in given.items():
        if axis not in axes:
            raise ParameterError(
                f"`ridge`: {axis!r} is not an axis of the relation.",
                hint=f"Its axes are {', '.join(dict.fromkeys(axes))}.",
            )
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
            raise ParameterError.must_be("ridge", "a positive number", value)
    return {axis: float(value) for axis, value in given.items()}


def bound_of(data: Any, relation: str, model: Model | str | None) -> Data:
    if isinstance(data, Data):
        return data
    if model is not None:
        return (Model(model) if isinstance(model, str) else model).bind(data)
    if not isinstance(data, Mapping):
        data = {relation: data}
    if relation not in data:
        raise ParameterError(
            f"`relation`: the data have no relation {relation!r}.",
            hint=suggestion(relation, list(data)).strip() or f"It is one of {', '.join(map(str, data))}.",
        )
    given = as_relation(relation, data[relation])
    indices = own_indices(relation, given)
    try:
        return bind(plain_model({relation: indices}, {i: i for i in indices}), {relation: given}, warn=False)
    except DataError as error:
        if given.missing is None and given.hidden is None:
            raise
        hint = "Give `model`: without one, no two indices share their entities."
        raise DataError(error.message, location=error.location, actual=error.actual, hint=hint) from None


def link_contributions(
    evidence: LinkEvidence, links: AnyArray, shape: Sequence[int], axes: Sequence[str], groups: Groups, cell: AnyArray
) -> dict[tuple[int, ...], float]:
    """What known links (n, order) add to the evidence of a cell, by their canonical cells."""
    contributions: dict[tuple[int, ...], float] = {}
    writings = written(np.asarray(cell)[None, :], shape, groups)
    for writing in writings:
        pairs = (
            _paths_behind(links, writing)
            if evidence.kind == "paths"
            else _facts_behind(evidence, unfold(links, shape, axes, groups), writing)
        )
        for other, value in pairs:
            key = tuple(int(row) for row in canonical(other[None, :], groups)[0])
            contributions[key] = contributions.get(key, 0.0) + value / len(writings)
    return {key: value for key, value in contributions.items() if value > 0}


def _facts_behind(
    evidence: LinkEvidence, unfoldings: Sequence[Unfolding], cell: AnyArray
) -> Iterator[tuple[AnyArray, float]]:
    for unfolding in unfoldings:
        for place in np.unique(unfolding.facts[:, 0]).tolist():
            column = unfolding.column(place, cell)
            if column is not None:
                row, ridge = int(cell[place]), evidence.params[unfolding.axis]
                facts, values = contributions(unfolding.X, ridge, row, column)
                yield from zip(unfolding.cells(np.full(len(facts), row), facts), values.tolist())


def _paths_behind(links: AnyArray, cell: AnyArray) -> Iterator[tuple[AnyArray, float]]:
    """Links of paths of two steps; removing one removes the path. Longer paths have no single links to name."""
    degrees = np.bincount(links.reshape(-1))
    ends = [set(links[(links == row).any(axis=1)].reshape(-1).tolist()) - {int(row)} for row in cell]
    for middle in sorted((ends[0] & ends[1]) - {int(row) for row in cell}) if len(cell) == 2 else ():
        for row in cell:
            for link in links[(links == row).any(axis=1) & (links == middle).any(axis=1)]:
                yield link, 1.0 / degrees[middle]
