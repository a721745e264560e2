"""plait.evaluate: figures against scikit-learn and loops in Python; drawn non-links; ranks worked out by hand."""

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.metrics import average_precision_score, brier_score_loss, mean_squared_error, roc_auc_score

import plait
from plait.data.binding.known import Known
from plait.data.observation.links import LinksInMemory
from plait.data.observation.structural_zeros import StructuralZeros
from plait.errors import DataError, ParameterError
from plait.evaluation.measure import popularity
from plait.evaluation.negative_sampling import KnownLinks, corrupted, uniform
from plait.rendering.text import render
from tests.support.evaluating import INDICES, KNOWN, TEST, S, check_refused, fit_counts, fit_rates


@pytest.fixture(scope="module")
def fits():
    return {
        "poisson": fit_counts(),
        "bernoulli": fit_counts("bernoulli"),
        "certain": fit_counts(method="em"),
        "links": fit_counts(by="links"),
        "binary links": fit_counts("bernoulli", by="links"),
    }


# --- over cells


@pytest.mark.parametrize("name", ["poisson", "bernoulli", "certain"])
@pytest.mark.parametrize("score", ["mean", "probability", "rate"])
def test_metrics_over_cells_equal_scikit_learn(fits, name, score):
    fit, test = fits[name]
    found = plait.evaluate(fit, "X", test, score=score)
    predicted = fit.predict("X", test.drop("value"))
    link, value = (test["value"] > 0).to_numpy(), test["value"].to_numpy()
    mean, p = predicted["mean"].to_numpy(), predicted["probability"].to_numpy()
    by = predicted["mean" if score == "rate" and name != "bernoulli" else score].to_numpy()
    expected = {
        "roc_auc": roc_auc_score(link, by),
        "average_precision": average_precision_score(link, by),
        "brier": brier_score_loss(link, p),
        "rmse": math.sqrt(mean_squared_error(value, mean)),
        "mae": np.abs(value - mean).mean(),
    }
    for key, figure in expected.items():
        assert found[key] == pytest.approx(figure, rel=1e-9), key
    assert (found.links, found.zeros) == (link.sum(), (~link).sum())
    assert all(np.isfinite(figure) for figure in found.values())
    assert found.calibration["cells"].sum() == len(test)


def test_the_likelihood_of_links_is_that_of_their_probabilities(fits):
    fit, test = fits["bernoulli"]
    found = plait.evaluate(fit, "X", test)
    p = fit.predict("X", test.drop("value"))["probability"].to_numpy()
    log = np.where(test["value"] > 0, np.log(p), np.log1p(-p))
    assert found["log_likelihood"] == pytest.approx(log.mean(), rel=1e-9)
    assert found["log_likelihood_sum"] == pytest.approx(log.sum(), rel=1e-9)


def test_the_likelihood_of_counts_under_certain_rates_is_poisson():
    S = np.array([[0.5, 2.0, 3.0], [1.0, 0.1, 4.0]])
    fit = fit_rates(S, [(0, 0), (1, 1)])
    values = np.array([[0, 2, 5], [1, 0, 3]])
    test = pl.DataFrame({"h": np.repeat([0, 1], 3), "t": np.tile([0, 1, 2], 2), "value": values.ravel()})
    log = stats.poisson.logpmf(values, S)
    assert plait.evaluate(fit, "R", test)["log_likelihood_sum"] == pytest.approx(log.sum(), rel=1e-9)


def test_an_impossible_link_leaves_the_likelihood_out_with_a_note():
    fit = fit_rates(np.array([[1.0, 0.0], [1.0, 2.0]]), [(0, 0)])
    test = pl.DataFrame({"h": [0, 1, 1], "t": [1, 0, 1], "value": [1, 1, 0]})
    found = plait.evaluate(fit, "R", test)
    assert "log_likelihood" not in found
    assert found.notes == ("no log_likelihood: 1 test cell has a predicted probability of 0",)
    assert all(np.isfinite(figure) for figure in found.values())


def test_a_test_may_be_any_table_and_without_values_is_all_links(fits):
    fit, test = fits["poisson"]
    for other in (pd.DataFrame(test.to_dict(as_series=False)), test.to_dict()):
        assert dict(plait.evaluate(fit, "X", other)) == dict(plait.evaluate(fit, "X", test))
    fit, test = fits["binary links"]
    assert dict(plait.evaluate(fit, "X", test.drop("value"))) == dict(plait.evaluate(fit, "X", test))


