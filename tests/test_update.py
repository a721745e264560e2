"""New links learnt without the old data: against dense inference with the old counts added, and what is refused."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import plait
from plait.errors import DataError, ParameterError
from plait.executors import Threads
from plait.incremental.update import old_counts
from tests.support import oracle
from tests.support.late_entities import grow, state_of, under

LATE = {
    "matrix": {},
    "cp3": {"j": 1},
    "cp3_weighted": {"i": 1},
    "tucker2": {},
    "two_visible": {"i": 1},
    "coupled_chain": {"j": 1},
    "friends": {"user": 1},
    "cp3_bias": {},
    "pairwise": {"j": 1},
    "symmetric": {"user": 1},
    "symmetric_coupled": {"place": 1},
    "rescal": {"user": 1},
}
CASES = [(name, "all", "poisson", "vb") for name in LATE]
CASES += [(name, way, "poisson", "vb") for name in ("cp3", "symmetric") for way in ("listed", "zeros")]
CASES += [("matrix", "hidden", "poisson", "vb"), ("friends", "zeros", "bernoulli", "vb")]
CASES += [("cp3", "all", "bernoulli", "vb")]
CASES += [(name, "all", "poisson", method) for name in ("cp3", "pairwise", "rescal") for method in ("em", "map")]


@pytest.mark.quick(name=["cp3"], likelihood=["poisson"])
@pytest.mark.parametrize(("name", "way", "likelihood", "method"), CASES, ids=map("-".join, CASES))
def test_a_fixed_point_by_dense_inference(name, way, likelihood, method):
    case = grow(name, LATE[name], way, likelihood, later=0.25)
    fit = case.fit(method, max_iter=30 if method == "vb" else 3000)
    old = oracle.objective(under(case.before, fit), state_of(fit), method)
    assert fit.objective == pytest.approx(old, rel=1e-9)
    updated = fit.update(case.rows, iterations=1000)
    problem, state = under(case.after, updated), state_of(updated)
    assert updated.objective == pytest.approx(oracle.objective(problem, state, method), rel=1e-9)
    counts = dense_counts(case, fit, problem, state, method)
    means = oracle.means(problem, state) if method == "vb" else state
    for factor in fit.factors:
        again = oracle._updated(problem, factor, counts[factor], means, method)
        for then, here in zip(*(value if method == "vb" else (value,) for value in (state[factor], again))):
            np.testing.assert_allclose(here, then, rtol=2e-3, atol=1e-5, err_msg=factor)


def dense_counts(case, fit, problem, state, method):
    """Those that the fit had, grown as all old links have, with those of what came later, under the state's factors."""
    before = case.before.X
    later = {}
    for name, X in case.after.X.items():
        later[name] = X.copy()
        place = tuple(slice(n) for n in before[name].shape)
        later[name][place] -= before[name]
    new = oracle.counts(replace(problem, X=later), oracle._logs(problem, state, method))
    sizes = {axis: len(fit.entities[axis]) for axis in fit.model.axes}
    grown = {name: own.sum() for name, own in old_links(case, fit, oracle._logs(problem, state, method)).items()}
    then = {name: own.sum() for name, own in old_links(case, fit, oracle._logs(problem, state_of(fit), method)).items()}
    for name, stored in old_counts(fit, sizes, Threads(1)).items():
        own = fit.state.factors[name].layout.written(stored)
        follow = all(likelihood.true_scale for likelihood in fit.likelihood.values())
        growth = (grown[name] - then[name]) / max(own.sum(), then[name]) if follow else 0.0
        new[name][tuple(slice(n) for n in own.shape)] += own * (1.0 + growth)
    return new


def old_links(case, fit, logs):
    """The counts of what the fit knew, under some factors; their rows of new entities have none."""
    problem = under(case.before, fit)
    return oracle.counts(
        problem, {name: own[tuple(map(slice, fit.factors[name].mean.shape))] for name, own in logs.items()}
    )


# --- what the meaning of an update is


VISITS = "visits[user, place] = U[user, r] P[place, r]"


def drawn(seed=0, users=30, places=20):
    rng = np.random.default_rng(seed)
    rate = rng.gamma(0.5, 1.0, (users, 2)) @ rng.gamma(0.5, 1.0, (2, places))
    X = rng.poisson(rate)
    X[:, 0] += 1
    X[0] += 1
    u, p = np.nonzero(X)
    return pl.DataFrame({"user": u, "place": p, "value": X[u, p]})


