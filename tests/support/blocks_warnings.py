"""Warnings of binding and of packing the same data."""

import plait
from tests.support.caught_warnings import bound_to, caught


def caught_both(folder, model, data):
    """Warnings of binding in memory, and of packing."""
    in_memory = caught(bound_to(model, **data))
    return in_memory, caught(lambda: plait.pack(model, data, folder / "x.blocks"))
