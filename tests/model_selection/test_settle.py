"""`rank` left out, "auto" and "elbo": found once, from training data alone, and recorded in the settings."""

import warnings

import numpy as np
import polars as pl
import pytest

import plait
from lab.paper.sources.drawn import draw
from plait.executors import Reference
from plait.model_selection import rank_search

MATRIX = "X[i,j] = A[i,r] B[j,r]"
CP = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
TUCKER = "X[i,j,k] = A[i,p] B[j,q] C[k,s] G[p,q,s]"
X = draw((20, 15, 6), 3, 600, seed=0).astype(float)
# Every rank of a core that is tried would be compiled, in a second each.
DENSE = {"executor": Reference()}


@pytest.fixture(scope="module")
def found():
    return plait.fit(CP, {"X": X}, seed=0, max_iter=20)


@pytest.mark.budget(5)
def test_a_rank_left_out_is_auto_and_makes_the_fit_of_the_same_rank_given(found):
    searched, given = (plait.fit(CP, {"X": X}, rank=rank, seed=0, max_iter=20) for rank in ("auto", found.rank))
    assert found.rank == searched.rank == found.settings["rank"]
    assert found.objective == searched.objective == given.objective
    assert "rank_by" not in given.settings


def test_settings_say_how_a_rank_was_found(found):
    by = found.settings["rank_by"]
    assert by["asked"] == "auto"
    assert by["way"] == "held-out links of X"
    assert len(by["tried"]) > 1


def test_members_share_one_search(monkeypatch):
    searches = []
    whole = rank_search._climb
    monkeypatch.setattr(rank_search, "_climb", lambda *given: searches.append(1) or whole(*given))
    fit = plait.fit(CP, {"X": X}, seed=0, max_iter=20, restarts=3)
    assert len(searches) == 1
    assert len(fit.members) == 3


@pytest.mark.parametrize("links", [1, 2])
def test_very_small_data_have_a_rank(links):
    table = pl.DataFrame({"i": ["a", "b"][:links], "j": ["c", "d"][:links]})
    assert plait.fit(MATRIX, {"X": table}, seed=0, max_iter=3).rank == {"r": links}


def test_large_data_have_the_rule_s_rank_without_a_search(tuning):
    tuning(max_sweep_products=10.0)
    fit = plait.fit(CP, {"X": X}, seed=0, max_iter=3)
    assert fit.settings["rank_by"] == {"asked": "auto", "way": "rule", "tried": []}


def climb(scores, budget=np.inf):
    """Sizes that a climb tries; the sum of their sizes is at most `budget`."""
    return list(rank_search._climb(list(scores), scores.get, lambda tried, size: sum(tried) + size <= budget))


def test_a_climb_ends_after_two_sizes_that_are_hardly_better_or_one_where_the_next_costs_too_much():
    assert climb({4: 0.1, 8: 0.29, 16: 0.3, 32: 0.2, 64: 0.25, 128: 0.9}) == [4, 8, 16, 32, 64]
    assert climb({4: 0.1, 8: 0.3, 16: 0.2, 32: 0.4}) == [4, 8, 16, 32]
    assert climb({4: 0.1, 8: 0.3, 16: 0.301, 32: 0.302, 64: 0.303}) == [4, 8, 16, 32]  # hardly better
    assert climb({4: 0.1, 8: 0.2, 16: 0.1, 32: 0.3}, budget=20) == [4, 8, 16]


def test_a_climb_skips_the_first_size_where_the_third_is_clearly_better_than_the_second():
    assert climb({4: 0.1, 8: 0.2, 16: 0.3, 32: 0.2, 64: 0.25}) == [8, 16, 32, 64]


def test_many_links_are_ranked_within_their_lists(monkeypatch):
    monkeypatch.setattr(rank_search, "MANY_LINKS", 100)
    tried = plait.fit(CP, {"X": X}, seed=0, max_iter=5).settings["rank_by"]["tried"]
    assert min(size for size, _ in tried) >= rank_search.MIN_SEARCH_RANK_MANY
    assert all(0 < score < 1 for _, score in tried)


def test_the_rank_of_a_link_counts_zeros_of_its_lists_and_half_of_ties(monkeypatch):
    data = plait.Model(MATRIX).bind({"X": (X.sum(2) > 1).astype(float)})
    held_out = rank_search.hold_out(data, "X", 0.2, np.random.default_rng(0), as_zeros=True)
    known = held_out.data.relations["X"]

    def score(link, zero):
        rate = np.full(known.shape, zero)
        rate[tuple(known.cells.T)] = 9.0  # known links are no rivals
        rate[tuple(held_out.cells[held_out.values > 0].T)] = link
        monkeypatch.setattr(rank_search, "columns", lambda fit, name, cells, _: {"rate": rate[tuple(cells.T)]})
        return rank_search._judge_lists(held_out)([None])

    assert score(2.0, 1.0) > 0.1  # only other held-out links are as high
    assert score(2.0, 2.0) == pytest.approx(2 * score(0.0, 2.0), rel=0.2)
    assert score(0.0, 2.0) < 0.05