# --- drawn non-links


def test_without_zeros_non_links_are_drawn_in_two_ways(fits):
    fit, test = fits["links"]
    found = plait.evaluate(fit, "X", test)
    hows = ["uniform", "corrupt_i", "corrupt_j", "corrupt_k"]
    assert {f"{figure}_{how}" for figure in ("roc_auc", "average_precision") for how in hows} <= set(found)
    assert not {"roc_auc", "average_precision", "brier", "log_likelihood", "rmse"} & set(found)
    assert found.calibration is None
    assert found["roc_auc_uniform"] > 0.6
    assert found.notes[:2] == (
        "no Brier score and no calibration: the test has no zeros",
        "1 sampled negative per test link",
    )


@pytest.mark.parametrize("name", ["links", "binary links"])
def test_metrics_over_links_alone_have_other_names(fits, name):
    fit, test = fits[name]
    found = plait.evaluate(fit, "X", test)
    mean = fit.predict("X", test.drop("value"))["mean"].to_numpy()
    assert found["rmse_links"] == pytest.approx(np.sqrt(np.mean((test["value"].to_numpy() - mean) ** 2)))
    if name == "binary links":
        assert found["log_likelihood_links"] == pytest.approx(np.log(mean).mean())


def test_a_seed_fixes_what_is_drawn(fits):
    fit, test = fits["links"]
    a, b, c = (plait.evaluate(fit, "X", test, seed=seed) for seed in (1, 1, 2))
    assert dict(a) == dict(b)
    assert a["roc_auc_uniform"] != c["roc_auc_uniform"]


def test_many_drawn_non_links_give_the_exact_auc(fits):
    fit, test = fits["links"]
    rate = np.einsum("ir,jr,kr", *(fit.factors[name].mean for name in "ABC"))
    link = np.zeros(rate.shape, bool)
    link[tuple(fit.known["X"].cells.T)] = True
    at = tuple(test[i].to_numpy() for i in INDICES)
    tested = rate[at]
    link[at] = True
    others = rate[~link]
    exact = roc_auc_score(np.r_[np.ones(len(tested)), np.zeros(len(others))], np.r_[tested, others])
    found = plait.evaluate(fit, "X", test, negatives=100)
    assert found["roc_auc_uniform"] == pytest.approx(exact, abs=0.02)
    # By replacing j: each link against the others of its own fibre, all in one pot.
    fibre = [rate[i, ~link[i, :, k], k] for i, k in zip(at[0], at[2])]
    weights = np.concatenate([np.full(len(f), 1 / len(f)) for f in fibre if len(f)])
    pot = np.concatenate(fibre)
    above = [(weights * (t > pot)).sum() / weights.sum() for t in tested]
    assert found["roc_auc_corrupt_j"] == pytest.approx(np.mean(above), abs=0.02)


def test_non_links_are_drawn_only_where_they_are_asked_for(fits):
    fit, test = fits["poisson"]
    assert {"roc_auc", "roc_auc_uniform", "roc_auc_corrupt_i"} <= set(plait.evaluate(fit, "X", test, negatives=2))
    assert "roc_auc_uniform" not in plait.evaluate(fit, "X", test)
    fit, test = fits["links"]
    assert set(plait.evaluate(fit, "X", test, negatives=0)) == {
        "log_likelihood_links", "log_likelihood_links_sum", "rmse_links", "mae_links",
    }  # fmt: skip


def in_memory(shape, cells):
    """Links of value 1."""
    ones = np.ones(len(cells))
    return LinksInMemory.of(INDICES[: len(shape)], shape, np.array(cells, np.uint32), ones, ones)


def some_links(shape=(6, 5, 4), n=50, seed=0):
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(0, shape, (n, len(shape))), axis=0)
    half = len(cells) // 2
    return KnownLinks(Known(shape, in_memory(shape, cells[:half])), StructuralZeros(), cells[half:], INDICES), {
        tuple(cell) for cell in cells.tolist()
    }


