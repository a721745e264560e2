"""With `accelerate=True` nothing is waited for that has come to rest; what has not, has all its sweeps."""

import math

import numpy as np
import pytest

import plait
from plait.infer import patience
from plait.infer.loop import ADAPT_WARM, WARM_UP
from plait.infer.state import Record
from tests.cases import bits

CP3 = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
RISING = [math.inf, 0.3, 0.01, 1e-3, 1e-3, 2e-3, 0.03, 0.02]  # a start, and sweeps that sort components out
RESTING = [math.inf, 0.3, 1e-5, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6]


def history(*changes, first=-WARM_UP):
    return [Record(first + n, 0.0, change, 0.0, {}) for n, change in enumerate(changes)]


def own(*changes):
    return history(math.inf, *changes, first=0)


def test_em_is_warm_once_it_rose_and_rests():
    assert patience.warm(history(*RISING, 9e-5))
    assert not patience.warm(history(*RISING, 2e-4))
    assert not patience.warm(history(*RESTING))  # it may yet leave its start


def test_vb_has_settled_from_the_first_rest_on_but_not_in_its_first_sweeps():
    warm = history(*RISING, 5e-5)
    assert not patience.settled([*warm, *own(1e-5, 1e-5, 1e-5, 1e-5)])
    assert patience.settled([*warm, *own(1e-5, 1e-5, 1e-5, 1e-5, 1e-5)])
    assert patience.settled([*warm, *own(1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 0.2, 0.1)])  # priors have adapted
    assert not patience.settled([*warm, *own(*[2e-4] * 12)])


def test_without_a_warm_up_or_after_a_whole_one_nothing_is_hastened():
    assert not patience.settled(own(*RISING[1:], *[1e-6] * 20))
    whole = history(*RISING, *[2e-4] * (WARM_UP - len(RISING)))
    assert whole[-1].sweep == -1
    assert not patience.settled([*whole, *own(*[1e-6] * 20)])


def drawn(scale, seed=0, sizes=(30, 25, 20), rank=3):
    rng = np.random.default_rng(seed)
    A, B, C = (rng.gamma(0.3, 1.0, (n, rank)) for n in sizes)
    return rng.poisson(scale * np.einsum("ir,jr,kr->ijk", A, B, C)).astype(float)


def fitted(X, **options):
    common = {"rank": 3, "seed": 0, "sweeps": 60, "tol": 0.0, "threads": 1, "progress": False}
    return plait.fit(CP3, {"X": X}, **common | options)


@pytest.fixture(scope="module")
def much():
    return drawn(40.0)


def test_of_much_data_the_warm_up_is_short_and_priors_adapt_early(much):
    hasty, plain = fitted(much, accelerate=True), fitted(much)
    assert [record.sweep for record in plain.history] == list(range(-WARM_UP, 61))
    before = [record.sweep for record in hasty.history if record.warm_up]
    assert before == list(range(-WARM_UP, -WARM_UP + len(before)))
    assert len(before) < WARM_UP - 5
    assert [record.sweep for record in hasty.history if not record.warm_up] == list(range(61))
    early = fitted(much, accelerate=True, sweeps=ADAPT_WARM // 2)
    assert early.prior["A"].mean != 10.0
    bounds = [record.bound for record in hasty.history if not record.warm_up]
    assert np.diff(bounds).min() >= -1e-9 * abs(bounds[0])
    assert hasty.bound >= plain.bound - 1e-4 * abs(plain.bound)


def test_vb_that_has_not_settled_has_all_its_sweeps():
    """Of few links EM comes to rest soon, and VB does not."""
    few = drawn(0.3)
    hasty, later = (fitted(few, accelerate=True, sweeps=n) for n in (ADAPT_WARM, ADAPT_WARM + 1))
    assert hasty.prior["A"].mean == 10.0
    assert later.prior["A"].mean != 10.0


def test_em_that_does_not_come_to_rest_has_all_its_sweeps():
    noise = np.random.default_rng(0).poisson(1.2, (9, 8, 7)).astype(float)
    hasty, plain = (fitted(noise, accelerate=accelerate, sweeps=10) for accelerate in (True, False))
    assert bits(hasty) == bits(plain)


@pytest.mark.parametrize("place", [-WARM_UP + 4, 0, 3, 7, 20])
def test_an_interrupted_fit_goes_on_to_the_same_bits(much, tmp_path, place):
    whole = fitted(much, accelerate=True)
    cut = fitted(much, accelerate=True, checkpoint=tmp_path / "run", progress=lambda record: record.sweep < place)
    assert cut.history[-1].sweep == place
    assert bits(fitted(much, accelerate=True, init=tmp_path / "run")) == bits(whole)
