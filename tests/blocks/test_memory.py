"""What packing takes: within memory=, or refused before anything is written; and the pieces that make that possible."""

import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plait
from plait.data.blocks.records import Columns, Words
from plait.data.blocks.spill import Spill
from plait.data.blocks.writing import LeafBuilder
from plait.data.cells.fibres import Fibres

MODEL = "v[i, j, k] = A[i, r] B[j, r] C[k, r]"


def write_table(rows=400_000, sizes=(20_000, 50, 3000)):
    rng = np.random.default_rng(3)
    cells = {name: rng.integers(0, size, rows) for name, size in zip("ijk", sizes)}
    once = pl.DataFrame({**cells, "value": rng.integers(1, 6, rows)}).unique(list("ijk"), maintain_order=True)
    once.write_parquet("t.parquet", row_group_size=20_000)


@pytest.mark.parametrize("memory", [8_000_000, 12_000_000])
def test_arrays_never_take_more_than_memory_says(tmp_path, monkeypatch, memory):
    monkeypatch.chdir(tmp_path)
    write_table()
    plait.pack(MODEL, {"v": plait.scan("t.parquet")}, "x.blocks", memory=memory)  # compiles
    tracemalloc.start()
    try:
        packed = plait.pack(MODEL, {"v": plait.scan("t.parquet")}, "y.blocks", memory=memory)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < memory
    assert packed.fingerprint == plait.pack(MODEL, {"v": plait.scan("t.parquet")}, "x.blocks").fingerprint


def test_too_little_memory_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(60_000)
    with pytest.raises(
        plait.SettingError, match=r"takes \d+KB: \d+KB for the names of entities, \d+KB for one block"
    ) as error:
        plait.pack(MODEL, {"v": plait.scan("t.parquet")}, "x.blocks", memory="300KB")
    assert not Path("x.blocks").exists()
    least = int(error.value.expected.split()[2].replace(",", ""))
    plait.pack(MODEL, {"v": plait.scan("t.parquet")}, "x.blocks", memory=least)
    with pytest.raises(plait.SettingError, match="packing these tables takes"):
        plait.pack(MODEL, {"v": plait.scan("t.parquet")}, "y.blocks", memory=least - 1)


@pytest.mark.parametrize("memory", ["1KB", 99_999])
def test_next_to_no_memory_is_refused_at_once(tmp_path, memory):
    with pytest.raises(plait.SettingError, match="nothing can be packed in so little"):
        plait.pack(MODEL, {"v": plait.scan(__file__, kind="csv")}, tmp_path / "x", memory=memory)
    assert not (tmp_path / "x").exists()


# --- a leaf from pieces


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_leaf_grown_from_any_pieces_is_the_tree_of_all(data):
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    cells = sorted(data.draw(st.sets(st.tuples(*(st.integers(0, size - 1) for size in sizes)), min_size=1)))
    coords, values = np.array(cells, np.uint32), np.arange(1, len(cells) + 1, dtype=np.uint8)
    words = Words(range(len(sizes)), sizes, len(cells))
    packed = (
        sum(coords[:, k].astype(np.uint64) << np.uint64(words.format.shifts[k]) for k in range(len(sizes))) + values
    )
    cuts = sorted(data.draw(st.sets(st.integers(0, len(cells)), max_size=5)) | {0, len(cells)})
    tree = Fibres.of(tuple("abcd"[: len(sizes)]), sizes, coords)
    for whole in (
        Columns(range(len(sizes)), sizes).read({"coords": coords, "values": values}),
        words.read({"words": packed}),
    ):
        leaf = LeafBuilder(sizes, np.dtype(np.uint8))
        for lo, hi in pairwise(cuts):
            leaf.add(whole.part(lo, hi), whole.part(lo, hi).values)
        found = {name: np.concatenate(some) for name, some in leaf.arrays().items()}
        for level, rows in enumerate(tree.rows):
            np.testing.assert_array_equal(found[f"rows{level}"], rows)
        for level, starts in enumerate(tree.starts):
            np.testing.assert_array_equal(found[f"starts{level}"], starts)
        np.testing.assert_array_equal(found["entries"], values)
        assert (len(leaf), leaf.ends) == (len(cells), (cells[0][0], cells[-1][0]))


# --- the spill


@pytest.mark.parametrize("budget", [0, 5000, 10**9])
def test_parts_come_back_as_they_were_put(tmp_path, budget):
    rng = np.random.default_rng(1)
    table = np.array([2, 0, 1, 1, 2], np.uint16)
    spill, rows, words = Spill(tmp_path / "spill", "x", 3, budget), [], []
    for count in (300, 0, 1, 700):
        rows.append(rng.integers(0, 5, count))
        words.append(rng.integers(0, 2**60, count).astype(np.uint64))
        spill.add({"words": words[-1]}, table[rows[-1]])
    parts, everything = table[np.concatenate(rows)], np.concatenate(words)
    assert spill.folder.exists() == (budget < 8000)
    assert spill.counts.tolist() == np.bincount(parts).tolist()
    for part in range(3):
        pieces = [piece["words"] for piece in spill.pieces(part, 100)]
        np.testing.assert_array_equal(np.concatenate(pieces), everything[parts == part])
        np.testing.assert_array_equal(spill.take(part)["words"], everything[parts == part])
    assert not list(spill.folder.glob("*") if spill.folder.exists() else ())
