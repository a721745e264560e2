"""`fit.top` of factors over pairs: the best of all cells, those of pairs without a row included."""

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.every_cell import all_rates, check, subsets
from tests.support.pair_factors import PAIRS, draw, fit_of
from tests.support.searching import check_per, structural_zeros_of

pytestmark = pytest.mark.usefixtures("sparse")


def fitted(name, **settings):
    model, data, *_ = draw(name)
    return fit_of(model, data, max_iter=6, **settings)


@pytest.mark.quick(name=["alone", "memory"])
@pytest.mark.parametrize("name", PAIRS)
def test_best_cells_for_any_given_indices(name, pair_boxes):
    fit = fitted(name)
    for relation in fit.model.relations:
        scores, zeros = all_rates(fit, relation), structural_zeros_of(fit, relation)
        for n, fixed in enumerate(subsets(fit.model.equation(relation).indices)):
            check(fit, relation, 4, fixed, known=n % 2 == 0, scores=scores, zeros=zeros)


@pytest.mark.parametrize("name", ["alone", "memory", "two"])
def test_best_cells_of_an_ensemble(name, pair_boxes):
    fit = fitted(name, restarts=2, combine="average")
    assert len(fit.members) == 2
    check(fit, "X", 6, {})
    check(fit, "X", 6, {"i": 1}, known=True)


@pytest.mark.quick(name=["alone", "memory"])
@pytest.mark.parametrize("each", ["i", "j"])
@pytest.mark.parametrize("name", ["lone", "alone", "memory", "two", "woven"])
def test_best_cells_of_each_entity_without_excluded_pairs(name, each, pair_boxes, tuning):
    tuning(all_cells=0)
    fit = fitted(name)
    zeros = np.zeros(fit.known["X"].shape, bool)
    zeros[[0, 1, 2], [0, 1, 2]] = True
    check_per(fit, "X", 3, (each,), zeros=zeros, exclude=pl.DataFrame({"i": [0, 1, 2], "j": [0, 1, 2]}))


def test_blocks_of_entities_change_no_answer(tuning):
    fit = fitted("alone")
    wanted = fit.top("X", 3, per="i")
    tuning(block_cells=7)
    assert fit.top("X", 3, per="i").equals(wanted)


def test_a_factor_over_pairs_under_an_exposure(pair_boxes):
    rng = np.random.default_rng(5)
    X = rng.poisson(0.3, (7, 6, 4))
    table = pl.DataFrame({"i": rng.integers(0, 7, 9), "j": rng.integers(0, 6, 9)}).unique(maintain_order=True)
    V = plait.Exposure(table.with_columns(value=pl.lit(3.0)), default=0.5)
    model = plait.Model("X[i,j,k] = V[i,j] M[i,j,z] C[k,z] + M[i,j,z] w[z]")
    fit = fit_of(model, {"X": X}, fixed={"V": V})
    for fixed in subsets(("i", "j", "k")):
        check(fit, "X", 5, fixed)