@pytest.mark.thorough
@pytest.mark.parametrize("likelihood", ["poisson", "negbin"])
def test_bursts_do_not_raise_the_rank(likelihood):
    """Counts of one cell come in bursts: by their log-likelihood under Poisson more components are always better."""
    rng = np.random.default_rng(0)
    users, items = rng.dirichlet([0.3] * 4, 300), rng.dirichlet([0.1] * 120, 4)
    events = rng.poisson(3000 * users @ items / 300)
    counts = np.vectorize(lambda n: rng.geometric(1 / 8, n).sum() if n else 0)(events).astype(float)
    data = {"X": plait.Relation(counts, likelihood=likelihood)}
    assert plait.fit(MATRIX, data, seed=0, max_iter=5).rank["r"] <= 8


def test_counts_without_zeros_are_judged_by_their_values():
    full = np.random.default_rng(0).poisson(3.0, (20, 15)) + 1.0
    by = plait.fit(MATRIX, {"X": full}, seed=0, max_iter=5).settings["rank_by"]
    assert by["way"] == "held-out values of X"
    assert all(score < 0 for _, score in by["tried"])


@pytest.mark.thorough
def test_an_index_of_a_given_factor_has_the_array_s_size():
    fit = plait.fit(TUCKER, {"X": X}, fixed={"C": np.ones((6, 4))}, seed=0, max_iter=3, **DENSE)
    assert fit.rank["s"] == 4


def test_a_fit_to_start_from_has_its_rank():
    first = plait.fit(CP, {"X": X}, rank=4, seed=0, max_iter=3)
    assert plait.fit(CP, {"X": X}, init=first, max_iter=3).rank == {"r": 4}


def test_a_run_goes_on_with_the_rank_that_was_found(tmp_path):
    run = tmp_path / "run"
    first = plait.fit(CP, {"X": X}, seed=0, max_iter=5, checkpoint=run)
    longer = plait.fit(CP, {"X": X}, init=run, max_iter=10)
    assert longer.settings["rank_by"] == first.settings["rank_by"]
    assert longer.objective == plait.fit(CP, {"X": X}, rank=first.rank, seed=0, max_iter=10).objective


@pytest.mark.thorough
def test_a_rank_that_was_found_is_not_warned_of():
    noise = (np.random.default_rng(0).random((40, 40)) < 0.1).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plait.fit(MATRIX, {"X": noise}, seed=0)


def test_other_mistakes_are_reported_before_ranks_are_tried(monkeypatch):
    monkeypatch.setattr(rank_search, "hold_out", None)  # a search would fail
    with pytest.raises(plait.errors.ParameterError, match="`method` must be one of"):
        plait.fit(CP, {"X": X}, method="vp")


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
def test_the_elbo_finds_how_many_components_were_drawn(seed):
    drawn = draw((30, 25, 10), 3, 6_000, seed=seed).astype(float)
    fit = plait.fit(CP, {"X": drawn}, rank="elbo", seed=0)
    assert fit.rank == {"r": 3}
    assert fit.settings["rank_by"]["asked"] == "elbo"


def test_a_fit_by_the_elbo_ends_no_lower_than_what_was_tried():
    fit = plait.fit(CP, {"X": X}, rank="elbo", seed=0)
    assert fit.objective >= max(bound for _, bound in fit.settings["rank_by"]["tried"]) - 1e-6 * abs(fit.objective)


@pytest.mark.thorough
def test_every_index_of_a_core_is_searched_by_the_bound():
    fit = plait.fit(TUCKER, {"X": X}, rank="elbo", seed=0, max_iter=60, **DENSE)
    assert set(fit.rank) == {"p", "q", "s"}
    assert fit.rank["s"] <= 6


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (CP, {"rank": "elbow"}, r"`rank` must be .*'elbow'\.\nDid you mean 'elbo'\?"),
        (CP, {"rank": "elbo", "method": "em"}, r'`rank="elbo"` requires `method="vb"`.*\nUse `rank="auto"`'),
        (CP, {"rank": "elbo", "prune": True}, r'`prune` and `rank="elbo"` exclude each other.*\nRemove it'),
        ("X[i,j,k] = a[i] b[j] c[k]", {"rank": "auto"}, "the model has no latent index"),
    ],
)
def test_a_wrong_rank_is_refused_with_a_hint(text, arguments, message):
    with pytest.raises(plait.errors.ParameterError, match=message):
        plait.fit(text, {"X": X}, **arguments)
