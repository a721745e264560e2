"""Sorting against np.lexsort, and CSF against its cells. Above `TUNING.min_threaded_rows` rows the code is compiled."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.data.sparse.csf import grow, narrow
from plait.data.sparse.csf_index import CSFIndex, repeats
from plait.data.sparse.parallel import by_pieces, on_threads, ranges
from plait.data.sparse.sorting import in_order, is_uniform, sort_cells, sort_order, sort_rows, take
from plait.tuning import TUNING

LARGE = TUNING.min_threaded_rows + 1


def lexsorted(columns):
    return np.lexsort(columns[::-1])


def columns_over(sizes, count, seed=0, dtype=np.int64):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, size, count, dtype=np.uint64).astype(dtype) for size in sizes]


# order ----------------------------------------------------------------------------------------------------------------

SIZES = {
    "one word": [1000, 1000, 1000],
    "ties": [3, 2, 4],
    "one axis": [10**6],
    "axes of one entity": [1, 50, 1],
    "nothing to tell apart": [1, 1],
    "two rounds": [10**6, 10**6, 10**6],
    "beyond 64 bits": [2**32, 2**32, 2**32],
    "beyond 128 bits": [2**50, 2**50, 2**50],
    "the limits of 32 bits": [2**32 - 1, 2**32],
}


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_any_rows_are_sorted_like_lexsort(data):
    widths = data.draw(st.lists(st.integers(0, 50), min_size=1, max_size=4))
    sizes = [2**width for width in widths]
    count = data.draw(st.sampled_from([1, 2, 17, 300]))
    columns = columns_over(sizes, count, data.draw(st.integers(0, 99)))
    np.testing.assert_array_equal(sort_rows(columns, sizes).order, lexsorted(columns))
    order = sort_order(columns, sizes)
    np.testing.assert_array_equal(np.arange(count) if order is None else order, lexsorted(columns))


@pytest.mark.parametrize("count", [1, 300, LARGE])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_cells_are_sorted_like_lexsort(sizes, count):
    columns = columns_over(sizes, count)
    for column, size in zip(columns, sizes):
        column[[count // 2, count - 1]] = size - 1
        column[count // 3] = 0
    rows = lexsorted(columns)
    for threads in (1, 2, 5) if count == LARGE else (1,):
        np.testing.assert_array_equal(sort_rows(columns, sizes, threads).order, rows)
    for dtype in (np.int64, np.uint64):
        cells = np.stack(columns, axis=1).astype(dtype)
        order, done = sort_cells(cells, sizes)
        np.testing.assert_array_equal(np.arange(count) if order is None else order, rows)
        np.testing.assert_array_equal(done, cells[rows])
        assert sort_cells(done, sizes)[0] is None
    assert sort_cells(cells[:, :0], ())[0] is None


def test_columns_of_a_matrix_of_cells_are_sorted_like_lexsort():
    cells = np.stack(columns_over([40, 2**20], LARGE, dtype=np.uint32), axis=1)
    columns = [cells[:, 0], cells[:, 1]]
    np.testing.assert_array_equal(sort_order(columns, [40, 2**20]), lexsorted(columns))


@pytest.mark.parametrize("count", [0, 1, 2, 1000, 300_000])
def test_sorted_rows_are_left_alone_and_reversed_ones_are_turned(count):
    rows = np.arange(count)
    columns = [rows // 7, rows % 7]
    assert in_order(columns)
    assert sort_order(columns, [max(count, 1), 7]) is None
    assert sort_order([np.zeros_like(rows), rows // 2], [1, max(count, 1)]) is None
    if count > 1:
        turned = [column[::-1] for column in columns]
        assert not in_order(turned)
        np.testing.assert_array_equal(sort_order(turned, [count, 7]), rows[::-1])


def test_a_late_row_out_of_order_is_noticed():
    column = np.arange(400_000)
    for place in (1, 131_072, 131_073, 399_999):
        moved = column.copy()
        moved[place - 1 : place + 1] = moved[place - 1 : place + 1][::-1]
        assert not in_order([moved])
        assert not in_order([np.zeros_like(column), moved])


# fibres ---------------------------------------------------------------------------------------------------------------


def sorted_cells(sizes, count, dtype=np.uint32, seed=0):
    return np.unique(np.stack(columns_over(sizes, count, seed, dtype), axis=1), axis=0)


@pytest.mark.parametrize("count", [0, 1, 500, 3 * LARGE])
@pytest.mark.parametrize("sizes", [(), (70_000, 9, 11), (5, 300, 700), (10**6, 10**6, 10**6), (10**5, 4), (10**7,)])
def test_fibres_give_back_their_cells(sizes, count):
    indices = tuple("ijk"[: len(sizes)])
    cells = sorted_cells(sizes, count) if sizes else np.zeros((1, 0), np.uint32)
    fibres = CSFIndex.of(indices, sizes, cells)
    assert len(fibres) == len(cells)
    np.testing.assert_array_equal(fibres.cells(), cells)
    assert fibres.cells().dtype == cells.dtype
    for k, index in enumerate(indices):
        np.testing.assert_array_equal(fibres.column(index), cells[:, k])


def test_fibres_are_equal_if_their_cells_are():
    cells = sorted_cells((9, 9), 30)
    one, same = (CSFIndex.of(("i", "j"), (9, 9), cells.copy()) for _ in range(2))
    assert one.equals(one)
    assert one.equals(same)
    other = cells.copy()
    other[-1, -1] += 1
    assert not one.equals(CSFIndex.of(("i", "j"), (9, 9), other))
    assert not one.equals(CSFIndex.of(("i", "j"), (9, 9), cells[:-1]))
    assert not one.equals(CSFIndex.of(("j", "i"), (9, 9), cells))


@pytest.mark.parametrize("count", [0, 1, 40, 2 * LARGE])
def test_repeated_cells_are_counted(count):
    column = np.sort(np.random.default_rng(3).integers(0, max(count // 2, 1), count))
    cells = np.stack([column, column % 3], axis=1).astype(np.uint32)
    assert repeats(cells) == count - len(np.unique(cells, axis=0))
    assert repeats(cells[:, :0]) == max(count - 1, 0)


@pytest.mark.parametrize("count", [1, 300, 2 * LARGE])
@pytest.mark.parametrize("sizes", [(500, 7, 90), (200_000,), (3, 70_000)])
def test_places_of_cells_equal_a_dictionary(sizes, count):
    cells = sorted_cells(sizes, count)
    fibres = CSFIndex.of(tuple("ijk"[: len(sizes)]), sizes, cells)
    rng = np.random.default_rng(5)
    asked = np.stack([rng.integers(0, size, 400) for size in sizes], axis=1)
    asked = np.concatenate([asked, cells[rng.integers(0, len(cells), 400)]])
    known = {tuple(cell): place for place, cell in enumerate(cells.tolist())}
    wanted = [known.get(tuple(cell)) for cell in asked.tolist()]
    places, there = fibres.places(asked)
    assert there.tolist() == [place is not None for place in wanted]
    assert places[there].tolist() == [place for place in wanted if place is not None]


ENTRIES = {
    "fractions": lambda count: np.arange(count) + 0.5,
    "counts": lambda count: (1 + np.arange(count) % 700).astype(np.uint16),
    "halves": lambda count: (np.arange(count) % 9 * 0.5).astype(np.float32),
    "zeros": lambda count: np.zeros(count, np.uint8),
    "ones": lambda count: np.broadcast_to(np.float32(1.0), count),
}


@pytest.mark.parametrize("kind", ENTRIES)
@pytest.mark.parametrize("count", [300, 2 * LARGE])
def test_a_tree_in_any_order_holds_the_sorted_cells(count, kind):
    indices, sizes = ("i", "j", "k", "l"), {"i": 31, "j": 7, "k": 500, "l": 90}
    cells = sorted_cells(tuple(sizes.values()), count)
    entries = ENTRIES[kind](len(cells))
    for order in itertools.permutations(indices):
        tree = grow(indices, sizes, cells, entries, order)
        columns = [cells[:, indices.index(index)] for index in order]
        rows = lexsorted(columns)
        np.testing.assert_array_equal(tree.cells(np.arange(len(rows))), np.stack(columns, axis=1)[rows])
        np.testing.assert_array_equal(tree.entries, entries[rows])
        assert (tree.permutation is None) == (order == indices)
        if order != indices:
            np.testing.assert_array_equal(tree.permutation, rows)


# arrays ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 5, 3 * LARGE])
def test_taken_equals_indexing(count):
    rng = np.random.default_rng(1)
    order = rng.permutation(count).astype(np.uint32)
    for array in (rng.random(count), rng.integers(0, 9, (count, 3)).astype(np.uint32)):
        np.testing.assert_array_equal(take(array, order), array[order])


@pytest.mark.parametrize("count", [10, 3 * LARGE])
def test_narrow_is_lossless(count):
    counts = np.random.default_rng(2).poisson(3.0, count).astype(np.float64)
    kinds = {255.0: np.uint8, 256.0: np.uint16, 65_536.0: np.float32, 0.5: np.float32, -1.0: np.float32}
    kinds |= dict.fromkeys((0.1, 2.0**24 + 1, 1e300, 1e-300), np.float64)
    for strange, kind in kinds.items():
        other = counts.copy()
        other[-1] = strange
        assert narrow(other).dtype == kind
        np.testing.assert_array_equal(narrow(other), other)
    assert is_uniform(narrow(np.broadcast_to(1.0, count)))


def test_ranges_cover_all_rows():
    assert ranges(10, 4) == [(0, 10)]
    cuts = ranges(LARGE, 4)
    assert [rows for lo, hi in cuts for rows in range(lo, hi)] == list(range(LARGE))
    assert len(cuts) == 4
    seen = np.zeros(400_000, int)

    def count(rows):
        seen[rows] += 1

    by_pieces(count, len(seen))
    assert (seen == 1).all()


def test_an_error_on_a_thread_is_raised():
    def fail(part, lo, hi):
        if part == 3:
            raise ValueError("on a thread")

    with pytest.raises(ValueError, match="on a thread"):
        on_threads(fail, ranges(LARGE, 4))
