"""What is asked of predictions, rankings and reasons: the dense formulas, and sampling."""

import math
from dataclasses import replace

import numpy as np
import polars as pl

import plait
from tests import oracle
from tests.audit.drawn import Audited
from tests.audit.fits import close, near
from tests.audit.observing import cells_of
from tests.cases import state_of
from tests.predict.posteriors import rate_draws, scaled, with_posteriors
from tests.search import every_cell

DRAWS = 10_000
MEANS = (0.01, 0.3, 2.0, 50.0, 1000.5, 1e4, 1e5, 1e6)


def predicted(case: Audited, fit: plait.Fit, relation: str, rows: np.ndarray) -> pl.DataFrame:
    """The prediction of some cells, whose rate has the mean and the variance of the dense formula."""
    indices = fit.model.equation(relation).indices
    table = fit.predict(relation, pl.DataFrame(dict(zip(indices, rows.T))))
    state = state_of(fit, case.problem.free) if fit.method == "vb" else {}
    certain = {name: factor.mean for name, factor in fit.factors.items() if name not in state}
    problem = replace(case.problem, given=certain)
    mean, variance = (values[tuple(rows.T)] for values in oracle.rate_moments(problem, state, relation))
    poisson = case.decided.likelihood[relation] == "poisson"
    close(table["mean" if poisson else "rate"].to_numpy(), mean, 1e-9, "mean rate")
    if poisson:
        # The oracle takes a difference of second moments; it has no digits below 1e-13 of them.
        wanted, least = np.sqrt(np.maximum(variance, 0.0)), 1e-6 * mean
        np.testing.assert_allclose(table["sd"].to_numpy(), wanted, rtol=1e-6, atol=float(least.max(initial=0.0)))
    assert all(np.isfinite(table[name].to_numpy()).all() for name in table.columns if name not in indices)
    return table


def some_rows(case: Audited, relation: str, most: int) -> np.ndarray:
    """Some cells, (n, order)."""
    rows = cells_of(case.problem.X[relation].shape)
    return case.decided.stream(6).permutation(rows)[:most]


# --- the predictive distribution


def chance(case: Audited) -> None:
    """Probability and interval are those of sampling, whatever the posterior and however large the mean."""
    rng = case.decided.stream(8)
    between = [(0.05, 0.3), (0.2, 3.0), (0.05, 10.0), (1.0, 1.0)][rng.integers(4)]
    fitted = case.fit(sweeps=1)
    fit = with_posteriors(fitted, rng, *between)
    fit = replace(fit, factors=fit.factors | {name: fitted.factors[name] for name in case.problem.given})
    for relation, indices, occurrences in case.problem.equations:
        rows = some_rows(case, relation, 2)
        V = case.V[relation][tuple(rows.T)] if relation in case.V else np.ones(len(rows))
        rows, V = rows[V > 0], V[V > 0]
        if not occurrences or not len(rows):
            continue
        mean = fit.predict(relation, pl.DataFrame(dict(zip(indices, rows.T))))
        mean = mean["mean" if case.decided.likelihood[relation] == "poisson" else "rate"].to_numpy().mean()
        here = scaled(fit, occurrences[0][0], rng.choice(MEANS) / mean)
        table = predicted(case, here, relation, rows)
        for n, row in enumerate(rows):
            rate = V[n] * rate_draws(_drawable(here), relation, row, DRAWS, rng)
            found = {name: float(table[name][n]) for name in table.columns if name not in indices}
            _as_sampled(found, rate, case.decided.likelihood[relation], rng)


def _drawable(fit: plait.Fit) -> plait.Fit:
    """The fit with points as Gammas that hardly vary."""
    points = {name: f for name, f in fit.factors.items() if np.isinf(f.concentration).any()}
    almost = {n: replace(f, concentration=np.full(f.mean.shape, 1e12), scale=f.mean / 1e12) for n, f in points.items()}
    return replace(fit, factors=fit.factors | almost)


def _as_sampled(found: dict[str, float], rate: np.ndarray, likelihood: str, rng: np.random.Generator) -> None:
    """A prediction beside draws of the rate; the tolerances are those that the tests of `predict` state."""
    link = -np.expm1(-rate)
    within = 0.012 + 4 * link.std() / math.sqrt(DRAWS)
    near(found["probability"], link.mean(), within, "probability")
    if likelihood == "bernoulli":
        near(found["mean"], link.mean(), within, "mean, a probability")
        near(found["sd"], link.std(), 0.03 + 0.1 * link.std(), "sd of the probability")
        assert 0 <= found["low"] <= found["high"] <= 1
        _covers(found, link, 1e-6)
    else:
        _covers(found, rng.poisson(np.minimum(rate, 1e15)), 0.0)


