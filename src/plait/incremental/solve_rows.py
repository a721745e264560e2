"""Rows of new entities, as a small problem with all known rows fixed (docs/math.md, section 13).

Each row has its own momentum. After an update of a row from y to x₁, and the one before to x₀, it is extrapolated to y'
≈ x₁ (x₁/x₀)^β with β = n/(n + 1), n counting its extrapolations in a row (as in `inference.acceleration`). Where the
update turned back, (log x₁ − log y)·(log x₁ − log x₀) < 0, n restarts at 0 (adaptive restart, O'Donoghue and Candès,
2015). A row depends on itself alone, so entities may be folded in together or one by one. The last update is plain.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.codegen.layout import Layout
from plait.data.observation.pairs import Pairs
from plait.data.sparse.csf_index import CSFIndex, distinct
from plait.errors import FitError, ParameterError, TableLocation
from plait.executors import Executor
from plait.incremental.aggregate_rows import AggregatedRows, aggregate, held
from plait.incremental.new_cells import NewCells, Pattern, check_exposed
from plait.incremental.new_rows import Extension
from plait.inference.chains import next_periods
from plait.inference.gamma import FactorState, Prior, point, posterior
from plait.inference.initialisation import MIN_POSTERIOR_MEAN
from plait.inference.nonzeros import Nonzeros
from plait.inference.problem import Method, Problem
from plait.inference.relation_sums import RelationData
from plait.inference.state import State
from plait.inference.underflow import ImpossibleLinkError
from plait.model.model import Equation, Occurrence
from plait.storage.fitted import Fitted

MOMENTUM_DELAY = 1  # smaller than in a whole fit: with all else fixed, momentum is safe early


class RowMomentum:
    """Momentum of all rows of a problem's free factors."""

    def __init__(self) -> None:
        self.before: dict[str, tuple[Array, ...]] = {}  # results of the last updates
        self.begun: dict[str, tuple[Array, ...]] = {}  # starts of the next updates
        self.n_accepted: dict[str, Array] = {}

    def extrapolate(self, problem: Problem, name: str) -> None:
        """Extrapolate the rows of a factor after an update of it."""
        ends = tuple(array.copy() for array in problem.parameters(name))
        if name in self.before:
            n_accepted = self._count_accepted(name, ends)
            beta = (n_accepted / (n_accepted + MOMENTUM_DELAY))[:, None]
            for now, end, then in zip(problem.parameters(name), ends, self.before[name]):
                top, bottom = (1 + beta) * end + (1 - beta) * then, (1 - beta) * end + (1 + beta) * then
                np.multiply(end, np.divide(top, bottom, out=np.ones_like(end), where=bottom > 0), out=now)
            problem.refresh(name)
        self.before[name] = ends
        self.begun[name] = tuple(array.copy() for array in problem.parameters(name))

    def _count_accepted(self, name: str, ends: tuple[Array, ...]) -> Array:
        """Extrapolations in a row of each row, including this one."""
        old = self.n_accepted.get(name, np.zeros(len(ends[0])))
        ahead = np.zeros(len(ends[0]))
        for end, begin, then in zip(ends, self.begun[name], self.before[name]):
            ahead += (_log(end, begin) * _log(end, then)).sum(axis=1)
        self.n_accepted[name] = np.where(ahead < 0, 0.0, old + 1.0)
        return self.n_accepted[name]


def _log(x: Array, y: Array) -> Array:
    there: NDArray[np.bool_] = (x > 0) & (y > 0)
    return np.log(np.divide(x, y, out=np.ones_like(x), where=there))


class RowSlice(NamedTuple):
    """Part of a factor with new rows along some of its visible indices."""

    factor: str
    pattern: Pattern

    @property
    def name(self) -> str:
        """Its name in the small problem."""
        return f"{self.factor} {''.join('new ' if new else 'old ' for new in self.pattern)}".strip()


@dataclass(frozen=True, eq=False)
class Solution:
    """New rows of one member: the pieces of its factors, their priors, which rows have data, and the objective of the
    new cells and rows.
    """

    pieces: Mapping[RowSlice, FactorState]
    priors: Mapping[RowSlice, Prior]
    exposed: Mapping[RowSlice, NDArray[np.bool_]]
    bound: float


