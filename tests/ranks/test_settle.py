"""rank= left out, "auto" and "bound": found once, from training data alone, and said."""

import warnings

import numpy as np
import polars as pl
import pytest

import plait
from lab.paper.sources.drawn import draw
from plait.execute import Reference
from plait.fitting.ranks import auto

MATRIX = "X[i,j] = A[i,r] B[j,r]"
CP = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
TUCKER = "X[i,j,k] = A[i,p] B[j,q] C[k,s] G[p,q,s]"
X = draw((20, 15, 6), 3, 600, seed=0).astype(float)
# Every rank of a core that is tried would be compiled, in a second each.
DENSE = {"executor": Reference()}


def test_a_rank_left_out_is_auto_and_depends_on_the_seed_alone():
    fits = [plait.fit(CP, {"X": X}, seed=0, sweeps=20, **rank) for rank in ({}, {"rank": "auto"})]
    assert fits[0].rank == fits[1].rank
    assert fits[0].bound == fits[1].bound
    assert fits[0].settings["rank"] == fits[0].rank


def test_settings_say_how_a_rank_was_found():
    found = plait.fit(CP, {"X": X}, seed=0, sweeps=20).settings["rank_by"]
    assert found["asked"] == "auto"
    assert found["way"] == "links of X put aside"
    assert len(found["tried"]) > 1
    assert "rank_by" not in plait.fit(CP, {"X": X}, rank=3, seed=0, sweeps=5).settings


def test_a_found_rank_makes_the_fit_that_the_same_rank_given_makes():
    found = plait.fit(CP, {"X": X}, seed=0, sweeps=20)
    assert plait.fit(CP, {"X": X}, rank=found.rank, seed=0, sweeps=20).bound == found.bound


def test_members_share_one_search(monkeypatch):
    searches = []
    whole = auto.put_aside
    monkeypatch.setattr(auto, "put_aside", lambda *given: searches.append(1) or whole(*given))
    fit = plait.fit(CP, {"X": X}, seed=0, sweeps=20, restarts=3)
    assert len(searches) == 1
    assert len(fit.members) == 3


@pytest.mark.parametrize("links", [1, 2])
def test_very_small_data_have_a_rank(links):
    table = pl.DataFrame({"i": ["a", "b"][:links], "j": ["c", "d"][:links]})
    assert plait.fit(MATRIX, {"X": table}, seed=0, sweeps=3).rank == {"r": links}


def test_large_data_have_the_rule_s_rank_without_a_search(monkeypatch):
    monkeypatch.setattr(auto, "WORK", 10.0)
    fit = plait.fit(CP, {"X": X}, seed=0, sweeps=3)
    assert fit.settings["rank_by"] == {"asked": "auto", "way": "rule", "tried": []}


def test_a_worse_size_is_left_for_one_that_predicts_surely_better():
    """A sure case: a core of 55 × 12 × 12 numbers for 300 links predicts worse than a small one."""
    rng = np.random.default_rng(0)
    H, P, T = rng.gamma(0.3, 1.0, (14, 2)), rng.gamma(0.3, 1.0, (2, 20, 2)), rng.gamma(0.3, 1.0, (14, 2))
    links = (rng.poisson(0.4 * np.einsum("ha,apb,tb->hpt", H, P, T)) > 0).astype(float)
    text = "X[h,p,t] = H[h,a] P[a,p,b] T[t,b]"
    data = {"X": plait.Relation(links, likelihood="bernoulli")}
    found = plait.fit(text, data, seed=0, sweeps=60).settings["rank_by"]
    scores = dict(map(tuple, found["tried"]))
    chosen = max(scores, key=scores.get)
    assert chosen < max(scores)


def test_an_index_of_a_given_factor_has_the_array_s_size():
    fit = plait.fit(TUCKER, {"X": X}, fixed={"C": np.ones((6, 4))}, seed=0, sweeps=3, **DENSE)
    assert fit.rank["s"] == 4


def test_a_fit_to_start_from_has_its_rank():
    first = plait.fit(CP, {"X": X}, rank=4, seed=0, sweeps=3)
    assert plait.fit(CP, {"X": X}, init=first, sweeps=3).rank == {"r": 4}


def test_a_run_goes_on_with_the_rank_that_was_found(tmp_path):
    run = tmp_path / "run"
    first = plait.fit(CP, {"X": X}, seed=0, sweeps=5, checkpoint=run)
    longer = plait.fit(CP, {"X": X}, init=run, sweeps=10)
    assert longer.settings["rank_by"] == first.settings["rank_by"]
    assert longer.bound == plait.fit(CP, {"X": X}, rank=first.rank, seed=0, sweeps=10).bound


def test_nobody_is_warned_that_a_rank_that_was_found_is_too_large():
    noise = (np.random.default_rng(0).random((40, 40)) < 0.1).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plait.fit(MATRIX, {"X": noise}, seed=0)


def test_other_mistakes_are_said_before_ranks_are_tried(monkeypatch):
    monkeypatch.setattr(auto, "put_aside", None)  # a search would fail
    with pytest.raises(plait.SettingError, match="`method` must be one of"):
        plait.fit(CP, {"X": X}, method="vp")


@pytest.mark.parametrize("seed", range(2))
def test_the_bound_finds_how_many_components_were_drawn(seed):
    drawn = draw((30, 25, 10), 3, 6_000, seed=seed).astype(float)
    fit = plait.fit(CP, {"X": drawn}, rank="bound", seed=0)
    assert fit.rank == {"r": 3}
    assert fit.settings["rank_by"]["asked"] == "bound"


def test_a_fit_by_the_bound_ends_no_lower_than_what_was_tried():
    fit = plait.fit(CP, {"X": X}, rank="bound", seed=0)
    assert fit.bound >= max(bound for _, bound in fit.settings["rank_by"]["tried"]) - 1e-6 * abs(fit.bound)


def test_every_index_of_a_core_is_searched_by_the_bound():
    fit = plait.fit(TUCKER, {"X": X}, rank="bound", seed=0, sweeps=60, **DENSE)
    assert set(fit.rank) == {"p", "q", "s"}
    assert fit.rank["s"] <= 6


WRONG = {
    "a word": (
        {"rank": "bond"},
        "`rank` must be a whole number, \"auto\" or \"bound\", got 'bond'.\nDid you mean 'bound'?",
    ),
    "the bound of EM": (
        {"rank": "bound", "method": "em"},
        '`rank="bound"` needs `method="vb"`, whose bound compares ranks, got `method="em"`.\n'
        'Give `rank="auto"`, which asks what predicts best.',
    ),
    "pruning too": (
        {"rank": "bound", "prune": True},
        '`prune` is given next to `rank="bound"`, which finds components itself.\nLeave it out.',
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_name_their_cure(case):
    arguments, message = WRONG[case]
    with pytest.raises(plait.SettingError) as error:
        plait.fit(CP, {"X": X}, **arguments)
    assert str(error.value) == message


def test_words_are_refused_where_nothing_is_latent():
    with pytest.raises(plait.SettingError, match="the model has no latent index"):
        plait.fit("X[i,j,k] = a[i] b[j] c[k]", {"X": X}, rank="auto")