@pytest.mark.parametrize("listed", [2**20, 0])
def test_uniform_non_links_are_no_links_and_all_equally_likely(tuning, listed):
    tuning(max_negatives_listed=listed)
    links, cells = some_links()
    drawn = uniform(links, 20_000, np.random.default_rng(0))
    found = {tuple(cell): 0 for cell in np.argwhere(np.ones(links.shape)).tolist() if tuple(cell) not in cells}
    for cell in drawn.tolist():
        found[tuple(cell)] += 1  # a KeyError would be a link
    assert stats.chisquare(list(found.values())).pvalue > 1e-3


@pytest.mark.parametrize("rounds", [30, 0])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_corrupted_cells_differ_in_one_entity_and_are_no_links(tuning, axis, rounds):
    tuning(negative_rounds=rounds)
    links, cells = some_links()
    start = np.repeat(links.cells[:3], 2000, axis=0)
    changed, possible = corrupted(links, start, axis, np.random.default_rng(0))
    assert possible.all()
    others = [k for k in range(3) if k != axis]
    np.testing.assert_array_equal(changed[:, others], start[:, others])
    assert not {tuple(cell) for cell in changed.tolist()} & cells
    counts = np.unique(changed[:2000, axis], return_counts=True)[1]
    free = [v for v in range(links.shape[axis]) if tuple(np.where(np.arange(3) == axis, v, start[0])) not in cells]
    assert len(counts) == len(free)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_cells_that_a_rule_closes_are_neither_drawn_nor_rivals():
    n = np.arange(5)
    text = "X[a, b] = A[a, r] B[b, r]; b: a"
    rates = np.where(np.eye(5) > 0, 9.0, 1.0) + np.arange(5) / 10  # self-links above all, then the larger b
    table = pl.DataFrame({"a": [0, 1, 2, 3, 4], "b": [1, 2, 3, 4, 0]})
    data = {"X": plait.Relation(table, missing=pl.DataFrame({"a": n, "b": n}))}
    fit = plait.fit(text, data, rank=5, fixed={"A": np.eye(5), "B": rates.T.copy()}, seed=0)
    found = plait.evaluate(fit, "X", pl.DataFrame({"a": [0, 1], "b": [4, 4]}), target="b", negatives=50)
    assert (found["mean_rank"], found["mean_rank_raw"]) == (1, 2)
    assert found["roc_auc_uniform"] > 0.75  # among self-links it would be lower by a fifth
    links = KnownLinks(fit.known["X"], fit.known["X"].structural_zeros, np.array([[0, 4]]), ("a", "a"))
    drawn = uniform(links, 500, np.random.default_rng(0))
    assert (drawn[:, 0] != drawn[:, 1]).all()
    changed, possible = corrupted(links, np.repeat([[0, 4]], 200, axis=0), 1, np.random.default_rng(0))
    assert possible.all()
    assert set(changed[:, 1]) == {2, 3}


def test_entities_without_a_link_here_are_not_drawn():
    # Users c and d and film z occur in other relations only: what they would like here is not known.
    links = KnownLinks(
        Known((4, 3), in_memory((4, 3), [[0, 0]])), StructuralZeros(), np.array([[1, 1]]), ("user", "film")
    )
    drawn = uniform(links, 200, np.random.default_rng(0))
    assert {tuple(cell) for cell in drawn.tolist()} == {(0, 1), (1, 0)}
    changed, _ = corrupted(links, np.repeat(links.cells[:1], 200, axis=0), 0, np.random.default_rng(0))
    assert {tuple(cell) for cell in changed.tolist()} == {(1, 0)}
    shared = KnownLinks(
        Known((3, 3), in_memory((3, 3), [[0, 1]])), StructuralZeros(), np.zeros((0, 2), np.int64), ("user", "user")
    )
    assert [own.tolist() for own in shared.present] == [[0, 1], [0, 1]]  # on all indices of its axis


def test_a_relation_of_one_cell_has_no_non_links():
    fit = plait.fit("x[] = c[]", {"x": 3.0}, max_iter=3, seed=0)
    with pytest.warns(plait.errors.LeakWarning):
        found = plait.evaluate(fit, "x", pl.DataFrame({"value": [2.0]}))
    assert set(found) == {"log_likelihood_links", "log_likelihood_links_sum", "rmse_links", "mae_links"}


