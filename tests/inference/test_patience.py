"""With `accelerate=True` the warm-up and the wait before priors adapt end early where they have converged."""

import math

import numpy as np
import pytest

import plait
from plait.inference import acceleration
from plait.inference.state import Record
from tests.support.infer_laws import own_bounds_rise
from tests.support.problems import ADAPT_WARM, WARM_UP, bits

CP3 = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
RISING = [math.inf, 0.3, 0.01, 1e-3, 1e-3, 2e-3, 0.03, 0.02]  # a start, and sweeps that sort components out
RESTING = [math.inf, 0.3, 1e-5, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6]


def history(*changes, first=-WARM_UP):
    return [Record(first + n, 0.0, change, 0.0, {}) for n, change in enumerate(changes)]


def own(*changes):
    return history(math.inf, *changes, first=0)


def test_em_is_warm_once_it_rose_and_rests():
    assert acceleration.has_warmed_up(history(*RISING, 9e-5))
    assert not acceleration.has_warmed_up(history(*RISING, 2e-4))
    assert not acceleration.has_warmed_up(history(*RESTING))  # it may yet leave its start


def test_vb_has_settled_from_the_first_rest_on_but_not_in_its_first_sweeps():
    warm = history(*RISING, 5e-5)
    assert not acceleration.has_converged_early([*warm, *own(1e-5, 1e-5, 1e-5, 1e-5)])
    assert acceleration.has_converged_early([*warm, *own(1e-5, 1e-5, 1e-5, 1e-5, 1e-5)])
    assert acceleration.has_converged_early(
        [*warm, *own(1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 0.2, 0.1)]
    )  # priors have adapted
    assert not acceleration.has_converged_early([*warm, *own(*[2e-4] * 12)])


def test_without_a_short_warm_up_vb_does_not_settle_early():
    assert not acceleration.has_converged_early(own(*RISING[1:], *[1e-6] * 20))
    whole = history(*RISING, *[2e-4] * (WARM_UP - len(RISING)))
    assert whole[-1].sweep == -1
    assert not acceleration.has_converged_early([*whole, *own(*[1e-6] * 20)])


def drawn(scale, seed=0, sizes=(30, 25, 20), rank=3):
    rng = np.random.default_rng(seed)
    A, B, C = (rng.gamma(0.3, 1.0, (n, rank)) for n in sizes)
    return rng.poisson(scale * np.einsum("ir,jr,kr->ijk", A, B, C)).astype(float)


def fitted(X, **options):
    common = {"rank": 3, "seed": 0, "max_iter": 60, "tol": 0.0, "threads": 1, "progress": False}
    return plait.fit(CP3, {"X": X}, **common | options)


@pytest.fixture(scope="module")
def much():
    return drawn(40.0)


def test_of_much_data_the_warm_up_is_short_and_priors_adapt_early(much):
    early, plain = fitted(much, accelerate=True), fitted(much)
    assert [record.sweep for record in plain.history] == list(range(-WARM_UP, 61))
    before = [record.sweep for record in early.history if record.warm_up]
    assert before == list(range(-WARM_UP, -WARM_UP + len(before)))
    assert len(before) < WARM_UP - 5
    assert [record.sweep for record in early.history if not record.warm_up] == list(range(61))
    early = fitted(much, accelerate=True, max_iter=ADAPT_WARM // 2)
    assert early.prior["A"].mean != 10.0
    own_bounds_rise(early)
    assert early.objective >= plain.objective - 1e-4 * abs(plain.objective)


def test_vb_that_has_not_settled_adapts_late():
    """Of few links EM comes to rest soon, and VB does not."""
    few = drawn(0.3)
    early, later = (fitted(few, accelerate=True, max_iter=n) for n in (ADAPT_WARM, ADAPT_WARM + 1))
    assert early.prior["A"].mean == 10.0
    assert later.prior["A"].mean != 10.0


def test_em_that_has_not_converged_has_its_whole_warm_up():
    noise = np.random.default_rng(0).poisson(1.2, (9, 8, 7)).astype(float)
    early, plain = (fitted(noise, accelerate=accelerate, max_iter=10) for accelerate in (True, False))
    assert bits(early) == bits(plain)


@pytest.mark.parametrize("place", [-WARM_UP + 4, 0, 3, 7, 20])
def test_an_interrupted_fit_goes_on_to_the_same_bits(much, tmp_path, place):
    whole = fitted(much, accelerate=True)
    cut = fitted(much, accelerate=True, checkpoint=tmp_path / "run", progress=lambda record: record.sweep < place)
    assert cut.history[-1].sweep == place
    assert bits(fitted(much, accelerate=True, init=tmp_path / "run")) == bits(whole)
