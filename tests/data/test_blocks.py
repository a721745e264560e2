"""Fibre trees hold exactly the cells and entries that they were grown from."""

import itertools
import math
import tracemalloc

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plait
from plait.data.cells import leaves, trees
from plait.data.cells.leaves import leaf_size
from plait.data.cells.sorting import is_uniform
from plait.data.cells.trees import Forest, grow, narrow
from plait.fitting.begin import prepare
from plait.fitting.options import Options
from tests.finely import cut_finely

INDICES = ("i", "j", "k")


@st.composite
def tables(draw, dtype=np.uint32):
    """Sizes, sorted distinct cells, entries that tell them apart, and an order."""
    depth = draw(st.integers(1, 3))
    indices = INDICES[:depth]
    sizes = {index: draw(st.integers(1, 5)) for index in indices}
    shape = list(sizes.values())
    chosen = draw(st.sets(st.integers(0, math.prod(shape) - 1), max_size=25))
    cells = np.stack(np.unravel_index(np.array(sorted(chosen), np.int64), shape), axis=1).astype(dtype)
    return indices, sizes, cells, 1.0 + np.arange(len(cells)), tuple(draw(st.permutations(indices)))


@given(tables())
def test_a_tree_gives_back_its_cells_and_entries(table):
    indices, _, cells, entries, order = table
    tree = grow(*table)
    back = tree.cells(np.arange(len(tree)))[:, [order.index(index) for index in indices]]
    found = {tuple(cell): entry for cell, entry in zip(back.tolist(), tree.entries)}
    assert found == {tuple(cell): entry for cell, entry in zip(cells.tolist(), entries)}
    assert len(tree) == len(entries)


@given(tables())
def test_cells_of_a_tree_are_sorted_in_its_order(table):
    tree = grow(*table)
    rows = list(map(tuple, tree.cells(np.arange(len(tree))).tolist()))
    assert rows == sorted(set(rows))


@given(tables())
def test_cells_of_chosen_positions_are_those_of_all_positions_chosen(table):
    tree = grow(*table)
    every = tree.cells(np.arange(len(tree)))
    chosen = np.arange(len(tree))[::-2]
    np.testing.assert_array_equal(tree.cells(chosen), every[chosen])


@given(tables())
def test_levels_are_compressed(table):
    """A level has one fibre for every distinct beginning of a cell, and its children follow one another."""
    tree = grow(*table)
    every = tree.cells(np.arange(len(tree)))
    for level, rows in enumerate(tree.rows):
        beginnings = {tuple(cell[: level + 1]) for cell in every.tolist()}
        assert len(rows) == len(beginnings)
    for level, starts in enumerate(tree.starts):
        assert starts[0] == 0
        assert starts[-1] == len(tree.rows[level + 1])
        assert len(starts) == len(tree.rows[level]) + 1
        assert (np.diff(starts) > 0).all()


def entries_of(tree):
    """The positions of the entries of every leaf."""
    firsts = [np.asarray(tree._firsts(level)) for level in range(min(2, len(tree.order)))]
    ranges = (firsts[1][list(leaf.inside)] if leaf.inside else firsts[0][[leaf.lo, leaf.hi]] for leaf in tree.leaves)
    return [list(range(int(lo), int(hi))) for lo, hi in ranges]


@given(tables(), st.integers(1, 9))
def test_leaves_have_every_entry_once_and_in_order(table, size):
    with pytest.MonkeyPatch.context() as patch:
        cut_finely(patch, size)
        tree = grow(*table)
        assert list(itertools.chain.from_iterable(entries_of(tree))) == list(range(len(tree)))
        assert all(tree.length(leaf) == len(found) > 0 for leaf, found in zip(tree.leaves, entries_of(tree)))
        assert [piece.leaf for piece in tree.walk()] == tree.leaves
        assert [piece.number for piece in tree.walk(1)] == list(range(tree.leaf_count))[1:]


