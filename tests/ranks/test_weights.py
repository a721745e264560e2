"""weight="auto": a side relation counts as much as it helps to predict another one, and the fit says how much."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.fitting.ranks import side_weights

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


def fitted(side, weight="auto", **options):
    options = {"rank": 3, "seed": 0, "adapt": "factor", "sweeps": 60} | options
    return plait.fit(COUPLED, {"X": X, "Y": plait.Relation(side, weight=weight)}, **options)


def log_likelihood(fit):
    """Of other counts of the same rates: Poisson by the mean, without what does not depend on the fit."""
    mean = fit.factors["A"].mean @ fit.factors["B"].mean.T
    return float((TEST * np.log(mean) - mean).sum())


@pytest.fixture(scope="module")
def harmed():
    return fitted(HARMFUL)


def test_a_side_relation_of_other_groups_counts_little_and_predictions_are_better_for_it(harmed):
    assert harmed.settings["weights"]["Y"] <= 0.1
    assert log_likelihood(harmed) > log_likelihood(fitted(HARMFUL, 1)) + 20


def test_a_helpful_side_relation_keeps_its_weight():
    fit = fitted(HELPFUL)
    assert fit.settings["weights"]["Y"] >= 1
    assert log_likelihood(fit) > log_likelihood(fitted(HELPFUL, 0.01))


@pytest.mark.parametrize("method", ["em", "map"])
def test_weights_are_found_for_every_method(method):
    options = {"method": method, "adapt": None} | ({"prior": plait.Gamma(2.0, 1.0)} if method == "map" else {})
    assert fitted(HARMFUL, **options).settings["weights"]["Y"] < 1


def test_a_found_weight_makes_the_fit_that_the_same_weight_given_makes(harmed):
    given = fitted(HARMFUL, harmed.settings["weights"]["Y"])
    assert given.bound == harmed.bound
    assert given.fingerprint == harmed.fingerprint
    assert not {"weights", "weights_by"} & set(given.settings)


def test_weights_depend_on_the_seed_alone(harmed):
    again = plait.fit(COUPLED, plait.Model(COUPLED).bind({"X": X, "Y": plait.Relation(HARMFUL, weight="auto")}),
                      rank=3, seed=0, adapt="factor", sweeps=60)  # fmt: skip
    assert again.settings == harmed.settings
    assert again.bound == harmed.bound


def test_settings_say_how_weights_were_found_and_are_saved(harmed, tmp_path):
    found = harmed.settings["weights_by"]
    assert found["way"] == "links of X put aside"
    scores = {tried["Y"]: score for tried, score in found["tried"]}
    assert set(scores) == {1.0, *side_weights.OTHERS}
    assert max(scores, key=scores.get) == harmed.settings["weights"]["Y"]
    harmed.save(tmp_path / "run")
    assert plait.load(tmp_path / "run").settings == harmed.settings


def test_each_of_several_relations_has_a_weight_of_its_own():
    text = COUPLED + "Z[i,l] = A[i,r] D[l,r]"
    sides = {"Y": plait.Relation(HARMFUL, weight="auto"), "Z": plait.Relation(HELPFUL, weight="auto")}
    found = plait.fit(text, {"X": X, **sides}, rank=3, seed=0, adapt="factor", sweeps=60).settings["weights"]
    assert found["Y"] < 1 <= found["Z"]


def test_a_run_goes_on_with_its_weights_to_the_same_bits(tmp_path, monkeypatch):
    run = tmp_path / "run"
    first = fitted(HARMFUL, sweeps=20, checkpoint=run)
    whole = fitted(HARMFUL, first.settings["weights"]["Y"], sweeps=30)
    monkeypatch.setattr(side_weights, "put_aside", None)  # nothing is searched again
    longer = fitted(HARMFUL, init=run, sweeps=30, seed=None)
    assert longer.settings["weights"] == first.settings["weights"]
    assert longer.settings["weights_by"] == first.settings["weights_by"]
    assert longer.bound == whole.bound


def test_a_run_of_another_weight_does_not_go_on(tmp_path):
    fitted(HARMFUL, 0.5, sweeps=5, checkpoint=tmp_path / "run")
    with pytest.raises(plait.SettingError, match="its data differs"):
        fitted(HARMFUL, init=tmp_path / "run", sweeps=10, seed=None)


def test_members_share_one_search_and_the_rank_is_found_first(monkeypatch):
    searches, whole = [], side_weights.predicting_weights
    monkeypatch.setattr(
        "plait.fitting.ranks.settle.predicting_weights", lambda *given: searches.append(1) or whole(*given)
    )
    fit = fitted(HARMFUL, restarts=2, rank=None, sweeps=20)
    assert searches == [1]
    assert fit.settings["rank_by"]["way"] == "links of X put aside"
    assert set(fit.settings["weights"]) == {"Y"}


def test_a_rank_is_judged_by_what_is_to_be_predicted_though_a_side_relation_stands_first():
    text = "Y[i,k] = A[i,r] C[k,r]; X[i,j] = A[i,r] B[j,r]"
    data = {"X": X, "Y": plait.Relation(HELPFUL, weight="auto")}
    settings = plait.fit(text, data, seed=0, sweeps=10).settings
    assert settings["rank_by"]["way"] == settings["weights_by"]["way"] == "links of X put aside"


def test_few_links_leave_a_weight_of_1_and_say_so():
    data = {"X": np.eye(40, 30), "Y": plait.Relation(HELPFUL, weight="auto")}
    settings = plait.fit(COUPLED, data, rank=2, seed=0, sweeps=5).settings
    assert settings["weights"] == {"Y": 1.0}
    assert settings["weights_by"] == {"way": "default: X has fewer than 100 links", "tried": []}


def test_data_too_large_to_try_leave_a_weight_of_1_and_say_so(monkeypatch):
    monkeypatch.setattr(side_weights, "WORK", 10.0)
    settings = fitted(HELPFUL, sweeps=5).settings
    assert settings["weights"] == {"Y": 1.0}
    assert settings["weights_by"]["way"] == "default: too many links to try others"


def test_a_start_that_has_seen_all_links_does_not_judge_weights(harmed):
    warm = fitted(HARMFUL, init=fitted(HARMFUL, 1), seed=0)
    assert warm.settings["weights_by"] == harmed.settings["weights_by"]


def test_a_weight_without_a_relation_to_predict_is_refused():
    data = {name: plait.Relation(array, weight="auto") for name, array in {"X": X, "Y": HELPFUL}.items()}
    with pytest.raises(plait.SettingError) as error:
        plait.fit(COUPLED, data, rank=2)
    assert str(error.value) == (
        '`weight` is "auto" for all relations, X, Y, so that there is none to predict.\n'
        "Leave it out for the relation that is to be predicted."
    )


@pytest.mark.parametrize("fixed", [None, {"A": np.ones((40, 2))}])
def test_a_weight_of_a_relation_that_shares_nothing_is_refused(fixed):
    text = COUPLED if fixed else "X[i,j] = A[i,r] B[j,r]; Y[h,k] = D[h,r] C[k,r]"
    with pytest.raises(plait.SettingError) as error:
        plait.fit(text, {"X": X, "Y": plait.Relation(HELPFUL, weight="auto")}, rank=2, fixed=fixed)
    assert str(error.value) == (
        'the weight of Y is "auto", but it shares no factor that is learnt with X, which it is to help predict.\n'
        "Let their equations share one, or leave the weight out."
    )


def test_what_is_wrong_with_a_fit_is_said_before_any_weight_is_tried(monkeypatch):
    monkeypatch.setattr(side_weights, "put_aside", None)
    with pytest.raises(plait.SettingError, match="`seed` must be"):
        fitted(HELPFUL, seed=-1)


def test_bound_data_count_an_open_weight_as_1_and_say_so():
    bound = plait.Model(COUPLED).bind({"X": X, "Y": plait.Relation(HELPFUL, weight="auto")})
    assert "  weight          auto: 1 here, plait.fit finds one" in str(bound.relations["Y"])
    assert "auto" not in str(bound.relations["X"])
    assert bound.relations["Y"].weights.at(np.array([[0, 0]])) == 1


def test_a_column_called_auto_is_no_weight():
    table = pl.DataFrame({"i": ["a"], "k": ["b"], "auto": [0.5]})
    with pytest.raises(plait.DataError, match="column 'auto' is not used"):
        plait.Model(COUPLED).bind({"X": X, "Y": plait.Relation(table, weight="auto")})
    driving = pl.DataFrame({"driver": ["a"], "auto": ["b"]})
    plait.Model("Y[driver,auto] = A[driver,r] B[auto,r]").bind({"Y": plait.Relation(driving, weight="auto")})


@pytest.mark.parametrize("by", ["cells", "links", "thin"])
def test_hiding_from_a_relation_leaves_its_open_weight_open(by):
    data = {"X": X, "Y": plait.Relation(HELPFUL, weight="auto")}
    train, test = plait.hide(data, "Y", fraction=0.1, by=by, seed=0, model=COUPLED)
    assert train["Y"].weight == "auto"
    fit = plait.fit(COUPLED, train, rank=2, seed=0, sweeps=5)
    assert plait.evaluate(fit, "Y", test).figures


def test_an_exact_explanation_takes_the_data_as_they_were_given(harmed):
    i, j = np.argwhere(X > 0)[0]
    data = {"X": X, "Y": plait.Relation(HARMFUL, weight="auto")}
    given = data | {"Y": plait.Relation(HARMFUL, weight=harmed.settings["weights"]["Y"])}
    whys = [harmed.explain("X", {"i": int(i), "j": int(j)}, top=1, exact=True, data=d) for d in (data, given)]
    assert str(whys[0]) == str(whys[1])


def test_choose_finds_weights_for_every_setting_but_not_by_the_bound():
    data = {"X": X, "Y": plait.Relation(HARMFUL, weight="auto")}
    choice = plait.choose(COUPLED, data, rank=[2, 3], seeds=1, seed=0, sweeps=20, adapt="factor")
    assert set(choice.fit.settings["weights"]) == {"Y"}
    with pytest.raises(plait.SettingError, match="bounds compare under the same weights only"):
        plait.choose(COUPLED, data, rank=[2, 3], by="bound")
