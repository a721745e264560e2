"""Small leaves: threads share even a few entries."""

from plait.tuning import TUNING


def cut_finely(monkeypatch, size=None):
    """Cut tables into many leaves; size: maximum number of entries of a leaf."""
    monkeypatch.setattr(TUNING, "min_parallel_entries", 2)
    monkeypatch.setattr(TUNING, "min_leaf_entries", 2)
    monkeypatch.setattr(TUNING, "leaf_entries_per_row", 1)
    if size is not None:
        monkeypatch.setattr(TUNING, "max_leaf_entries", size)
