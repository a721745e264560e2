"""Dense, slow and obvious inference for any model, from the mathematics alone: what the fast code is tested against.

Nothing here imports Plait. Every quantity is the full tensor over *all* indices of an equation, built by broadcasting
and summed; products and the sums that divide them are taken in the log domain, so nothing underflows.

Names: X data, M weights, V exposures (arrays over the visible indices of a relation), A and B the prior's concentration
and mean, C and D the posterior's concentration and scale, E its mean, L = exp(E[log Z]), Z a point estimate.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize
from scipy.special import gammaln, psi, xlogy

Array = NDArray[np.float64]
Indices = tuple[str, ...]
# One (relation, its visible indices, [(factor, its indices), ...]) for each term of each equation, in order: a relation
# whose equation is a sum is there once for every term.
Equations = list[tuple[str, Indices, list[tuple[str, Indices]]]]
Method = Literal["em", "map", "vb"]
# EM, MAP: factor -> Z.  VB: factor -> (C, D).  Given factors are not part of the state.
Point = dict[str, Array]
Posterior = dict[str, tuple[Array, Array]]
State = Any


# --- the model in its plain form ------------------------------------------------------------------------------------


def from_model(model: Any) -> Equations:
    """The plain form of a ``plait.Model``."""
    return [
        (eq.relation, tuple(eq.indices), [(o.factor, tuple(o.indices)) for o in term.occurrences])
        for eq in model.equations
        for term in eq.terms
    ]


def from_text(text: str) -> Equations:
    """The plain form of a model's text, for well-formed texts only; lines that declare axes are passed over."""
    equations: Equations = []
    for line in text.splitlines():
        left, _, right = line.split("#")[0].partition("=")
        if right:
            ((relation, visible),) = _brackets(left)
            equations += [(relation, visible, _brackets(term)) for term in right.split("+")]
    return equations


def _brackets(text: str) -> list[tuple[str, Indices]]:
    """Every ``name[index, index]`` of a text."""
    found = re.findall(r"(\w+)\s*\[([^]]*)\]", text)
    return [(name, tuple(index.strip() for index in inside.split(",") if index.strip())) for name, inside in found]


def relations_of(equations: Equations) -> dict[str, Indices]:
    """Every relation with its visible indices."""
    return {relation: visible for relation, visible, _ in equations}


def factor_indices(equations: Equations) -> dict[str, Indices]:
    """Every factor, in the order of the model, with its indices as first written."""
    found: dict[str, Indices] = {}
    for _, _, occurrences in equations:
        for factor, indices in occurrences:
            found.setdefault(factor, indices)
    return found


def factor_shapes(equations: Equations, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Every factor's shape, in written order; ``sizes`` goes by index name, visible and latent."""
    return {factor: tuple(sizes[i] for i in indices) for factor, indices in factor_indices(equations).items()}


@dataclass(frozen=True)
class Problem:
    """A model with its data. What is left out of M, V, likelihood is 1, 1, Poisson; X may be NaN where M is 0."""

    equations: Equations
    X: Mapping[str, Array]
    prior: Mapping[str, tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)
    M: Mapping[str, Array] = field(default_factory=dict)
    V: Mapping[str, Array] = field(default_factory=dict)
    likelihood: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Array] = field(default_factory=dict)

    @property
    def free(self) -> list[str]:
        """The factors to be estimated, in the order of the model."""
        return [factor for factor in factor_indices(self.equations) if factor not in self.given]

    def weights(self, relation: str) -> Array:
        """M of a relation."""
        return np.broadcast_to(np.asarray(self.M.get(relation, 1.0), dtype=float), np.shape(self.X[relation]))

    def exposures(self, relation: str) -> Array:
        """V of a relation."""
        return np.broadcast_to(np.asarray(self.V.get(relation, 1.0), dtype=float), np.shape(self.X[relation]))

    def values(self, relation: str) -> Array:
        """X of a relation, 0 where nothing is observed."""
        return np.where(self.weights(relation) > 0, self.X[relation], 0.0)


