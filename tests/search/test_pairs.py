"""`fit.top` of factors that remember pairs: the best of all cells, those of pairs without a row included."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.answer.search import boxed, branch, by_entity, form, tree
from tests.pairs import PAIRS, draw, fit_of, sparse  # noqa: F401
from tests.search.every_cell import all_rates, allowed, check, subsets

pytestmark = pytest.mark.usefixtures("sparse")


@pytest.fixture(params=["arrays", "regions", "general"])
def way(request, monkeypatch):
    """Factors over pairs as arrays over all pairs; as regions of listed pairs, a few at a time; by contractions."""
    monkeypatch.setattr(branch, "LEAF", 1)
    monkeypatch.setattr(branch, "BATCH", 8)
    monkeypatch.setattr(branch, "FIRST", 1)
    monkeypatch.setattr(tree, "FAN", 2)
    monkeypatch.setattr(boxed, "GATHERED", 40)
    if request.param != "arrays":
        monkeypatch.setattr(form, "PAIRS", 0)
    if request.param == "general":
        monkeypatch.setattr(form, "ROOM", 0)
        monkeypatch.setattr(boxed, "as_rows", lambda form: None)
    return request.param


def fitted(name, method="vb", **settings):
    model, data, *_ = draw(name)
    return fit_of(model, data, method, sweeps=6, **settings)


def closed_cells(fit, relation):
    closed, shape = fit.known[relation].closed, fit.known[relation].shape
    return closed.contain(np.argwhere(np.ones(shape))).reshape(shape) if closed else None


@pytest.mark.sampled(13)
@pytest.mark.parametrize("name", PAIRS)
def test_the_best_cells_are_those_of_all_cells_whatever_is_given(name, way):
    fit = fitted(name)
    for relation in fit.model.relations:
        scores, closed = all_rates(fit, relation), closed_cells(fit, relation)
        for n, fixed in enumerate(subsets(fit.model.equation(relation).indices)):
            check(fit, relation, 4, fixed, known=n % 2 == 0, scores=scores, closed=closed)


@pytest.mark.parametrize("name", ["alone", "memory", "two"])
def test_the_best_cells_of_an_ensemble(name, way):
    fit = fitted(name, restarts=2, keep="average")
    assert len(fit.members) == 2
    check(fit, "X", 6, {})
    check(fit, "X", 6, {"i": 1}, known=True)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("each", ["i", "j"])
@pytest.mark.parametrize("name", ["lone", "alone", "memory", "two", "woven"])
def test_the_best_cells_of_each_entity_but_some(name, each, way, monkeypatch):
    monkeypatch.setattr(by_entity, "FEW", 0)
    fit = fitted(name)
    indices = fit.model.equation("X").indices
    hidden = pl.DataFrame({"i": [0, 1, 2], "j": [0, 1, 2]})
    scores, mask = all_rates(fit, "X"), allowed(fit, "X", False)
    mask[[0, 1, 2], [0, 1, 2]] = False
    table = fit.top("X", 3, each=each, exclude=hidden)
    for row in range(len(fit.labels[each])):
        here = table.filter(pl.col(each) == row)
        cells = tuple(here[index].to_numpy() for index in indices)
        place = tuple(row if index == each else slice(None) for index in indices)
        wanted = np.sort(scores[place][mask[place]].ravel())[::-1][:3]
        np.testing.assert_allclose(scores[cells], wanted, rtol=1e-9)
        assert mask[cells].all()


def test_the_best_cells_by_blocks_are_the_same(monkeypatch):
    fit = fitted("alone")
    wanted = fit.top("X", 3, each="i")
    monkeypatch.setattr(by_entity, "BLOCK", 7)
    assert fit.top("X", 3, each="i").equals(wanted)


def test_a_memory_under_an_exposure(way):
    model = plait.Model("X[i,j,k] = V[i,j] M[i,j,z] C[k,z] + M[i,j,z] w[z]")
    rng = np.random.default_rng(5)
    X = rng.poisson(0.3, (7, 6, 4))
    table = pl.DataFrame({"i": rng.integers(0, 7, 9), "j": rng.integers(0, 6, 9)}).unique(maintain_order=True)
    fixed = {"V": plait.Exposure(table.with_columns(value=pl.lit(3.0)), default=0.5)}
    fit = fit_of(model, {"X": X}, fixed=fixed)
    for fixed_rows in subsets(("i", "j", "k")):
        check(fit, "X", 5, fixed_rows)