@pytest.fixture(scope="module")
def parts():
    whole = drawn()
    late = np.random.default_rng(1).random(len(whole)) < 0.2
    late &= (whole["place"] > 0).to_numpy() & (whole["user"] > 0).to_numpy()
    return whole.filter(~late), whole.filter(late)


@pytest.fixture(scope="module")
def fit(parts):
    return plait.fit(VISITS, {"visits": parts[0]}, rank=2, seed=0, progress=False)


def factors_of(fit):
    return [array for f in fit.factors.values() for array in (f.concentration, f.scale)]


@pytest.mark.quick(dtype=["float64"])
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-12), ("float32", 1e-6)])
@pytest.mark.parametrize("method", ["vb", "em", "map"])
def test_old_counts_add_up_to_the_old_data(parts, method, dtype, rtol):
    if dtype == "float32" and method != "vb":
        return
    settings = {"prior": plait.Gamma(1.5, 1.0)} if method == "map" else {}
    fit = plait.fit(
        VISITS, {"visits": parts[0]}, rank=2, seed=0, method=method, dtype=dtype, max_iter=20_000, tol=1e-13,
        progress=False, **settings,
    )  # fmt: skip
    sizes = {axis: len(fit.entities[axis]) for axis in fit.model.axes}
    for N in old_counts(fit, sizes, Threads(1)).values():
        assert N.sum() == pytest.approx(parts[0]["value"].sum(), rel=rtol if method == "vb" else 1e-5)
        assert (N >= 0).all()


def test_an_empty_update_changes_little(fit):
    """At the end of a fit that has converged another look at nothing new leaves it where it is."""
    nothing = {"visits": pl.DataFrame({"user": [0], "place": [0], "value": [0]})}
    for then, now in zip(factors_of(fit), factors_of(fit.update(nothing))):
        np.testing.assert_allclose(now, then, rtol=2e-2)


def test_an_update_is_close_to_a_fit_of_all_data(fit, parts):
    updated = fit.update({"visits": parts[1]}, iterations=50)
    whole = plait.fit(
        VISITS, {"visits": pl.concat(parts)}, rank=2, init=fit, adapt_prior=None, max_iter=50, tol=0, progress=False
    )
    before = plait.fit(
        VISITS, {"visits": pl.concat(parts)}, rank=2, init=fit, adapt_prior=None, max_iter=0, progress=False
    )
    assert updated.objective - before.objective > 0.9 * (whole.objective - before.objective)
    assert updated.objective <= whole.objective + 1e-6 * abs(whole.objective)


@pytest.fixture(scope="module")
def dense():
    """Links of which most are certain: the old ones, a fit of them and the new ones."""
    rng = np.random.default_rng(3)
    groups = np.arange(40)[:, None] % 2 == np.arange(30) % 2
    users, places = np.nonzero(rng.random((40, 30)) < np.where(groups, 0.95, 0.05))
    late = rng.random(len(users)) < 0.2
    old, new = (pl.DataFrame({"user": users[own], "place": places[own]}) for own in (~late, late))
    return old, plait.fit(VISITS, {"visits": links_of(old)}, rank=2, seed=0, progress=False), new


def links_of(table):
    return plait.Relation(table, likelihood="bernoulli")


def test_old_counts_grow_with_the_rates(dense):
    """Old counts that stay have 69 % of what fifty sweeps over all links gain, after however many iterations."""
    old, fit, new = dense
    data = {"visits": links_of(pl.concat([old, new]))}
    how = {"rank": 2, "init": fit, "adapt_prior": None, "tol": 0, "progress": False}
    whole, before = (plait.fit(VISITS, data, max_iter=n, **how) for n in (50, 0))
    updated = fit.update({"visits": new}, iterations=5)
    assert updated.objective - before.objective > 0.85 * (whole.objective - before.objective)
    assert fit.update({"visits": new}, iterations=100).objective <= whole.objective + 1e-6 * abs(whole.objective)


def test_a_sample_of_old_links_is_enough(dense, tuning):
    _, fit, new = dense
    every = fit.update({"visits": new})
    tuning(update_sample_links=100)
    for then, now in zip(factors_of(every), factors_of(fit.update({"visits": new}))):
        np.testing.assert_allclose(now, then, rtol=0.05)
        assert not np.array_equal(now, then)


def test_folded_entities_are_learnt(fit):
    """Folded in and then updated, or at once: the same links are new."""
    rows = drawn(5).with_columns(user=pl.col("user") + 100).filter(pl.col("user") < 105)
    folded = fit.fold_in({"visits": rows})
    assert folded.settings["folded"] == {"user": 30, "place": 20}
    more = pl.DataFrame({"user": [3], "place": [5], "value": [2]})
    straight = fit.update({"visits": pl.concat([rows, more])}, iterations=200)
    after = folded.update({"visits": more}, iterations=200)
    assert "folded" not in after.settings
    for then, now in zip(factors_of(straight), factors_of(after)):
        np.testing.assert_allclose(now, then, rtol=1e-4, atol=1e-6)
    assert after.objective == pytest.approx(straight.objective, rel=1e-7)