def _covers(found: dict[str, float], values: np.ndarray, rounding: float) -> None:
    """About five in a hundred lie beyond either end, and some reach the upper one."""
    low, high = found["low"] - rounding, found["high"] + rounding
    below, above, reached = (values < low).mean(), (values > high).mean(), (values >= high - 2 * rounding).mean()
    assert below <= 0.08, f"{below:.3f} of the draws lie below low = {low:g}, 0.05 said"
    assert above <= 0.095, f"{above:.3f} of the draws lie above high = {high:g}, 0.05 said"
    assert high <= rounding or reached >= 0.005, f"only {reached:.4f} of the draws reach high = {high:g}"


# --- reasons and rankings


def explain(case: Audited) -> None:
    """Shares add up to 1 and are Π E (of a known link Π L) over their sum; rows rest on data and prior."""
    fit = case.fit(sweeps=4)
    logs = {"mean": _logs(fit, "mean"), "geomean": _logs(fit, "geomean")}
    for relation, indices, occurrences in case.problem.equations:
        for row in some_rows(case, relation, 2):
            names = {index: int(at) for index, at in zip(indices, row)}
            why = fit.explain(relation, names)
            whole = _components(case, relation, row, logs["geomean" if why.known else "mean"])
            known = bool(case.problem.M[relation][tuple(row)] > 0 and case.problem.X[relation][tuple(row)] > 0)
            assert why.known == known, names
            if not occurrences or not np.isfinite(whole).any():
                continue
            shares = np.exp(whole - whole.max())
            shares = shares / shares.sum()
            latent = oracle.all_indices(indices, occurrences)[len(indices) :]
            for part in why.shares:
                near(part.share, shares[tuple(part.setting[index] for index in latent)], 1e-9, f"share of {part}")
            near(sum(part.share for part in why.shares) + why.remainder, 1.0, 1e-9, "shares add up")
            for evidence in why.rows:
                near(evidence.data + evidence.prior, 1.0, 1e-9, f"data and prior of {evidence}")


def _logs(fit: plait.Fit, what: str) -> dict[str, np.ndarray]:
    """log E or log L of every factor."""
    from scipy.special import psi

    found = {}
    for name, factor in fit.factors.items():
        if np.isinf(factor.concentration).any():
            found[name] = oracle.log(factor.mean)
        else:
            C = factor.concentration
            found[name] = (psi(C) if what == "geomean" else np.log(C)) + np.log(factor.scale)
    return found


def _components(case: Audited, relation: str, row: np.ndarray, logs: dict[str, np.ndarray]) -> np.ndarray:
    """The log of every component of one cell, over the latent indices in the oracle's order."""
    ((visible, occurrences),) = ((v, o) for nu, v, o in case.problem.equations if nu == relation)
    onto = oracle.all_indices(visible, occurrences)
    full = np.zeros([1] * len(onto))
    for factor, indices in occurrences:
        full = full + oracle.spread(logs[factor], indices, onto)
    return np.broadcast_to(full, np.maximum(full.shape, 1))[tuple(at if n > 1 else 0 for at, n in zip(row, full.shape))]


def top(case: Audited) -> None:
    """The best cells are those of a search of every cell; where the exposure is 0 there is nothing to propose."""
    fit, rng = case.fit(sweeps=4), case.decided.stream(9)
    for relation, indices, _ in case.problem.equations:
        M, X = case.problem.M[relation], case.problem.X[relation]
        if _ruled(case, relation):
            continue
        chosen = indices[: rng.integers(0, len(indices) + 1)]
        place = tuple(int(rng.integers(case.decided.drawn.sizes[i])) if i in chosen else slice(None) for i in indices)
        known, k = bool(rng.random() < 0.3), int(rng.integers(1, 30))
        allowed = (case.problem.exposures(relation) > 0) & ~case.observed[relation].closed
        allowed = allowed & (known | ~((X > 0) & (M > 0)))
        rates = every_cell.all_rates(fit, relation)
        column = "mean" if case.decided.likelihood[relation] == "poisson" else "rate"
        given = {index: at for index, at in zip(indices, place) if index in chosen}
        table = fit.top(relation, k, given=given, known=known, score=column)
        wanted = np.sort(rates[place][allowed[place]].ravel())[::-1][:k]
        cells = tuple(table[index].to_numpy().astype(int) for index in indices)
        np.testing.assert_allclose(table[column].to_numpy(), wanted, rtol=1e-9, err_msg="best scores")
        if indices:
            np.testing.assert_allclose(rates[cells], wanted, rtol=1e-9, err_msg="scores of the best cells")
            assert allowed[cells].all(), "a known link, or a cell of exposure 0, is proposed"
            assert len(set(zip(*cells))) == len(table), "a cell is proposed twice"


def _ruled(case: Audited, relation: str) -> bool:
    """Whether a rule may make cells unobservable: a diagonal, or a slice without an observed cell."""
    indices, M = case.model.equation(relation).indices, case.problem.M[relation]
    shared = len({case.model.axis(index) for index in indices}) < len(indices)
    slices = [M.max(axis=tuple(n for n in range(M.ndim) if n != axis)) for axis in range(M.ndim)]
    return shared or any((most == 0).any() for most in slices) or M.max(initial=0.0) == 0
