"""Undirected relations, and a factor that stands twice: bound against a dictionary of unordered pairs."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
import scipy.sparse

import plait
from plait.data.observation.symmetry import canonical, count_cells, groups_of, mirrored, total_once, writing, written
from plait.data.observation.weights import Weights
from tests.support.data_errors import assert_mentions, error_text

N, K = 6, 3
FRIENDS = plait.Model("X[a, b] = U[a, r] U[b, r]; b: a")
MEETINGS = plait.Model("X[a, b, k] = U[a, r] U[b, r] K[k, r]; b: a")
SIDES = plait.Model("X[a, b] = A[a, r] B[b, r] + A[b, r] B[a, r]; b: a")
RESCAL = plait.Model("X[h, p, t] = A[h, a] G[a, p, b] A[t, b]; t: h")
TRIPLES = plait.Model("X[a, b, c] = U[a] + U[b] + U[c]; b: a; c: a")
LABELS = {"a": range(N), "k": range(K)}


def bound(relation, model=FRIENDS, entities=None):
    names = {i: v for i, v in LABELS.items() if i in model.visible} if entities is None else entities
    return model.bind({"X": relation}, entities=names).relations["X"]


def dense(relation):
    """M, cell by cell."""
    return relation.weights.at(np.argwhere(np.ones(relation.shape))).reshape(relation.shape)


def values(relation):
    """X, cell by cell, in the writing that is kept."""
    X = np.zeros(relation.shape)
    X[tuple(relation.cells.astype(int).T)] = relation.values
    return X


def same(one, other):
    """Assert that two relations are bitwise identical, except for the names of indices."""
    np.testing.assert_array_equal(one.cells, other.cells)
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.cell_weights, other.cell_weights)
    np.testing.assert_array_equal(dense(one), dense(other))
    assert [t.coefficient for t in one.weights.terms] == [t.coefficient for t in other.weights.terms]
    assert one.observed_cells == other.observed_cells
    assert one.summed == other.summed
    assert [v.tolist() for v in one.seen.values()] == [v.tolist() for v in other.seen.values()]
    closed = [{tuple(map(int, c)) for c in t} for r in (one, other) for t in r.structural_zeros.tables.values()]
    assert len(closed) % 2 == 0
    assert closed[: len(closed) // 2] == closed[len(closed) // 2 :]


def drawn(seed, both=0.0):
    """Rows (a, b, value, weight) of distinct pairs, written in any direction; a share of them in both."""
    rng = np.random.default_rng(seed)
    pairs = [pair for pair in itertools.combinations(range(N), 2) if rng.random() < 0.5]
    rows = []
    for a, b in pairs:
        value, weight = float(rng.integers(0, 4)), float(rng.choice([0.5, 1.0, 2.0]))
        ways = [(a, b), (b, a)] if rng.random() < both else [(a, b) if rng.random() < 0.5 else (b, a)]
        rows += [(*way, value, weight) for way in ways]
    return [rows[n] for n in rng.permutation(len(rows))]


def table(rows, columns=("a", "b", "value", "w")):
    kinds = {"value": pl.Float64, "w": pl.Float64}
    return pl.DataFrame(rows, {c: kinds.get(c, pl.Int64) for c in columns}, orient="row")


def expected(rows, *, c, unseen, pairs=(), entities=(), weighted=True):
    """M by its definition, and X, of unordered pairs."""
    hidden = {frozenset(pair) for pair in pairs}
    gone = {pair for pair in map(frozenset, itertools.product(range(N), range(N))) if pair & set(entities)} | hidden
    listed = {frozenset((a, b)): (x, w) for a, b, x, w in rows if a != b and frozenset((a, b)) not in gone}
    seen = set().union(*listed) if unseen == "missing" else set(range(N))
    M, X = np.zeros((N, N)), np.zeros((N, N))
    for a, b in itertools.permutations(range(N), 2):
        pair = frozenset((a, b))
        if pair in listed:
            x, w = listed[pair]
            M[a, b] = w if weighted else 1.0 if x > 0 else (1.0 if c in (0, 1) else c)
            X[a, b] = x * (w > 0)
        elif pair not in gone and pair <= seen:
            M[a, b] = c
    return M, X


@pytest.mark.parametrize("both", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("observed", ["all", "listed", 0.25])
@pytest.mark.parametrize("unseen", ["missing", "zero"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_are_cells_in_either_order(seed, weighted, unseen, observed, both):
    rng = np.random.default_rng((seed, 1))
    rows = drawn(seed, both)
    pairs, entities = rng.integers(0, N, (3, 2)).tolist(), [int(rng.integers(N))]
    found = bound(plait.Relation(
        table(rows) if weighted else table(rows).drop("w"),
        weight="w" if weighted else 1.0, observed=observed, unseen=unseen,
        missing=[table(pairs[:2], ("b", "a")), table([[e] for e in entities], ("b",))],
        hidden=table(pairs[2:], ("a", "b")),
    ))  # fmt: skip
    c = {"all": 1.0, "listed": 0.0}.get(observed, observed)
    M, X = expected(rows, c=c, unseen=unseen, pairs=pairs, entities=entities, weighted=weighted)
    np.testing.assert_array_equal(dense(found), M)
    np.testing.assert_array_equal(values(found), np.triu(X))
    np.testing.assert_array_equal(found.cell_weights, M[tuple(found.cells.astype(int).T)])
    assert found.observed_cells == np.count_nonzero(np.triu(M))
    assert found.total_cells == N * (N + 1) // 2
    assert found.observed_zeros == found.observed_cells - np.count_nonzero(np.triu(X))
    assert found.missing_cells == found.total_cells - found.observed_cells


@pytest.mark.parametrize("seed", range(5))
def test_order_of_columns_and_repeated_pairs_change_nothing(seed):
    rows = drawn(seed)
    hidden = table([[0, 1], [3, 2]], ("a", "b"))

    def relation(rows, columns=("a", "b"), turned=("a", "b")):
        missing = hidden.rename(dict(zip(("a", "b"), turned))).select(sorted(turned))
        return plait.Relation(table(rows, (*columns, "value", "w")), weight="w", observed=0.5, missing=missing)

    as_written = bound(relation(rows))
    same(as_written, bound(relation(rows, ("b", "a"))))
    same(as_written, bound(relation([(b, a, *rest) for a, b, *rest in rows])))
    same(as_written, bound(relation(rows, turned=("b", "a"))))
    same(as_written, bound(relation([*rows, *((b, a, *rest) for a, b, *rest in rows)])))
    same(as_written, bound(relation(rows[::-1])))
    swapped = plait.Model("X[b, a] = U[b, r] U[a, r]; a: b")
    same(as_written, bound(relation(rows), swapped, {"b": range(N)}))
    assert as_written.cells.tolist() == sorted(map(sorted, as_written.cells.tolist()))


NAMES = ("a", "b", "value")
BOTH_WAYS = table([(0, 1, 1.0), (2, 3, 2.0), (1, 0, 4.0)], NAMES)
SAME_WAY = table([(0, 1, 1.0), (1, 0, 3.0), (2, 3, 2.0), (0, 1, 2.0)], NAMES)
SPARSE = scipy.sparse.coo_array(([1.0, 2.0], ([0, 1], [1, 0])), (N, N))


@pytest.mark.parametrize(
    ("data", "words", "sums"),
    [
        (BOTH_WAYS, ["rows 0 and 2", "a=0, b=1", "1 in one direction and 4 in", '`duplicates="sum"`'], [5, 2]),
        # The sum of one direction, 1 + 2, equals the value of the other.
        (SAME_WAY, ["rows 0 and 3", "a=0, b=1"], [3, 2]),
        (SPARSE, ["a=0, b=1 has no direction"], [3]),
    ],
    ids=["both ways", "same way", "sparse"],
)
def test_a_pair_with_two_values_is_refused_or_summed(data, words, sums):
    assert_mentions(error_text(bound, data), *words)
    found = bound(plait.Relation(data, duplicates="sum"))
    assert found.values.tolist() == sums
    assert found.summed == 1


def test_a_pair_with_two_weights_is_refused():
    data = table([(0, 1, 1.0, 1.0), (1, 0, 1.0, 2.0)])
    text = error_text(bound, plait.Relation(data, weight="w"))
    assert_mentions(text, "the weight is 1 in one direction and 2 in the other")
    assert "their weights differ" in error_text(bound, plait.Relation(data, weight="w", duplicates="sum"))


@pytest.mark.parametrize("sums", ["error", "sum"])
def test_sparse_arrays_may_store_one_triangle_or_both(sums):
    X = np.triu(np.random.default_rng(0).integers(0, 3, (N, N)), 1).astype(float)
    wanted = bound(X + X.T)
    for array in (X, X.T, X + X.T):
        same(wanted, bound(plait.Relation(scipy.sparse.coo_array(array), duplicates=sums)))


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_dense_arrays_are_symmetric_or_one_triangle(share):
    rng = np.random.default_rng(1)
    X = np.triu(rng.integers(0, 3, (N, N)), 1).astype(float)
    X[np.triu(rng.random((N, N)) < share, 1)] = np.nan
    both = X + X.T
    wanted = bound(both)
    M = ~np.isnan(both) & ~np.eye(N, dtype=bool)
    np.testing.assert_array_equal(dense(wanted), M)
    np.testing.assert_array_equal(values(wanted), np.nan_to_num(X))
    blank = np.where(np.tri(N, k=-1, dtype=bool), np.nan, X)
    for array in (X, X.T, blank, blank.T):
        same(wanted, bound(array))


def test_other_dense_arrays_are_refused():
    X = np.zeros((N, N))
    X[1, 4], X[4, 1], X[2, 0], X[0, 2] = 1, 1, 3, 2
    assert_mentions(error_text(bound, X), "[0, 2] and [2, 0]", "2 and 3", "symmetric")
    assert_mentions(error_text(bound, np.ones((2, 3)), entities={}), "dimensions 0 and 1", "2 and 3")


def test_bernoulli_links_are_pairs_too():
    found = bound(plait.Relation(table([(1, 0), (0, 1), (4, 2)], ("a", "b")), likelihood="bernoulli"))
    assert found.values.tolist() == [1, 1]


@pytest.mark.parametrize("kind", ["table", "dense", "sparse"])
@pytest.mark.parametrize("observed", ["all", "listed", 0.5])
def test_self_links_are_dropped_and_counted_if_a_factor_stands_twice(kind, observed):
    X = np.zeros((N, N))
    X[0, 1] = X[1, 0] = X[2, 2] = X[3, 3] = 1
    rows = table(np.argwhere(X).tolist(), ("a", "b"))
    data = {"table": rows, "dense": X, "sparse": scipy.sparse.coo_array(X)}[kind]
    found = bound(plait.Relation(data, observed=observed))
    assert found.cells.tolist() == [[0, 1]]
    assert found.dropped_self_links == 2
    assert not dense(found).diagonal().any()
    assert "self-links      2 dropped: the equation excludes them" in str(found)
    assert found.structural_zeros.contain(np.stack([np.arange(N)] * 2, axis=1)).all()


def test_the_diagonal_of_three_indices_is_missing_too():
    rows = [("x", 1, "y"), ("x", 2, "x"), ("y", 2, "x"), ("z", 1, "x"), ("z", 1, "z")]
    found = bound(pl.DataFrame(rows, ("h", "p", "t"), orient="row"), RESCAL, {})
    assert found.dropped_self_links == 2
    assert found.cells.tolist() == [[0, 0, 1], [1, 1, 0], [2, 0, 0]]  # nothing is turned round
    M = np.ones((3, 2, 3))
    M[np.arange(3), :, np.arange(3)] = 0
    np.testing.assert_array_equal(dense(found), M)
    assert found.total_cells == 18
    assert found.observed_cells == 12
    assert list(found.structural_zeros.tables) == [("h", "t")]
    assert found.structural_zeros.contain(np.array([[1, 0, 1], [1, 0, 2]])).tolist() == [True, False]


@pytest.mark.parametrize("model", [FRIENDS, RESCAL])
def test_the_diagonal_of_a_doubled_factor_is_always_missing(model):
    indices = model.equation("X").indices
    first, second = model.equation("X").doubled[0]
    rows = pl.DataFrame({index: [0, 1, 2] for index in indices[:-1]} | {indices[-1]: [1, 2, 0]})
    text = error_text(bound, plait.Relation(rows, self_links="observed"), model, {})
    assert_mentions(text, "X: ", "`self_links`", f"{first} and {second}")
    same(*(bound(plait.Relation(rows, self_links=word), model, {}) for word in ("auto", "missing")))


def test_self_links_do_not_count():
    assert "all 2 links are self-links" in error_text(bound, table([(0, 0), (1, 1)], ("a", "b")))
    assert len(bound(table([(0, 0, -1.0), (0, 1, 1.0)], NAMES)).links) == 1  # a bad value of a self-link is ignored
    rows = table([(0, 0), (1, 1), (0, 1)], ("a", "b"))
    assert bound(plait.Relation(rows, hidden=table([(1, 1)], ("a", "b")))).dropped_self_links == 1


@pytest.mark.parametrize("own", [False, True])
def test_self_links_decide_about_the_diagonal_of_other_equations(own):
    rows = [(0, 1), (2, 1), *([(3, 3)] if own else [])]
    found = bound(table(rows, ("a", "b")), SIDES, {"a": range(4)})
    assert found.groups == ((0, 1),)
    assert found.self_links == ("observed" if own else "missing")
    assert found.dropped_self_links == 0
    M = dense(found)
    np.testing.assert_array_equal(M, M.T)
    assert bool(M.diagonal().any()) == own
    assert found.observed_cells == np.count_nonzero(np.triu(M))
    assert found.cells.tolist() == sorted([[0, 1], [1, 2], *([[3, 3]] if own else [])])


def test_other_indices_keep_their_place():
    rows = [(3, 1, 0, 2.0), (1, 3, 1, 1.0), (1, 3, 0, 2.0), (0, 4, 2, 5.0)]
    data = table(rows, ("a", "b", "k", "value"))
    hidden = [table([[0, 2]], ("b", "k")), table([[2]], ("b",))]
    found = bound(plait.Relation(data, missing=hidden, unseen="zero"), MEETINGS)
    assert found.cells.tolist() == [[1, 3, 0], [1, 3, 1]]
    M = np.ones((N, N, K))
    M[np.arange(N), np.arange(N)] = M[2] = M[:, 2] = M[0, :, 2] = M[:, 0, 2] = 0
    np.testing.assert_array_equal(dense(found), M)
    assert found.total_cells == N * (N + 1) // 2 * K
    assert found.observed_cells == np.count_nonzero(M) // 2


def test_cells_of_three_unordered_indices_are_counted_once():
    assert groups_of(TRIPLES.equation("X")) == ((0, 1, 2),)
    ways = list(itertools.permutations((4, 1, 2)))
    data = pl.DataFrame(ways, ("a", "b", "c"), orient="row")
    found = bound(plait.Relation(data, observed=0.5, unseen="zero"), TRIPLES, {"a": range(N)})
    assert found.cells.tolist() == [[1, 2, 4]]
    M = np.full((N, N, N), 0.5)
    for way in ways:
        M[way] = 1
    np.testing.assert_array_equal(dense(found), M)
    assert found.total_cells == found.observed_cells == math.comb(N + 2, 3)


def test_weights_are_summed_once_per_cell():
    rng = np.random.default_rng(0)
    groups = ((0, 2), (1, 3))
    shape, indices = (3, 4, 3, 4), tuple("abcd")
    cells = written(rng.integers(0, 3, (20, 4)), shape, groups)
    open_cells = 1.0 - Weights.from_table(indices, shape, indices, cells)
    whole = np.argwhere(np.ones(shape))
    once = whole[writing(whole, groups) == 0]
    assert total_once(open_cells, groups) == pytest.approx(open_cells.at(once).sum())
    assert count_cells(shape, groups) == len(once)
    np.testing.assert_array_equal(np.unique(canonical(whole, groups), axis=0), once)


def test_tables_over_one_index_of_a_pair_apply_to_both():
    tables = {("a",): np.array([[1]]), ("b", "k"): np.array([[2, 0]])}
    found = mirrored(tables, ("a", "b", "k"), (N, N, K), ((0, 1),))
    assert {over: coords.tolist() for over, coords in found.items()} == {
        ("a",): [[1]], ("b",): [[1]], ("b", "k"): [[2, 0]], ("a", "k"): [[2, 0]],
    }  # fmt: skip


def test_links_listed_one_way_warn_only_if_directed():
    rng = np.random.default_rng(0)
    X = np.triu(rng.random((40, 40)) < 0.3, 1)
    bound(table(np.argwhere(X).tolist(), ("a", "b")), entities={})  # warnings are errors
    two = plait.Model("X[a, b] = A[a, r] B[b, r]; b: a")
    with pytest.warns(
        plait.errors.AsymmetricLinksWarning,
        match=r"use one factor twice, A\[a, r\] A\[b, r\], or list each link in both directions",
    ):
        bound(table(np.argwhere(X).tolist(), ("a", "b")), two, {})
