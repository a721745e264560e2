"""Fits that store their factors as floats: the same answers to float accuracy, in half the memory."""

import numpy as np
import pytest

import plait
from plait.errors import ParameterError
from tests.support.infer_laws import METHODS, finite, own_bounds_rise
from tests.support.models import MODELS
from tests.support.problems import Start, bits, make, starts
from tests.support.resuming import same_bits

CP3, MATRIX = MODELS["cp3"], MODELS["matrix"]
SINGLE = {"dtype": "float32"}


def blocks(seed=0, sizes=(40, 30, 20), rank=4):
    rng = np.random.default_rng(seed)
    factors = [rng.gamma(0.3, 1.0, (size, rank)) for size in sizes]
    return rng.poisson(np.einsum("ir,jr,kr->ijk", *factors)).astype(float)


def stored(fit):
    """All arrays of a fit's factors, as the loop has them."""
    words = ("mean", "concentration", "scale", "log_geomean")
    kept = [getattr(factor, word) for factor in fit.state.factors.values() for word in words]
    return [array for array in kept if array is not None]


def close(single, double, rtol=2e-4):
    assert single.objective == pytest.approx(double.objective, rel=1e-5)
    for name, factor in double.factors.items():
        mine = single.factors[name]
        for word in ("mean", "sd"):
            scale = np.abs(getattr(factor, word)).max()
            np.testing.assert_allclose(getattr(mine, word), getattr(factor, word), rtol=rtol, atol=1e-5 * scale)


@pytest.mark.quick(name=["cp3", "tucker"], method=["vb"])
@pytest.mark.parametrize("method", ["vb", "map"])
@pytest.mark.parametrize("name", [*MODELS, "tucker_cp", "given_in_terms", "rescal_bias"])
def test_every_model_gives_the_answers_of_doubles(name, method):
    case = make(name)
    settings = {
        "max_iter": 4,
        "init": starts(case.start(3, method)),
        "adapt_prior": "factor" if method == "vb" else None,
    }
    close(case.fit(method, **settings, **SINGLE), case.fit(method, **settings))


@pytest.mark.quick(way=["listed"])
@pytest.mark.parametrize("exposed", [False, True])
@pytest.mark.parametrize("way", ["listed", "missing_cells", "pairs", "slices", "weighted_cells"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_every_way_of_observing_gives_the_answers_of_doubles(way, likelihood, exposed):
    case = make("cp3", way, likelihood, exposed=exposed)
    settings = {"max_iter": 14, "init": starts(case.start(5)), "adapt_prior": "component"}
    close(case.fit(**settings, **SINGLE), case.fit(**settings))


def test_factors_take_half_the_memory_and_are_handed_out_as_doubles():
    words = (np.float32, float)
    single, double = (plait.fit(CP3, {"X": blocks()}, rank=9, seed=0, max_iter=12, dtype=word) for word in words)
    assert {array.dtype for array in stored(single)} == {np.dtype(np.float32)}
    assert 2 * sum(a.nbytes for a in stored(single)) == sum(a.nbytes for a in stored(double))
    assert all(a.dtype == np.float64 for f in single.factors.values() for a in (f.mean, f.sd, f.exp_mean_log, f.scale))
    assert (single.settings["dtype"], double.settings["dtype"]) == ("float32", "float64")


@pytest.mark.parametrize("method", ["vb", "map"])
def test_the_bound_rises_and_the_fit_converges_as_in_doubles(method):
    settings = {"rank": 5, "seed": 2, "method": method, "max_iter": 300, "tol": 1e-6, **METHODS[method]}
    single, double = (plait.fit(CP3, {"X": blocks()}, **settings, **more) for more in (SINGLE, {}))
    own_bounds_rise(single, 1e-7)
    assert single.stop.reason == double.stop.reason
    assert single.objective == pytest.approx(double.objective, rel=1e-4)


@pytest.mark.quick(name=["cp3"], method=["vb"])
@pytest.mark.parametrize("method", ["vb", "map"])
@pytest.mark.parametrize("name", ["cp3", "tucker", "coupled_paper"])
def test_a_fit_of_floats_cut_between_sweeps_ends_bit_equal(name, method, tmp_path):
    case = make(name, "missing_cells")
    whole = case.fit(max_iter=26, method=method, **SINGLE)
    for cut in (0, 1, 12, 23):
        run = tmp_path / str(cut)
        case.fit(max_iter=cut, checkpoint=run, method=method, **SINGLE)
        same_bits(case.fit(max_iter=26, init=run, method=method, **SINGLE), whole)


def test_a_saved_fit_of_floats_loads_as_it_was(tmp_path):
    fit = plait.fit(CP3, {"X": blocks()}, rank=3, seed=0, max_iter=12, **SINGLE)
    fit.save(tmp_path)
    loaded = plait.load(tmp_path)
    assert bits(loaded) == bits(fit)
    assert {array.dtype for array in stored(loaded)} == {np.dtype(np.float32)}


def test_a_run_goes_on_in_its_own_numbers_only(tmp_path):
    plait.fit(CP3, {"X": blocks()}, rank=3, seed=0, max_iter=3, checkpoint=tmp_path, **SINGLE)
    with pytest.raises(ParameterError, match=r"its dtype differs \(float32 then, float64 now\)"):
        plait.fit(CP3, {"X": blocks()}, rank=3, init=tmp_path)


def test_pruning_keeps_the_numbers():
    rng = np.random.default_rng(4)
    X = rng.poisson(np.outer(rng.gamma(0.5, 1.0, 30), rng.gamma(0.5, 1.0, 20))).astype(float)
    fit = plait.fit(MATRIX, {"X": X}, rank=6, seed=4, max_iter=80, prune=True, adapt_prior="component", **SINGLE)
    assert fit.rank["r"] < 6
    assert {array.dtype for array in stored(fit)} == {np.dtype(np.float32)}


@pytest.mark.parametrize("method", ["vb", "map"])
def test_starts_beyond_floats_stay_finite(method):
    rng = np.random.default_rng(1)
    X = blocks()
    start = {name: rng.gamma(1.0, 1.0, (size, 3)) for name, size in zip("ABC", X.shape)}
    start["A"][::2] *= 1e-60
    start["B"][:, 1] *= 1e-44
    fit = plait.fit(CP3, {"X": X}, rank=3, init=start, max_iter=30, method=method, **SINGLE, **METHODS[method])
    finite(fit)


def test_links_that_underflow_in_floats_are_counted_as_in_doubles(underflow):
    """Two groups, and a link between them whose rows begin as if it could not be: scaled, Xhat is 8e-23."""
    X = np.zeros((12, 12))
    X[:6, :6], X[6:, 6:], X[0, 11] = 50.0, 50.0, 1.0
    start = np.where(np.arange(12)[:, None] // 6 == np.arange(2), 5.0, 2e-22)
    start = {name: Start(np.full((12, 2), 0.5), start) for name in "AB"}
    settings = {
        "rank": 2,
        "init": start,
        "max_iter": 3,
        "adapt_prior": None,
        "prior": plait.Gamma(0.1, 1.0),
        "tol": 0.0,
    }
    double = finite(plait.fit(MATRIX, {"X": X}, **settings))
    assert not underflow
    single = finite(plait.fit(MATRIX, {"X": X}, **settings, **SINGLE))
    assert underflow[0] == 1
    assert single.history[0].objective == pytest.approx(double.history[0].objective, rel=1e-6)
    close(single, double)
