"""What is asked of fits: the oracle's numbers, a bound that rises, and laws of what must not matter."""

from typing import Any

import numpy as np

import plait
from tests.audit.drawn import Audited
from tests.support import oracle
from tests.support.problems import ADAPT_AFTER, ADAPT_WARM, starts, state_of

FLOATS = {"float64": (1e-9, 1e-9), "float32": (1e-3, 1e-5)}  # of a state, relative; of the bound, of its terms


def sweeps(case: Audited) -> None:
    """State and bound after 1 and 3 sweeps, and one sweep after 30, are the oracle's."""
    start = case.start()
    reference, done = start, 0
    for count in (1, 3):
        for _ in range(count - done):
            reference = swept(case, reference)
        done = count
        fit = case.fit(init=starts(start), max_iter=count)
        same_state(case, fit, reference, f"after {count} sweeps")
        right_bound(case, fit)
    if case.decided.dtype == "float64":
        before = case.fit(init=starts(start), max_iter=30)
        right_bound(case, before)
        one_sweep_on(case, before)


def long(case: Audited) -> None:
    """A warm-up and 60 sweeps, perhaps accelerated: the bound never falls and is that of the state."""
    fit = case.fit(max_iter=60)
    rises(case, fit)
    right_bound(case, fit)


def em(case: Audited) -> None:
    """200 sweeps of maximum likelihood, looked at on the way."""
    for count in (17, 60, 200):
        fit = case.fit(max_iter=count)
        right_bound(case, fit)
        one_sweep_on(case, fit)
    rises(case, fit)


def adapted(case: Audited) -> None:
    """The first adaptation of a factor is the oracle's, rows without data left out; adapting all raises the bound."""
    fit = case.fit(max_iter=ADAPT_WARM + 20, adapt_prior=_tie(case, None))
    rises(case, fit)
    right_bound(case, fit)
    for name in case.problem.free[:2]:
        tie = _tie(case, name)
        if tie != "rank-one":
            before, after = (case.fit(max_iter=ADAPT_AFTER + n, adapt_prior={name: tie}, warmup=0) for n in (0, 1))
            _same_prior(case, before, after, name, tie)


def declared(case: Audited) -> None:
    """Declaring more entities changes nothing for those that are there."""
    model, sizes = case.model, case.decided.drawn.sizes
    seen = {axis: case.data.entities[axis].names.to_list() for axis in model.axes}
    more = {axis: [*names, *range(100, 100 + 2 * sizes[axis])] for axis, names in seen.items()}
    if case.fixed or not model.axes:  # a given array has rows for the entities that are there
        return
    settings = {"max_iter": ADAPT_WARM + 15, "adapt_prior": _tie(case, None)}
    one, two = (case.fit(data=case.relations, entities=labels, **settings) for labels in (seen, more))
    near(two.objective, one.objective, 1e-9 * slack(case, one), "bound")
    for name, factor in one.factors.items():
        rows = np.ix_(*(_rows(one, two, index, size) for index, size in zip(factor.indices, factor.mean.shape)))
        close(two.factors[name].mean[rows], factor.mean, 1e-8, f"mean of {name} with more labels")


def _rows(one: plait.Fit, two: plait.Fit, index: str, size: int) -> np.ndarray:
    """Where the rows of one fit are in another."""
    return two.entities[index].encode(one.entities[index].names) if index in one.entities else np.arange(size)


def permuted(case: Audited) -> None:
    """Another order of the rows permutes the posterior."""
    rng, start = case.decided.stream(5), case.start()
    orders = {axis: rng.permutation(size) for axis, size in case.decided.drawn.sizes.items() if axis in case.model.axes}
    if case.fixed:
        return
    labels = {axis: order.tolist() for axis, order in orders.items()}
    moved = {n: _moved(case, n, value, orders) for n, value in start.items()}
    one = case.fit(init=starts(start), max_iter=12)
    two = case.fit(data=case.relations, entities=labels, init=starts(moved), max_iter=12)
    near(two.objective, one.objective, 1e-9 * slack(case, one), "bound")
    for name, factor in one.factors.items():
        close(two.factors[name].mean, _moved(case, name, factor.mean, orders), 1e-6, f"mean of {name}, permuted")


# --- comparing


def one_sweep_on(case: Audited, fit: plait.Fit) -> None:
    """The next sweep is the oracle's: what is compared is one sweep, so that no rounding has had time to grow."""
    state = state_of(fit, case.problem.free)
    after = case.fit(init=starts(state), max_iter=1)
    same_state(case, after, swept(case, state), f"one sweep after {fit.history[-1].sweep}")


