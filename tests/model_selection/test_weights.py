"""weight="auto": a side relation counts as much as it helps to predict another one, and the fit says how much."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.model_selection import auto_settings

COUPLED = """
    X[i,j] = A[i,r] B[j,r]
    Y[i,k] = A[i,r] C[k,r]
"""
RNG = np.random.default_rng(1)
A, B, C = (RNG.gamma(0.15, 1.0, (size, 3)) for size in (40, 30, 30))
TRUE = A @ B.T
TRUE *= 500 / TRUE.sum()
X, TEST = RNG.poisson(TRUE).astype(float), RNG.poisson(TRUE).astype(float)
HELPFUL = RNG.poisson(A @ C.T * (4000 / (A @ C.T).sum())).astype(float)
OTHER = RNG.gamma(0.1, 1.0, (40, 3)) @ RNG.gamma(0.1, 1.0, (3, 60))
HARMFUL = RNG.poisson(OTHER * (40000 / OTHER.sum())).astype(float)  # groups that have nothing to do with those of X
AUTO = {"X": X, "Y": plait.Relation(HELPFUL, weight="auto")}


def fitted(side, weight="auto", **options):
    options = {"rank": 3, "seed": 0, "adapt_prior": "factor", "max_iter": 60} | options
    return plait.fit(COUPLED, {"X": X, "Y": plait.Relation(side, weight=weight)}, **options)


def log_likelihood(fit):
    """Of other counts of the same rates: Poisson by the mean, without what does not depend on the fit."""
    mean = fit.factors["A"].mean @ fit.factors["B"].mean.T
    return float((TEST * np.log(mean) - mean).sum())


@pytest.fixture(scope="module")
def harmed():
    return fitted(HARMFUL)


@pytest.mark.thorough
def test_a_harmful_side_relation_counts_little_and_predictions_improve(harmed):
    assert harmed.settings["weights"]["Y"] <= 0.1
    assert log_likelihood(harmed) > log_likelihood(fitted(HARMFUL, 1)) + 20


@pytest.mark.thorough
def test_a_helpful_side_relation_keeps_its_weight():
    fit = fitted(HELPFUL)
    assert fit.settings["weights"]["Y"] >= 1
    assert log_likelihood(fit) > log_likelihood(fitted(HELPFUL, 0.01))


@pytest.mark.parametrize("method", ["em", "map"])
def test_weights_are_found_for_every_method(method):
    options = {"method": method, "adapt_prior": None} | ({"prior": plait.Gamma(2.0, 1.0)} if method == "map" else {})
    assert fitted(HARMFUL, **options).settings["weights"]["Y"] < 1


def test_a_found_weight_makes_the_fit_that_the_same_weight_given_makes(harmed):
    given = fitted(HARMFUL, harmed.settings["weights"]["Y"])
    assert given.objective == harmed.objective
    assert given.fingerprint == harmed.fingerprint
    assert not {"weights", "weights_by"} & set(given.settings)


@pytest.mark.thorough
def test_weights_depend_on_the_seed_alone(harmed):
    again = plait.fit(COUPLED, plait.Model(COUPLED).bind({"X": X, "Y": plait.Relation(HARMFUL, weight="auto")}),
                      rank=3, seed=0, adapt_prior="factor", max_iter=60)  # fmt: skip
    assert again.settings | {"search_seconds": 0} == harmed.settings | {"search_seconds": 0}
    assert again.objective == harmed.objective


def test_settings_say_how_weights_were_found_and_are_saved(harmed, tmp_path):
    found = harmed.settings["weights_by"]
    assert found["way"] == "held-out links of X"
    scores = {tried["Y"]: score for tried, score in found["tried"]}
    assert set(scores) == {0.01, 0.1, 0.3, 1.0, 3.0}
    assert max(scores, key=scores.get) == harmed.settings["weights"]["Y"]
    harmed.save(tmp_path / "run")
    assert plait.load(tmp_path / "run").settings == harmed.settings


@pytest.mark.thorough
def test_each_of_several_relations_has_a_weight_of_its_own():
    text = COUPLED + "Z[i,l] = A[i,r] D[l,r]"
    sides = {"Y": plait.Relation(HARMFUL, weight="auto"), "Z": plait.Relation(HELPFUL, weight="auto")}
    found = plait.fit(text, {"X": X, **sides}, rank=3, seed=0, adapt_prior="factor", max_iter=60).settings["weights"]
    assert found["Y"] < 1 <= found["Z"]


def test_a_run_goes_on_with_its_weights(tmp_path, monkeypatch):
    run = tmp_path / "run"
    first = fitted(HARMFUL, max_iter=20, checkpoint=run)
    whole = fitted(HARMFUL, first.settings["weights"]["Y"], max_iter=30)
    monkeypatch.setattr(auto_settings, "hold_out", None)  # nothing is searched again
    longer = fitted(HARMFUL, init=run, max_iter=30, seed=None)
    assert longer.settings["weights"] == first.settings["weights"]
    assert longer.settings["weights_by"] == first.settings["weights_by"]
    assert longer.objective == whole.objective


def test_a_run_of_another_weight_does_not_go_on(tmp_path):
    fitted(HARMFUL, 0.5, max_iter=5, checkpoint=tmp_path / "run")
    with pytest.raises(plait.errors.ParameterError, match="its data differs"):
        fitted(HARMFUL, init=tmp_path / "run", max_iter=10, seed=None)


@pytest.mark.thorough
def test_members_share_one_search_and_the_rank_is_found_first(monkeypatch):
    searches, whole = [], auto_settings.search_weights
    monkeypatch.setattr(
        "plait.model_selection.auto_settings.search_weights", lambda *given: searches.append(1) or whole(*given)
    )
    fit = fitted(HARMFUL, restarts=2, rank=None, max_iter=20)
    assert searches == [1]
    assert fit.settings["rank_by"]["way"] == "held-out links of X"
    assert set(fit.settings["weights"]) == {"Y"}


@pytest.mark.thorough
def test_a_rank_is_judged_by_the_relation_to_predict_whatever_the_order():
    text = "Y[i,k] = A[i,r] C[k,r]; X[i,j] = A[i,r] B[j,r]"
    settings = plait.fit(text, AUTO, seed=0, max_iter=10).settings
    assert settings["rank_by"]["way"] == settings["weights_by"]["way"] == "held-out links of X"


def test_few_or_too_many_links_leave_a_weight_of_1(tuning):
    few = plait.fit(COUPLED, AUTO | {"X": np.eye(40, 30)}, rank=2, seed=0, max_iter=5).settings
    tuning(max_trial_products=10.0)
    many = fitted(HELPFUL, max_iter=5).settings
    assert few["weights"] == many["weights"] == {"Y": 1.0}
    assert few["weights_by"] == {"way": "default: X has fewer than 100 links", "tried": []}
    assert many["weights_by"]["way"] == "default: too many links for a search"


@pytest.mark.thorough
def test_a_start_that_has_seen_all_links_does_not_judge_weights(harmed):
    warm = fitted(HARMFUL, init=fitted(HARMFUL, 1), seed=0)
    assert warm.settings["weights_by"] == harmed.settings["weights_by"]


SHARED = 'the weight of Y is "auto", but Y has no free factor in common with X.*\nUse a common factor'
NOTHING_SHARED = "X[i,j] = A[i,r] B[j,r]; Y[h,k] = D[h,r] C[k,r]"


@pytest.mark.parametrize(
    ("text", "weight", "fixed", "message"),
    [
        (COUPLED, "auto", None, '`weight` is "auto" for all relations, X, Y, .*\nRemove it for the relation'),
        (COUPLED, 1.0, {"A": np.ones((40, 2))}, SHARED),
        (NOTHING_SHARED, 1.0, None, SHARED),
    ],
)
def test_a_weight_that_nothing_can_judge_is_refused(text, weight, fixed, message):
    data = {"X": plait.Relation(X, weight=weight), "Y": plait.Relation(HELPFUL, weight="auto")}
    with pytest.raises(plait.errors.ParameterError, match=message):
        plait.fit(text, data, rank=2, fixed=fixed)


def test_other_mistakes_are_reported_before_weights_are_tried(monkeypatch):
    monkeypatch.setattr(auto_settings, "hold_out", None)
    with pytest.raises(plait.errors.ParameterError, match="`seed` must be"):
        fitted(HELPFUL, seed=-1)


def test_bound_data_count_an_open_weight_as_1():
    bound = plait.Model(COUPLED).bind(AUTO)
    assert "  weight          auto: plait.fit chooses it" in str(bound.relations["Y"])
    assert "auto: plait.fit" not in str(bound.relations["X"])
    assert bound.relations["Y"].weights.at(np.array([[0, 0]])) == 1


def test_a_column_called_auto_is_no_weight():
    table = pl.DataFrame({"i": ["a"], "k": ["b"], "auto": [0.5]})
    with pytest.raises(plait.errors.DataError, match="column 'auto' is not used"):
        plait.Model(COUPLED).bind({"X": X, "Y": plait.Relation(table, weight="auto")})
    driving = pl.DataFrame({"driver": ["a"], "auto": ["b"]})
    plait.Model("Y[driver,auto] = A[driver,r] B[auto,r]").bind({"Y": plait.Relation(driving, weight="auto")})


@pytest.mark.parametrize("by", ["cells", "links", "thinned_links"])
def test_hiding_from_a_relation_leaves_its_open_weight_open(by):
    train, test = plait.train_test_split(AUTO, "Y", fraction=0.1, by=by, seed=0, model=COUPLED)
    assert train["Y"].weight == "auto"
    fit = plait.fit(COUPLED, train, rank=2, seed=0, max_iter=5)
    assert plait.evaluate(fit, "Y", test).figures


def test_an_exact_explanation_takes_the_data_as_they_were_given(harmed):
    i, j = np.argwhere(X > 0)[0]
    data = {"X": X, "Y": plait.Relation(HARMFUL, weight="auto")}
    given = data | {"Y": plait.Relation(HARMFUL, weight=harmed.settings["weights"]["Y"])}
    whys = [harmed.explain("X", {"i": int(i), "j": int(j)}, top=1, exact=True, data=d) for d in (data, given)]
    assert str(whys[0]) == str(whys[1])


@pytest.mark.thorough
def test_grid_search_finds_weights_for_every_setting_but_not_by_the_elbo():
    data = {"X": X, "Y": plait.Relation(HARMFUL, weight="auto")}
    choice = plait.grid_search(COUPLED, data, rank=[2, 3], seeds=1, seed=0, max_iter=20, adapt_prior="factor")
    assert set(choice.fit.settings["weights"]) == {"Y"}
    with pytest.raises(plait.errors.ParameterError, match="ELBOs with different weights are not comparable"):
        plait.grid_search(COUPLED, data, rank=[2, 3], by="elbo")
