"""What a fit with factors over pairs answers is what the same fit with a row for every pair answers."""

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.every_cell import all_rates
from tests.support.pair_factors import PAIRS, draw, fit_of, spread_out

pytestmark = pytest.mark.usefixtures("sparse")


def fitted(name, method="vb", likelihood="poisson", **settings):
    model, data, *_ = draw(name, "all", likelihood)
    return fit_of(model, data, method, max_iter=6, **settings)


def every_cell(fit, relation):
    indices = fit.model.equation(relation).indices
    cells = np.argwhere(np.ones([len(fit.entities[index]) for index in indices]))
    closed = fit.known[relation].structural_zeros
    cells = cells[~closed.contain(cells)] if closed else cells
    return cells, pl.DataFrame({index: cells[:, n] for n, index in enumerate(indices)})


def assert_alike(table, wanted):
    assert table.columns == wanted.columns
    for column in table.columns:
        if table[column].dtype.is_numeric():
            np.testing.assert_allclose(table[column], wanted[column], rtol=1e-9, atol=1e-12, err_msg=column)
        else:
            assert table[column].to_list() == wanted[column].to_list()


@pytest.mark.quick(name=["alone", "memory", "both_terms", "coupled"])
@pytest.mark.parametrize("method", ["vb", "em", "map"])
@pytest.mark.parametrize("name", PAIRS)
def test_predictions_of_all_cells(name, method):
    likelihood = "bernoulli" if method == "map" else "poisson"
    fit = fitted(name, method, likelihood)
    for relation in fit.model.relations:
        cells, table = every_cell(fit, relation)
        found, wanted = fit.predict(relation, table), spread_out(fit).predict(relation, table)
        assert_alike(found, wanted)
        if likelihood == "poisson":
            np.testing.assert_allclose(found["mean"], all_rates(fit, relation)[tuple(cells.T)], rtol=1e-9)


def test_predictions_of_an_ensemble():
    fit = fitted("memory", restarts=2, combine="average")
    _, table = every_cell(fit, "X")
    assert_alike(fit.predict("X", table[5:7]), spread_out(fit).predict("X", table)[5:7])
    fit = fitted("alone", restarts=3, bootstrap=True)
    assert len(fit.members) == 3
    coords = [member.factors["M"].pairs.coords for member in fit.members]
    assert all(np.array_equal(coords[0], other) for other in coords)
    _, table = every_cell(fit, "X")
    assert_alike(fit.predict("X", table), spread_out(fit).predict("X", table))


def test_an_unknown_name_has_the_shared_row_of_its_partner_or_the_prior():
    fit = fitted("lone")
    shared = fit.factors["M"].mean[len(fit.factors["M"].pairs) :]
    cells = pl.DataFrame({"i": [3, 99, 99], "j": [99, 2, 99]})
    found = fit.predict("X", cells, handle_unknown="prior")
    np.testing.assert_allclose(found["mean"], [shared[3], 1.3, 1.3], rtol=1e-9)
    with pytest.raises(plait.errors.DataError, match="99"):
        fit.predict("X", cells)
    model, data, *_ = draw("woven")
    fit = fit_of(model, data, prior={"M": plait.Gamma(0.5, np.reshape([1.0, 2.0, 4.0], (3, 1)))})
    found = fit.predict("X", pl.DataFrame({"i": [2], "j": [99], "k": [1]}), handle_unknown="prior")
    np.testing.assert_allclose(found["mean"], fit.factors["C"].mean[1] @ [1.0, 2.0, 4.0], rtol=1e-9)


@pytest.mark.parametrize("name", ["lone", "alone", "memory", "two", "woven", "both_terms", "renamed"])
def test_explanations_and_shares(name):
    fit, dense = fitted(name), spread_out(fitted(name))
    _, table = every_cell(fit, "X")
    assert_alike(fit.responsibilities("X", table), dense.responsibilities("X", table))
    for n in (1, len(table) // 2):
        cell = table.row(n, named=True)
        one, other = fit.explain("X", cell), dense.explain("X", cell)
        for kind in ("components", "evidence", "links"):
            assert_alike(getattr(one, kind), getattr(other, kind))
        assert str(one)
    assert_alike(fit.coupling(), dense.coupling())


def test_datasets_and_draws_have_a_row_for_every_pair():
    fit = fitted("memory")
    dataset, posterior = fit.to_xarray(), fit.factors["M"]
    assert dataset["M"].dims == ("M_row", "z")
    np.testing.assert_array_equal(dataset["M"], posterior.mean)
    assert dataset["A"].sel(i=3).shape == (3,)
    draws = fit.sample(2000, seed=1)["M"]
    assert draws.shape == (2000, *posterior.mean.shape)
    assert (np.abs(draws.mean(axis=0) - posterior.mean) < 6.0 * posterior.sd / np.sqrt(2000)).all()
