"""Initialisation: random factors scaled to the totals of the data, and the problem that they start.

Factors are drawn from Gamma distributions, seeded by the position of the factor in the model
(docs/decisions/0004-start.md). Variational Bayes starts from posteriors around the points of an EM warm-up.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from plait._typing import AnyArray, Array, Rows
from plait.codegen.layout import Layout
from plait.data.binding.given import Exposures
from plait.data.bound import BoundRelation, Data
from plait.data.observation.symmetry import each_once
from plait.data.observation.weights import CHUNK_CELLS, Weights
from plait.data.sparse.csf import CSFCache
from plait.data.sparse.sorting import sort_cells
from plait.errors import DataError, TableLocation
from plait.executors import Executor
from plait.inference.chains import blend
from plait.inference.gamma import FactorState, become_posterior, posterior
from plait.inference.outofcore_links import nonzeros_of
from plait.inference.problem import Method, Problem
from plait.inference.relation_sums import RelationData, Uses
from plait.inference.state import State
from plait.model import Summand
from plait.rendering.formatting import plural

NOISE_CONCENTRATION = 10.0  # concentration of the random start: smaller is rougher (docs/decisions/0004-start.md)
START_CONCENTRATION = 10.0  # of the posterior around a random start or a point of EM
LATE_SHARE = 1e-6  # share of evidence in a relation before it joins, and of all else while evidence is fitted alone
MAX_SCALE_UPDATES = 30  # of scales of evidence alone
SCALE_CHANGE = 1e-3  # relative change at which these have converged
MIN_POSTERIOR_MEAN = 1e-290  # posteriors of VB are positive everywhere


def random_factor(layout: Layout, position: int, seed: int, known: Mapping[str, Rows]) -> Array:
    """Gamma numbers of mean 1 as written; they depend on the seed, the factor's position in the model and its shape.

    `known` has, by visible index, the rows with data in the order of their names. They are drawn first, so entities
    without data change nothing.
    """
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(position,)))
    places = [known.get(index, np.arange(size)) for index, size in zip(layout.indices, layout.shape)]
    drawn = generator.gamma(NOISE_CONCENTRATION, 1.0 / NOISE_CONCENTRATION, [len(rows) for rows in places])
    if not known.keys() & set(layout.indices):
        return drawn
    result = generator.gamma(NOISE_CONCENTRATION, 1.0 / NOISE_CONCENTRATION, layout.shape)
    result[np.ix_(*places)] = drawn
    return result


def begin_vb(problem: Problem, dtype: np.dtype[Any]) -> Problem:
    """VB problem with posteriors around the points of an EM warm-up, in place of the points."""
    for name in problem.free:
        factor = problem.factors[name]
        if problem.priors[name].chain:
            blend(factor.layout, problem.priors[name], factor.mean)
        become_posterior(factor, *parameters_around(factor.layout, factor.mean, dtype))
    return Problem(
        "vb",
        problem.parts,
        problem.factors,
        problem.free,
        problem.priors,
        problem.executor,
        problem.forest,
        problem.likelihood_params,
        problem.relations,
    )


def around(layout: Layout, mean: Array, dtype: np.dtype[Any]) -> FactorState:
    """Posterior around stored means; padding stays 0."""
    return posterior(layout, *parameters_around(layout, mean.copy(), dtype))


def parameters_around(layout: Layout, mean: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """C and D of a posterior around stored means; the array of means becomes D, to save memory."""
    real = layout.unpack(mean)
    np.maximum(real, MIN_POSTERIOR_MEAN, out=real)
    np.divide(real, START_CONCENTRATION, out=real)
    C = np.zeros(mean.shape, dtype)
    layout.unpack(C)[...] = START_CONCENTRATION
    return C, as_stored(mean, dtype)


def as_stored(array: Array, dtype: np.dtype[Any]) -> Array:
    """Array in the dtype of the fit, clipped to its range; 0 stays 0."""
    if dtype == array.dtype:
        return array
    ends = np.finfo(dtype)
    inside = np.clip(array, float(ends.tiny), float(ends.max))
    return np.where(array > 0, inside, 0.0).astype(dtype)


def fit_scales_alone(problem: Problem, movable: Sequence[str], held: frozenset[str], late: frozenset[str]) -> None:
    """Fit some scales of evidence as if there were no other terms, then start the others (decision 20)."""
    others = [name for name in movable if name not in held]
    match_totals(problem, movable, frozenset(others))
    for _ in range(MAX_SCALE_UPDATES):
        before = {name: problem.factors[name].mean.copy() for name in held}
        counts = problem.expected_counts()
        for name in problem.free:
            if name in held:
                problem.update(name, counts)
        if all(np.allclose(problem.factors[name].mean, before[name], rtol=SCALE_CHANGE, atol=0.0) for name in held):
            break
    for name in held:  # priors adapt to factors that the loop has updated
        del problem.exposed[name]
    match_totals(problem, others, late)


def match_totals(problem: Problem, movable: Sequence[str], late: frozenset[str] = frozenset()) -> None:
    """Scale the movable factors so that Σ M·V·Xhat is the number of events in every relation, as far as shared factors
    allow.

    The terms of a relation start with equal shares, those with `late` factors with nearly none.
    """
    rows, wanted = [], []
    for relation in problem.relations:
        total = relation.sums.value / relation.part.likelihood.bursts(problem.likelihood_params[relation.part.name])[0]
        waits = [bool(members) and late.issuperset(member.factor for member in members) for members in relation.members]
        for number, members in enumerate(relation.members):
            part = total * (LATE_SHARE if waits[number] else 1.0 / max(1, waits.count(False)))
            uses = [float(sum(member.factor == name for member in members)) for name in movable]
            own = [term for term in relation.terms if term.number == number]
            rate = sum((term.total(problem.factors) for term in own), 0.0)
            if part > 0 and rate > 0 and any(uses):
                rows.append(uses)
                wanted.append(np.log(part / rate))
    if not rows:
        return
    logs, *_ = np.linalg.lstsq(np.array(rows), np.array(wanted), rcond=None)
    for name, log_scale in zip(movable, logs):
        problem.rescale(name, float(log_scale))


def parts_of(data: Data, exposures: Exposures) -> list[RelationData]:
    return [part_of(data, name, exposures) for name in data.model.relations]


def go_on(
    parts: Sequence[RelationData],
    state: State,
    method: Method,
    free: tuple[str, ...],
    executor: Executor,
    forest: CSFCache,
) -> Problem:
    """The problem of an interrupted loop, in the state of its checkpoint."""
    factors = {name: kept.factor() for name, kept in state.factors.items()}
    method = "em" if state.history[-1].warm_up else method
    return Problem(method, parts, factors, free, dict(state.priors), executor, forest, dict(state.likelihood_params))


def part_of(data: Data, name: str, exposures: Exposures) -> RelationData:
    """One relation for inference; with exposures the weights of a term are M·V."""
    relation, equation = data.relations[name], data.model.equation(name)
    given = tuple(exposures.of(name, n) for n in range(len(equation.terms)))
    if all(V is not None for V in given):
        _check_exposure(relation, data, cast(tuple[Weights, ...], given))
    M = each_once(relation.weights, relation.groups)
    return RelationData(
        name,
        relation.likelihood,
        relation.indices,
        dict(zip(relation.indices, relation.shape)),
        tuple(_uses(term, exposures) for term in equation.terms),
        nonzeros_of(relation.links, given),
        tuple(M if V is None else M * V for V in given),
        {n: own for n in range(len(equation.terms)) if (own := exposures.summed_in(name, n)) is not None},
    )


def _uses(term: Summand, exposures: Exposures) -> Uses:
    """Factors of a term that are not exposures."""
    return tuple((o.factor, o.indices) for o in term.occurrences if o.factor not in exposures.names)


def _check_exposure(relation: BoundRelation, data: Data, exposures: Sequence[Weights]) -> None:
    """Refuse links at cells where every term has V = 0: they are impossible under any factors."""
    totals: list[AnyArray] = []
    for cells, _, _ in relation.links.pieces(CHUNK_CELLS):
        totals.append(cells[np.max([V.at(cells) for V in exposures], axis=0) <= 0])
    bad = np.concatenate(totals) if totals else np.zeros((0, 0))
    if len(bad):
        cell = sort_cells(bad, relation.shape)[1][0]  # blocks on disk have another order
        names = ", ".join(f"{i}={data.entities[i][int(row)]!r}" for i, row in zip(relation.indices, cell))
        raise DataError(
            f"the link at {names} has exposure 0, so its probability is 0 ({plural(len(bad), 'such link')}).",
            location=TableLocation.of(relation.name),
            hint="Give these cells a positive exposure, such as a small `default`.",
        )
