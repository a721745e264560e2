"""Runs with factors over pairs: saved, loaded and gone on with, to the same bits."""

import numpy as np
import pytest

import plait
from tests.support.pair_factors import draw, fit_of
from tests.support.problems import bits

pytestmark = pytest.mark.usefixtures("sparse")


@pytest.mark.parametrize("name", ["lone", "memory", "woven", "coupled"])
def test_a_loaded_run_answers_like_the_fit(name, tmp_path):
    model, data, *_ = draw(name)
    fit = fit_of(model, data, adapt_prior="component", max_iter=14)
    fit.save(tmp_path / "run")
    loaded = plait.load(tmp_path / "run")
    assert bits(loaded) == bits(fit)
    for factor, posterior in fit.factors.items():
        again = loaded.factors[factor].pairs
        assert (posterior.pairs is None) == (again is None)
        if again is not None:
            assert (again.indices, again.visible, again.sizes) == (
                posterior.pairs.indices, posterior.pairs.visible, posterior.pairs.sizes,
            )  # fmt: skip
            np.testing.assert_array_equal(again.coords, posterior.pairs.coords)
    assert loaded.top("X", 5).equals(fit.top("X", 5))


@pytest.mark.quick(name=["alone"])
@pytest.mark.parametrize(("method", "settings"), [
    ("vb", {"adapt_prior": "factor"}), ("vb", {"adapt_prior": "component"}), ("vb", {"accelerate": True}),
    ("em", {}), ("map", {}), ("vb", {"dtype": "float32"}), ("vb", {"restarts": 2}),
])  # fmt: skip
@pytest.mark.parametrize("name", ["alone", "memory"])
def test_a_fit_cut_between_sweeps_ends_bit_equal(name, method, settings, tmp_path):
    model, data, *_ = draw(name)
    whole = fit_of(model, data, method, max_iter=25, **settings)
    for cut in (1, 13):
        run = tmp_path / str(cut)
        fit_of(model, data, method, max_iter=cut, checkpoint=run, **settings)
        assert bits(fit_of(model, data, method, max_iter=25, init=run, **settings)) == bits(whole)


def test_a_run_of_other_links_cannot_go_on(tmp_path):
    model, data, *_ = draw("alone")
    other = draw("alone", "missing_cells")[1]
    fit_of(model, data, max_iter=2, checkpoint=tmp_path / "run")
    with pytest.raises(plait.errors.ParameterError, match="data differs"):
        fit_of(model, other, init=tmp_path / "run")
