"""VB begins where some sweeps of EM end: the same numbers as by hand, resumable, and better optima."""

import numpy as np
import pytest

import plait
from plait.infer.loop import ADAPT_WARM, WARM_UP
from tests.cases import bits
from tests.models import MODELS

CP3 = MODELS["cp3"]
TUCKER2 = "X[h,p,t] = H[h,a] P[a,p,b] T[t,b]"


def counts(seed=0, shape=(9, 8, 7)):
    return np.random.default_rng(seed).poisson(1.2, shape).astype(float)


def fitted(**options):
    common = {"rank": 3, "seed": 2, "sweeps": 45, "tol": 0.0, "threads": 1}
    return plait.fit(CP3, {"X": counts()}, **common | options)


def test_history_says_which_sweeps_were_the_warm_up():
    fit = fitted()
    assert [record.sweep for record in fit.history] == list(range(-WARM_UP, 46))
    assert [record.warm_up for record in fit.history] == [True] * WARM_UP + [False] * 46
    assert fit.settings["start"] == "em"
    random = fitted(start="random")
    assert [record.sweep for record in random.history] == list(range(46))
    assert random.settings["start"] == "random"


def test_the_warm_up_is_em_from_the_same_start():
    warm, em = fitted(), fitted(method="em", sweeps=WARM_UP)
    known = [record.bound for record in warm.history if record.warm_up]
    assert known == [record.bound for record in em.history[:-1]]


def test_vb_goes_on_from_it_as_from_a_fit_by_em():
    em = fitted(method="em", sweeps=WARM_UP)
    warm, by_hand = fitted(adapt=None), fitted(adapt=None, init=em)
    own = [record.bound for record in warm.history if not record.warm_up]
    assert own == pytest.approx([record.bound for record in by_hand.history], rel=1e-12)
    for name in warm.factors:
        np.testing.assert_allclose(warm.factors[name].mean, by_hand.factors[name].mean, rtol=1e-9)


def test_the_bound_of_its_own_sweeps_never_falls():
    bounds = [record.bound for record in fitted(sweeps=80).history if not record.warm_up]
    assert np.diff(bounds).min() >= -1e-9 * abs(bounds[0])


def test_priors_adapt_only_after_its_own_sweeps():
    before, after = fitted(sweeps=ADAPT_WARM), fitted(sweeps=ADAPT_WARM + 1)
    assert before.prior["A"].mean == 10.0
    assert after.prior["A"].mean != 10.0


@pytest.mark.parametrize("place", [-WARM_UP, -7, -1, 0, 20])
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
        assert "compares with no other" in str(cut)
    assert bits(fitted(init=run)) == bits(whole)


@pytest.mark.parametrize(("start", "other"), [("em", "random"), ("random", "em")])
def test_a_run_goes_on_beside_the_word_for_its_start_and_not_beside_another(tmp_path, start, other):
    whole = fitted(start=start)
    fitted(start=start, sweeps=12, checkpoint=tmp_path)
    assert bits(fitted(start=start, init=tmp_path)) == bits(whole)
    with pytest.raises(plait.SettingError, match=rf"for its start differs \({start} then, {other} now\)"):
        fitted(start=other, init=tmp_path)


def test_floats_begin_where_doubles_do():
    double, single = fitted(), fitted(dtype="float32")
    assert [r.bound for r in single.history if r.warm_up] == [r.bound for r in double.history if r.warm_up]
    assert single.bound == pytest.approx(double.bound, rel=1e-5)


def test_nothing_is_warmed_up_where_something_else_says_how_to_start():
    fit = fitted(sweeps=3)
    given = {name: fit.factors[name].mean for name in fit.factors}
    for options in ({"init": fit}, {"init": given}, {"fixed": given}, {"method": "em"}, {"prune": True}):
        assert not any(record.warm_up for record in fitted(**{"sweeps": 3} | options).history)


MISTAKES = {
    "a word that is none": ({"start": "emm"}, "`start` must be one of 'em', 'random', got 'emm'"),
    "init and start": ({"start": "random", "init": {"A": np.ones((9, 3))}}, "`start` is given next to `init`"),
    "a method without one": ({"start": "em", "method": "em"}, '`start="em"` is for `method="vb"` only'),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told(name):
    options, message = MISTAKES[name]
    with pytest.raises(plait.SettingError, match=message):
        fitted(**options)


@pytest.mark.parametrize("seed", range(3))
def test_groups_that_a_random_start_does_not_find_are_found(seed):
    """Two kinds of groups that meet through relations: from a random start VB ends on a plateau."""
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 6, 60)
    blocks = rng.random((6, 12, 6)) < 0.25
    X = (rng.random((60, 12, 60)) < np.where(blocks[groups][:, :, groups], 0.8, 0.02)).astype(float)
    data = plait.Model(TUCKER2).bind({"X": plait.Relation(X, likelihood="bernoulli")})
    common = {"rank": 8, "seed": seed, "sweeps": 100, "threads": 1}
    warm, random = (plait.fit(TUCKER2, data, start=start, **common) for start in ("em", "random"))
    assert warm.bound > random.bound + 100


def test_what_a_fit_cut_in_the_warm_up_says_is_exactly_what_vb_would_find_from_there():
    data = {"X": counts()}
    cut = fitted(progress=lambda record: record.sweep < -7)
    begun = fitted(init=cut, sweeps=0, adapt=None)
    asked = {"relation": "X", "cell": {"i": 1, "j": 2, "k": 3}, "top": 2, "exact": True, "data": data}
    here, there = (fit.explain(**asked).to_dict() for fit in (cut, begun))
    assert [link["exact"] for link in here["links"]] == pytest.approx(
        [link["exact"] for link in there["links"]], rel=1e-6
    )
