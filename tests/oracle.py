"""Dense, slow and obvious inference for any model, from the mathematics alone: what the fast code is tested against.

Nothing here imports Plait. Every quantity is the full tensor over *all* indices of an equation, built by broadcasting
and summed; products and the sums that divide them are taken in the log domain, so nothing underflows.

Names: X data, M weights, V exposures (arrays over the visible indices of a relation), A and B the prior's concentration
and mean, C and D the posterior's concentration and scale, E its mean, L = exp(E[log Z]), Z a point estimate.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize
from scipy.special import gammaln, psi, xlogy

Array = NDArray[np.float64]
Indices = tuple[str, ...]
# One (relation, its visible indices, [(factor, its indices), ...]) for each equation.
Equations = list[tuple[str, Indices, list[tuple[str, Indices]]]]
Method = Literal["em", "map", "vb"]
Order = Literal["one-pass", "per-factor"]
# EM, MAP: factor -> Z.  VB: factor -> (C, D).  Given factors are not part of the state.
Point = dict[str, Array]
Posterior = dict[str, tuple[Array, Array]]
State = Any


# --- the model in its plain form ------------------------------------------------------------------------------------


def from_model(model: Any) -> Equations:
    """The plain form of a ``plait.Model``."""
    return [
        (eq.relation, tuple(eq.indices), [(o.factor, tuple(o.indices)) for o in eq.occurrences])
        for eq in model.equations
    ]


def from_text(text: str) -> Equations:
    """The plain form of a model's text, for well-formed texts only; lines that declare axes are passed over."""
    equations: Equations = []
    for line in text.splitlines():
        terms = [
            (name, tuple(index.strip() for index in inside.split(",") if index.strip()))
            for name, inside in re.findall(r"(\w+)\s*\[([^]]*)\]", line.split("#")[0])
        ]
        if terms:
            equations.append((*terms[0], terms[1:]))
    return equations


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


def fold_exposures(problem: Problem) -> Problem:
    """The same problem with every given factor of visible indices only moved out of the equations into V."""
    equations, V = [], dict(problem.V)
    for relation, visible, occurrences in problem.equations:
        kept = []
        for factor, indices in occurrences:
            if factor in problem.given and set(indices) <= set(visible):
                V[relation] = V.get(relation, 1.0) * spread(problem.given[factor], indices, visible)
            else:
                kept.append((factor, indices))
        equations.append((relation, visible, kept))
        if relation in V:
            V[relation] = np.broadcast_to(V[relation], np.shape(problem.X[relation]))
    left = factor_indices(equations)
    given = {factor: value for factor, value in problem.given.items() if factor in left}
    return Problem(equations, problem.X, problem.prior, problem.M, V, problem.likelihood, given)


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


