"""Update with new links: `fit.update`, without the old data, whose counts the posterior holds
(docs/math.md, section 13).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.codegen.layout import Layout
from plait.data.binding.given import Exposures
from plait.data.binding.known import Known
from plait.data.observation.links import LinkArrays, Links, LinksInMemory
from plait.data.observation.pairs import Pairs
from plait.data.observation.symmetry import each_once
from plait.data.observation.weights import Weights
from plait.data.sparse.csf import CSFCache
from plait.data.sparse.csf_index import distinct
from plait.data.sparse.keys import columns_of
from plait.data.titles import extended_titles
from plait.errors import ParameterError
from plait.executors import Executor, Threads
from plait.incremental.extend import extend_state, mark_of
from plait.incremental.fold_in import check
from plait.incremental.new_cells import NewCells, blocks_of
from plait.incremental.new_links import OldCounts, choose_known, learn_rows
from plait.incremental.new_rows import Extension, read, rule_of
from plait.incremental.solve_rows import naming, solve
from plait.inference.chains import given_neighbours
from plait.inference.expected_counts import ExpectedCounts
from plait.inference.outofcore_links import nonzeros_of
from plait.inference.problem import Method, Problem
from plait.inference.relation_sums import RelationData
from plait.inference.state import FactorSnapshot, MomentumState, Reason, Record, State, Stop
from plait.likelihood import Likelihood
from plait.model.model import Equation, Model
from plait.rendering.formatting import plural
from plait.storage.fitted import Fitted, Member, Origin

Fit = TypeVar("Fit", bound=Fitted)

WHAT = "update"


def update(fit: Fit, data: Any, *, iterations: int = 5, fixed: Mapping[str, Any] | None = None) -> Fit:
    """The fit updated with new links; see `Fit.update`."""
    check(fit, iterations, WHAT)
    _refuse(fit)
    growth, fresh = read(fit, data, WHAT, fixed)
    blocks = blocks_of(fit, growth, fresh, WHAT)
    n_learnt = fit.settings.get("folded") or {axis: growth.old[axis] for axis in fit.model.axes}
    known, links = dict[str, Known](), dict[str, LinkArrays]()
    for name in fit.model.relations:
        own = [block for block in blocks if block.equation.relation == name]
        known[name], links[name] = learn_rows(fit, name, growth, fresh.get(name), own, n_learnt)
    exposures = growth.exposures
    settings = {word: value for word, value in fit.settings.items() if word != "folded"}
    origin = Origin(
        fit.model, fit.method, fit.seed, growth.entities, fit.likelihood, exposures, known, settings,
        mark_of(fit, growth, fresh), extended_titles(fit.titles, growth.entities), fit.calibration,
    )  # fmt: skip
    stop = Stop(
        Reason.MAX_ITER, f"updated with new links by {plural(iterations, 'iteration')}; before: {fit.stop.sentence}"
    )
    executor, forest = Threads(fit.settings.get("threads")), CSFCache()
    members = [
        Member(
            m.seed,
            _learn_member(m, growth, blocks, known, links, exposures, n_learnt, iterations, executor, forest),
            stop,
            m.given_names,
        )
        for m in fit.members
    ]
    return type(fit)._of(origin, members, stop)


def _refuse(fit: Fitted) -> None:
    """Refuse fits whose posteriors do not hold the counts of their data."""
    if fit.settings.get("bootstrap") and len(fit.members) > 1:
        raise ParameterError(
            f"{WHAT}: the fit is a bootstrap ensemble, whose link weights are not stored.",
            hint="Fit again with the new links, or add new entities with `fold_in`.",
        )
    for member in fit.members:
        state = member.state
        never = [name for name in state.divergences if name not in state.exposed]
        if never or state.momentum.extrapolated:
            why = f"{never[0]} was never updated" if never else "it stopped during an extrapolation"
            raise ParameterError(
                f"{WHAT}: the fit has no expected counts: {why}.",
                hint="Continue it for one sweep with `init=fit`.",
            )
    for name in fit.known:
        rule_of(fit, name, WHAT)


def _learn_member(
    fit: Fitted, growth: Extension, blocks: Sequence[NewCells], known: Mapping[str, Known],
    links: Mapping[str, LinkArrays], exposures: Exposures, n_learnt: Mapping[str, int],
    iterations: int, executor: Executor, forest: CSFCache,
) -> State:  # fmt: skip
    """State of a member after some iterations over its new links."""
    began, model, method = time.perf_counter(), fit.model, cast(Method, fit.method)
    counts = old_counts(fit, n_learnt, executor)
    state = fit.state
    if any(growth.new(axis) for axis in model.axes):
        solution = solve(fit, growth, blocks, iterations, executor, WHAT)
        state = extend_state(fit, growth, solution, None)
    state, counts = _with_pairs(model, state, fit.state, links, counts)
    factors = {name: kept.factor() for name, kept in state.factors.items()}
    free = tuple(name for name in model.factors if name in state.divergences)
    learnt = {name: dict(own) for name, own in state.likelihood_params.items()}
    parts = [
        _relation_of_links(
            fit, e, known[e.relation], _links_in_memory(e, known[e.relation], links[e.relation]), exposures
        )
        for e in model.equations
    ]
    problem = Problem(method, parts, factors, free, dict(state.priors), executor, likelihood_params=learnt)
    with naming():
        old = _rescale_counts(fit, problem, counts, known, exposures, n_learnt)
        for _ in range(iterations):
            counted = problem.expected_counts(bound=False)
            for name in free:
                problem.update(name, with_counts(counted, name, old.now(name)))
    problem.recompute_elbo_terms()
    whole = [part for e in model.equations for part in _whole(fit, e, known[e.relation], exposures)]
    bound = _bound(Problem(method, whole, factors, free, dict(state.priors), executor, forest, learnt), problem)
    bound += sum(_of_sums(fit.likelihood[name], own, learnt.get(name, {})) for name, own in known.items())
    last = fit.state.history[-1]
    record = Record(last.sweep + iterations, bound, float("inf"), time.perf_counter() - began, last.rank)
    return replace(problem.state([*fit.state.history, record], 0, MomentumState()), log_scales=fit.state.log_scales)


def _bound(whole: Problem, problem: Problem) -> float:
    """Objective of all links together, at the state of a problem."""
    whole.rates, whole.divergences = problem.rates, problem.divergences
    return whole.objective([whole.relation_counts(relation, (), bound=True) for relation in whole.relations])


def _whole(fit: Fitted, equation: Equation, known: Known, exposures: Exposures) -> list[RelationData]:
    """All links of a relation for their share of the objective, part by part, without M, which is already included."""
    nothing = Weights(equation.indices, known.shape, ())
    return [
        _relation_of_links(fit, equation, known, links.with_link_weights(), exposures, nothing)
        for links in known.links.parts
    ]


def _of_sums(likelihood: Likelihood, known: Known, state: Mapping[str, float]) -> float:
    """Contribution to the objective of cells whose values add up, which were counted part by part."""
    first, *others = known.links.parts
    total = 0.0
    for cells, more, weights in (part.read(first.contain) for part in others):
        if len(cells):
            old = first.find(cells)
            whole, *parts = (likelihood.constant(likelihood.sums(x, weights), state) for x in (old + more, old, more))
            total += whole - sum(parts)
    return total


def with_counts(counted: Sequence[ExpectedCounts], name: str, old: Array) -> list[ExpectedCounts]:
    """Counts of new links, with a factor's counts of old ones added."""
    first = next(n for n, own in enumerate(counted) if name in own.gradients)
    earlier = counted[first].underflow.get(name)
    underflow = {**counted[first].underflow, name: old if earlier is None else old + earlier}
    return [replace(own, underflow=underflow) if n == first else own for n, own in enumerate(counted)]