# --- full tensors ---------------------------------------------------------------------------------------------------


def spread(array: ArrayLike, indices: Indices, onto: Sequence[str]) -> Array:
    """The array with its axes in the order of ``onto`` and axes of length 1 for the indices it does not have."""
    array = np.asarray(array, dtype=float)
    assert array.ndim == len(indices), f"{array.shape} for {indices}"
    order = sorted(range(len(indices)), key=lambda axis: onto.index(indices[axis]))
    sizes = dict(zip(indices, array.shape))
    return array.transpose(order).reshape([sizes.get(index, 1) for index in onto])


def gather(full: Array, onto: Sequence[str], indices: Indices) -> Array:
    """Sum the full tensor over every index that is not in ``indices``; axes come out in the order of ``indices``."""
    summed = full.sum(axis=tuple(axis for axis, index in enumerate(onto) if index not in indices))
    left = [index for index in onto if index in indices]
    return np.transpose(summed, [left.index(index) for index in indices])


def all_indices(visible: Indices, occurrences: Iterable[tuple[str, Indices]]) -> list[str]:
    """The visible indices of an equation, then its latent ones."""
    return list(dict.fromkeys([*visible, *(index for _, indices in occurrences for index in indices)]))


def log(array: ArrayLike) -> Array:
    """Logarithm with log 0 = -inf and no warning."""
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(array, dtype=float))


def _log_product(
    visible: Indices, occurrences: list[tuple[str, Indices]], logs: Mapping[str, Array], shape: tuple[int, ...]
) -> tuple[list[str], Array]:
    """log of the product of all factors over all indices of the equation."""
    onto = all_indices(visible, occurrences)
    full = np.zeros(shape + (1,) * (len(onto) - len(visible)))
    for factor, indices in occurrences:
        full = full + spread(logs[factor], indices, onto)
    return onto, full


def _log_terms(problem: Problem, logs: Mapping[str, Array]) -> dict[str, list[tuple[list[str], Array]]]:
    """Relation -> for each of its terms all its indices, and the log of its product over them."""
    found: dict[str, list[tuple[list[str], Array]]] = {}
    for relation, visible, occurrences in problem.equations:
        product = _log_product(visible, occurrences, logs, np.shape(problem.X[relation]))
        found.setdefault(relation, []).append(product)
    return found


