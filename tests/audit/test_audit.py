"""Random models × ways of observing × likelihood × method × order × dtype × threads, against dense mathematics.

6 cases in `make test`, 200 in `make test-all`; `pytest tests/audit --audit 5000 --audit-seed 1000`
runs as many as one likes, from case 1000 on. A failure says the number of its case and all that was decided in it.
"""

import faulthandler

import pytest

from tests.audit.claims import CLAIMS
from tests.audit.drawn import build, decide


@pytest.fixture(autouse=True)
def _small_pieces_and_no_hang(tuning):
    """Threads share even the smallest sums; and what hangs ends the process with the place where it did."""
    tuning(min_parallel_entries=2)
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.filterwarnings("ignore::plait.PlaitWarning")  # random models walk into every trap that is warned of
def test_case_holds(audit_case):
    decided = decide(audit_case)
    try:
        CLAIMS[decided.kind](build(decided))
    except Exception as error:
        error.add_note(str(decided))
        raise
