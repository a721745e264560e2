"""Options of all tests. Property tests draw the same examples in every run: a failure is one that anyone can repeat."""

import os
from contextlib import ExitStack

import pytest

# Tests run on all cores already: threads of BLAS would wait for each other. Before numpy is imported, which reads it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

pytest_plugins = ["tests.support.tiers"]


def pytest_addoption(parser):
    parser.addoption("--fuzz", type=int, help="damaged inputs of each kind (tests/fuzz)")
    parser.addoption("--audit", type=int, help="random cases to audit (tests/audit)")
    parser.addoption("--audit-seed", type=int, default=0, help="the first of them, 0 by default")


def pytest_configure(config):
    if config.getoption("--tier") != "quick":
        from tests.support import problems  # which imports Plait

        problems.ALL = True


@pytest.fixture
def tuning():
    """Set sizes of `plait.tuning` until the test ends: `tuning(block_cells=1)`."""
    from tests.support.tuning import tuned

    with ExitStack() as stack:
        yield lambda **sizes: stack.enter_context(tuned(**sizes))


@pytest.fixture
def sparse(tuning):
    """Factors over pairs are stored by pairs, even few of them."""
    tuning(max_dense_pairs=0)