def test_updates_continue_updates(fit, parts):
    half = len(parts[1]) // 2
    twice = fit.update({"visits": parts[1][:half]}).update({"visits": parts[1][half:]})
    sizes = {axis: len(twice.entities[axis]) for axis in twice.model.axes}
    for N in old_counts(twice, sizes, Threads(1)).values():
        assert N.sum() == pytest.approx(pl.concat(parts)["value"].sum(), rel=1e-9)
    assert len(twice.known["visits"]) == len(pl.concat(parts))


def test_values_of_known_cells_add_up_under_poisson_only(fit, parts):
    again = parts[0].head(3)
    known = fit.update({"visits": again}).known["visits"]
    assert known.values.sum() == parts[0]["value"].sum() + again["value"].sum()
    assert known.observed.total() == fit.known["visits"].observed.total() == 600
    new = pl.DataFrame({"user": [100, 100], "place": [1, 77], "value": [1, 1]})
    assert fit.update({"visits": new}).known["visits"].observed.total() == 31 * 21
    data = {"visits": links_of(parts[0].drop("value"))}
    other = plait.fit(VISITS, data, rank=2, seed=0, max_iter=20, progress=False)
    with pytest.raises(DataError, match=r"is already a known link, and values of the .* bernoulli cannot be added"):
        other.update({"visits": again.drop("value")})


def test_a_loaded_run_learns_the_same(fit, parts, tmp_path):
    rows = {"visits": pl.concat([parts[1], pl.DataFrame({"user": [100], "place": [1], "value": [2]})])}
    updated = fit.update(rows)
    fit.save(tmp_path / "run")
    updated.save(tmp_path / "updated")
    for other in (plait.load(tmp_path / "run").update(rows), plait.load(tmp_path / "updated")):
        assert other.objective == updated.objective
        assert all(np.array_equal(a, b) for a, b in zip(factors_of(updated), factors_of(other)))
    assert plait.load(tmp_path / "updated").update({"visits": parts[1].head(1)}).objective < 0


def test_every_member_of_an_ensemble_learns(parts):
    how = {"rank": 2, "seed": 0, "restarts": 3, "max_iter": 20, "progress": False}
    fit = plait.fit(VISITS, {"visits": parts[0]}, **how)
    updated = fit.update({"visits": parts[1]})
    assert len(updated.members) == 3
    assert all(now.objective != then.objective for now, then in zip(updated.members, fit.members))
    with pytest.raises(ParameterError, match="bootstrap ensemble"):
        plait.fit(VISITS, {"visits": parts[0]}, bootstrap=True, **how).update({"visits": parts[1]})


@pytest.mark.parametrize("likelihood", ["bernoulli", "negbin", "tweedie"])
def test_every_likelihood_learns(parts, likelihood):
    old, new = (p.with_columns(value=pl.lit(1)) if likelihood == "bernoulli" else p for p in parts)
    data = {"visits": plait.Relation(old, likelihood=likelihood)}
    fit = plait.fit(VISITS, data, rank=2, seed=0, max_iter=60, progress=False)
    few, many = (fit.update({"visits": new}, iterations=n) for n in (1, 20))
    assert many.objective > few.objective
    assert many.likelihood_params == fit.likelihood_params


@pytest.mark.usefixtures("sparse")
def test_newly_linked_pairs_have_rows(parts):
    fit = plait.fit(f"{VISITS} + M[user, place]", {"visits": parts[0]}, rank=2, seed=0, max_iter=40, progress=False)
    rows = pl.concat([parts[1], pl.DataFrame({"user": [100], "place": [1], "value": [2]})])
    updated = fit.update({"visits": rows}, iterations=20)
    assert len(updated.factors["M"].pairs) == len(parts[0]) + len(rows)
    assert updated.fold_in({"visits": rows.tail(1).with_columns(user=pl.lit(101, pl.Int64))}).objective < 0


def test_a_fit_without_counts_is_refused(parts):
    fit = plait.fit(VISITS, {"visits": parts[0]}, rank=2, seed=0, max_iter=0, warmup=0, progress=False)
    with pytest.raises(ParameterError, match="has no expected counts: U was never updated"):
        fit.update({"visits": parts[1]})
