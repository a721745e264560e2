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
from plait.data.cells.sorting import is_uniform
from plait.data.cells.trees import Forest, compact, grow
from plait.fitting.begin import prepare
from plait.fitting.options import Options

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


@given(tables(), st.integers(1, 9))
def test_cuts_cover_all_roots_once(table, parts):
    tree = grow(*table)
    cuts = tree.cuts(parts)
    assert len(cuts) == parts + 1
    assert cuts[0] == 0
    assert cuts[-1] == len(tree.rows[0])
    assert cuts == sorted(cuts)


def test_cuts_share_out_the_entries_evenly():
    rng = np.random.default_rng(0)
    flat = np.sort(rng.choice(1000 * 50, 20_000, replace=False))
    cells = np.stack(np.unravel_index(flat, (1000, 50)), axis=1).astype(np.uint32)
    tree = grow(("i", "j"), {"i": 1000, "j": 50}, cells, np.ones(len(cells)), ("i", "j"))
    for parts in (2, 3, 8):
        cuts = tree.cuts(parts)
        entries = np.diff(tree.starts[0][cuts])
        assert entries.sum() == 20_000
        assert np.abs(entries - 20_000 / parts).max() <= 50


def test_one_heavy_root_is_one_part():
    cells = np.array([[0, n] for n in range(1000)] + [[n, 0] for n in range(1, 5)], np.uint32)
    tree = grow(("i", "j"), {"i": 5, "j": 1000}, cells, np.ones(len(cells)), ("i", "j"))
    for parts in (2, 4):
        cuts = tree.cuts(parts)
        assert sum(np.diff(cuts) > 0) <= 2


def test_a_tree_of_nothing_is_empty():
    tree = grow(INDICES, {"i": 3, "j": 4, "k": 5}, np.zeros((0, 3), np.uint32), np.zeros(0), ("k", "i", "j"))
    assert len(tree) == 0
    assert tree.cells(np.arange(0)).shape == (0, 3)
    assert tree.cuts(3) == [0, 0, 0, 0]
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


def test_row_numbers_are_32_bits_where_the_coordinates_are():
    for given_, kept in ((np.uint32, np.uint32), (np.int32, np.uint32), (np.int64, np.uint64), (np.uint64, np.uint64)):
        cells = np.array([[0, 1], [1, 0]], given_)
        tree = grow(("i", "j"), {"i": 2, "j": 2}, cells, np.ones(2), ("j", "i"))
        assert {rows.dtype for rows in tree.rows} == {np.dtype(kept)}


def test_nbytes_are_those_of_all_arrays():
    cells = np.array([[0, 0], [0, 1], [2, 0]], np.uint32)
    sizes = {"i": 3, "j": 2}
    plain = grow(("i", "j"), sizes, cells, np.ones(3), ("i", "j"))
    assert plain.nbytes == 4 * (2 + 3) + 8 * 3 + 8 * 3
    turned = grow(("i", "j"), sizes, cells, np.ones(3), ("j", "i"))
    assert turned.nbytes == plain.nbytes + 8 * 3
    assert turned.with_entries(np.ones(3), np.ones(3)).nbytes == turned.nbytes + 8 * 3


def test_one_value_seen_many_times_takes_four_bytes_a_link_where_a_float_holds_it():
    cells = np.stack(np.divmod(np.arange(2000, dtype=np.uint32), 50), axis=1)
    for value, width in ((1.0, 4), (2.0**24, 4), (0.25, 4), (0.1, 8), (2.0**24 + 1, 8), (1e300, 8)):
        stored = compact(np.broadcast_to(value, 2000))
        assert is_uniform(stored)
        for order in (("i", "j"), ("j", "i")):
            tree = grow(("i", "j"), {"i": 40, "j": 50}, cells, stored, order)
            assert tree.entries.flags.c_contiguous
            assert tree.entries.nbytes == width * 2000
            assert (tree.entries == value).all()


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_links_without_values_have_trees_of_four_bytes_a_link(likelihood):
    rng = np.random.default_rng(0)
    cells = rng.permutation(300 * 20)[:2000]
    links = plait.Relation(pl.DataFrame({"i": cells // 20, "j": cells % 20}), likelihood=likelihood)
    model = plait.Model("X[i, j] = A[i, r] B[j, r]")
    (relation,) = prepare(model, model.bind({"X": links}), Options(rank=2, seed=0)).problem.relations
    assert [tree.entries.nbytes for tree in relation.counts.trees] == [8000]


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
        tree.cuts(4)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
