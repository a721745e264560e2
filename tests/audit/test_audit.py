"""Random models × ways of observing × likelihood × method × order × dtype × threads, against dense mathematics.

A sample of 200 cases by default; `pytest tests/audit --audit 5000 --audit-seed 1000` runs as many as one likes, from
case 1000 on. A failure says the number of its case and all that was decided in it.
"""

import pytest

import plait.execute.threads
from tests.audit import fits
from tests.audit.drawn import build, decide

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # traps that random models fall into
CLAIMS = {
    "sweeps": fits.sweeps, "long": fits.long, "em": fits.em, "adapted": fits.adapted, "declared": fits.declared,
    "permuted": fits.permuted,
}  # fmt: skip


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Threads share even the smallest sums."""
    monkeypatch.setattr(plait.execute.threads, "SMALL", 2)


def test_case_holds(audit_case):
    decided = decide(audit_case)
    if decided.kind not in CLAIMS:
        pytest.skip()
    try:
        CLAIMS[decided.kind](build(decided))
    except Exception as error:
        error.add_note(str(decided))
        raise
