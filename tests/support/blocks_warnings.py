"""Warnings of binding and of packing the same data."""

import plait
from plait.data.binding.bind import bind
from tests.support.caught_warnings import caught


def caught_both(folder, model, data):
    """Warnings of binding in memory, and of packing."""
    in_memory = caught(lambda: bind(plait.Model(model), data))
    return in_memory, caught(lambda: plait.pack(model, data, folder / "x.blocks"))