def _log_sum(full: Array, visible: Indices) -> Array:
    """log of the sum over the latent indices (which come last)."""
    latent = tuple(range(len(visible), full.ndim))
    top = full.max(axis=latent, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    return log(np.exp(full - top).sum(axis=latent)) + top.reshape(full.shape[: len(visible)])


def log_rate(problem: Problem, logs: Mapping[str, Array]) -> dict[str, Array]:
    """log(V Xhat) of every relation, from the log of every factor."""
    visible = relations_of(problem.equations)
    return {
        relation: _log_xhat(terms, visible[relation]) + log(problem.exposures(relation))
        for relation, terms in _log_terms(problem, logs).items()
    }


def _log_xhat(terms: Iterable[tuple[list[str], Array]], visible: Indices) -> Array:
    """log Xhat, the sum over the terms of an equation and their latent indices."""
    return np.asarray(np.logaddexp.reduce([_log_sum(full, visible) for _, full in terms], axis=0))


def rate(problem: Problem, Z: Mapping[str, Array]) -> dict[str, Array]:
    """V Xhat of every relation, from every factor that is not given."""
    return {relation: np.exp(value) for relation, value in log_rate(problem, logs_of(problem, Z)).items()}


def logs_of(problem: Problem, Z: Mapping[str, Array]) -> dict[str, Array]:
    """The log of every factor, given ones included."""
    return {factor: log(value) for factor, value in {**Z, **problem.given}.items()}


def log_geomeans(problem: Problem, state: Posterior) -> dict[str, Array]:
    """log L of every factor, given ones included (there L is the given value)."""
    found = {factor: psi(C) + np.log(D) for factor, (C, D) in state.items()}
    return found | {factor: log(value) for factor, value in problem.given.items()}


def means(problem: Problem, state: Posterior) -> dict[str, Array]:
    """E of every factor, given ones included (there E is the given value)."""
    return {factor: C * D for factor, (C, D) in state.items()} | dict(problem.given)


# --- counts and exposure --------------------------------------------------------------------------------------------


def expected_counts(problem: Problem, relation: str, log_lambda: Array) -> Array:
    """X itself, or under the Bernoulli-Poisson likelihood E[n] = x lambda / (1 - exp(-lambda))."""
    X = problem.values(relation)
    if problem.likelihood.get(relation, "poisson") == "poisson":
        return X
    lam = np.exp(log_lambda)
    # Below 1e-10 the ratio is 1 + lambda/2 to the last digit, and lambda itself may have underflowed.
    small = lam < 1e-10
    return X * np.where(small, 1 + lam / 2, lam / -np.expm1(-np.where(small, 1.0, lam)))


def relation_counts(problem: Problem, logs: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """relation -> factor -> expected counts that the factor explains there, L * Delta(M X / Xhat_L).

    ``logs`` is the log of L (VB) or of Z (EM, MAP), for every factor.
    """
    found: dict[str, dict[str, Array]] = {}
    for relation, by_term in term_counts(problem, logs).items():
        own = found.setdefault(relation, {})
        terms = [occurrences for nu, _, occurrences in problem.equations if nu == relation]
        for (onto, S), occurrences in zip(by_term, terms):
            for factor, indices in occurrences:
                own[factor] = own.get(factor, 0.0) + gather(S, onto, indices)
    return found


def term_counts(problem: Problem, logs: Mapping[str, Array]) -> dict[str, list[tuple[list[str], Array]]]:
    """Relation -> for each of its terms all its indices, and the counts that are expected over them."""
    visible = relations_of(problem.equations)
    found: dict[str, list[tuple[list[str], Array]]] = {}
    for relation, terms in _log_terms(problem, logs).items():
        log_xhat = _log_xhat(terms, visible[relation])
        N = problem.weights(relation) * expected_counts(problem, relation, log_xhat + log(problem.exposures(relation)))
        # Shares of terms and latent configurations in each cell with counts; a cell no factor can explain gives none.
        explained = (N > 0) & np.isfinite(log_xhat)
        for onto, full in terms:
            centre = spread(np.where(explained, log_xhat, 0.0), visible[relation], onto)
            shares = np.exp(np.where(spread(explained, visible[relation], onto) > 0, full - centre, -np.inf))
            found.setdefault(relation, []).append((onto, spread(N, visible[relation], onto) * shares))
    return found


def term_totals(problem: Problem, logs: Mapping[str, Array]) -> dict[str, list[float]]:
    """Relation -> the counts that each of its terms explains: together all of the relation."""
    return {nu: [float(S.sum()) for _, S in terms] for nu, terms in term_counts(problem, logs).items()}


def counts(problem: Problem, logs: Mapping[str, Array]) -> dict[str, Array]:
    """Factor -> its expected counts summed over all relations."""
    total: dict[str, Array] = {}
    for by_factor in relation_counts(problem, logs).values():
        for factor, value in by_factor.items():
            total[factor] = total.get(factor, 0.0) + value
    return total


def exposure(problem: Problem, E: Mapping[str, Array], factor: str) -> Array:
    """dG/dE of one factor over all terms and occurrences; ``E`` holds every factor, given ones included."""
    once, twice = exposures(problem, E, factor)
    return once + twice


def exposures(problem: Problem, E: Mapping[str, Array], factor: str) -> tuple[Array, Array]:
    """dG/dE of one factor: from the terms where it stands once, and from those where it stands twice."""
    found = [np.zeros(np.shape(E[factor])), np.zeros(np.shape(E[factor]))]
    for relation, visible, occurrences in problem.equations:
        places = [n for n, (name, _) in enumerate(occurrences) if name == factor]
        assert len(places) <= 2, f"{factor} occurs {len(places)} times in a term of {relation}"
        for place in places:
            found[len(places) - 1] += _delta(problem, E, relation, visible, occurrences, place)
    return found[0], found[1]


def _delta(
    problem: Problem,
    E: Mapping[str, Array],
    relation: str,
    visible: Indices,
    occurrences: list[tuple[str, Indices]],
    place: int,
) -> Array:
    """Delta(M V) of one occurrence in a term."""
    onto = all_indices(visible, occurrences)
    sizes = dict(zip(visible, np.shape(problem.X[relation])))
    for other, its in occurrences:
        sizes |= dict(zip(its, np.shape(E[other])))
    full = np.ones([sizes[index] for index in onto])
    full = full * spread(problem.weights(relation) * problem.exposures(relation), visible, onto)
    for n, (other, its) in enumerate(occurrences):
        if n != place:
            full = full * spread(E[other], its, onto)
    return gather(full, onto, occurrences[place][1])


# --- updates --------------------------------------------------------------------------------------------------------


def prior_of(problem: Problem, factor: str, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """(A, B) of a factor, in its full shape."""
    A, B = problem.prior[factor]
    return (
        np.broadcast_to(np.asarray(A, dtype=float), shape).copy(),
        np.broadcast_to(np.asarray(B, dtype=float), shape).copy(),
    )


def sweep(problem: Problem, state: State, method: Method) -> State:
    """The state after one sweep over all factors that are not given: counts of its start, exposures as they come."""
    state = dict(state)
    N = counts(problem, _logs(problem, state, method))
    for factor in problem.free:
        E = means(problem, state) if method == "vb" else {**state, **problem.given}
        state[factor] = _updated(problem, factor, N[factor], E, method)
    return state


def _updated(problem: Problem, factor: str, N: Array, E: Mapping[str, Array], method: Method) -> State:
    """The new value of one factor: E_new = C / b, or where it stands twice in terms the root of a quadratic."""
    once, twice = exposures(problem, E, factor)
    e = np.asarray(E[factor], dtype=float)
    if method == "em":
        new = _quadratic(N, once, twice, e)
        return np.where(once + twice > 0, new, e)
    A, B = prior_of(problem, factor, N.shape)
    if method == "map" and np.any(A < 1):
        raise ValueError("MAP needs a concentration of at least 1")
    C = A + N if method == "vb" else A - 1 + N
    new = _quadratic(C, A / B + once, twice, e)
    return (C, new / C) if method == "vb" else new


def _quadratic(C: Array, b: Array, q: Array, e: Array) -> Array:
    """The E with a E^2 + b E = C, where a = q / e; with q = 0 it is C / b (0 where both are 0), and e = 0 stays 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = np.where(b > 0, C / b, 0.0)
        both = 2 * C / (b + np.sqrt(b**2 + 4 * np.where(e > 0, q / e, 0.0) * C))
    return np.where(q > 0, np.where((e > 0) & (C > 0), both, 0.0), plain)


def _logs(problem: Problem, state: State, method: Method) -> dict[str, Array]:
    return log_geomeans(problem, state) if method == "vb" else logs_of(problem, state)


# --- objectives -----------------------------------------------------------------------------------------------------


def log_expm1(log_lambda: Array) -> Array:
    """log(exp(lambda) - 1) from log(lambda)."""
    lam = np.exp(log_lambda)
    small = lam < 1e-10
    safe = np.where(small, 1.0, lam)
    return np.where(small, log_lambda + lam / 2, safe + np.log(-np.expm1(-safe)))


def cell_terms(problem: Problem, logs: Mapping[str, Array]) -> dict[str, Array]:
    """M (X log Xhat - log Gamma(X+1)) or M x log(exp(Xhat) - 1) for every cell of every relation; Xhat includes V."""
    found = {}
    for relation, log_lambda in log_rate(problem, logs).items():
        X, M = problem.values(relation), problem.weights(relation)
        positive = (X > 0) & (M > 0)
        if np.any(positive & (problem.exposures(relation) == 0)):
            raise ValueError(f"{relation} has a value where its exposure is 0")
        safe = np.where(positive, log_lambda, 0.0)
        if problem.likelihood.get(relation, "poisson") == "poisson":
            terms = X * safe - gammaln(X + 1)
        else:
            assert np.all(np.isin(X, (0.0, 1.0))), relation
            terms = log_expm1(safe)
        found[relation] = np.where(positive, M * terms, 0.0)
    return found


def total_rate(problem: Problem, E: Mapping[str, Array]) -> float:
    """G(E), the sum of M V Xhat_E over all relations; ``E`` holds every factor, given ones included."""
    logs = {factor: log(value) for factor, value in E.items()}
    return float(sum(np.sum(problem.weights(nu) * np.exp(value)) for nu, value in log_rate(problem, logs).items()))


def kl(A: Array, B: Array, C: Array, D: Array) -> Array:
    """KL(Gamma(C, scale D) || Gamma(A, mean B)), entry by entry."""
    return (C - A) * psi(C) - (gammaln(C) - gammaln(A)) + A * np.log(B / (A * D)) + C * (D * A / B - 1)


@dataclass(frozen=True)
class Terms:
    """Terms of the bound: data (with log Gamma(X+1)), rate, divergence."""

    data: float
    rate: float
    divergence: float

    @property
    def bound(self) -> float:
        """data - rate - divergence."""
        return self.data - self.rate - self.divergence

    @property
    def scale(self) -> float:
        """|F| + |G| + |KL|, what tolerances are relative to."""
        return abs(self.data) + abs(self.rate) + abs(self.divergence)


def bound_terms(problem: Problem, state: Posterior) -> Terms:
    """The evidence lower bound of a VB state, term by term."""
    data = sum(np.sum(terms) for terms in cell_terms(problem, log_geomeans(problem, state)).values())
    divergence = sum(np.sum(kl(*prior_of(problem, factor, C.shape), C, D)) for factor, (C, D) in state.items())
    return Terms(float(data), total_rate(problem, means(problem, state)), float(divergence))


def bound(problem: Problem, state: Posterior) -> float:
    """The complete evidence lower bound of a VB state."""
    return bound_terms(problem, state).bound


def log_likelihood(problem: Problem, Z: Point) -> float:
    """Weighted log-likelihood of all relations, with every constant."""
    data = sum(np.sum(terms) for terms in cell_terms(problem, logs_of(problem, Z)).values())
    return float(data) - total_rate(problem, {**Z, **problem.given})


def log_prior(problem: Problem, Z: Point) -> float:
    """log density of the factors that are not given under their Gamma priors."""
    total = 0.0
    for factor, value in Z.items():
        A, B = prior_of(problem, factor, np.shape(value))
        total += float(np.sum(xlogy(A - 1, value) - A / B * value + A * np.log(A / B) - gammaln(A)))
    return total


def log_joint(problem: Problem, Z: Point) -> float:
    """log p(X, Z)."""
    return log_likelihood(problem, Z) + log_prior(problem, Z)


def objective(problem: Problem, state: State, method: Method) -> float:
    """What the method raises: the bound (VB), log-likelihood (EM) or log joint (MAP)."""
    functions: dict[str, Callable[[Problem, State], float]] = {"vb": bound, "em": log_likelihood, "map": log_joint}
    return functions[method](problem, state)


# --- hyperparameters ------------------------------------------------------------------------------------------------


def best_concentration(E: Array, log_L: Array, B: ArrayLike) -> float:
    """The A in [1e-3, 1e4], one for all entries, that raises the bound most for given means B.

    It solves log A - psi(A) = mean(E/B) - 1 + mean(log B) - mean(log L), which for B = mean(E) is log e - l.
    """
    right = np.mean(E / B) - 1 + np.mean(np.log(B)) - np.mean(log_L)

    def slope(log_A: float) -> float:
        return float(log_A - psi(np.exp(log_A)) - right)  # falls from +inf to 0

    low, high = np.log(1e-3), np.log(1e4)
    if slope(low) <= 0:
        return 1e-3
    if slope(high) >= 0:
        return 1e4
    return float(np.exp(brentq(slope, low, high, xtol=1e-13, rtol=1e-13)))


def adapted_prior(
    C: Array,
    D: Array,
    A: ArrayLike,
    indices: Indices,
    tie: Iterable[str],
    *,
    observed: ArrayLike = True,
    smallest: int = 8,
) -> tuple[Array, Array]:
    """New (A, B) of one factor with one prior per value of the indices ``tie``, broadcastable to the factor.

    ``A`` is the old concentration, kept in groups of fewer than ``smallest`` entries. ``observed``, broadcastable to
    the factor, says which entries have an observed cell: only those count. A group without any takes the average of the
    other groups' new values (of the concentration only where any group is large enough to adapt it).
    """
    axes = tuple(axis for axis, index in enumerate(indices) if index not in set(tie))
    E, log_L = C * D, psi(C) + np.log(D)
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(C.shape))
    old = np.broadcast_to(np.asarray(A, dtype=float), C.shape)
    seen = np.broadcast_to(np.asarray(observed, dtype=bool), C.shape)
    new_A, new_B, any_seen = np.empty(shape), np.empty(shape), np.empty(shape, dtype=bool)
    any_large = False
    for group in np.ndindex(shape):
        entries = tuple(slice(None) if axis in axes else position for axis, position in enumerate(group))
        mine = np.atleast_1d(seen[entries])
        any_seen[group] = mine.any()
        new_A[group] = np.mean(old[entries])
        if any_seen[group]:
            mean, log_mean = np.atleast_1d(E[entries])[mine], np.atleast_1d(log_L[entries])[mine]
            new_B[group] = np.mean(mean)
            if mine.sum() >= smallest:
                new_A[group], any_large = best_concentration(mean, log_mean, new_B[group]), True
    if np.any(any_seen):
        new_B[~any_seen] = np.mean(new_B[any_seen])
        if any_large:
            new_A[~any_seen] = np.mean(new_A[any_seen])
    return new_A, new_B


def rank_one_means(E: Array, indices: Indices, rows: Iterable[str]) -> Array:
    """B = b c, b over the indices ``rows``, c over the others, that raises the bound most at one concentration for all.

    The fixed point of b_i = mean_r(E/c_r), c_r = mean_i(E/b_i): the minimum of sum(log B + E/B), convex in log b and
    log c. Only the product is determined, and only it is returned, in the factor's shape.
    """
    chosen = set(rows)
    first = [axis for axis, index in enumerate(indices) if index in chosen]
    second = [axis for axis in range(len(indices)) if axis not in first]
    e = np.transpose(E, first + second)
    shape = e.shape
    e = e.reshape(int(np.prod(shape[: len(first)])), -1)
    n = e.shape[0]

    def loss(x: Array) -> tuple[float, Array]:
        log_B = x[:n, None] + x[n:]
        ratio = e * np.exp(-log_B)
        slope = 1 - ratio
        return float(np.sum(log_B + ratio)), np.concatenate([slope.sum(axis=1), slope.sum(axis=0)])

    def hess(x: Array) -> Array:
        ratio = e * np.exp(-(x[:n, None] + x[n:]))
        return np.block([[np.diag(ratio.sum(axis=1)), ratio], [ratio.T, np.diag(ratio.sum(axis=0))]])

    start = np.concatenate([np.log(e.mean(axis=1)), np.log(e.mean(axis=0) / e.mean())])
    x = minimize(loss, start, jac=True, hess=hess, method="trust-exact", options={"gtol": 1e-10}).x
    B = np.exp(x[:n, None] + x[n:]).reshape(shape)
    return np.transpose(B, np.argsort(first + second))


# --- prediction -----------------------------------------------------------------------------------------------------


def rate_moments(problem: Problem, state: Posterior, relation: str) -> tuple[Array, Array]:
    """Posterior mean and variance of V Xhat in every cell, for cells that use no entry twice in a term.

    The second moment is summed over *pairs* of configurations, each a term and its latent values. Two occurrences, one
    of either, are the same entry or independent: E[Z Z'] = E E' (1 + [same entry] Var / E^2), and Var / E^2 = 1 / C.
    """
    visible, E, V = relations_of(problem.equations)[relation], means(problem, state), problem.exposures(relation)
    spreads = {factor: 1 / C for factor, (C, _) in state.items()}
    terms = [occurrences for nu, _, occurrences in problem.equations if nu == relation]
    mean, second = np.zeros(V.shape), np.zeros(V.shape)
    for mine in terms:
        mean = mean + V * _expected(visible, [mine], E, spreads)
        for other in terms:
            primed = [(f, tuple(i if i in visible else f"{i}'" for i in indices)) for f, indices in other]
            second = second + V**2 * _expected(visible, [mine, primed], E, spreads)
    return mean, second - mean**2


def _expected(
    visible: Indices, products: list[list[tuple[str, Indices]]], E: Mapping[str, Array], spreads: Mapping[str, Array]
) -> Array:
    """E of one product of a cell, or of two products of it, summed over their latent indices."""
    onto = all_indices(visible, [o for product in products for o in product])
    full = np.ones((1,) * len(onto))
    for factor, indices in (o for product in products for o in product):
        full = full * spread(E[factor], indices, onto)
    for factor, indices in products[0] if len(products) > 1 else ():
        for again, other in products[1]:
            if again == factor and factor in spreads:
                same = spread(spreads[factor], indices, onto)
                for i, j, size in zip(indices, other, np.shape(E[factor])):
                    same = same * (spread(np.eye(size), (i, j), onto) if i != j else 1.0)
                full = full * (1 + same)
    return full.sum(axis=tuple(range(len(visible), len(onto))))


# --- instances ------------------------------------------------------------------------------------------------------


def instance(
    equations: Equations,
    sizes: Mapping[str, int],
    rng: np.random.Generator,
    *,
    likelihood: str = "poisson",
    concentration: float = 0.8,
    mean: float = 1.2,
    missing: float = 0.2,
    real_weights: bool = False,
    given: Iterable[str] = (),
) -> Problem:
    """Data drawn from the model, with a share of missing cells (NaN) and, if asked, weights other than 0 and 1.

    ``sizes`` goes by index name, visible and latent. ``given`` names the factors whose true values are handed over.
    """
    shapes = factor_shapes(equations, sizes)
    Z = {factor: rng.gamma(2.0, 0.5, size=shape) for factor, shape in shapes.items()}
    template = {nu: np.zeros([sizes[index] for index in visible]) for nu, visible, _ in equations}
    X, M = {}, {}
    for relation, lam in rate(Problem(equations, template), Z).items():
        hidden = rng.random(lam.shape) < (missing if lam.ndim else 0.0)
        x = np.asarray(rng.poisson(lam), dtype=float)
        if likelihood == "bernoulli":
            x = np.asarray(x > 0, dtype=float)
        X[relation] = np.where(hidden, np.nan, x)
        M[relation] = np.where(hidden, 0.0, rng.uniform(0.2, 1.5, size=lam.shape) if real_weights else 1.0)
    fixed = {factor: Z[factor] for factor in given}
    prior = {factor: (concentration, mean) for factor in Z if factor not in fixed}
    return Problem(equations, X, prior, M, {}, dict.fromkeys(X, likelihood), fixed)


def start(problem: Problem, sizes: Mapping[str, int], rng: np.random.Generator, method: Method) -> State:
    """A random state to start from."""
    shapes = factor_shapes(problem.equations, sizes)
    if method == "vb":
        return {
            factor: (rng.uniform(0.3, 2.0, shapes[factor]), rng.uniform(0.3, 2.0, shapes[factor]))
            for factor in problem.free
        }
    return {factor: rng.uniform(0.3, 2.0, shapes[factor]) for factor in problem.free}


def sd_of_shares(mean, variance):
    """The sd of mean / Σ mean (n,) by its Jacobian, at most that of a share which is all or nothing."""
    shares = mean / mean.sum()
    jacobian = (np.eye(len(mean)) - shares[:, None]) / mean.sum()
    return np.sqrt(np.minimum(jacobian**2 @ variance, shares * (1 - shares)).clip(0))
