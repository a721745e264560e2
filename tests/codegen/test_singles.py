"""Kernels over operands and entries stored as 32-bit floats."""

from dataclasses import replace

import numpy as np
import pytest

from plait.executors import Reference, Threads
from plait.jit import TINY_SINGLE
from tests.support.steps import Case, Equation, assert_equal_stats, equations, seeded

EQUATIONS = equations()
CP3 = Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r]")
RTOL = 3e-5
SUMS = ["tucker_cp", "given_in_terms", "rescal_bias"]
SINGLE = [name for name, equation in EQUATIONS.items() if equation.single]
CHOSEN = ["cp3", "tucker", "bias", "two_visible", "train", "scalar", "two_cores"]


def singles(case, arrays=True, entries=True):
    """The case with its numbers rounded to floats; arrays, entries: whether these are stored as floats."""
    rounded = [array.astype(np.float32) for array in case.arrays]
    values = case.entries.astype(np.float32)
    kept = rounded if arrays else [array.astype(np.float64) for array in rounded]
    return replace(case, arrays=kept, entries=values if entries else values.astype(np.float64))


@pytest.fixture(autouse=True)
def always_cut(tuning):
    tuning(min_parallel_entries=1)


def kernels():
    """Steps by name: an equation, a step, the relative error that is allowed."""
    found = {}
    for name in [*SINGLE, *SUMS]:
        equation, all_factors = EQUATIONS[name], tuple(range(len(EQUATIONS[name].factors)))
        found[f"{name} poisson"] = equation, equation.step("poisson", equation.order, all_factors, bound=True), RTOL
        if name in CHOSEN:
            step = equation.step("bernoulli", equation.order, all_factors, bound=True, exposed=(0,))
            found[f"{name} bernoulli"] = equation, step, RTOL
            found[f"{name} linear"] = equation, equation.step("linear", equation.order, all_factors), 1e-12
    for rank in (8, 64, 65, 200):
        equation = replace(CP3, ranks={"r": rank})
        found[f"rank {rank}"] = equation, equation.step("poisson", "ijk", (0, 1, 2), bound=True), RTOL
    return found


KERNELS = kernels()
FIRST = ["cp3 poisson", "tucker poisson", "cp3 bernoulli", "tucker linear", "rank 8", "rank 64", "rank 65", "rank 200"]


@pytest.mark.quick(case=FIRST)
@pytest.mark.parametrize("case", KERNELS)
def test_kernels_in_floats_equal_the_reference(case):
    equation, step, rtol = KERNELS[case]
    drawn = singles(Case.draw(equation, step, seeded(equation, step, "singles")))
    stats = drawn.sum(Threads(2))
    assert_equal_stats(drawn, stats, drawn.sum(Reference()), rtol=rtol)
    if case.endswith("poisson"):
        assert {gradient.dtype for gradient in stats.gradients} == {np.dtype(np.float32)}


def test_entries_stored_as_floats_change_no_bit():
    step = CP3.step("poisson", "ijk", (0, 1, 2), bound=True)
    drawn = Case.draw(CP3, step, seeded("bits"))
    floats, doubles = (singles(drawn, arrays=False, entries=e).sum(Threads(1)) for e in (True, False))
    assert floats.value == doubles.value
    for a, b in zip(floats.gradients, doubles.gradients):
        np.testing.assert_array_equal(a, b)


def test_long_sums_continue_in_doubles(tuning):
    equation = Equation.read("X[i,j] = A[i,r] B[j,r]", sizes={"i": 50_000, "j": 3})
    step = equation.step("poisson", "ij", (0, 1), bound=True)
    case = singles(Case.draw(equation, step, seeded("long"), count=150_000))
    error = []
    tuning(float_sum_rows=0)
    for flush in (1 << 30, 1000):
        tuning(float_sum_entries=flush)
        actual, expected = case.sum(Threads(2)).gradients[1], case.sum(Reference()).gradients[1]
        error.append(np.abs(equation.layouts[1].unpack(actual / np.where(expected > 0, expected, 1.0)) - 1.0).max())
    assert actual.dtype == np.float64
    assert error[1] < 5e-7
    assert error[0] > 2 * error[1]


def test_floats_and_doubles_may_be_mixed():
    step = CP3.step("poisson", "ijk", (0, 1, 2), bound=True)
    case = singles(Case.draw(CP3, step, seeded("mixed")))
    case = replace(case, arrays=[case.arrays[0], case.arrays[1].astype(np.float64), case.arrays[2]])
    assert_equal_stats(case, case.sum(Threads(2)), case.sum(Reference()))


@pytest.mark.parametrize("executor", [Threads(2), Reference()])
def test_entries_below_the_range_of_floats_are_listed(executor):
    step = CP3.step("poisson", "ijk", (0, 1, 2), bound=True)
    case = singles(Case.draw(CP3, step, seeded("rare")))
    row = int(case.cells[0, 0])
    case.arrays[0][row] *= np.float32(0.1 * TINY_SINGLE)
    stats = case.sum(executor)
    assert sorted(set(stats.underflow_cells[:, 0].tolist())) == [row]
    assert len(stats.underflow_entries) == (case.cells[:, 0] == row).sum()
    assert all(np.isfinite(gradient).all() for gradient in stats.gradients)
    doubles = replace(case, arrays=[array.astype(np.float64) for array in case.arrays])
    assert len(doubles.sum(executor).underflow_entries) == 0