def solve(
    fit: Fitted, growth: Extension, blocks: Sequence[NewCells], iterations: int, executor: Executor, what: str
) -> Solution:
    """Rows of all new entities of a member, after some iterations from the prior."""
    state = fit.state
    pieces = pieces_of(fit, growth, what)
    layouts = {piece: layout_of(fit, growth, piece, blocks) for piece in pieces}
    priors = {piece: prior_of(state, piece, layouts[piece]) for piece in pieces if piece.factor in state.priors}
    factors = {p.name: _start(state, p, layouts[p], priors.get(p), cast(Method, fit.method)) for p in pieces}
    parts = [_relation_of_block(fit, growth, block, number, factors) for number, block in enumerate(blocks)]
    free = tuple(piece.name for piece in pieces)
    named = {piece.name: prior for piece, prior in priors.items()}
    learnt = {name: dict(own) for name, own in state.likelihood_params.items()}
    problem = Problem(cast(Method, fit.method), parts, factors, free, named, executor, likelihood_params=learnt)
    put_back = _shared_rows(state, pieces, factors)
    used = {name for part in parts for term in part.terms for name, _ in term}
    with naming():
        counted, momentum = problem.expected_counts(), RowMomentum()
        for n in range(iterations):
            for name in (name for name in free if name in used):
                problem.update(name, counted)
                if n + 1 < iterations:
                    momentum.extrapolate(problem, name)
                put_back(problem, name)
            counted = problem.expected_counts()
    problem.recompute_elbo_terms()
    exposed = {p: problem.exposed.get(p.name, np.zeros(layouts[p].rows, bool)) for p in pieces}
    return Solution({p: factors[p.name] for p in pieces}, priors, exposed, problem.objective(counted))


def pieces_of(fit: Fitted, growth: Extension, what: str) -> list[RowSlice]:
    """All parts of factors with a new entity."""
    pieces = []
    for name in (name for name in fit.model.factors if name in fit.state.factors):
        visible = fit.model.factor(name).visible
        new = [bool(growth.new(index)) for index in visible]
        if any(new) and name not in fit.state.divergences:
            index = visible[new.index(True)]
            raise ParameterError(
                f"{what}: the fixed factor {name} has no row for {growth.entities[index][growth.old[index]]!r}.",
                location=TableLocation(index),
                hint="Fit again with a row for every entity.",
            )
        if fit.state.factors[name].layout.pairs is not None and sum(new) > 1:
            raise ParameterError(
                f"{what}: both entities of a link are new, but {name} is a factor over pairs.",
                location=TableLocation(name),
                hint=f"Add one side at a time: first rows with new {visible[0]} and known {visible[1]}.",
            )
        patterns = [()] if not visible else _patterns(new)
        pieces += [RowSlice(name, pattern) for pattern in patterns if any(pattern)]
    return pieces


def _patterns(new: Sequence[bool]) -> list[Pattern]:
    patterns: list[Pattern] = [()]
    for is_new in new:
        patterns = [(*pattern, side) for pattern in patterns for side in ((False, True) if is_new else (False,))]
    return patterns


def layout_of(fit: Fitted, growth: Extension, piece: RowSlice, blocks: Sequence[NewCells]) -> Layout:
    whole, factor = fit.state.factors[piece.factor].layout, fit.model.factor(piece.factor)
    sizes = tuple(growth.new(index) if new else growth.old[index] for index, new in zip(factor.visible, piece.pattern))
    ranks = whole.sizes[len(whole.visible) :]
    if whole.pairs is None:
        return Layout(piece.name, factor.indices, factor.visible, factor.latent, (*sizes, *ranks), whole.scaled)
    pairs = Pairs(factor.indices, factor.visible, sizes, _linked(piece, factor.visible, factor.indices, sizes, blocks))
    return Layout.of_pairs(piece.name, pairs, factor.latent, ranks, whole.scaled)


