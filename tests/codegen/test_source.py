"""Generated source against golden files, so that a change of the generator can be read as a diff.

After an intended change write the files again and look at `git diff`:

    PLAIT_UPDATE_GOLDEN=1 .venv/bin/pytest tests/codegen/test_source.py
"""

import difflib
import os
from pathlib import Path

import pytest

from plait.codegen.emit import kernel_source
from tests.support.steps import Equation

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


@pytest.mark.parametrize("name", STEPS)
def test_source_depends_on_the_shape_only(name):
    assert kernel_source(STEPS[name]) == kernel_source(STEPS[name].renamed())
