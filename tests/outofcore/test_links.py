"""Links in memory and on disk answer alike: both are compared with a dict of cells."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.data.observation.links import LinkArrays

MODEL = plait.Model("v[i, j] = A[i, r] B[j, r]")
SHAPE, MORE = (6, 5), {(0, 0): 2.0, (5, 4): 1.0}  # the first is a link already
KNOWN = {(0, 0): 1.0, (0, 3): 4.0, (1, 1): 1.5, (2, 4): 1.0, (4, 0): 7.0, (5, 2): 1.0}


def arrays(links, weight):
    return LinkArrays(np.array(list(links), np.uint32), np.array(list(links.values())), np.full(len(links), weight))


@pytest.fixture(params=["memory", "disk"])
def links(request, tmp_path):
    rows = [(i, j, KNOWN[i, j]) for i, j in KNOWN]
    relation = plait.Relation(pl.DataFrame(rows, ["i", "j", "value"], orient="row"), value="value", weight=0.5)
    labels = {"i": range(SHAPE[0]), "j": range(SHAPE[1])}
    if request.param == "memory":
        return MODEL.bind({"v": relation}, entities=labels).relations["v"].links
    plait.pack(MODEL, {"v": relation}, tmp_path / "v.blocks", entities=labels)
    return MODEL.bind(tmp_path / "v.blocks").relations["v"].links


def agree(links, wanted):
    found = links.read()
    assert dict(zip(map(tuple, found.cells.tolist()), found.values)) == wanted
    assert [tuple(cell) for cell in found.cells.tolist()] == sorted(wanted)
    assert found.weights.tolist() == links.weights.tolist() == [0.5] * len(wanted)
    assert len(links) == len(wanted)
    assert links.total() == sum(wanted.values())
    cells = np.stack(np.meshgrid(*map(range, SHAPE), indexing="ij"), axis=-1).reshape(-1, 2)
    assert links.find(cells).tolist() == [wanted.get(tuple(cell), 0.0) for cell in cells.tolist()]
    assert links.contain(cells).sum() == len(wanted)
    pieces = list(links.pieces(4))
    assert max(len(piece.values) for piece in pieces) <= 4
    both = [(tuple(cell), x) for piece in pieces for cell, x in zip(piece.cells.tolist(), piece.values)]
    assert len(both) == len(wanted)
    assert dict(both) == wanted


def test_links_are_those_of_the_table(links):
    agree(links, KNOWN)


def test_more_links_add_up_and_keep_the_weight(links):
    wanted = {**KNOWN, (0, 0): 3.0, (5, 4): 1.0}
    more = links.plus(arrays(MORE, 0.5))
    agree(more, wanted)
    agree(more.sized((9, 9)), wanted)
    assert sum(float(part.values.sum()) for part in more.parts) == sum(wanted.values())
    agree(links.plus(arrays({}, 0.5)._replace(cells=np.zeros((0, 2), np.uint32))), KNOWN)


def test_some_of_the_links(links):
    first = links.among(lambda cells: cells[:, 0] == 0)
    assert first.in_memory
    assert first.find(np.array([[0, 3], [0, 1]])).tolist() == [4.0, 0.0]
    sampled = links.plus(arrays(MORE, 0.5)).sample(3, lambda cells: np.ones(len(cells), bool))
    assert sum(len(some.values) * each for some, each in sampled) >= len(KNOWN)
    assert all(len(some.values) <= 3 for some, _ in sampled)
    assert links.times(4.0).read().weights.tolist() == [2.0] * len(KNOWN)


def test_only_links_on_disk_refuse_what_needs_memory(links):
    if links.in_memory:
        links.require_memory("v", "this", "Remove it.")
        return
    with pytest.raises(
        plait.errors.ParameterError,
        match=r"this requires all links in memory, but the links of v are on disk[^$]*Remove",
    ):
        links.require_memory("v", "this", "Remove it.")