def test_candidates_without_a_link_in_the_relation_are_noted():
    fit = fit_rates(np.arange(1.0, 13).reshape(3, 4), [(0, 0), (1, 1)])
    found = plait.evaluate(fit, "R", pl.DataFrame({"h": [2], "t": [1]}), target=True)
    assert found.notes[-1] == "2 of the 4 candidates for t have no link in R"
    assert str(found).startswith("R: 1 test link, 0 test zeros\n")


def test_what_cannot_be_drawn_is_left_out_with_a_note():
    # All cells are known or tested but (1, 1): no entity t in place of 0 or 1 makes a non-link of (0, ·).
    fit = fit_rates(np.array([[1.0, 2.0], [3.0, 4.0]]), [(0, 0), (1, 0)])
    found = plait.evaluate(fit, "R", pl.DataFrame({"h": [0], "t": [1]}))
    assert "roc_auc_corrupt_t" not in found
    assert "no roc_auc_corrupt_t, no average_precision_corrupt_t: there are no such negatives" in found.notes
    assert found["roc_auc_corrupt_h"] == found["roc_auc_uniform"] == 0.0
    full = plait.evaluate(fit, "R", pl.DataFrame({"h": [0, 1], "t": [1, 1]}))
    assert not [name for name in full if "auc" in name]
    some = plait.evaluate(
        fit_rates(np.ones((2, 3)), [(0, 0), (1, 0), (0, 2)]), "R", pl.DataFrame({"h": [0, 1], "t": [1, 1]}), negatives=3
    )
    assert "1 of the test links have no negatives for t: every candidate is a known link" in some.notes


# --- within queries


def test_metrics_within_queries_are_means_over_queries(fits):
    fit, test = fits["poisson"]
    found = plait.evaluate(fit, "X", test)
    scored = test.with_columns(score=fit.predict("X", test.drop("value"))["mean"], link=pl.col("value") > 0)
    for index in INDICES:
        others = [i for i in INDICES if i != index]
        queries = [own for _, own in scored.group_by(others) if own["link"].n_unique() == 2]
        for name, of in (("roc_auc", roc_auc_score), ("average_precision", average_precision_score)):
            figures = [of(own["link"].to_numpy(), own["score"].to_numpy()) for own in queries]
            assert found[f"{name}_within_{index}"] == pytest.approx(np.mean(figures))
            error = np.std(figures, ddof=1) / np.sqrt(len(figures))
            assert found.errors[f"{name}_within_{index}"] == pytest.approx(error)


def test_metrics_within_queries_ignore_the_level_of_a_query():
    # Entities with larger rates: the links of h0 lose to the corruptions of h1.
    fit = fit_rates(np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]), [(0, 1), (1, 0), (0, 0)])
    test = pl.DataFrame({"h": [0, 1], "t": [2, 2]})
    found = plait.evaluate(fit, "R", test, negatives=30)
    assert found["roc_auc_corrupt_t"] < 0.8
    assert found["roc_auc_corrupt_within_t"] == 1
    assert found["average_precision_corrupt_within_t"] == 1


def test_a_note_says_that_no_query_has_both_kinds():
    fit = fit_rates(np.ones((2, 2)), [(0, 0)])
    found = plait.evaluate(fit, "R", pl.DataFrame({"h": [0, 1], "t": [1, 0], "value": [1, 0]}))
    assert "roc_auc_within_h" not in found
    assert "no roc_auc_within_h, no average_precision_within_h: no query has both links and zeros" in found.notes


# --- further known links


def test_further_known_links_are_left_out_of_rankings():
    fit = fit_rates(S, KNOWN)
    alone = plait.evaluate(fit, "R", TEST[:1], target="t")
    assert alone["mean_rank"] == 1.5  # tied with t2
    known = pl.DataFrame({"h": [0], "t": [2]})
    with_known = plait.evaluate(fit, "R", TEST[:1], target="t", known=known)
    assert with_known["mean_rank"] == 1
    assert with_known["mean_rank_raw"] == alone["mean_rank_raw"]
    several = [pl.DataFrame({"h": [2], "t": [0]}), {"h": [0], "t": [2]}]
    assert dict(plait.evaluate(fit, "R", TEST[:1], target="t", negatives=0, known=several)) == dict(
        plait.evaluate(fit, "R", TEST[:1], target="t", negatives=0, known=known)
    )


