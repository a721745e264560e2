"""Property tests draw the same examples in every run: a failure is one that anyone can repeat."""

from hypothesis import settings

settings.register_profile("plait", derandomize=True, deadline=None)
settings.load_profile("plait")


def pytest_addoption(parser):
    parser.addoption("--fuzz", type=int, default=100, help="damaged inputs of each kind (tests/fuzz), 100 by default")
    parser.addoption("--audit", type=int, default=200, help="random cases to audit (tests/audit), 200 by default")
    parser.addoption("--audit-seed", type=int, default=0, help="the first of them, 0 by default")