def _log_sum(full: Array, visible: Indices) -> Array:
    """log of the sum over the latent indices (which come last)."""
    latent = tuple(range(len(visible), full.ndim))
    top = full.max(axis=latent, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    return log(np.exp(full - top).sum(axis=latent)) + top.reshape(full.shape[: len(visible)])


def log_rate(problem: Problem, logs: Mapping[str, Array]) -> dict[str, Array]:
    """log(V Xhat) of every relation, from the log of every factor."""
    return {
        relation: _log_sum(_log_product(visible, occurrences, logs, np.shape(problem.X[relation]))[1], visible)
        + log(problem.exposures(relation))
        for relation, visible, occurrences in problem.equations
    }


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
    for relation, visible, occurrences in problem.equations:
        shape = np.shape(problem.X[relation])
        onto, full = _log_product(visible, occurrences, logs, shape)
        log_xhat = _log_sum(full, visible)
        N = problem.weights(relation) * expected_counts(problem, relation, log_xhat + log(problem.exposures(relation)))
        # Shares of the latent configurations in each cell with counts; a cell no factor can explain gives none.
        explained = (N > 0) & np.isfinite(log_xhat)
        centre = spread(np.where(explained, log_xhat, 0.0), visible, onto)
        shares = np.exp(np.where(spread(explained, visible, onto) > 0, full - centre, -np.inf))
        S = spread(N, visible, onto) * shares
        found[relation] = {}
        for factor, indices in occurrences:
            assert factor not in found[relation], f"{factor} occurs twice in {relation}"
            found[relation][factor] = gather(S, onto, indices)
    return found


def counts(problem: Problem, logs: Mapping[str, Array]) -> dict[str, Array]:
    """Factor -> its expected counts summed over all relations."""
    total: dict[str, Array] = {}
    for by_factor in relation_counts(problem, logs).values():
        for factor, value in by_factor.items():
            total[factor] = total.get(factor, 0.0) + value
    return total


def exposure(problem: Problem, E: Mapping[str, Array], factor: str) -> Array:
    """Delta(M V) of one factor summed over all relations; ``E`` holds every factor, given ones included."""
    total: Any = 0.0
    for relation, visible, occurrences in problem.equations:
        for mine, indices in occurrences:
            if mine == factor:
                onto = all_indices(visible, occurrences)
                sizes = dict(zip(visible, np.shape(problem.X[relation])))
                for other, its in occurrences:
                    sizes |= dict(zip(its, np.shape(E[other])))
                full = np.ones([sizes[index] for index in onto])
                full = full * spread(problem.weights(relation) * problem.exposures(relation), visible, onto)
                for other, its in occurrences:
                    if other != factor:
                        full = full * spread(E[other], its, onto)
                total = total + gather(full, onto, indices)
    return np.asarray(total)


# --- updates --------------------------------------------------------------------------------------------------------


def prior_of(problem: Problem, factor: str, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """(A, B) of a factor, in its full shape."""
    A, B = problem.prior[factor]
    return (
        np.broadcast_to(np.asarray(A, dtype=float), shape).copy(),
        np.broadcast_to(np.asarray(B, dtype=float), shape).copy(),
    )


def updates(problem: Problem, state: State, method: Method, order: Order) -> Iterator[tuple[str, State]]:
    """The sweep, one factor at a time: (factor just updated, the whole state after it)."""
    state = dict(state)
    fixed_counts = counts(problem, _logs(problem, state, method)) if order == "one-pass" else None
    for factor in problem.free:
        N = (fixed_counts or counts(problem, _logs(problem, state, method)))[factor]
        X = exposure(problem, means(problem, state) if method == "vb" else {**state, **problem.given}, factor)
        if method == "em":
            state[factor] = np.where(X > 0, N / np.where(X > 0, X, 1.0), state[factor])
        else:
            A, B = prior_of(problem, factor, N.shape)
            if method == "vb":
                state[factor] = (A + N, 1 / (A / B + X))
            else:
                if np.any(A < 1):
                    raise ValueError("MAP needs a concentration of at least 1")
                state[factor] = (A - 1 + N) / (A / B + X)
        yield factor, dict(state)


def sweep(problem: Problem, state: State, method: Method, order: Order) -> State:
    """The state after one sweep over all factors that are not given."""
    for _, after in updates(problem, state, method, order):
        state = after
    return state


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
    """Posterior mean and variance of V Xhat in every cell.

    The second moment is summed over *pairs* of latent configurations l, l': E[Z(v,l) Z(v,l')] = E E' + [l = l'] Var.
    """
    ((visible, occurrences),) = ((v, o) for nu, v, o in problem.equations if nu == relation)
    E = means(problem, state)
    variances = {factor: C * D**2 for factor, (C, D) in state.items()}
    onto = all_indices(visible, occurrences)
    latent = [index for index in onto if index not in visible]
    pairs = [*onto, *(f"{index}'" for index in latent)]
    first, second = np.ones((1,) * len(onto)), np.ones((1,) * len(pairs))
    for factor, indices in occurrences:
        primed = tuple(f"{index}'" if index in latent else index for index in indices)
        same = np.ones((1,) * len(pairs))
        for index, size in zip(indices, np.shape(E[factor])):
            if index in latent:
                same = same * spread(np.eye(size), (index, f"{index}'"), pairs)
        product = spread(E[factor], indices, pairs) * spread(E[factor], primed, pairs)
        if factor in variances:
            product = product + same * spread(variances[factor], indices, pairs)
        first, second = first * spread(E[factor], indices, onto), second * product
    V = problem.exposures(relation)
    mean = V * first.sum(axis=tuple(range(len(visible), len(onto))))
    return mean, V**2 * second.sum(axis=tuple(range(len(visible), len(pairs)))) - mean**2


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