def test_further_known_links_are_never_drawn_as_non_links():
    # (0, 1) is tested, (0, 0) and (1, 1) are known, so (1, 0) alone can be drawn.
    fit = fit_rates(np.array([[1.0, 2.0], [3.0, 4.0]]), [(0, 0), (1, 1)])
    test = pl.DataFrame({"h": [0], "t": [1]})
    assert "roc_auc_uniform" in plait.evaluate(fit, "R", test)
    found = plait.evaluate(fit, "R", test, known=pl.DataFrame({"h": [1], "t": [0]}))
    assert not [name for name in found if "auc" in name]


def test_zeros_unknown_names_and_hidden_cells_of_known_links_are_ignored():
    fit = fit_rates(S, KNOWN)
    plain = dict(plait.evaluate(fit, "R", TEST, target=True))
    zeros = pl.DataFrame({"h": [0, 99], "t": [2, 1], "value": [0, 1]})
    assert dict(plait.evaluate(fit, "R", TEST, target=True, known=zeros)) == plain
    hidden = plait.Relation(pl.DataFrame({"h": [0], "t": [2]}), hidden=pl.DataFrame({"h": [0]}))
    assert dict(plait.evaluate(fit, "R", TEST, target=True, known=hidden)) == plain


def test_known_links_may_be_an_array_and_tested_ones_among_them():
    fit = fit_rates(S, KNOWN)
    every = np.zeros(S.shape)
    for h, t in [*KNOWN, *TEST.rows(), (0, 2)]:
        every[h, t] = 1
    found = plait.evaluate(fit, "R", TEST, target="t", known=plait.Relation(every))
    assert found["mean_rank"] == 1
    assert not any("known to the fit" in note for note in found.notes)


# --- ranking, by hand
#
# The table of rates is in tests/support/evaluating.py.
#
# Tail, raw:  (h0, t1): t0 above, t2 tied: 2 or 3                  2.5
#             (h1, t0): t1 and t3 tied: 1 to 3                     2
#             (h1, t1): the same                                   2
#             (h2, t3): the best                                   1
# filtered:   (h0, t1): t0 is known, t2 tied: 1 or 2               1.5
#             (h1, t0): t1 is tested, t3 known: alone but t2       1
#             (h1, t1): the same                                   1
#             (h2, t3)                                             1
TAIL_RAW, TAIL = [2.5, 2, 2, 1], [1.5, 1, 1, 1]
#
# Head, raw:  (h0, t1): 5 among 5, 8, 2                            2
#             (h1, t0): 8 among 9, 8, 1                            2
#             (h1, t1): 8 among 5, 8, 2                            1
#             (h2, t3): 4 among 1, 8, 4                            2
# filtered:   (h0, t1): h1 is tested: 5 among 5, 2                 1
#             (h1, t0): h0 is known: 8 among 8, 1                  1
#             (h1, t1): h0 is tested: 8 among 8, 2                 1
#             (h2, t3): h1 is known: 4 among 1, 4                  1
HEAD_RAW, HEAD = [2, 2, 1, 2], [1, 1, 1, 1]


def figures(ranks, suffix=""):
    ranks = np.array(ranks)
    hits = {f"hits_at_{k}{suffix}": np.mean(ranks <= k) for k in (1, 3, 10)}
    return {f"mrr{suffix}": np.mean(1 / ranks), f"mean_rank{suffix}": np.mean(ranks), **hits}


def ranked(found):
    return {name: figure for name, figure in found.items() if name.startswith(("mrr", "hits", "mean_rank"))}


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("score", ["mean", "rate", "probability"])
def test_ranks_of_the_tail_are_those_worked_out_by_hand(likelihood, score):
    found = plait.evaluate(fit_rates(S, KNOWN, likelihood), "R", TEST, target="t", score=score)
    assert ranked(found) == pytest.approx({**figures(TAIL), **figures(TAIL_RAW, "_raw")})


