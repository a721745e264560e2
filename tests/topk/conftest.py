"""Ways of searching, forced on tiny problems."""

import pytest

from plait.analysis.topk import branch_and_bound


@pytest.fixture
def tiny_boxes(tuning):
    """Searches that split boxes down to single cells, a few table entries at a time."""
    tuning(contracted_cells=0, box_cells=1, boxes_batch=8, first_boxes=1, tree_fan_out=2, gathered_doubles=40)


@pytest.fixture(params=["rows", "general", "few"])
def boxes(request, tiny_boxes, monkeypatch, tuning):
    """Branch and bound by kernels over rows, by contractions, or with exposures as arrays over few cells."""
    if request.param != "rows":
        tuning(tree_fan_out=3)
    if request.param == "general":
        force_contractions(monkeypatch, tuning)
    if request.param == "few":
        tuning(contracted_cells=1 << 20)
    return request.param


@pytest.fixture(params=["arrays", "regions", "general"])
def pair_boxes(request, tiny_boxes, monkeypatch, tuning):
    """Factors over pairs as arrays over all pairs; as regions of listed pairs; by contractions."""
    if request.param != "arrays":
        tuning(max_pair_array=0)
    if request.param == "general":
        force_contractions(monkeypatch, tuning)
    return request.param


@pytest.fixture(params=["blocks", "lines", "boxes"])
def way(request, tuning):
    """`top(per=…)`: all queries at once, one at a time, or by branch and bound."""
    if request.param == "lines":
        tuning(block_cells=1)
    if request.param == "boxes":
        tuning(all_cells=0)
    return request.param


def force_contractions(monkeypatch, tuning):
    tuning(contraction_doubles=0)
    monkeypatch.setattr(branch_and_bound, "as_rows", lambda form: None)
