"""What is asked of predictions and rankings: the dense formulas, and a search of every cell."""

from dataclasses import replace

import numpy as np
import polars as pl

from tests.audit.drawn import Audited
from tests.audit.fits import close
from tests.audit.observing import cells_of
from tests.support import every_cell, oracle
from tests.support.problems import state_of


def predicted(case: Audited) -> None:
    """The rates of some cells have the mean and the variance of the dense formulas."""
    fit = case.fit(max_iter=4)
    state = state_of(fit, case.problem.free) if fit.method == "vb" else {}
    certain = {name: factor.mean for name, factor in fit.factors.items() if name not in state}
    problem = replace(case.problem, given=certain)
    for relation, indices, _ in case.problem.equations:
        rows = case.decided.stream(6).permutation(cells_of(case.problem.X[relation].shape))[:20]
        table = fit.predict(relation, pl.DataFrame(dict(zip(indices, rows.T))))
        mean, variance = (values[tuple(rows.T)] for values in oracle.rate_moments(problem, state, relation))
        poisson = case.decided.likelihood[relation] == "poisson"
        close(table["mean" if poisson else "rate"].to_numpy(), mean, 1e-9, "mean rate")
        if poisson:
            # The oracle takes a difference of second moments; it has no digits below 1e-13 of them.
            wanted, least = np.sqrt(np.maximum(variance, 0.0)), 1e-6 * mean
            np.testing.assert_allclose(table["sd"].to_numpy(), wanted, rtol=1e-6, atol=float(least.max(initial=0.0)))
        assert all(np.isfinite(table[name].to_numpy()).all() for name in table.columns if name not in indices)


def top(case: Audited) -> None:
    """The best cells are those of a search of every cell; where the exposure is 0 there is nothing to propose."""
    fit, rng = case.fit(max_iter=4), case.decided.stream(9)
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
        table = fit.top(relation, k, given=given, include_known=known, score=column)
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