def test_ranks_of_all_indices_are_given_one_by_one_and_together():
    found = plait.evaluate(fit_rates(S, KNOWN), "R", TEST, target=True)
    expected = {**figures(TAIL + HEAD), **figures(TAIL_RAW + HEAD_RAW, "_raw")}
    for axis, filtered, raw in (("t", TAIL, TAIL_RAW), ("h", HEAD, HEAD_RAW)):
        own = {**figures(filtered), **figures(raw, "_raw")}
        expected |= {f"{name}[{axis}]": figure for name, figure in own.items()}
    assert ranked(found) == pytest.approx(expected)
    both = plait.evaluate(fit_rates(S, KNOWN), "R", TEST, target=("h", "t"))
    assert ranked(both) == pytest.approx(expected)


def test_zeros_of_a_test_are_neither_ranked_nor_filtered():
    zeros = pl.DataFrame({"h": [0, 2], "t": [2, 2], "value": [0, 0]})
    test = pl.concat([TEST.with_columns(value=1), zeros.with_columns(pl.col("value").cast(pl.Int32))])
    found = plait.evaluate(fit_rates(S, KNOWN), "R", test, target="t")
    assert ranked(found) == pytest.approx({**figures(TAIL), **figures(TAIL_RAW, "_raw")})


def test_names_in_another_order_give_the_same_ranks():
    names = ["delta", "alpha", "zeta", "beta"]
    test = TEST.with_columns(t=pl.Series(names).gather(TEST["t"]))
    found = plait.evaluate(
        fit_rates(S, KNOWN, names=names), "R", test.sample(fraction=1, shuffle=True, seed=0), target="t"
    )
    assert ranked(found) == pytest.approx({**figures(TAIL), **figures(TAIL_RAW, "_raw")})