def _rescale_counts(
    fit: Fitted, problem: Problem, counts: Mapping[str, Array], known: Mapping[str, Known], exposures: Exposures,
    n_learnt: Mapping[str, int],
) -> OldCounts:  # fmt: skip
    """Old counts, rescaled in relations whose events are not their values."""
    parts, each = [], []
    for equation in (e for e in fit.model.equations if fit.likelihood[e.relation].true_scale):
        name = equation.relation
        nothing = Weights.constant(equation.indices, known[name].shape, 0.0)
        for links, count in choose_known(fit.model, name, fit.known[name], n_learnt):
            parts.append(
                _relation_of_links(
                    fit, equation, known[name], _links_in_memory(equation, known[name], links), exposures, nothing
                )
            )
            each.append(count)
    chosen = Problem(
        problem.method,
        parts,
        problem.factors,
        problem.free,
        problem.priors,
        problem.executor,
        likelihood_params=problem.likelihood_params,
    )
    return OldCounts(counts, chosen, each)


def old_counts(fit: Fitted, n_learnt: Mapping[str, int], executor: Executor) -> dict[str, Array]:
    """Counts of the data in each factor, as stored; 0 for entities that were folded in."""
    counts, state = {}, fit.state
    points = _exposed(fit, n_learnt, executor) if fit.method != "vb" else {}
    for name in state.divergences:
        kept = state.factors[name]
        layout = kept.layout
        prior = state.priors.get(name)
        if prior is not None and prior.chain:
            mean = kept.factor().mean
            A, rate = given_neighbours(layout, prior, mean, "vb" if fit.method == "vb" else "map")
            if fit.method == "vb":
                N = np.asarray(kept.concentration, np.float64) - A
            else:
                N = np.asarray(kept.mean, np.float64) * (points[name] + rate) - (A - 1.0)
        elif fit.method == "vb":
            assert kept.concentration is not None
            N = np.asarray(kept.concentration, np.float64) - layout.spread(state.priors[name].concentration)
        else:
            N = np.asarray(kept.mean, np.float64) * points[name]
            if fit.method == "map":
                A, B = (layout.spread(a) for a in (state.priors[name].concentration, state.priors[name].mean))
                rate = np.divide(A, B, out=np.zeros(np.broadcast_shapes(A.shape, B.shape)), where=B > 0)
                N = N + np.asarray(kept.mean, np.float64) * rate - (A - 1.0)
        N = np.maximum(N, 0.0)
        N[~_learnt_rows(fit.model, layout, name, n_learnt)] = 0.0
        counts[name] = layout.pack(layout.unpack(N))
    return counts


