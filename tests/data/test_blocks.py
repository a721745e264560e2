"""Fibre trees: cells and entries, leaves, types, and trees shared by relations."""

import itertools
import math
import tracemalloc

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plait
from plait.data.sparse.csf import CSFCache, grow
from plait.data.sparse.leaves import leaf_size
from plait.fitting.options import Options
from plait.fitting.prepare import prepare
from tests.support.tuning import SMALL_LEAVES, tuned

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
def test_a_tree_holds_its_cells_and_entries_sorted_and_compressed(table):
    indices, _, cells, entries, order = table
    tree = grow(*table)
    every = tree.cells(np.arange(len(tree)))
    back = every[:, [order.index(index) for index in indices]]
    found = {tuple(cell): entry for cell, entry in zip(back.tolist(), tree.entries)}
    assert found == {tuple(cell): entry for cell, entry in zip(cells.tolist(), entries)}
    rows = list(map(tuple, every.tolist()))
    assert rows == sorted(set(rows))
    assert len(tree) == len(entries)
    chosen = np.arange(len(tree))[::-2]
    np.testing.assert_array_equal(tree.cells(chosen), every[chosen])
    for level, fibres in enumerate(tree.rows):
        assert len(fibres) == len({cell[: level + 1] for cell in rows})
    for level, starts in enumerate(tree.starts):
        assert (starts[0], starts[-1]) == (0, len(tree.rows[level + 1]))
        assert len(starts) == len(tree.rows[level]) + 1
        assert (np.diff(starts) > 0).all()


def entries_of(tree):
    """The positions of the entries of every leaf."""
    firsts = [np.asarray(tree._firsts(level)) for level in range(min(2, len(tree.order)))]
    ranges = (firsts[1][list(leaf.inside)] if leaf.inside else firsts[0][[leaf.lo, leaf.hi]] for leaf in tree.leaves)
    return [list(range(int(lo), int(hi))) for lo, hi in ranges]


@given(tables(), st.integers(1, 9))
def test_leaves_hold_every_entry_once_in_order(table, size):
    with tuned(**SMALL_LEAVES, max_leaf_entries=size):
        tree = grow(*table)
        assert list(itertools.chain.from_iterable(entries_of(tree))) == list(range(len(tree)))
        assert all(tree.length(leaf) == len(found) > 0 for leaf, found in zip(tree.leaves, entries_of(tree)))
        assert [piece.leaf for piece in tree.walk()] == tree.leaves
        assert [piece.number for piece in tree.walk(1)] == list(range(tree.leaf_count))[1:]


def test_a_heavy_root_is_cut_below_itself(tuning):
    cells = np.array([[0, n] for n in range(1000)] + [[n, 0] for n in range(1, 5)], np.uint32)
    tuning(**SMALL_LEAVES | {"max_leaf_entries": 100, "leaf_entries_per_row": 20_000})
    tree = grow(("i", "j"), {"i": 5, "j": 1000}, cells, np.ones(len(cells)), ("i", "j"))
    parts = [leaf for leaf in tree.leaves if leaf.inside]
    assert len(parts) == 11
    assert {(leaf.lo, leaf.hi) for leaf in parts} == {(0, 1)}
    assert max(map(tree.length, tree.leaves)) <= 101
    single = np.array([[0, 0, n] for n in range(1000)], np.uint32)
    tree = grow(INDICES, {"i": 2, "j": 2, "k": 1000}, single, np.ones(1000), INDICES)
    assert [(leaf.lo, leaf.hi, leaf.inside) for leaf in tree.leaves] == [(0, 1, None)]