def _linked(
    piece: RowSlice,
    visible: tuple[str, ...],
    indices: tuple[str, ...],
    sizes: tuple[int, ...],
    blocks: Sequence[NewCells],
) -> AnyArray:
    """Pairs of a piece that occur in links, by its own rows."""
    rows = [np.zeros((0, len(visible)), np.uint32)]
    for block in blocks:
        for use in (o for o in block.equation.occurrences if o.factor == piece.factor):
            here = dict(zip(indices, use.indices))
            places = [block.equation.indices.index(here[index]) for index in visible]
            if tuple(block.pattern[place] for place in places) == piece.pattern:
                rows.append(block.listed[block.links][:, places])
    return distinct(np.concatenate(rows), sizes)


def prior_of(state: State, piece: RowSlice, own: Layout) -> Prior:
    """Prior of a piece: that of its factor, averaged along axes with new rows; of new periods their forecast."""
    prior, layout = state.priors[piece.factor], state.factors[piece.factor].layout
    if layout.pairs is not None:
        return prior
    new = tuple(axis for axis, is_new in enumerate(piece.pattern) if is_new)
    chain = prior.chain
    if chain is None or not _continues(state, piece):
        A, B = (_averaged(array, new) for array in (prior.concentration, prior.mean))
        return Prior(A, B, chain)
    kept = state.factors[piece.factor]
    parameters = [array for array in kept.parameters if array is not None]
    A, B = next_periods(layout, prior, parameters, own.sizes[chain.axis])
    others = tuple(axis for axis in new if axis != chain.axis)
    return Prior(_averaged(A if len(parameters) > 1 else np.maximum(A, 1.0), others), _averaged(B, others))


def _continues(state: State, piece: RowSlice) -> bool:
    """Whether the rows of a piece are later periods of a chain."""
    chain = state.priors[piece.factor].chain
    return chain is not None and piece.pattern[chain.axis]


def _averaged(array: Array, axes: tuple[int, ...]) -> Array:
    long = tuple(axis for axis in axes if array.shape[axis] > 1)
    return array.mean(axis=long, keepdims=True) if long else array


def _start(state: State, piece: RowSlice, layout: Layout, prior: Prior | None, method: Method) -> FactorState:
    """A piece at its start: the prior; for points the average of all other rows."""
    if method == "vb":
        assert prior is not None
        A, B = (np.broadcast_to(a, layout.sizes) for a in (prior.concentration, prior.mean))
        return posterior(layout, layout.pack(np.array(A)), layout.pack(np.array(B / A)))
    if prior is not None and _continues(state, piece):
        return point(layout, layout.pack(np.array(np.broadcast_to(prior.mean, layout.sizes))))
    kept = state.factors[piece.factor]
    assert kept.mean is not None
    if layout.pairs is not None:
        average = kept.layout.unpack(kept.mean)[: len(kept.layout.pairs or ())].mean(axis=0)
    else:
        new = tuple(axis for axis, is_new in enumerate(piece.pattern) if is_new)
        average = kept.layout.unpack(kept.mean).mean(axis=new, keepdims=True)
    whole = np.array(np.broadcast_to(np.maximum(average, MIN_POSTERIOR_MEAN), layout.sizes))
    if layout.pairs is not None and method == "em":
        whole[len(layout.pairs) :] = 0.0
    return point(layout, layout.pack(whole))


def _shared_rows(
    state: State, pieces: Sequence[RowSlice], factors: dict[str, FactorState]
) -> Callable[[Problem, str], None]:
    """Function that restores, after each update, the rows that pairs of a known entity share."""
    rows: dict[str, tuple[Array, ...]] = {}
    for piece in pieces:
        whole = state.factors[piece.factor].layout
        if whole.pairs is not None and not piece.pattern[0]:
            kept = state.factors[piece.factor]
            rows[piece.name] = tuple(
                np.array(array[len(whole.pairs) :], np.float64) for array in kept.parameters if array is not None
            )

    def put_back(problem: Problem, name: str) -> None:
        if name in rows:
            factor = problem.factors[name]
            assert factor.layout.pairs is not None
            for array, own in zip(factor.parameters, rows[name]):
                array[len(factor.layout.pairs) :] = own
            problem.refresh(name)

    for name in rows:
        factor = factors[name]
        assert factor.layout.pairs is not None
        made = [np.array(array) for array in factor.parameters]
        for array, own in zip(made, rows[name]):
            array[len(factor.layout.pairs) :] = own
        again = point(factor.layout, made[0]) if len(made) == 1 else posterior(factor.layout, *made)
        factors[name] = again
    return put_back


