"""How long a fit waits: for EM to sort components out before VB begins, and for VB to settle before priors adapt.

The sweeps that are allotted to both (`plait.infer.loop`) are what little data need. Of much data a dozen sweeps sort
components out, and the others change next to nothing; with `accelerate=True` these are not waited for. What decides is
the history alone, so that a fit which is taken up goes on as if it had not been left.
"""

from collections.abc import Sequence

from plait.infer.state import Record

FLAT = 1e-4  # of the bound that a sweep changes it by where there is nothing to wait for; little data never get there
ROSE = 1e-3  # and that an earlier one must have: a start that is still at rest is flat, too
ROUGH = 5  # sweeps of a random start that change much whatever comes of it
SETTLE = 5  # sweeps of VB before it can be told


def warm(history: Sequence[Record]) -> bool:
    """Whether EM has sorted components out: it rose, and does so no more."""
    return history[-1].change < FLAT and any(record.change > ROSE for record in history[ROUGH:])


def settled(history: Sequence[Record]) -> bool:
    """Whether VB has come to rest, at its last sweep or before, after a warm-up that ended early."""
    before = [record.sweep for record in history if record.warm_up]
    early = bool(before) and before[-1] < -1
    return early and any(record.change < FLAT for record in history[len(before) :] if record.sweep >= SETTLE)