def test_sizes_of_leaves():
    small = leaf_size(4000, (1000, 50))
    assert small == 4000
    assert leaf_size(5000, (1000, 50)) == 2500
    sizes = (10**6, 200, 20_000)
    for entries, count in ((10**6, 2), (10**7, 2), (10**8, 32), (5 * 10**8, 64), (10**9, 120), (10**10, 1193)):
        assert -(-entries // leaf_size(entries, sizes)) == count


@given(tables())
def test_other_entries_keep_the_cells_of_a_tree(table):
    indices, sizes, cells, entries, order = table
    tree = grow(*table)
    other = tree.with_entries(entries**2, -entries)
    fresh = grow(indices, sizes, cells, entries**2, order)
    np.testing.assert_array_equal(other.entries, fresh.entries)
    np.testing.assert_array_equal(other.side_values[0], -np.sqrt(fresh.entries))
    assert tree.side_values == ()
    assert all(a is b for a, b in zip(other.rows, tree.rows))


@pytest.mark.parametrize(
    ("size", "kept"),
    [(256, np.uint8), (257, np.uint16), (65_537, np.uint32), (2**32, np.uint32), (2**32 + 1, np.uint64)],
)
def test_rows_of_large_trees_are_as_narrow_as_their_axis_allows(size, kept, tuning):
    tuning(min_narrow_entries=0)
    for dtype in (np.uint32, np.int64, np.uint64):
        tree = grow(("i", "j"), {"i": 2, "j": size}, np.array([[0, 1], [1, 0]], dtype), np.ones(2), ("j", "i"))
        assert [rows.dtype for rows in tree.rows] == [np.dtype(kept), np.dtype(np.uint8)]
        assert {starts.dtype for starts in tree.starts} == {np.dtype(np.uint32)}


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_links_without_values_take_one_byte_each(likelihood, tuning):
    tuning(min_narrow_entries=0)
    rng = np.random.default_rng(0)
    cells = rng.permutation(300 * 20)[:2000]
    links = plait.Relation(pl.DataFrame({"i": cells // 20, "j": cells % 20}), likelihood=likelihood)
    model = plait.Model("X[i, j] = A[i, r] B[j, r]")
    (relation,) = prepare(model, model.bind({"X": links}), Options(rank=2, seed=0)).problem.relations
    assert [tree.entries.nbytes for tree in relation.counts.trees] == [2000]


# forests --------------------------------------------------------------------------------------------------------------


def test_a_forest_grows_a_tree_of_the_same_cells_once():
    sizes, cells = {"i": 3, "j": 4}, np.array([[0, 1], [1, 0], [2, 3]], np.uint32)
    forest = CSFCache()
    first = forest.tree(("i", "j"), sizes, cells, np.array([1.0, 2.0, 3.0]), ("j", "i"))
    used = forest.nbytes
    for same in (cells, cells.copy()):
        again = forest.tree(("i", "j"), sizes, same, np.array([4.0, 5.0, 6.0]), ("j", "i"))
        assert all(a is b for a, b in zip(again.rows, first.rows))
        assert again.entries.tolist() == [5.0, 4.0, 6.0]
    assert first.entries.tolist() == [2.0, 1.0, 3.0]
    assert forest.nbytes == used


def test_a_forest_separates_cells_orders_indices_and_sizes():
    cells, sizes, forest = np.array([[0, 1], [1, 0]], np.uint32), {"i": 3, "j": 4}, CSFCache()
    ij, ji = ("i", "j"), ("j", "i")
    one = forest.tree(ij, sizes, cells, np.ones(2), ij)
    others = [
        forest.tree(ij, sizes, cells, np.ones(2), ji),
        forest.tree(ij, sizes, cells + np.uint32(1), np.ones(2), ij),
        forest.tree(ij, sizes, cells[:1], np.ones(1), ij),
        forest.tree(ij, {"i": 9, "j": 9}, cells, np.ones(2), ij),
    ]
    assert [other.sizes for other in others] == [(4, 3), (3, 4), (3, 4), (9, 9)]
    assert others[1].cells(np.arange(2)).tolist() == [[1, 2], [2, 1]]
    assert forest.nbytes == sum(tree.nbytes for tree in (one, *others))
    turned = forest.tree(ji, {"i": 9, "j": 9}, np.array([[0, 1], [0, 2]], np.uint32), np.ones(2), ij)
    assert turned.cells(np.arange(2)).tolist() == [[1, 0], [2, 0]]


def test_relations_with_equal_coordinates_over_swapped_axes_fit_as_alone():
    rng = np.random.default_rng(0)
    links = np.triu(rng.poisson(3.0, (5, 5))).astype(float)
    X, Y = np.zeros((5, 6)), np.zeros((6, 5))
    X[:, :5] = Y[:5] = links
    init = {name: rng.uniform(0.5, 1.5, (size, 2)) for name, size in (("A", 5), ("B", 6), ("C", 6), ("D", 5))}
    how = {"rank": 2, "method": "em", "max_iter": 2, "tol": 0.0}
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


def test_growing_a_tree_needs_no_memory_for_all_cells():
    sizes = dict.fromkeys(INDICES, 2**20)
    cells = np.array([[1, 2, 3], [2**20 - 1, 5, 7]], np.uint32)
    tracemalloc.start()
    try:
        tree = grow(INDICES, sizes, cells, np.ones(2), ("k", "j", "i"))
        assert tree.leaf_count == 1
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
