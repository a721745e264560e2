"""Pytest plugin: tiers of tests, and the processor time that a test of the first tier may take.

quick     `make test`: everything without a mark.
thorough  `make test-all`: `@pytest.mark.thorough`, the cases of a cross that `@pytest.mark.quick(name=["cp3"])` does
          not name; again, with more examples, property tests and `@pytest.mark.both`.
nightly   `make test-nightly`: `@pytest.mark.nightly`.

A test of the first tier takes under a second of processor time. One that takes longer runs a second time, without
compiling and importing. If it still does, the summary lists it, and at twice its budget it fails: processor time on a
busy machine varies by half. `@pytest.mark.budget(5)` allows it 5 seconds. Seconds are those of a quiet machine: the
budget grows with the time of a fixed loop, on a slower machine or one that shares its cores.
"""

import os
import time

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

TIERS = ("quick", "thorough", "nightly")
BUDGET_SECONDS = 1.0
LOOP_SECONDS = 0.006  # the fixed loop on the quiet two-core machine for which budgets are written
FAILING_EXCESS = 2.0  # times the budget: processor time of one test varies by half on a busy machine
OVER_BUDGET = "over budget"  # property of a report
SECONDS = pytest.StashKey[float]()


def pytest_addoption(parser):
    parser.addoption("--tier", choices=TIERS, default="quick", help="which tests run (tests/support/tiers.py)")


def pytest_configure(config):
    config.addinivalue_line("markers", "quick(**values): cases of a cross that `make test` runs; others are thorough")
    config.addinivalue_line("markers", "thorough: `make test-all` runs it")
    config.addinivalue_line("markers", "both: `make test` and `make test-all` run it, the latter with more examples")
    config.addinivalue_line("markers", "nightly: `make test-nightly` runs it")
    config.addinivalue_line("markers", "budget(seconds): processor time that the test may take in `make test`")
    tier = config.getoption("--tier")
    settings.register_profile("quick", derandomize=True, deadline=None, max_examples=30)
    settings.register_profile("thorough", derandomize=True, deadline=None, max_examples=300)
    settings.load_profile("quick" if tier == "quick" else "thorough")


def tier_of(item):
    """The tier of a test."""
    for tier in ("nightly", "thorough"):
        if item.get_closest_marker(tier):
            return tier
    mark = item.get_closest_marker("quick")
    named = mark is None or all(item.callspec.params[name] in values for name, values in mark.kwargs.items())
    return "quick" if named else "thorough"


def draws_more(item):
    """Whether a test of the first tier runs in the second one too, with more examples."""
    return bool(item.get_closest_marker("hypothesis") or item.get_closest_marker("both"))


def is_asked_for(config):
    """Whether the command line names single tests, which run whatever their tier is."""
    return any("::" in argument for argument in config.args)


def check_marks(items):
    """Refuse a mark that names a value which no case has."""
    values = {}
    for item in items:
        if mark := item.get_closest_marker("quick"):
            for name in mark.kwargs:
                test = item.nodeid.partition("[")[0]
                values.setdefault((test, name), (mark.kwargs[name], []))[1].append(item.callspec.params[name])
    for (test, name), (named, found) in values.items():
        if missing := [value for value in named if value not in found]:
            raise pytest.UsageError(f"{test}: quick names {name}={missing}, which no case has")


@pytest.hookimpl(trylast=True)  # of what `-k` left
def pytest_collection_modifyitems(config, items):
    if is_asked_for(config):
        return
    if not config.getoption("keyword"):
        check_marks(items)
    tier = config.getoption("--tier")
    kept = [item for item in items if tier_of(item) == tier or (tier == "thorough" and draws_more(item))]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def processor_seconds():
    """Processor time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def slowdown():
    """How much slower the machine is now than a quiet one, by the processor time of a fixed loop; at least 1."""
    start = time.process_time()
    for _ in range(5):
        sum(number * number for number in range(200_000))
    return max(1.0, (time.process_time() - start) / (5 * LOOP_SECONDS))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    start = processor_seconds()
    yield
    item.stash[SECONDS] = processor_seconds() - start


def pytest_runtest_protocol(item, nextitem):
    if item.config.getoption("--tier") != "quick" or tier_of(item) != "quick":
        return None
    mark = item.get_closest_marker("budget")
    budget = mark.args[0] if mark else BUDGET_SECONDS
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if item.stash.get(SECONDS, 0.0) > budget and all(report.passed for report in reports):
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        excess = item.stash[SECONDS] / (budget * slowdown())
        if excess > 1.0 and reports[1].passed:
            message = (
                f"{item.nodeid} took {item.stash[SECONDS]:.1f} s of processor time twice, over {budget:g} s: "
                "make it smaller, or mark it thorough (tests/support/tiers.py)"
            )
            reports[1].user_properties.append((OVER_BUDGET, message))
            if excess > FAILING_EXCESS:
                reports[1].outcome = "failed"
                reports[1].longrepr = message
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.getreports("passed")
    messages = [text for report in reports for name, text in report.user_properties if name == OVER_BUDGET]
    if messages:
        terminalreporter.section("over their budget")
        for message in messages:
            terminalreporter.line(message)
