"""Property tests draw the same examples in every run: a failure is one that anyone can repeat."""

import os

# Tests run on all cores already: threads of BLAS would wait for each other. Before numpy is imported, which reads it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from tests.sampled import split

# Of tests that do not say how many examples they need.
settings.register_profile("sample", derandomize=True, deadline=None, max_examples=30)
settings.register_profile("all", derandomize=True, deadline=None, max_examples=300)
settings.load_profile("sample")


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="every case of the tests that are sampled (tests/sampled.py)")
    parser.addoption("--fuzz", type=int, default=100, help="damaged inputs of each kind (tests/fuzz), 100 by default")
    parser.addoption("--audit", type=int, help="random cases to audit (tests/audit), 18 by default, 200 of --all")
    parser.addoption("--audit-seed", type=int, default=0, help="the first of them, 0 by default")


def pytest_configure(config):
    if config.getoption("--all"):
        from tests import cases  # which imports Plait

        settings.load_profile("all")
        cases.ALL = True


@pytest.hookimpl(trylast=True)  # of what `-k` left
def pytest_collection_modifyitems(config, items):
    if not config.getoption("--all"):
        items[:], left_out = split(items)
        config.hook.pytest_deselected(items=left_out)
