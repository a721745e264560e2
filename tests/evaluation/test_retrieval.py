"""Recall, precision, NDCG and average precision at k: against scikit-learn, and all orders of ties one by one."""

from itertools import pairwise, permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

import plait
from plait.errors import ParameterError
from plait.evaluation.ranking import figures_at, standing
from tests.support.evaluating import KNOWN, TEST, S, check_refused, fit_rates


def counts(score, relevant, query):
    """How many candidates of its query that are not relevant stand above and level with each relevant one."""
    items = np.flatnonzero(relevant)
    others = [(query == query[i]) & ~relevant for i in items]
    above = np.array([np.sum(score[own] > score[i]) for own, i in zip(others, items)])
    tied = np.array([np.sum(score[own] == score[i]) for own, i in zip(others, items)])
    return query[items], score[items], above, tied


def expected(score, relevant, k):
    """The figures of one query, averaged over all orders in which better scores come first."""
    figures, most = [], min(k, relevant.sum())
    for order in permutations(range(len(score))):
        if any(score[a] < score[b] for a, b in pairwise(order)):
            continue
        hit = relevant[list(order)][:k]
        precision = np.cumsum(hit) / np.arange(1, len(hit) + 1)
        gain = np.sum(hit / np.log2(np.arange(2, len(hit) + 2)))
        best = np.sum(1 / np.log2(np.arange(2, most + 2)))
        figures.append((hit.sum() / relevant.sum(), hit.sum() / k, gain / best, np.sum(precision * hit) / most))
    names = (f"{name}_at_{k}" for name in ("recall", "precision", "ndcg", "map"))
    return dict(zip(names, np.mean(figures, axis=0)))


@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(1, 4), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_figures_at_k_are_the_mean_over_all_orders_of_ties(seed, size, levels, k):
    rng = np.random.default_rng(seed)
    score, relevant = rng.integers(0, levels, size).astype(float), rng.random(size) < 0.4
    relevant[0] = True
    query = np.zeros(size, np.int64)
    found = figures_at(standing(*counts(score, relevant, query)), k)
    assert {name: value[0] for name, value in found.items()} == pytest.approx(expected(score, relevant, k))


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_ndcg_of_many_queries_is_that_of_scikit_learn(seed, queries, k):
    rng = np.random.default_rng(seed)
    score, relevant = rng.integers(0, 6, (queries, 10)).astype(float), rng.random((queries, 10)) < 0.3
    relevant[:, 0] = True
    query = np.repeat(np.arange(queries), 10)
    items = counts(score.ravel(), relevant.ravel(), query)
    shuffled = rng.permutation(len(items[0]))
    found = figures_at(standing(*(column[shuffled] for column in items)), k)[f"ndcg_at_{k}"]
    assert found == pytest.approx([ndcg_score([r], [s], k=k) for r, s in zip(relevant.astype(int), score)])


def test_queries_of_an_evaluation_are_those_worked_out_by_hand():
    # Candidates are all tails but those of known links; see the table in tests/support/evaluating.py.
    # h0: t1 (test) and t2 tied at 5, t3 below.   h1: t0 and t1 (both test), then t2.   h2: t3 (test) is the best.
    found = plait.evaluate(fit_rates(S, KNOWN), "R", TEST, target="t", k=(1, 2))
    assert found["recall_at_1"] == pytest.approx((0.5 + 0.5 + 1) / 3)
    assert found["precision_at_1"] == pytest.approx((0.5 + 1 + 1) / 3)
    assert found["ndcg_at_1"] == pytest.approx((0.5 + 1 + 1) / 3)
    assert found["recall_at_2"] == pytest.approx(1)
    assert found["precision_at_2"] == pytest.approx((0.5 + 1 + 0.5) / 3)
    assert found["map_at_2"] == pytest.approx((0.75 + 1 + 1) / 3)
    assert found.errors["recall_at_1"] == pytest.approx(np.std([0.5, 0.5, 1], ddof=1) / np.sqrt(3))


def test_several_indices_have_their_figures_at_k_one_by_one_and_over_all_queries():
    fit = fit_rates(S, KNOWN)
    both = plait.evaluate(fit, "R", TEST, target=True, k=1)
    heads, tails = (plait.evaluate(fit, "R", TEST, target=index, k=1) for index in ("h", "t"))
    assert both["recall_at_1[h]"] == heads["recall_at_1"]
    assert both["recall_at_1[t]"] == tails["recall_at_1"]
    # Three queries for a tail (h0, h1, h2), three for a head (t0, t1, t3).
    assert both["recall_at_1"] == pytest.approx((heads["recall_at_1"] + tails["recall_at_1"]) / 2)


def test_known_links_are_no_candidates_at_k():
    rates = np.array([[9.0, 5.0, 4.0, 3.0]] * 2)
    fit = fit_rates(rates, [(0, 0), (1, 1)])
    test = pl.DataFrame({"h": [0], "t": [2]})
    assert plait.evaluate(fit, "R", test, target="t", k=1)["recall_at_1"] == 0  # t1 is above
    known = pl.DataFrame({"h": [0], "t": [1]})
    assert plait.evaluate(fit, "R", test, target="t", k=1, known=known)["recall_at_1"] == 1


@pytest.mark.parametrize("k", [0, -1, 2.5, True, (), (5, 0), "ten"])
def test_k_is_a_positive_integer_or_several(k):
    check_refused(ParameterError, lambda: plait.evaluate(fit_rates(S, KNOWN), "R", TEST, target="t", k=k), "`k`")


def test_k_without_a_ranking_is_refused():
    check_refused(ParameterError, lambda: plait.evaluate(fit_rates(S, KNOWN), "R", TEST, k=5), "`k=5`", "`target`")
