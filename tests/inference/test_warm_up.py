"""VB begins where some sweeps of EM end: the same numbers as by hand, resumable, and better optima."""

import numpy as np
import pytest

import plait
from tests.support.infer_laws import own_bounds_rise
from tests.support.models import MODELS
from tests.support.problems import ADAPT_WARM, WARM_UP, bits, own_bounds

CP3 = MODELS["cp3"]
TUCKER2 = "X[h,p,t] = H[h,a] P[a,p,b] T[t,b]"


def counts(seed=0, shape=(9, 8, 7)):
    return np.random.default_rng(seed).poisson(1.2, shape).astype(float)


def fitted(**options):
    common = {"rank": 3, "seed": 2, "max_iter": 45, "tol": 0.0, "threads": 1}
    return plait.fit(CP3, {"X": counts()}, **common | options)


def test_history_says_which_sweeps_were_the_warm_up():
    fit = fitted()
    assert [record.sweep for record in fit.history] == list(range(-WARM_UP, 46))
    assert [record.warm_up for record in fit.history] == [True] * WARM_UP + [False] * 46
    random = fitted(warmup=0)
    assert [record.sweep for record in random.history] == list(range(46))
    assert (fit.settings["warmup"], random.settings["warmup"]) == (WARM_UP, 0)


def test_the_warm_up_is_em_and_vb_goes_on_from_it():
    em = fitted(method="em", max_iter=WARM_UP)
    warm, by_hand = fitted(adapt_prior=None), fitted(adapt_prior=None, init=em)
    assert [r.objective for r in warm.history if r.warm_up] == [r.objective for r in em.history[:-1]]
    assert own_bounds(warm) == pytest.approx([record.objective for record in by_hand.history], rel=1e-12)
    own_bounds_rise(fitted(max_iter=80))
    for name in warm.factors:
        np.testing.assert_allclose(warm.factors[name].mean, by_hand.factors[name].mean, rtol=1e-9)


def test_priors_adapt_only_after_its_own_sweeps():
    before, after = fitted(max_iter=ADAPT_WARM), fitted(max_iter=ADAPT_WARM + 1)
    assert before.prior["A"].mean == 10.0
    assert after.prior["A"].mean != 10.0


@pytest.mark.parametrize("place", [-WARM_UP, -1, 0, 20])
def test_an_interrupted_fit_goes_on_to_the_same_bits(tmp_path, place):
    whole = fitted()
    run = tmp_path / "run"
    cut = fitted(checkpoint=run, progress=lambda record: record.sweep < place)
    assert cut.history[-1].sweep == place
    for fit in (cut, plait.load(run)):  # it can be used meanwhile
        assert np.isfinite(fit.predict("X", {"i": [0, 1], "j": [0, 1], "k": [0, 1]})["sd"].to_numpy()).all()
        assert (fit.factors["A"].concentration > 0).all()
    if place < 0:
        assert "in the warm-up" in str(cut.stop)
        assert "not comparable with other fits" in str(cut)
    assert bits(fitted(init=run)) == bits(whole)


@pytest.mark.parametrize(("warmup", "other"), [(WARM_UP, 0), (0, WARM_UP), (20, WARM_UP)])
def test_a_run_goes_on_with_its_warm_up_only(tmp_path, warmup, other):
    whole = fitted(warmup=warmup)
    fitted(warmup=warmup, max_iter=12, checkpoint=tmp_path)
    assert bits(fitted(warmup=warmup, init=tmp_path)) == bits(whole)
    with pytest.raises(
        plait.errors.ParameterError, match=rf"cannot continue: its warmup differs \({warmup} then, {other} now\)"
    ):
        fitted(warmup=other, init=tmp_path)


def test_floats_begin_where_doubles_do():
    double, single = fitted(), fitted(dtype="float32")
    assert [r.objective for r in single.history if r.warm_up] == [r.objective for r in double.history if r.warm_up]
    assert single.objective == pytest.approx(double.objective, rel=1e-5)


def test_there_is_no_warm_up_where_another_option_gives_the_start():
    fit = fitted(max_iter=3)
    given = {name: fit.factors[name].mean for name in fit.factors}
    for options in ({"init": fit}, {"init": given}, {"fixed": given}, {"method": "em"}, {"prune": True}):
        assert not any(record.warm_up for record in fitted(**{"max_iter": 3} | options).history)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warmup": "em"}, "`warmup` must be an integer of at least 0, got 'em'"),
        ({"warmup": -1}, "`warmup` must be an integer of at least 0, got -1"),
        ({"warmup": 0, "init": {"A": np.ones((9, 3))}}, "`warmup` and `init` are both given"),
        ({"warmup": 50, "method": "em"}, "`warmup` requires `method=\"vb\"`, got 'em'"),
    ],
)
def test_a_wrong_warm_up_is_refused(options, message):
    with pytest.raises(plait.errors.ParameterError, match=message):
        fitted(**options)


@pytest.mark.parametrize("seed", range(3))
def test_groups_that_a_random_start_does_not_find_are_found(seed):
    """Two kinds of groups that meet through relations: from a random start VB ends on a plateau."""
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 6, 60)
    blocks = rng.random((6, 12, 6)) < 0.25
    X = (rng.random((60, 12, 60)) < np.where(blocks[groups][:, :, groups], 0.8, 0.02)).astype(float)
    data = plait.Model(TUCKER2).bind({"X": plait.Relation(X, likelihood="bernoulli")})
    common = {"rank": 8, "seed": seed, "max_iter": 100, "threads": 1}
    warm, random = (plait.fit(TUCKER2, data, warmup=sweeps, **common) for sweeps in (WARM_UP, 0))
    assert warm.objective > random.objective + 100


@pytest.mark.thorough
def test_a_fit_cut_in_the_warm_up_explains_as_vb_from_there():
    data = {"X": counts()}
    cut = fitted(progress=lambda record: record.sweep < -7)
    begun = fitted(init=cut, max_iter=0, adapt_prior=None)
    asked = {"relation": "X", "cell": {"i": 1, "j": 2, "k": 3}, "top": 2, "exact": True, "data": data}
    here, there = (fit.explain(**asked).to_dict() for fit in (cut, begun))
    assert [link["exact"] for link in here["links"]] == pytest.approx(
        [link["exact"] for link in there["links"]], rel=1e-6
    )