def _relation_of_block(
    fit: Fitted, growth: Extension, block: NewCells, number: int, factors: dict[str, FactorState]
) -> RelationData:
    """A block for inference; fixed parts of factors are added."""
    equation, M = block.equation, block.once
    at_links = check_exposed(block, growth)
    # A sparse given factor has no entries at cells of new entities.
    present = [n for n in range(len(equation.terms)) if fit.exposures.summed_in(equation.relation, n) is None]
    terms = [[o for o in equation.terms[n].occurrences if o.factor in fit.state.factors] for n in present]
    at_links = tuple(at_links[n] for n in present)
    weights = [M if (V := block.exposures[n]) is None else M * V for n in present]
    cells, links = block.listed[block.links], block.links
    lumped: dict[str, AggregatedRows] = {}
    for index, new in zip(equation.indices, block.pattern):
        if not new and _alone(fit, equation, index):
            has = [any(index in o.indices for o in term) for term in terms]
            if (rows := aggregate(index, weights, cells, has)) is not None:
                lumped[index], weights, cells = rows
    sizes = {i: len(lumped[i]) if i in lumped else n for i, n in zip(equation.indices, block.shape)}
    uses = tuple(tuple(_use(fit, block, o, number, lumped, factors) for o in term) for term in terms)
    nonzeros = Nonzeros(
        CSFIndex.of(equation.indices, tuple(sizes.values()), cells), block.values[links], block.own[links], at_links
    )
    return RelationData(
        equation.relation, fit.likelihood[equation.relation], equation.indices, sizes, uses, nonzeros, tuple(weights)
    )


def _alone(fit: Fitted, equation: Equation, index: str) -> bool:
    """Whether every factor with an index has no other visible one."""
    own = [o for o in equation.occurrences if index in o.indices and o.factor in fit.state.factors]
    return all(len(fit.model.factor(o.factor).visible) == 1 for o in own)


def _use(
    fit: Fitted, block: NewCells, occurrence: Occurrence, number: int, lumped: Mapping[str, AggregatedRows],
    factors: dict[str, FactorState],
) -> tuple[str, tuple[str, ...]]:  # fmt: skip
    """A factor's part in a block, by name, with its indices as written there."""
    factor = fit.model.factor(occurrence.factor)
    here = dict(zip(factor.indices, occurrence.indices))
    side = dict(zip(block.equation.indices, block.pattern))
    piece = RowSlice(occurrence.factor, tuple(side[here[index]] for index in factor.visible))
    if any(piece.pattern):
        return piece.name, occurrence.indices
    few = lumped.get(here[factor.visible[0]]) if len(factor.visible) == 1 else None
    name = f"{piece.name} {number} {here[factor.visible[0]]}" if few is not None else f"{piece.factor} held"
    if name not in factors:
        factors[name] = _named(held(fit.state.factors[piece.factor], few, cast("dict[object, Array]", fit._sums)), name)
    return name, occurrence.indices


def _named(factor: FactorState, name: str) -> FactorState:
    """The factor under another name."""
    layout = factor.layout
    renamed = Layout(name, layout.indices, layout.visible, layout.latent, layout.sizes, layout.scaled, layout.pairs)
    factor.layout = renamed
    return factor


@contextmanager
def naming() -> Iterator[None]:
    """Context that reports an impossible link by its relation."""
    try:
        yield
    except ImpossibleLinkError as error:
        raise FitError(
            "a link of a new entity has rate 0, because the factors of the other entities are 0.",
            location=TableLocation(error.relation),
            hint='Fit with `method="vb"`, whose factors are positive, or remove the link.',
        ) from None
