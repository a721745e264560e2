"""Even a handful of entries cut into leaves, and shared by threads."""

from plait.data.cells import leaves
from plait.execute import threads


def cut_finely(monkeypatch, size=None):
    """Let tables be cut into many leaves; size: of about so many entries each."""
    monkeypatch.setattr(threads, "SMALL", 2)
    monkeypatch.setattr(leaves, "FEW", 2)
    monkeypatch.setattr(leaves, "PAYS", 1)
    if size is not None:
        monkeypatch.setattr(leaves, "MOST", size)