def _learnt_rows(model: Model, layout: Layout, name: str, n_learnt: Mapping[str, int]) -> NDArray[np.bool_]:
    """Stored rows of a factor whose entities it has learnt from; shared rows of pairs have no counts."""
    visible = model.factor(name).visible
    if layout.pairs is not None:
        coords = cast(Pairs, layout.pairs).coords
        flags = np.zeros(layout.rows, bool)
        flags[: len(coords)] = (coords < np.array([n_learnt[model.axis(i)] for i in visible], np.int64)).all(axis=1)
        return flags
    own = [np.arange(n) < n_learnt[model.axis(index)] for index, n in zip(visible, layout.sizes)]
    return np.asarray(reduce(np.logical_and.outer, own, np.ones((), bool))).reshape(-1)


def _exposed(fit: Fitted, n_learnt: Mapping[str, int], executor: Executor) -> dict[str, Array]:
    """Exposures of all factors by their data, at their present means."""
    model = fit.model
    parts = []
    for equation in model.equations:
        known = fit.known[equation.relation]
        M = known.observed
        for index, size in zip(equation.indices, known.shape):
            if n_learnt[model.axis(index)] < size:
                vector = (np.arange(size) < n_learnt[model.axis(index)]).astype(np.float64)
                M = M * Weights.from_vector(equation.indices, known.shape, index, vector)
        none = LinkArrays.none(len(known.shape))
        parts.append(
            _relation_of_links(fit, equation, known, _links_in_memory(equation, known, none), fit.exposures, M)
        )
    factors = {name: kept.factor() for name, kept in fit.state.factors.items()}
    free = tuple(name for name in model.factors if name in fit.state.divergences)
    problem = Problem(cast(Method, fit.method), parts, factors, free, dict(fit.state.priors), executor)
    exposures = {}
    for name in free:
        own = [t.exposed(name, factors) for t in problem.terms if name in t.uses and not t.member(name).shared]
        exposures[name] = sum(own, np.zeros((1, 1)))
    return exposures


