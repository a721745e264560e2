"""`fit.top` of equations that are sums of products: the best of all cells, each term under its own exposure."""

import itertools
from functools import cache

import numpy as np
import pytest

from tests.support.every_cell import all_rates, check, subsets
from tests.support.searching import check_per, structural_zeros_of
from tests.support.sums import SUMS, sum_fit

one_fit = cache(sum_fit)
DIRECTED = [name for name in SUMS if name != "undirected"]


@pytest.mark.quick(name=["tucker", "pairwise", "coupled", "evidence"])
@pytest.mark.parametrize("default", [0.0, 0.2])
@pytest.mark.parametrize("name", DIRECTED)
def test_best_cells_of_a_sum_for_any_given_indices(name, default, boxes):
    fit = one_fit(name, default=default)
    for relation in fit.model.relations:
        scores, zeros = all_rates(fit, relation), structural_zeros_of(fit, relation)
        for n, fixed in enumerate(subsets(fit.model.equation(relation).indices)):
            known = (n + (boxes == "rows")) % 2 == 0
            check(fit, relation, 4, fixed, known=known, scores=scores, zeros=zeros)


@pytest.mark.parametrize("name", ["shared", "tucker", "exposed", "all_exposed", "rescal"])
def test_best_cells_of_an_ensemble_of_sums(name, boxes):
    fit = one_fit(name, restarts=2, combine="average")
    assert len(fit.members) == 2
    check(fit, "X", 6, {}, zeros=structural_zeros_of(fit, "X"))
    check(fit, "X", 6, {fit.model.equation("X").indices[0]: 1}, zeros=structural_zeros_of(fit, "X"))


@pytest.mark.quick(name=["tucker", "pairwise", "coupled", "evidence"])
@pytest.mark.parametrize("name", [name for name in DIRECTED if name != "no_index"])
def test_best_cells_of_each_entity_of_a_sum(name, way):
    fit = one_fit(name)
    check_per(fit, "X", 3, fit.model.equation("X").indices[-1:], zeros=structural_zeros_of(fit, "X"))


@pytest.mark.parametrize("known", [False, True])
def test_pairs_of_an_undirected_sum_are_shown_once(known, boxes):
    fit = one_fit("undirected")
    scores = all_rates(fit, "X")
    np.testing.assert_allclose(scores, scores.T, rtol=1e-12)
    linked = np.zeros(scores.shape, bool)
    linked[tuple(fit.known["X"].cells.T)] = not known
    pairs = [(i, j) for i, j in itertools.combinations(range(len(scores)), 2) if not linked[i, j] and not linked[j, i]]
    table = fit.top("X", 100, include_known=known)
    found = [tuple(sorted(pair)) for pair in zip(table["user"], table["friend"])]
    assert sorted(found) == sorted(pairs)
    np.testing.assert_allclose(table["mean"], np.sort([scores[pair] for pair in pairs])[::-1], rtol=1e-9)
    for user in range(len(scores)):
        others = fit.top("X", 100, given={"user": user}, include_known=known)["friend"].to_list()
        assert sorted(others) == sorted({*sum((pair for pair in pairs if user in pair), ())} - {user})
