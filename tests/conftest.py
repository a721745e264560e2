"""Property tests draw the same examples in every run: a failure is one that anyone can repeat."""

import pytest
from hypothesis import settings

from tests.sampled import split

settings.register_profile("plait", derandomize=True, deadline=None)
settings.load_profile("plait")


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="every case of the tests that are sampled (tests/sampled.py)")
    parser.addoption("--fuzz", type=int, default=100, help="damaged inputs of each kind (tests/fuzz), 100 by default")
    parser.addoption("--audit", type=int, help="random cases to audit (tests/audit), 36 by default, 200 of --all")
    parser.addoption("--audit-seed", type=int, default=0, help="the first of them, 0 by default")


@pytest.hookimpl(trylast=True)  # of what `-k` left
def pytest_collection_modifyitems(config, items):
    if not config.getoption("--all"):
        items[:], left_out = split(items)
        config.hook.pytest_deselected(items=left_out)
