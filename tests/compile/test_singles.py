"""Kernels over operands and entries stored as floats: counts in vectors of floats, sums of weights in doubles."""

from dataclasses import replace

import numpy as np
import pytest

from plait.execute import Reference, Threads, calling, threads
from plait.jit import TINY_SINGLE
from tests.compile.cases import Case, Equation, assert_equal_stats, equations, seeded

EQUATIONS = equations()
CP3 = Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r]")
RTOL = 3e-5
SUMS = ["tucker_cp", "given_in_terms", "rescal_bias"]
SINGLE = [name for name, equation in EQUATIONS.items() if equation.single]
CHOSEN = ["cp3", "tucker", "bias", "two_visible", "train", "scalar", "two_cores"]


def singles(case, arrays=True, entries=True):
    """The same case with its numbers rounded to floats, and stored as such where asked for."""
    rounded = [array.astype(np.float32) for array in case.arrays]
    values = case.entries.astype(np.float32)
    kept = rounded if arrays else [array.astype(np.float64) for array in rounded]
    return replace(case, arrays=kept, entries=values if entries else values.astype(np.float64))


@pytest.fixture(autouse=True)
def always_cut(monkeypatch):
    monkeypatch.setattr(threads, "SMALL", 1)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [*SINGLE, *SUMS])
def test_poisson_counts_in_floats_equal_the_reference_to_their_rounding(name):
    equation = EQUATIONS[name]
    step = equation.step("poisson", equation.order, tuple(range(len(equation.factors))), bound=True)
    case = singles(Case.draw(equation, step, seeded(equation, step, "singles")))
    stats = case.sum(Threads(2))
    assert_equal_stats(case, stats, case.sum(Reference()), rtol=RTOL)
    assert {gradient.dtype for gradient in stats.gradients} == {np.dtype(np.float32)}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CHOSEN)
def test_bernoulli_counts_in_floats_equal_the_reference_to_their_rounding(name):
    equation = EQUATIONS[name]
    step = equation.step("bernoulli", equation.order, tuple(range(len(equation.factors))), bound=True, exposed=(0,))
    case = singles(Case.draw(equation, step, seeded(equation, step, "singles")))
    assert_equal_stats(case, case.sum(Threads(2)), case.sum(Reference()), rtol=RTOL)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CHOSEN)
def test_sums_of_weights_over_floats_are_exact_to_the_rounding_of_doubles(name):
    equation = EQUATIONS[name]
    step = equation.step("linear", equation.order, tuple(range(len(equation.factors))))
    case = singles(Case.draw(equation, step, seeded(equation, step, "singles")))
    assert_equal_stats(case, case.sum(Threads(2)), case.sum(Reference()))


@pytest.mark.parametrize("rank", [8, 64, 65, 200])
def test_any_rank_in_floats_equals_the_reference_to_their_rounding(rank):
    equation = Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r]", ranks={"r": rank})
    case = singles(Case.draw(equation, equation.step("poisson", "ijk", (0, 1, 2), bound=True), seeded(rank)))
    assert_equal_stats(case, case.sum(Threads(2)), case.sum(Reference()), rtol=RTOL)


def test_entries_stored_as_floats_change_no_bit():
    step = CP3.step("poisson", "ijk", (0, 1, 2), bound=True)
    drawn = Case.draw(CP3, step, seeded("bits"))
    floats, doubles = (singles(drawn, arrays=False, entries=e).sum(Threads(1)) for e in (True, False))
    assert floats.value == doubles.value
    for a, b in zip(floats.gradients, doubles.gradients):
        np.testing.assert_array_equal(a, b)


def test_long_sums_go_on_in_doubles(monkeypatch):
    """A hundred thousand entries in one row: floats alone would lose digits with every one of them."""
    equation = Equation.read("X[i,j] = A[i,r] B[j,r]", sizes={"i": 50_000, "j": 3})
    step = equation.step("poisson", "ij", (0, 1), bound=True)
    case = singles(Case.draw(equation, step, seeded("long"), count=150_000))
    error = []
    monkeypatch.setattr(calling, "ROWS", 0)
    for flush in (1 << 30, 1000):
        monkeypatch.setattr(calling, "FLUSH", flush)
        actual, expected = case.sum(Threads(2)).gradients[1], case.sum(Reference()).gradients[1]
        error.append(np.abs(equation.layouts[1].unpack(actual / np.where(expected > 0, expected, 1.0)) - 1.0).max())
    assert actual.dtype == np.float64
    assert error[1] < 5e-7
    assert error[0] > 2 * error[1]


def test_operands_of_both_kinds_may_meet():
    step = CP3.step("poisson", "ijk", (0, 1, 2), bound=True)
    case = singles(Case.draw(CP3, step, seeded("mixed")))
    case = replace(case, arrays=[case.arrays[0], case.arrays[1].astype(np.float64), case.arrays[2]])
    assert_equal_stats(case, case.sum(Threads(2)), case.sum(Reference()))


@pytest.mark.parametrize("executor", [Threads(2), Reference()])
def test_entries_below_what_floats_hold_well_are_rare(executor):
    step = CP3.step("poisson", "ijk", (0, 1, 2), bound=True)
    case = singles(Case.draw(CP3, step, seeded("rare")))
    row = int(case.cells[0, 0])
    case.arrays[0][row] *= np.float32(0.1 * TINY_SINGLE)
    stats = case.sum(executor)
    assert sorted(set(stats.rare_cells[:, 0].tolist())) == [row]
    assert len(stats.rare_entries) == (case.cells[:, 0] == row).sum()
    assert all(np.isfinite(gradient).all() for gradient in stats.gradients)
    doubles = replace(case, arrays=[array.astype(np.float64) for array in case.arrays])
    assert len(doubles.sum(executor).rare_entries) == 0
