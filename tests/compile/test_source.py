"""Generated source against golden files, so that a change of the generator can be read as a diff.

After a change that is meant, write the files anew and look at `git diff`:

    PLAIT_UPDATE_GOLDEN=1 .venv/bin/pytest tests/compile/test_source.py
"""

import ast
import difflib
import os
from pathlib import Path

import pytest

from plait.compile.source import arguments, kernel_source
from tests.compile.cases import Equation, equations

GOLDEN = Path(__file__).parent / "golden"
CP3 = Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r]", ranks={"r": 20})

STEPS = {
    "cp3_poisson_bound": CP3.step("poisson", "ijk", (0, 1, 2), bound=True),
    "cp3_linear_middle": CP3.step("linear", "ijk", (1,)),
    "cp3_poisson_long_rank": Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r]", ranks={"r": 200}).step(
        "poisson", "ijk", (0, 1, 2)
    ),
    "tucker_poisson": Equation.read("X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]", ranks={"p": 5, "q": 6, "r": 7}).step(
        "poisson", "ijk", (0, 1, 2, 3), bound=True
    ),
    "matrix_bernoulli_exposed": Equation.read("X[i,j] = A[i,r] B[j,r]").step(
        "bernoulli", "ij", (0, 1), bound=True, exposed=(0,)
    ),
    "two_cores_poisson": Equation.read("X[i,j] = A[i,q] P[q,r] G[r,q] B[j,r]").step("poisson", "ji", (0, 1, 2, 3)),
    "cp3_bias_poisson": Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r] + b[i]", ranks={"r": 20}).step(
        "poisson", "ijk", (0, 1, 2, 3), bound=True
    ),
    "given_bernoulli": Equation.read("X[i,j] = V[i,j] A[i,r] B[j,r] + c[] N[i,j] + N[i,j]").step(
        "bernoulli", "ij", (0, 1, 2), bound=True
    ),
    "two_visible_linear": Equation.read("X[i,j,k] = H[i,k,r] B[j,r]").step("linear", "kji", (0,)),
}


@pytest.mark.parametrize("name", STEPS)
def test_source_is_the_golden_file(name):
    path, text = GOLDEN / f"{name}.txt", kernel_source(STEPS[name])
    if os.environ.get("PLAIT_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    golden = path.read_text(encoding="utf-8").splitlines()
    diff = "\n".join(difflib.unified_diff(golden, text.splitlines(), str(path), "generated now", lineterm=""))
    if diff:
        pytest.fail(f"{diff}\n\nIf that is meant: PLAIT_UPDATE_GOLDEN=1 pytest {__file__}", pytrace=False)


def test_every_golden_file_belongs_to_a_step():
    assert {path.stem for path in GOLDEN.iterdir()} == set(STEPS)


@pytest.mark.parametrize("name", equations())
def test_source_is_python_whose_parameters_are_as_announced(name):
    equation = equations()[name]
    exposed = (0,) if equation.single else equation.given
    kinds = {"poisson": {"bound": True}, "bernoulli": {"bound": True, "exposed": exposed}}
    kinds |= {"linear": {}} if equation.single else {}
    for kind, more in kinds.items():
        step = equation.step(kind, equation.order, range(len(equation.factors)), **more)
        function = next(node for node in ast.parse(kernel_source(step)).body if isinstance(node, ast.FunctionDef))
        assert [argument.arg for argument in function.args.args] == arguments(step)
        stored = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and "Store" in str(node.ctx)}
        assert not stored & {argument for argument in arguments(step) if argument not in ("lo", "hi")}


@pytest.mark.parametrize("name", STEPS)
def test_source_depends_on_the_shape_only(name):
    assert kernel_source(STEPS[name]) == kernel_source(STEPS[name].renamed())


@pytest.mark.parametrize("position", range(3))
def test_a_kernel_reads_no_operand_that_a_linear_gradient_does_not_need(position):
    text = kernel_source(CP3.step("linear", "ijk", (position,)))
    body = text.split(":\n", 1)[1]
    assert f"z{position}" not in body
    assert f"grad{position}" in body


def test_a_kernel_without_the_bound_takes_no_logarithm():
    assert "log" not in kernel_source(CP3.step("poisson", "ijk", (0, 1, 2)))
    assert "log" in kernel_source(CP3.step("poisson", "ijk", (0, 1, 2), bound=True))


def test_long_ranks_are_loops_and_short_ones_are_names():
    short, long = kernel_source(STEPS["cp3_poisson_bound"]), kernel_source(STEPS["cp3_poisson_long_rank"])
    assert "for m in range(25):" in long
    assert "for m in range(25):" not in short
    assert "_2 = load_at(" in short
    assert len(long.splitlines()) < 60
