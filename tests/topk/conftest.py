"""Ways of searching, forced on tiny problems."""

import pytest

from plait.analysis.topk import branch_and_bound
from plait.tuning import TUNING


@pytest.fixture
def tiny_boxes(monkeypatch):
    """Searches that split boxes down to single cells, a few table entries at a time."""
    sizes = {
        "contracted_cells": 0,
        "box_cells": 1,
        "boxes_batch": 8,
        "first_boxes": 1,
        "tree_fan_out": 2,
        "gathered_doubles": 40,
    }
    for field, value in sizes.items():
        monkeypatch.setattr(TUNING, field, value)


@pytest.fixture(params=["rows", "general"])
def boxes(request, tiny_boxes, monkeypatch):
    """Branch and bound by kernels over rows, or by contractions."""
    if request.param == "general":
        monkeypatch.setattr(TUNING, "tree_fan_out", 3)
        force_contractions(monkeypatch)
    return request.param


@pytest.fixture(params=["arrays", "regions", "general"])
def pair_boxes(request, tiny_boxes, monkeypatch):
    """Factors over pairs as arrays over all pairs; as regions of listed pairs; by contractions."""
    if request.param != "arrays":
        monkeypatch.setattr(TUNING, "max_pair_array", 0)
    if request.param == "general":
        force_contractions(monkeypatch)
    return request.param


@pytest.fixture(params=["blocks", "lines", "boxes"])
def way(request, monkeypatch):
    """`top(per=…)`: all queries at once, one at a time, or by branch and bound."""
    if request.param == "lines":
        monkeypatch.setattr(TUNING, "block_cells", 1)
    if request.param == "boxes":
        monkeypatch.setattr(TUNING, "all_cells", 0)
    return request.param


def force_contractions(monkeypatch):
    monkeypatch.setattr(TUNING, "contraction_doubles", 0)
    monkeypatch.setattr(branch_and_bound, "as_rows", lambda form: None)
