"""`fit.top` of equations that are sums of products: the best of all cells, each term under its own exposure."""

import itertools
from functools import cache

import numpy as np
import pytest

from plait.answer.search import boxed, branch, by_entity, form, tree
from tests.search.every_cell import all_rates, allowed, check, subsets
from tests.sums import SUMS, sum_fit


@pytest.fixture(params=["rows", "general"])
def boxes(request, monkeypatch):
    """Searches that split boxes down to single cells, a few entries at a time; by kernels, or by contractions."""
    monkeypatch.setattr(branch, "LEAF", 1)
    monkeypatch.setattr(branch, "BATCH", 8)
    monkeypatch.setattr(branch, "FIRST", 1)
    monkeypatch.setattr(tree, "FAN", 2 if request.param == "rows" else 3)
    monkeypatch.setattr(boxed, "GATHERED", 40)
    if request.param == "general":
        monkeypatch.setattr(form, "ROOM", 0)
        monkeypatch.setattr(boxed, "as_rows", lambda form: None)
    return request.param


one_fit = cache(sum_fit)
DIRECTED = [name for name in SUMS if name != "undirected"]


def closed_cells(fit, relation):
    """The cells of a relation that a rule closes: those where a factor takes the same row twice."""
    closed, shape = fit.known[relation].closed, fit.known[relation].shape
    return closed.contain(np.argwhere(np.ones(shape))).reshape(shape) if closed else None


@pytest.mark.sampled(20)
@pytest.mark.parametrize("default", [0.0, 0.2])
@pytest.mark.parametrize("name", DIRECTED)
def test_the_best_cells_of_a_sum_are_those_of_all_cells_whatever_is_given(name, default, boxes):
    fit = one_fit(name, default=default)
    for relation in fit.model.relations:
        scores, closed = all_rates(fit, relation), closed_cells(fit, relation)
        for n, fixed in enumerate(subsets(fit.model.equation(relation).indices)):
            known = (n + (boxes == "rows")) % 2 == 0
            check(fit, relation, 4, fixed, known=known, scores=scores, closed=closed)


@pytest.mark.parametrize("name", ["shared", "tucker", "exposed", "all_exposed", "rescal"])
def test_the_best_cells_of_an_ensemble_of_sums(name, boxes):
    fit = one_fit(name, restarts=2, keep="average")
    assert len(fit.members) == 2
    check(fit, "X", 6, {}, closed=closed_cells(fit, "X"))
    check(fit, "X", 6, {fit.model.equation("X").indices[0]: 1}, closed=closed_cells(fit, "X"))


@pytest.mark.sampled(15)
@pytest.mark.parametrize("way", ["blocks", "boxes"])
@pytest.mark.parametrize("name", [name for name in DIRECTED if name != "no_index"])
def test_the_best_cells_of_each_entity_of_a_sum(name, way, monkeypatch):
    monkeypatch.setattr(by_entity, "FEW" if way == "boxes" else "BLOCK", 0 if way == "boxes" else 7)
    fit = one_fit(name)
    equation = fit.model.equation("X")
    index = equation.indices[-1]
    table = fit.top("X", 3, each=index)
    scores, mask = all_rates(fit, "X"), allowed(fit, "X", False, closed_cells(fit, "X"))
    for row in range(len(fit.labels[index])):
        here = table.filter(table[index] == fit.labels[index][row])
        cells = tuple(here[i].to_numpy() for i in equation.indices)
        wanted = np.sort(scores[..., row][mask[..., row]])[::-1][:3]
        np.testing.assert_allclose(scores[cells], wanted, rtol=1e-9)
        assert mask[cells].all()


@pytest.mark.parametrize("known", [False, True])
def test_pairs_of_an_undirected_sum_are_shown_once(known, boxes):
    fit = one_fit("undirected")
    scores = all_rates(fit, "X")
    np.testing.assert_allclose(scores, scores.T, rtol=1e-12)
    linked = np.zeros(scores.shape, bool)
    linked[tuple(fit.known["X"].cells.T)] = not known
    pairs = [(i, j) for i, j in itertools.combinations(range(len(scores)), 2) if not linked[i, j] and not linked[j, i]]
    table = fit.top("X", 100, known=known)
    found = [tuple(sorted(pair)) for pair in zip(table["user"], table["friend"])]
    assert sorted(found) == sorted(pairs)
    np.testing.assert_allclose(table["mean"], np.sort([scores[pair] for pair in pairs])[::-1], rtol=1e-9)
    for user in range(len(scores)):
        others = fit.top("X", 100, given={"user": user}, known=known)["friend"].to_list()
        assert sorted(others) == sorted({*sum((pair for pair in pairs if user in pair), ())} - {user})


def test_a_sum_of_products_of_single_rows_stays_one_inner_product():
    for name in ("pairwise", "broadcast", "background", "tucker", "coupled"):
        fit = one_fit(name)
        equation = fit.model.equation("X")
        axes = [form.Axis((n,), np.arange(len(fit.labels[i]))[:, None], True) for n, i in enumerate(equation.indices)]
        whole = boxed._form(fit, equation, next(boxed.regions([None] * len(equation.terms), axes, 1)))
        rows = form.as_rows(whole)
        letters = "abc"[: len(rows)]
        rates = np.einsum(",".join(f"{n}s" for n in letters) + f"->{letters}", *rows)
        np.testing.assert_allclose(rates, all_rates(fit, "X"), rtol=1e-12)
