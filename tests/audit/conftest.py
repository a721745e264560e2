"""Which cases are audited, and how many of each kind were."""

from collections import Counter

import pytest

from tests.audit.drawn import KINDS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "audit_case" in metafunc.fixturenames:
        option = metafunc.config.getoption
        first, count = option("--audit-seed"), option("--audit")
        if count is None:
            count = 200 if option("--all") else len(KINDS)
        numbers = range(first, first + count)
        metafunc.parametrize("audit_case", numbers, ids=[f"{KINDS[n % len(KINDS)]}-{n}" for n in numbers])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line on the audit: cases held of each kind."""
    held, all_of = Counter[str](), Counter[str]()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            if report.when == "call" and "test_case_holds[" in report.nodeid:
                kind = report.nodeid.rpartition("[")[2].partition("-")[0]
                all_of[kind] += 1
                held[kind] += outcome == "passed"
    if all_of:
        kinds = ", ".join(f"{kind} {held[kind]:,} of {all_of[kind]:,}" for kind in dict.fromkeys(KINDS) if all_of[kind])
        terminalreporter.write_line(f"audit: {held.total():,} of {all_of.total():,} cases hold: {kinds}")