@pytest.mark.parametrize("name", ["links", "binary links"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_ranks_of_a_fit_are_those_of_a_loop_over_all_candidates(tuning, fits, name, axis):
    tuning(ranking_scores=20)  # several pieces
    fit, test = fits[name]
    cells = np.stack([test[i].to_numpy() for i in INDICES], axis=1)
    known = {tuple(c) for c in fit.known["X"].cells.tolist()} | {tuple(c) for c in cells.tolist()}
    ranks, raw = [], []
    for cell in cells:
        size = len(fit.entities[INDICES[axis]])
        every = np.repeat(cell[None], size, axis=0)
        every[:, axis] = np.arange(size)
        scores = fit.predict("X", pl.DataFrame(every, schema=list(INDICES)))["mean"].to_numpy()
        own = scores[cell[axis]]
        keep = np.array([e == cell[axis] or tuple(c) not in known for e, c in enumerate(every.tolist())])
        for out, left in ((ranks, scores[keep]), (raw, scores)):
            out.append(1 + np.sum(left > own * (1 + 1e-9)) + (np.sum(np.abs(left - own) <= 1e-9 * own) - 1) / 2)
    found = plait.evaluate(fit, "X", test, target=INDICES[axis], negatives=0)
    assert ranked(found) == pytest.approx({**figures(ranks), **figures(raw, "_raw")})


# --- what comes out


def test_metrics_print_as_a_table_and_are_plain_for_json(fits):
    fit, test = fits["poisson"]
    found = plait.evaluate(fit, "X", test, target="j")
    lines = str(found).split("\n")
    assert lines[0] == f"X: {found.links} test links, {found.zeros} test zeros"
    summary = ["average_precision", "roc_auc", "mrr", "calibration_error", "log_likelihood"]
    assert [line.split() for line in lines[3:8]] == [
        [name, f"{found[name]:.4f}", "±", f"{found.errors[name]:.4f}", f"{found.baseline[name]:.4f}"]
        for name in summary
    ]
    table = found.table()
    assert table["metric"].to_list() == list(found)
    assert table["value"].to_list() == list(found.values())
    assert table["popularity"].to_list() == [found.baseline[name] for name in found]
    assert f"all {len(found)} metrics: `metrics.table()`" in lines[-1]
    whole = render(found.describe(every=True))
    assert all(f"\n{name} " in whole for name in found)
    assert "\nCalibration\n" in whole
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["metrics"] == dict(found)
    assert plain["errors"] == found.errors
    assert len(plain["calibration"]) == len(found.calibration)
    assert repr(found) == str(found)
    assert f"± {found.errors['roc_auc']:.4f}" in found._repr_html_()


def test_links_that_the_fit_knows_are_noted_and_warned_of():
    fit = fit_rates(S, KNOWN)
    with pytest.warns(plait.errors.LeakWarning) as caught:
        found = plait.evaluate(fit, "R", pl.concat([TEST, pl.DataFrame({"h": [0], "t": [0]})]))
    assert found.notes[0] == "1 of 5 test links is in the training data: the metrics are too optimistic"
    assert [str(w.message).startswith(f"R: {found.notes[0]}.\n") for w in caught] == [True]
    assert caught[0].filename == __file__
    assert f"note: {found.notes[0]}" in str(found)
    assert found.to_dict()["notes"][0] == found.notes[0]


def test_a_zero_in_place_of_a_known_link_is_no_known_link():
    test = pl.concat(
        [
            TEST.with_columns(value=1),
            pl.DataFrame({"h": [0], "t": [0], "value": [0]}, TEST.schema | {"value": pl.Int32}),
        ]
    )
    assert not any("known to the fit" in note for note in plait.evaluate(fit_rates(S, KNOWN), "R", test).notes)


def test_calibration_is_a_table_of_bins(fits):
    fit, test = fits["bernoulli"]
    table = plait.evaluate(fit, "X", test).calibration
    assert table.columns == ["bin", "cells", "predicted", "observed", "lower", "upper", "error"]
    p = fit.predict("X", test.drop("value"))["probability"]
    first = table.row(0, named=True)
    inside = p <= first["upper"]
    assert first["cells"] == inside.sum() == round(len(p) / 15)
    assert first["lower"] == p.min()
    assert first["predicted"] == pytest.approx(p.filter(inside).mean())
    assert first["observed"] == pytest.approx(test.filter(inside)["value"].mean())


def test_popularity_is_the_product_of_the_numbers_of_known_links():
    fit = fit_rates(np.ones((3, 4)), [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)])
    cells = pl.DataFrame({"h": [0, 1, 2, 2], "t": [0, 1, 2, 3]})
    assert popularity(fit, "R", cells).tolist() == [3 * 1, 2 * 2, 1 * 3, 1 * 0]


WRONG = {
    "empty": ({"test": TEST.clear()}, DataError, ("the test is empty", "hold out more")),
    "no link": ({"test": TEST.with_columns(value=0)}, DataError, ("4 zeros, but no links", "hold out more")),
    "negative": (
        {"test": TEST.with_columns(value=pl.Series([1, 1, -2, 1]))},
        DataError,
        ("column 'value', row 2", "-2", "correct it"),
    ),
    "gap": (
        {"test": TEST.with_columns(value=pl.Series([1, None, 2, 1]))},
        DataError,
        ("column 'value', row 1", "nan", "correct it"),
    ),
    "twice": ({"test": pl.concat([TEST, TEST[2:3]])}, DataError, ("rows 2 and 4", "h=1, t=1", "Remove one")),
    "link and zero": (
        {"test": pl.concat([TEST[:1], TEST, TEST[3:]]).with_columns(value=pl.Series([1, 0, 1, 1, 1, 1]))},
        DataError,
        ("rows 0 and 1", "h=0, t=1", "1 more row", "Remove one"),
    ),
    "score": ({"score": "men"}, ParameterError, ("`score`", "'men'", "Did you mean 'mean'?")),
    "target": ({"target": "tt"}, ParameterError, ("`target`", "'tt'", "Did you mean 't'?")),
    "negatives": ({"negatives": -1}, ParameterError, ("`negatives`", "-1")),
    "seed": ({"seed": "x"}, ParameterError, ("`seed`", "'x'")),
    "known column": (
        {"known": pl.DataFrame({"h": [0], "t": [2], "when": [3]})},
        DataError,
        ("known: column 'when'", "`value='when'`"),
    ),
    "known index": ({"known": [TEST, pl.DataFrame({"h": [0]})]}, DataError, ("known[1]", "column 't'", "R needs h, t")),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_measured_is_refused_with_a_hint(name):
    options, error, words = WRONG[name]
    check_refused(error, lambda: plait.evaluate(fit_rates(S, KNOWN), "R", **{"test": TEST, **options}), *words)


def test_a_count_is_no_test_of_binary_links():
    fit = fit_rates(S, KNOWN, "bernoulli")
    check_refused(DataError, lambda: plait.evaluate(fit, "R", TEST.with_columns(value=2)), "Links are 0 or 1")