def _links_in_memory(equation: Equation, known: Known, links: LinkArrays) -> Links:
    """Some links of a relation, in memory."""
    return LinksInMemory.of(equation.indices, known.shape, *links)


def _relation_of_links(
    fit: Fitted, equation: Equation, known: Known, links: Links, exposures: Exposures, M: Weights | None = None
) -> RelationData:
    """A relation for inference, with some of its links and all observations."""
    name = equation.relation
    given = tuple(exposures.of(name, n) for n in range(len(equation.terms)))
    once = each_once(known.observed if M is None else M, known.groups)
    weights = tuple(once if V is None else once * V for V in given)
    uses = tuple(
        tuple((o.factor, o.indices) for o in term.occurrences if o.factor not in exposures.names)
        for term in equation.terms
    )
    sizes = dict(zip(equation.indices, known.shape))
    summed = {n: own for n in range(len(equation.terms)) if (own := exposures.summed_in(name, n)) is not None}
    return RelationData(
        name, fit.likelihood[name], equation.indices, sizes, uses, nonzeros_of(links, given), weights, summed
    )


def _with_pairs(
    model: Model, state: State, before: State, links: Mapping[str, LinkArrays], counts: Mapping[str, Array]
) -> tuple[State, dict[str, Array]]:
    """Rows for pairs that new links name, and counts of all rows, 0 for new ones.

    A pair without its own row starts with its shared row.
    """
    factors, exposed, pair_counts = dict(state.factors), dict(state.exposed), {}
    for name, N in counts.items():
        kept, then = factors[name], before.factors[name]
        if kept.layout.pairs is None:
            pair_counts[name] = _placed(N, then.layout, kept.layout)
            continue
        pairs = cast(Pairs, kept.layout.pairs)
        now = _more_pairs(model, name, pairs, links)
        rows = np.concatenate([pairs.find(columns_of(now.coords)), np.arange(len(pairs), pairs.rows)])
        layout = Layout.of_pairs(name, now, kept.layout.latent, kept.layout.sizes[1:], kept.layout.scaled)
        factors[name] = FactorSnapshot(layout, *(None if a is None else a[rows] for a in kept[1:]))
        if name in exposed:
            exposed[name] = exposed[name][rows]
        old = cast(Pairs, then.layout.pairs)
        pair_counts[name] = np.zeros((layout.rows, layout.columns))
        pair_counts[name][now.find(columns_of(old.coords))] = N[: len(old)]
    return replace(state, factors=factors, exposed=exposed), pair_counts


def _placed(N: Array, then: Layout, now: Layout) -> Array:
    """Counts as stored in a larger factor."""
    if then.rows == now.rows:
        return N
    split = len(then.visible)
    whole = np.zeros((*now.sizes[:split], N.shape[1]))
    whole[tuple(slice(n) for n in then.sizes[:split])] = N.reshape(*then.sizes[:split], -1)
    return whole.reshape(-1, N.shape[1])


def _more_pairs(model: Model, name: str, pairs: Pairs, links: Mapping[str, LinkArrays]) -> Pairs:
    """Pairs of a factor with those of new links."""
    coords = [pairs.coords]
    for equation in model.equations:
        for use in (o for o in equation.occurrences if o.factor == name):
            here = dict(zip(pairs.indices, use.indices))
            places = [equation.indices.index(here[index]) for index in pairs.visible]
            coords.append(links[equation.relation].cells[:, places].astype(pairs.coords.dtype))
    return replace(pairs, coords=distinct(np.concatenate(coords), pairs.sizes))
