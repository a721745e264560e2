"""Which cases are audited, and how many of each kind were."""

from collections import Counter

import pytest

from tests.audit.drawn import KINDS

QUICK = 6  # cases of the first tier


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "audit_case" in metafunc.fixturenames:
        option = metafunc.config.getoption
        first, count = option("--audit-seed"), option("--audit")
        quick = QUICK if count is None else count
        cases = [
            pytest.param(n, id=f"{KINDS[n % len(KINDS)]}-{n}", marks=[] if n < first + quick else pytest.mark.thorough)
            for n in range(first, first + (200 if count is None else count))
        ]
        metafunc.parametrize("audit_case", cases)


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