def swept(case: Audited, state: object) -> object:
    return oracle.sweep(case.problem, state, case.decided.method)  # type: ignore[arg-type]


def close(actual: np.ndarray, expected: np.ndarray, rtol: float, message: str) -> None:
    """Relative, and a thousandth of that of the array's largest entry."""
    atol = 1e-3 * rtol * float(np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol, err_msg=message)


def near(actual: float, expected: float, within: float, message: str) -> None:
    """Two numbers differ by no more than this."""
    off = abs(actual - expected)
    assert off <= within, f"{message}: {actual!r} instead of {expected!r}, off by {off:.2g}, {within:.2g} allowed"


def same_state(case: Audited, fit: plait.Fit, state: dict, where: str) -> None:
    """The fit's factors are this state of the oracle, finite and not negative."""
    rtol = FLOATS[case.decided.dtype][0]
    for name in case.problem.free:
        factor = fit.factors[name]
        assert np.isfinite(factor.mean).all(), f"{name} {where}"
        assert (factor.mean >= 0).all(), f"{name} {where}"
        if fit.method == "vb":
            close(factor.concentration, state[name][0], rtol, f"C of {name} {where}")
            close(factor.scale, state[name][1], rtol, f"D of {name} {where}")
        else:
            close(factor.mean, state[name], rtol, f"Z of {name} {where}")


def slack(case: Audited, fit: plait.Fit) -> float:
    """What tolerances of the bound are relative to."""
    return case.slack(fit) + 1.0


def right_bound(case: Audited, fit: plait.Fit) -> None:
    """The bound is that of exactly the returned state."""
    expected = case.objective(fit)
    assert np.isfinite(fit.objective)
    near(fit.objective, expected, FLOATS[case.decided.dtype][1] * slack(case, fit), f"bound; {fit.stop}")


def rises(case: Audited, fit: plait.Fit) -> None:
    """No sweep lowers the bound by more than rounding, nor does one of the warm-up lower EM's."""
    for warm_up in (True, False):
        if records := [record for record in fit.history if record.warm_up is warm_up]:
            _rises(case, fit, records)


def _rises(case: Audited, fit: plait.Fit, records: list[Any]) -> None:
    bounds = np.array([record.objective for record in records])
    falls = -np.diff(bounds)
    # At a start the terms may be far larger than at the end.
    most = FLOATS[case.decided.dtype][1] * (slack(case, fit) + np.abs(bounds[:-1]))
    worst = int(np.argmax(falls - most))
    assert falls[worst] <= most[worst], (
        f"sweep {records[worst + 1].sweep} lowers the bound by {falls[worst]:.3g} to {bounds[worst + 1]}"
    )


# --- priors


def _tie(case: Audited, name: str | None) -> object:
    """How priors are tied: of one factor, or of all of them."""
    tie = case.decided.tie
    if name is None:
        return {factor: _tie(case, factor) for factor in case.problem.free}
    indices = case.model.factor(name).indices
    return {"first": indices[:1], "last": indices[-1:]}.get(tie, tie)


def _same_prior(case: Audited, before: plait.Fit, after: plait.Fit, name: str, tie: object) -> None:
    """The prior that one sweep begins with is the oracle's from the state before; only rows with data count."""
    factor, posterior, prior = case.model.factor(name), before.factors[name], after.prior[name]
    groups = {"factor": (), "component": factor.latent, "entity": factor.visible}.get(tie, tie)
    exposure = oracle.exposure(case.problem, oracle.means(case.problem, state_of(before, case.problem.free)), name)
    latent = tuple(n for n, index in enumerate(factor.indices) if index in factor.latent)
    seen, C = (exposure > 0).any(axis=latent, keepdims=True), posterior.concentration
    if not seen.any():
        return
    old = case.decided.concentration
    A, B = oracle.adapted_prior(C, posterior.scale, old, factor.indices, groups, observed=seen)
    close(*np.broadcast_arrays(prior.mean, B), 1e-9, f"B of {name}, {tie}")
    if A.max() < 1e3:  # log A - psi(A) is flat for large A
        close(*np.broadcast_arrays(prior.concentration, A), 1e-7, f"A of {name}, {tie}")


def _moved(case: Audited, name: str, value: object, orders: dict[str, np.ndarray]) -> object:
    """A factor, or a pair of them, with its rows in another order."""
    if isinstance(value, tuple):
        return tuple(_moved(case, name, part, orders) for part in value)
    for axis, index in enumerate(case.model.factor(name).indices):
        if index in case.model.visible:
            value = np.take(value, orders[case.model.axis(index)], axis=axis)
    return value
