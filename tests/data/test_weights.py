"""Weights against dense arrays built cell by cell."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.data.observation.weights import Weights
from plait.errors import DataError
from tests.support.tuning import tuned

INDICES = ("i", "j", "k")
SHAPE = (3, 4, 2)
CELLS = np.array(list(itertools.product(*map(range, SHAPE))), np.uint32)
EIGHTHS = st.sampled_from([-1.0, -0.5, 0.0, 0.125, 0.5, 1.0, 2.0])  # sums and products of these are exact


def subsets(indices, least=0):
    return [s for n in range(least, len(indices) + 1) for s in itertools.combinations(indices, n)]


def spread(over, array):
    """A dense array over some indices as one over all."""
    shape = [n if index in over else 1 for index, n in zip(INDICES, SHAPE)]
    return np.broadcast_to(np.reshape(array, shape), SHAPE)


@st.composite
def leaves(draw):
    kind = draw(st.sampled_from(["constant", "vector", "table"]))
    if kind == "constant":
        c = draw(EIGHTHS)
        return Weights.constant(INDICES, SHAPE, c), np.full(SHAPE, c)
    if kind == "vector":
        axis = draw(st.integers(0, 2))
        vector = np.array(draw(st.lists(EIGHTHS, min_size=SHAPE[axis], max_size=SHAPE[axis])))
        return Weights.from_vector(INDICES, SHAPE, INDICES[axis], vector), spread(INDICES[axis], vector)
    over = draw(st.sampled_from(subsets(INDICES)))
    sizes = [SHAPE[INDICES.index(index)] for index in over]
    rows = draw(st.lists(st.tuples(*(st.integers(0, n - 1) for n in sizes)), max_size=8))
    values = np.array(draw(st.lists(EIGHTHS, min_size=len(rows), max_size=len(rows))), float)
    dense = np.zeros(sizes)
    for row, value in zip(rows, values):
        dense[row] += value
    turned = draw(st.permutations(range(len(over))))
    coords = np.array(rows, np.int64).reshape(len(rows), len(over))[:, turned]
    return Weights.from_table(INDICES, SHAPE, [over[k] for k in turned], coords, values), spread(over, dense)


@st.composite
def expressions(draw, depth=2):
    if depth == 0:
        return draw(leaves())
    (a, dense_a), (b, dense_b) = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    operation = draw(st.sampled_from(["+", "-", "*", "scale", "1-"]))
    if operation == "+":
        return a + b, dense_a + dense_b
    if operation == "-":
        return a - b, dense_a - dense_b
    if operation == "*":
        return a * b, dense_a * dense_b
    return (0.5 * a, 0.5 * dense_a) if operation == "scale" else (1.0 - a, 1.0 - dense_a)


def is_well_formed(w):
    for term in w.terms:
        assert term.coefficient != 0
        assert not set(term.vectors) & set(term.table_indices)
        assert all(v.dtype == np.float64 and v.shape == (w.sizes[index],) for index, v in term.vectors.items())
        if term.table is not None:
            table = term.table
            assert table.indices == tuple(index for index in w.indices if index in table.indices)
            assert len(table.indices) >= 2
            assert table.coords.dtype == np.uint32
            assert table.values.all()
            rows = list(map(tuple, table.coords.tolist()))
            assert rows == sorted(set(rows))


@given(expressions())
def test_expressions_equal_those_of_dense_arrays(pair):
    w, dense = pair
    is_well_formed(w)
    assert w.at(CELLS).tolist() == dense.ravel().tolist()
    assert w.total() == dense.sum()


@given(expressions())
def test_keys_over_64_bits_change_nothing(pair):
    w, dense = pair
    with tuned(key_span=5):  # so that every table needs the fallback
        again = w * w + w
        assert again.at(CELLS).tolist() == (dense * dense + dense).ravel().tolist()
        is_well_formed(again)


def table(over, coords, values=1.0):
    return Weights.from_table(INDICES, SHAPE, over, np.array(coords), values)


@pytest.mark.parametrize(
    ("weights", "shown"),
    [
        (0.25 + 0.75 * table("ijk", [[0, 0, 0], [1, 1, 1]]), "0.25 + 0.75 T[i, j, k](2)"),
        (1 - table("i", [[1]]), "m[i]"),
        ((1 - table("i", [[1]])) * (1 - table("j", [[0]])), "m[i] m[j]"),
        ((1 - table("ij", [[1, 1]])) * (1 - table("ij", [[1, 1], [0, 2]])), "1 - T[i, j](2)"),
        ((1 - table("ij", [[1, 1]])) * (1 - table("ijk", [[1, 1, 0], [0, 0, 0]])), "1 - T[i, j](1) - T[i, j, k](1)"),
        ((1 - table("i", [[1]])) * (1 - table("ij", [[1, 2]])), "m[i]"),
        ((1 - table("ij", [[1, 1]])) * (1 - table("jk", [[1, 0]])), "1 - T[i, j](1) - T[j, k](1) + T[i, j, k](1)"),
        (table("ij", [[1, 1]]) - table("ij", [[1, 1]]), "0"),
        (0.3 * (1 - table("ij", [[1, 1]])) + 0.3 * table("ij", [[1, 1]]), "0.3"),
        (2 * Weights.from_vector(INDICES, SHAPE, "k", [1, 0]) * table("ij", [[0, 1]]), "2 T[i, j](1) m[k]"),
    ],
    ids=str,
)
def test_sums_are_as_short_as_possible(weights, shown):
    assert str(weights) == shown


def test_a_hidden_cell_of_a_weighted_relation_weighs_exactly_0():
    for w in (0.1, 0.3, 1 / 3, 0.7):
        hidden = table("ijk", [[1, 1, 1]])
        kept = table("ijk", [[0, 0, 0]])
        m = (w * (1 - hidden) + (1 - w) * kept) * 0.7 * 1.3
        assert m.at(np.array([[1, 1, 1]])) == 0.0
        assert m.at(np.array([[0, 0, 0]])) == pytest.approx(0.91)


def test_weights_over_more_indices_do_not_depend_on_the_new_ones():
    small = 0.5 + Weights.from_table(("k", "i"), (2, 3), ("k", "i"), np.array([[0, 2], [1, 0]]), [1.0, 2.0])
    dense = small.at(np.array(list(itertools.product(range(2), range(3))))).reshape(2, 3)
    wide = small.over(INDICES, SHAPE)
    is_well_formed(wide)
    assert wide.at(CELLS).reshape(SHAPE).tolist() == np.broadcast_to(dense.T[:, None, :], SHAPE).tolist()
    with pytest.raises(DataError, match=r"weights over \[k: 2, i: 3\] do not match a tensor over \[i: 3, j: 4\]\."):
        small.over(("i", "j"), (3, 4))


def test_a_tensor_without_indices_has_one_cell():
    one = Weights.constant((), (), 2.0) + Weights.from_table((), (), (), np.zeros((1, 0)), [3.0])
    assert str(one) == "5"
    assert one.total() == 5.0
    assert one.at(np.zeros((1, 0), np.uint32)).tolist() == [5.0]


def test_weights_of_other_shapes_are_refused():
    message = r"weights over \[i: 3\] and over \[i: 4\] have different cells\."
    with pytest.raises(DataError, match=message):
        Weights.constant(("i",), (3,)) + Weights.constant(("i",), (4,))
    with pytest.raises(DataError, match=r"a vector over i has shape \(2,\), but i has 3 entities\."):
        Weights.from_vector(("i",), (3,), "i", [1, 2])


def test_a_huge_join_is_refused(tuning):
    tuning(max_join_entries=5)
    sizes = {"i": 3, "j": 4, "k": 2, "l": 2}
    a = Weights.from_table(tuple(sizes), tuple(sizes.values()), "ij", np.array([[0, 0], [1, 1], [2, 2]]))
    b = Weights.from_table(tuple(sizes), tuple(sizes.values()), "kl", np.array([[0, 0], [1, 1]]))
    with pytest.raises(DataError, match=r"\[i, j\] with 3 entries .* \[k, l\] with 2 entries would have 6 entries"):
        a * b


def test_tensors_larger_than_memory():
    shape = (10**6, 10**6, 10**6)
    w = 1.0 - Weights.from_table(INDICES, shape, "ij", np.array([[999_999, 7]]))
    assert w.total() == 1e18 - 1e6
    assert w.at(np.array([[999_999, 7, 3], [7, 999_999, 3]])).tolist() == [0.0, 1.0]
    huge = 1.0 - Weights.from_table(INDICES, (2**40,) * 3, INDICES, np.array([[2**39, 2**39, 5], [1, 2, 3]]))
    assert huge.terms[1].table.coords.dtype == np.int64
    assert huge.at(np.array([[2**39, 2**39, 5], [1, 2, 3], [1, 2, 4]])).tolist() == [0.0, 0.0, 1.0]


def test_large_tables_equal_dense_arrays():
    rng = np.random.default_rng(0)
    shape = (60, 50, 40)
    coords = np.stack([rng.integers(0, size, 150_000, dtype=np.uint32) for size in shape], axis=1)
    dense, pairs = np.zeros(shape), np.zeros(shape[1:])
    np.add.at(dense, tuple(coords.T), 1.0)
    np.add.at(pairs, tuple(coords[:900, 1:].T), 1.0)
    listed = Weights.from_table(INDICES, shape, INDICES, coords)
    hidden = Weights.from_table(INDICES, shape, "jk", coords[:900, 1:])
    cells = np.argwhere(np.ones(shape))
    np.testing.assert_array_equal(listed.at(cells), dense.reshape(-1))
    np.testing.assert_array_equal((listed * hidden).at(cells), (dense * pairs).reshape(-1))
