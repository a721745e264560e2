"""Free factors over pairs: rows for pairs with links, one for all others of an entity (docs/math.md, section 10)."""

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.pair_factors import PAIRS, draw, fit_of, objective, state_of, sweep
from tests.support.problems import Start, assert_same
from tests.support.tuning import tuned

pytestmark = pytest.mark.usefixtures("sparse")

WAYS = ["all", "listed", "missing_cells", "pairs", "slices", "weighted_zeros", "weighted_cells"]


def dense_objective(fit, X, M, likelihood="poisson"):
    return objective(fit.model, state_of(fit), fit.method, fit.prior, X, M, likelihood)


def check_bound(fit, X, M, likelihood="poisson", rtol=1e-9):
    """The bound is that of the factors over all pairs, none of which share anything."""
    wanted, scale = dense_objective(fit, X, M, likelihood)
    assert abs(fit.objective - wanted) <= rtol * scale


@pytest.mark.quick(name=["alone", "memory"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PAIRS)
def test_the_bound_is_that_of_the_same_posterior_over_all_pairs(name, way):
    for method, likelihood in (("vb", "poisson"), ("em", "poisson"), ("map", "bernoulli"), ("vb", "bernoulli")):
        model, data, X, M = draw(name, way, likelihood)
        fit = fit_of(model, data, method)
        assert any(factor.pairs is not None for factor in fit.factors.values())
        check_bound(fit, X, M, likelihood)


@pytest.mark.quick(name=["alone", "memory", "both_terms", "coupled"])
@pytest.mark.parametrize("method", ["vb", "em", "map"])
@pytest.mark.parametrize("name", PAIRS)
def test_a_sweep_is_that_of_a_factor_whose_pairs_without_links_share_their_mean_exposure(name, method):
    for way, likelihood in (("all", "poisson"), ("missing_cells", "bernoulli")):
        model, data, X, M = draw(name, way, likelihood)
        before, after = (fit_of(model, data, method, max_iter=n) for n in (2, 3))
        wanted = sweep(model, state_of(before), method, before.prior, X, M, likelihood)
        for factor, arrays in state_of(after).items():
            for array, one in zip(arrays, wanted[factor]):
                np.testing.assert_allclose(array, one, rtol=1e-7, atol=1e-200, err_msg=f"{factor} {way}")


@pytest.mark.quick(name=["alone", "memory"])
@pytest.mark.parametrize("name", PAIRS)
def test_no_sweep_lowers_the_bound(name):
    for method, way, likelihood in (
        ("vb", "pairs", "bernoulli"),
        ("em", "all", "poisson"),
        ("map", "listed", "poisson"),
    ):
        model, data, X, M = draw(name, way, likelihood)
        fit = fit_of(model, data, method, max_iter=30)
        scale = dense_objective(fit, X, M, likelihood)[1]
        assert (np.diff([record.objective for record in fit.history]) >= -1e-9 * scale).all(), (method, way)


def dense_from(model, data, fit, max_iter):
    """A fit with a row for every pair, from where a fit with rows for pairs with links ended."""
    with tuned(max_dense_pairs=1 << 12):
        return fit_of(model, data, max_iter=max_iter, init={n: Start(*arrays) for n, arrays in state_of(fit).items()})


@pytest.mark.parametrize("name", ["lone", "alone"])
def test_where_the_exposure_is_constant_nothing_is_lost_by_sharing(name):
    model, data, *_ = draw(name)
    dense = dense_from(model, data, fit_of(model, data, max_iter=3), 20)
    longer = fit_of(model, data, max_iter=23)
    np.testing.assert_allclose(
        [r.objective for r in longer.history[3:]], [r.objective for r in dense.history], rtol=1e-9
    )
    for factor, arrays in state_of(longer).items():
        for array, one in zip(arrays, state_of(dense)[factor]):
            np.testing.assert_allclose(array, one, rtol=1e-9)


@pytest.mark.parametrize("name", ["memory", "two", "coupled"])
def test_elsewhere_the_bound_is_below_that_of_a_row_for_every_pair(name):
    model, data, *_ = draw(name)
    by_pairs = fit_of(model, data, max_iter=40)
    dense = dense_from(model, data, by_pairs, 40)
    assert all(factor.pairs is None for factor in dense.factors.values())
    assert dense.history[0].objective == pytest.approx(by_pairs.objective, rel=1e-9)
    assert dense.objective > by_pairs.objective


@pytest.mark.parametrize("name", [name for name in PAIRS if name != "parallel"])  # 0 · N is 0 whatever N is
def test_pairs_without_links_are_at_the_prior_s_concentration_and_at_0_under_em(name):
    model, data, *_ = draw(name)
    for method in ("vb", "em"):
        fit = fit_of(model, data, method)
        for factor in fit.factors.values():
            if factor.pairs is not None:
                shared = slice(len(factor.pairs), None)
                if method == "em":
                    assert not factor.mean[shared][factor.pairs.others > 0].any()
                else:
                    np.testing.assert_array_equal(factor.concentration[shared], 0.7)


@pytest.mark.quick(name=["alone", "memory", "coupled"])
@pytest.mark.parametrize("adapt_prior", ["factor", "component"])
@pytest.mark.parametrize("name", ["alone", "memory", "two", "coupled"])
def test_adapted_priors_raise_the_bound_which_stays_that_over_all_pairs(name, adapt_prior):
    model, data, X, M = draw(name)
    plain, adapted = (fit_of(model, data, max_iter=30, adapt_prior=choice) for choice in (None, adapt_prior))
    assert adapted.objective > plain.objective
    check_bound(adapted, X, M)
    bounds = np.array([record.objective for record in adapted.history])
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()


@pytest.mark.thorough
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("name", ["alone", "memory", "two", "parallel", "both_terms"])
def test_kernels_that_look_rows_up_give_what_the_reference_gives(name, likelihood):
    model, data, *_ = draw(name, "missing_cells", likelihood)
    wanted = fit_of(model, data)
    for threads in (1, 2):
        assert_same(fit_of(model, data, threads=threads), wanted, rtol=1e-8)


def test_components_of_a_memory_that_explain_nothing_are_pruned():
    model, data, X, M = draw("woven")
    fit = fit_of(model, data, rank=7, prune=True, adapt_prior="component", max_iter=80)
    assert fit.rank["r"] < 7
    assert fit.factors["M"].mean.shape == (fit.factors["M"].pairs.rows, fit.rank["r"])
    check_bound(fit, X, M)


@pytest.mark.parametrize("name", ["alone", "memory"])
def test_leaps_end_no_lower(name):
    model, data, X, M = draw(name)
    plain, leaping = (fit_of(model, data, max_iter=60, accelerate=choice) for choice in (False, True))
    assert leaping.objective >= plain.objective - 1e-9 * abs(plain.objective)
    check_bound(leaping, X, M)


def test_floats_give_the_same_to_their_digits():
    model, data, X, M = draw("memory")
    single = fit_of(model, data, dtype="float32", max_iter=20)
    assert single.objective == pytest.approx(fit_of(model, data, max_iter=20).objective, rel=1e-4)
    check_bound(single, X, M, rtol=1e-5)


def test_one_link_is_enough_and_none_is_a_warning_and_the_prior():
    model = plait.Model(PAIRS["alone"])
    one = pl.DataFrame({"i": ["a"], "j": ["x"]})
    labels = {"i": list("abcdefgh"), "j": list("xyzuvw")}
    fit = fit_of(model, {"X": plait.Relation(one, unseen="zero")}, entities=labels)
    assert len(fit.factors["M"].pairs) == 1
    assert np.isfinite(fit.objective)
    with pytest.warns(plait.errors.NoLinksWarning):
        fit = fit_of(model, {"X": plait.Relation(one.clear(), unseen="zero")}, entities=labels)
    assert len(fit.factors["M"].pairs) == 0
    assert fit.factors["M"].mean.shape == (8,)
    assert np.isfinite(fit.objective)
    np.testing.assert_array_equal(fit.factors["M"].concentration, 0.7)


def test_a_fit_starts_from_one_whose_pairs_it_shares():
    model, data, *_ = draw("memory")
    first = fit_of(model, data, max_iter=10)
    again = fit_of(model, data, init=first, max_iter=2)
    assert again.history[0].objective == pytest.approx(first.objective, rel=1e-9)
    more = {"X": pl.DataFrame({index: [1, 0, 3] for index in ("i", "j", "k")})}
    other = fit_of(
        model, model.bind(more, entities={i: range(n) for i, n in zip("ijk", (7, 6, 4))}), init=first, max_iter=0
    )
    pairs, old = other.factors["M"].pairs, first.factors["M"]
    assert len(pairs) == 3
    np.testing.assert_allclose(other.factors["M"].mean[3:], old.mean[len(old.pairs) :], rtol=1e-9)
    np.testing.assert_allclose(other.factors["M"].mean[:3], old.mean[old.pairs.find(list(pairs.coords.T))], rtol=1e-9)


def habits():
    """Counts of user × app × hour: a few apps of each user, in one of three daily rhythms; and links that occur."""
    rng = np.random.default_rng(0)
    habit, rhythm = (rng.random((90, 60)) < 0.05) * rng.gamma(1.0, 5.0, (90, 60)), rng.dirichlet([0.3] * 6, 3)
    return rng.poisson(0.002 + habit[:, :, None] * rhythm[rng.integers(0, 3, (90, 60))])


HABITS = "X[user, app, hour] = U[user, r] A[app, r] H[hour, r] + M[user, app, z] C[hour, z]"


def test_the_default_prior_of_pairs_has_one_event_for_each_pair_that_occurs():
    X = habits()
    fit = plait.fit(HABITS, {"X": X}, rank={"r": 4, "z": 32}, seed=0, max_iter=5, adapt_prior=None)
    n_pairs = np.count_nonzero(X.sum(axis=2))
    np.testing.assert_allclose(fit.prior["M"].concentration, n_pairs / (90 * 60 * 32))
    np.testing.assert_allclose(fit.prior["U"].concentration, 0.5)


def test_a_term_of_pairs_is_not_crowded_out_by_pairs_that_never_occur():
    fit = plait.fit(HABITS, {"X": habits()}, rank={"r": 4, "z": 32}, seed=0, max_iter=30)
    share = fit.coupling().filter(pl.col("term") == "M C")["share"].sum()
    assert share > 0.5