def test_leaves_share_out_the_entries_evenly(monkeypatch):
    rng = np.random.default_rng(0)
    flat = np.sort(rng.choice(1000 * 50, 20_000, replace=False))
    cells = np.stack(np.unravel_index(flat, (1000, 50)), axis=1).astype(np.uint32)
    for count in (2, 3, 8):
        cut_finely(monkeypatch, -(-20_000 // count))
        monkeypatch.setattr(leaves, "PAYS", 20_000)
        tree = grow(("i", "j"), {"i": 1000, "j": 50}, cells, np.ones(len(cells)), ("i", "j"))
        lengths = [tree.length(leaf) for leaf in tree.leaves]
        assert len(lengths) == count
        assert sum(lengths) == 20_000
        assert np.abs(np.array(lengths) - 20_000 / count).max() <= 50


def test_one_heavy_root_is_cut_below_itself(monkeypatch):
    cells = np.array([[0, n] for n in range(1000)] + [[n, 0] for n in range(1, 5)], np.uint32)
    cut_finely(monkeypatch, 100)
    monkeypatch.setattr(leaves, "PAYS", 20_000)
    tree = grow(("i", "j"), {"i": 5, "j": 1000}, cells, np.ones(len(cells)), ("i", "j"))
    parts = [leaf for leaf in tree.leaves if leaf.inside]
    assert len(parts) == 11
    assert {(leaf.lo, leaf.hi) for leaf in parts} == {(0, 1)}
    assert max(map(tree.length, tree.leaves)) <= 101


def test_leaves_depend_on_the_entries_alone_and_pay():
    small = leaf_size(4000, (1000, 50))
    assert small == 4000
    assert leaf_size(5000, (1000, 50)) == 2500
    sizes = (10**6, 200, 20_000)
    for entries, count in ((10**6, 2), (10**7, 2), (10**8, 32), (5 * 10**8, 64), (10**9, 120), (10**10, 1193)):
        assert -(-entries // leaf_size(entries, sizes)) == count


def test_a_tree_of_nothing_is_empty():
    tree = grow(INDICES, {"i": 3, "j": 4, "k": 5}, np.zeros((0, 3), np.uint32), np.zeros(0), ("k", "i", "j"))
    assert len(tree) == 0
    assert tree.cells(np.arange(0)).shape == (0, 3)
    assert tree.leaves == []
    assert [len(rows) for rows in tree.rows] == [0, 0, 0]
    assert [starts.tolist() for starts in tree.starts] == [[0], [0]]


@given(tables())
def test_other_entries_go_to_the_same_cells(table):
    indices, sizes, cells, entries, order = table
    tree = grow(*table)
    other = tree.with_entries(entries**2, -entries)
    fresh = grow(indices, sizes, cells, entries**2, order)
    np.testing.assert_array_equal(other.entries, fresh.entries)
    np.testing.assert_array_equal(other.beside[0], -np.sqrt(fresh.entries))
    assert tree.beside == ()
    assert all(a is b for a, b in zip(other.rows, tree.rows))


@pytest.fixture
def narrowed(monkeypatch):
    """Small trees in as few bytes as large ones."""
    monkeypatch.setattr(trees, "FEW_ENTRIES", 0)


@pytest.mark.parametrize("value", [1.0, 300.0, 0.1])
def test_small_trees_have_the_same_types_and_share_kernels(value):
    for size in (3, 300, 70_000):
        for order in (("i", "j"), ("j", "i")):
            cells = np.array([[0, 1], [1, 0]], np.uint32)
            tree = grow(("i", "j"), {"i": 2, "j": size}, cells, narrow(np.full(2, value)), order)
            assert tree.types == tuple(map(np.dtype, (np.uint32, np.uint32, np.uint32, np.float64)))
            assert tree.with_entries(np.ones(2, np.uint8)).types == tree.types


def test_row_numbers_are_as_narrow_as_their_axis_allows(narrowed):
    widths = {
        256: np.uint8,
        257: np.uint16,
        65_536: np.uint16,
        65_537: np.uint32,
        2**32: np.uint32,
        2**32 + 1: np.uint64,
    }
    for size, kept in widths.items():
        for given_ in (np.uint32, np.int64, np.uint64):
            cells = np.array([[0, 1], [1, 0]], given_)
            tree = grow(("i", "j"), {"i": 2, "j": size}, cells, np.ones(2), ("j", "i"))
            assert [rows.dtype for rows in tree.rows] == [np.dtype(kept), np.dtype(np.uint8)]
            assert {starts.dtype for starts in tree.starts} == {np.dtype(np.uint32)}


@pytest.mark.parametrize(
    ("values", "kept"),
    [([0, 255], np.uint8), ([3, 256], np.uint16), ([65_535], np.uint16), ([65_536], np.float32), ([1, 0.5], np.float32),
     ([1, 2**24 + 1], np.float64), ([0.1], np.float64), ([-1.0], np.float32)],
)  # fmt: skip
def test_entries_take_as_few_bytes_as_hold_them_all(values, kept):
    for entries in (np.array(values, float), np.broadcast_to(float(values[-1]), 9), np.array(values * 200_000, float)):
        found = narrow(entries)
        assert found.dtype == kept or (entries.strides == (0,) and found.dtype.itemsize <= np.dtype(kept).itemsize)
        np.testing.assert_array_equal(found, entries)


def test_nbytes_are_those_of_all_arrays(narrowed):
    cells = np.array([[0, 0], [0, 1], [2, 0]], np.uint32)
    sizes = {"i": 3, "j": 2}
    plain = grow(("i", "j"), sizes, cells, np.ones(3), ("i", "j"))
    assert plain.nbytes == (2 + 3) + 4 * 3 + 8 * 3
    turned = grow(("i", "j"), sizes, cells, np.ones(3), ("j", "i"))
    assert turned.nbytes == plain.nbytes + 4 * 3
    assert turned.with_entries(np.ones(3), np.ones(3)).nbytes == turned.nbytes + 8 * 3


def test_one_value_seen_many_times_takes_as_few_bytes_a_link_as_hold_it(narrowed):
    cells = np.stack(np.divmod(np.arange(2000, dtype=np.uint32), 50), axis=1)
    for value, width in ((1.0, 1), (300.0, 2), (2.0**24, 4), (0.25, 4), (0.1, 8), (2.0**24 + 1, 8), (1e300, 8)):
        stored = narrow(np.broadcast_to(value, 2000))
        assert is_uniform(stored)
        for order in (("i", "j"), ("j", "i")):
            tree = grow(("i", "j"), {"i": 40, "j": 50}, cells, stored, order)
            assert tree.entries.flags.c_contiguous
            assert tree.entries.nbytes == width * 2000
            assert (tree.entries == value).all()


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_links_without_values_have_trees_of_one_byte_a_link(likelihood, narrowed):
    rng = np.random.default_rng(0)
    cells = rng.permutation(300 * 20)[:2000]
    links = plait.Relation(pl.DataFrame({"i": cells // 20, "j": cells % 20}), likelihood=likelihood)
    model = plait.Model("X[i, j] = A[i, r] B[j, r]")
    (relation,) = prepare(model, model.bind({"X": links}), Options(rank=2, seed=0)).problem.relations
    assert [tree.entries.nbytes for tree in relation.counts.trees] == [2000]


# forests --------------------------------------------------------------------------------------------------------------


def test_a_forest_grows_a_tree_of_the_same_cells_once():
    sizes, cells = {"i": 3, "j": 4}, np.array([[0, 1], [1, 0], [2, 3]], np.uint32)
    forest = Forest()
    first = forest.tree(("i", "j"), sizes, cells, np.array([1.0, 2.0, 3.0]), ("j", "i"))
    used = forest.nbytes
    for same in (cells, cells.copy()):
        again = forest.tree(("i", "j"), sizes, same, np.array([4.0, 5.0, 6.0]), ("j", "i"))
        assert all(a is b for a, b in zip(again.rows, first.rows))
        assert again.entries.tolist() == [5.0, 4.0, 6.0]
    assert first.entries.tolist() == [2.0, 1.0, 3.0]
    assert forest.nbytes == used


def test_a_forest_tells_other_cells_and_other_orders_apart():
    sizes, forest = {"i": 3, "j": 4}, Forest()
    cells = np.array([[0, 1], [1, 0]], np.uint32)
    one = forest.tree(("i", "j"), sizes, cells, np.ones(2), ("i", "j"))
    turned = forest.tree(("i", "j"), sizes, cells, np.ones(2), ("j", "i"))
    moved = forest.tree(("i", "j"), sizes, cells + np.uint32(1), np.ones(2), ("i", "j"))
    fewer = forest.tree(("i", "j"), sizes, cells[:1], np.ones(1), ("i", "j"))
    assert turned.order != one.order
    assert moved.rows[0].tolist() == [1, 2]
    assert len(fewer) == 1
    assert forest.nbytes == sum(tree.nbytes for tree in (one, turned, moved, fewer))


def test_a_forest_tells_tables_apart_whose_columns_mean_other_indices():
    cells, forest, sizes = np.array([[0, 1], [0, 2]], np.uint32), Forest(), {"i": 9, "j": 9}
    first = forest.tree(("i", "j"), sizes, cells, np.ones(2), ("i", "j"))
    other = forest.tree(("j", "i"), sizes, cells, np.ones(2), ("i", "j"))
    assert first.cells(np.arange(2)).tolist() == [[0, 1], [0, 2]]
    assert other.cells(np.arange(2)).tolist() == [[1, 0], [2, 0]]


def test_a_forest_tells_tables_apart_that_have_other_sizes():
    cells, forest = np.array([[0, 1], [1, 0]], np.uint32), Forest()
    small = forest.tree(("i", "j"), {"i": 2, "j": 2}, cells, np.ones(2), ("i", "j"))
    large = forest.tree(("i", "j"), {"i": 9, "j": 9}, cells, np.ones(2), ("i", "j"))
    assert (small.sizes, large.sizes) == ((2, 2), (9, 9))


def test_two_relations_with_equal_coordinates_over_swapped_axes_are_fitted_as_each_alone():
    rng = np.random.default_rng(0)
    links = np.triu(rng.poisson(3.0, (5, 5))).astype(float)
    X, Y = np.zeros((5, 6)), np.zeros((6, 5))
    X[:, :5] = Y[:5] = links
    init = {name: rng.uniform(0.5, 1.5, (size, 2)) for name, size in (("A", 5), ("B", 6), ("C", 6), ("D", 5))}
    how = {"rank": 2, "method": "em", "sweeps": 2, "tol": 0.0}
    both = plait.fit("X[i,j] = A[i,r] B[j,r]; Y[j,i] = C[j,s] D[i,s]", {"X": X, "Y": Y}, init=init, **how)
    alone = plait.fit("Y[j,i] = C[j,s] D[i,s]", {"Y": Y}, init={name: init[name] for name in "CD"}, **how)
    for name in "CD":
        np.testing.assert_allclose(both.factors[name].mean, alone.factors[name].mean, rtol=1e-12)


def test_a_tree_beyond_63_bits_gives_back_its_cells():
    rng = np.random.default_rng(5)
    sizes = dict.fromkeys(INDICES, 2**31)
    cells = rng.integers(0, 2**31, (300, 3)).astype(np.uint32)
    cells = cells[np.lexsort(cells.T[::-1])]
    for order in itertools.permutations(INDICES):
        tree = grow(INDICES, sizes, cells, np.arange(300.0), order)
        back = tree.cells(np.arange(300))[:, [order.index(index) for index in INDICES]]
        np.testing.assert_array_equal(back, cells[tree.entries.astype(int)])


def test_growing_needs_nothing_of_the_size_of_all_cells():
    sizes = dict.fromkeys(INDICES, 2**20)
    cells = np.array([[1, 2, 3], [2**20 - 1, 5, 7]], np.uint32)
    tracemalloc.start()
    try:
        tree = grow(INDICES, sizes, cells, np.ones(2), ("k", "j", "i"))
        assert tree.leaf_count == 1
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
