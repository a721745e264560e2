"""Sizes of `plait.tuning` for one test, so that small data reach the code for large data."""

from contextlib import contextmanager

import pytest

from plait.tuning import TUNING

# Tables are cut into many leaves, which threads share.
SMALL_LEAVES = {"min_parallel_entries": 2, "min_leaf_entries": 2, "leaf_entries_per_row": 1}


@contextmanager
def tuned(**sizes):
    """Set sizes within a block; fixtures and tests that need them to their end use the fixture `tuning`."""
    with pytest.MonkeyPatch.context() as patch:
        for name, size in sizes.items():
            patch.setattr(TUNING, name, size)
        yield
