"""Binding of data to a model: weights against their definition cell by cell, kinds of data, axes, errors."""

import dataclasses
import itertools
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import sparse
from hypothesis import given
from hypothesis import strategies as st

from plait import Exposure, Model, Relation
from plait.data.binding.bind import bind
from plait.data.binding.given import bind_exposure
from tests.support.data_errors import assert_mentions, error_text
from tests.support.tuning import tuned

INDICES = ("i", "j", "k")
SHAPE = (3, 4, 2)
LABELS = {"i": ["a", "b", "c"], "j": [10, 11, 12, 13], "k": [True, False]}
CP3 = Model("X[i,j,k] = A[i,r] B[j,r] C[k,r]")
MATRIX = Model("X[i,j] = A[i,r] B[j,r]")


def frame(cells, over=INDICES, **columns):
    """A table of cells given as row numbers."""
    cells = np.array(cells, int).reshape(len(cells), len(over))
    named = {index: [LABELS[index][row] for row in cells[:, k]] for k, index in enumerate(over)}
    return pl.DataFrame({**named, **columns}, schema_overrides=TYPES, strict=False).select(*over, *columns)


TYPES = {"i": pl.String, "j": pl.Int64, "k": pl.Boolean, "value": pl.Float64, "w": pl.Float64}
CELLS = list(itertools.product(*map(range, SHAPE)))


@dataclasses.dataclass
class Case:
    cells: dict  # cell -> (value, own weight)
    missing: list  # (indices, rows)
    observed: object
    unseen: str
    weight: float
    column: bool

    def relation(self):
        columns = {"value": [value for value, _ in self.cells.values()]}
        if self.column:
            columns["w"] = [weight for _, weight in self.cells.values()]
        return Relation(
            frame(list(self.cells), **columns),
            observed=self.observed,
            missing=[frame(rows, over) for over, rows in self.missing],
            unseen=self.unseen,
            weight="w" if self.column else self.weight,
        )

    def is_hidden(self, cell):
        row = dict(zip(INDICES, cell))
        return any(tuple(row[index] for index in over) in rows for over, rows in self.missing)

    def weights(self):
        """M, cell by cell."""
        kept = [cell for cell in self.cells if not self.is_hidden(cell)]
        M = np.zeros(SHAPE)
        for cell in CELLS:
            if not self.is_hidden(cell):
                M[cell] = self.weight_of(cell, kept) * (1.0 if self.column else self.weight)
        return M

    def weight_of(self, cell, kept):
        if self.unseen == "missing" and not all(any(k[a] == cell[a] for k in kept) for a in range(3)):
            return 0.0
        if cell not in self.cells:
            return {"all": 1.0, "listed": 0.0}.get(self.observed, self.observed)
        value, own = self.cells[cell]
        if self.column:
            return own
        return 1.0 if isinstance(self.observed, str) or value > 0 else self.observed


@st.composite
def cases(draw):
    some = draw(st.lists(st.sampled_from(CELLS), unique=True, max_size=14))
    values = st.sampled_from([0.0, 1.0, 2.5])
    cells = {cell: (draw(values), draw(st.sampled_from([0.0, 0.25, 1.0, 3.0]))) for cell in some}
    missing = []
    for _ in range(draw(st.integers(0, 3))):
        over = draw(st.sampled_from([s for n in (1, 2, 3) for s in itertools.combinations(INDICES, n)]))
        row = st.tuples(*(st.integers(0, SHAPE[INDICES.index(index)] - 1) for index in over))
        missing.append((over, draw(st.lists(row, max_size=18 if len(over) == 3 else 3))))
    observed = draw(st.sampled_from(["all", "listed", 0.0, 0.3, 1.0]))
    unseen = draw(st.sampled_from(["missing", "zero"]))
    return Case(cells, missing, observed, unseen, draw(st.sampled_from([0.0, 1.0, 0.7])), draw(st.booleans()))


def bound(relation, entities=LABELS):
    return bind(CP3, {"X": relation}, entities=entities).relations["X"]


@given(case=cases(), listing=st.booleans())
def test_weights_and_cells_follow_the_definition(case, listing):
    with tuned(max_opened_cells=1 << 26 if listing else -1):
        x = bound(case.relation())
    M = case.weights()
    at = x.weights.at(np.array(CELLS)).reshape(SHAPE)
    assert at == pytest.approx(M, rel=1e-14, abs=0)
    assert ((at == 0) == (M == 0)).all()
    assert x.weights.total() == pytest.approx(M.sum(), rel=1e-12, abs=1e-12)
    links = sorted(cell for cell, (value, _) in case.cells.items() if value > 0 and M[cell] > 0)
    assert list(map(tuple, x.cells.tolist())) == links
    assert x.values.tolist() == [case.cells[cell][0] for cell in links]
    assert x.cell_weights == pytest.approx([M[cell] for cell in links], rel=1e-15)
    assert x.observed_cells == np.count_nonzero(M)
    assert x.observed_zeros == np.count_nonzero(M) - len(links)
    assert x.missing_cells == M.size - np.count_nonzero(M)


def same(a, b):
    """Assert that two bound relations are bitwise identical."""
    assert a.cells.dtype == b.cells.dtype
    assert a.cells.tobytes() == b.cells.tobytes()
    assert a.values.tobytes() == b.values.tobytes()
    assert a.cell_weights.tobytes() == b.cell_weights.tobytes()
    assert str(a) == str(b)
    for s, t in zip(a.weights.terms, b.weights.terms):
        assert s.coefficient == t.coefficient
        assert {i: v.tobytes() for i, v in s.vectors.items()} == {i: v.tobytes() for i, v in t.vectors.items()}
        assert s.table_indices == t.table_indices
        if s.table is not None and t.table is not None:
            assert s.table.coords.tobytes() == t.table.coords.tobytes()
            assert s.table.values.tobytes() == t.table.values.tobytes()


@given(case=cases(), junk=st.sampled_from([0.0, 7.0, -1.0, np.nan, np.inf]))
def test_hidden_values_and_rows_change_nothing(case, junk):
    hidden = {cell: (junk, own) for cell, (_, own) in case.cells.items() if case.is_hidden(cell)}
    kept = {cell: pair for cell, pair in case.cells.items() if cell not in hidden}
    for cells in (case.cells | hidden, kept):
        same(bound(case.relation()), bound(dataclasses.replace(case, cells=cells).relation()))


@given(case=cases(), data=st.data())
def test_the_order_of_rows_does_not_matter(case, data):
    other = dataclasses.replace(
        case,
        cells=dict(data.draw(st.permutations(list(case.cells.items())))),
        missing=[(over, data.draw(st.permutations(rows))) for over, rows in data.draw(st.permutations(case.missing))],
    )
    same(bound(case.relation()), bound(other.relation()))


def test_sums_of_duplicates_do_not_depend_on_the_order_of_rows():
    table = pl.DataFrame({"i": ["a"] * 3 + ["b"], "j": [10] * 4, "value": [0.1, 0.2, 1e16, 1.0]})
    results = []
    for rows in itertools.permutations(range(4)):
        x = bind(MATRIX, {"X": Relation(table[list(rows)], duplicates="sum")}).relations["X"]
        results.append(x.values.tobytes())
        assert x.summed == 2
        assert x.cells.tolist() == [[0, 0], [1, 0]]
    assert len(set(results)) == 1


# --- kinds of data

DENSE = np.array([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]])
TABLE = {"i": [0, 0, 1], "j": [1, 2, 0], "value": [2.0, 1.0, 3.0]}
OTHER_NAMES = pd.DataFrame({"from": TABLE["i"], "to": TABLE["j"], "n": TABLE["value"]})

SAME_DATA = {
    "pandas": pd.DataFrame(TABLE),
    "polars": pl.DataFrame(TABLE),
    "polars lazy": pl.LazyFrame(TABLE),
    "pyarrow": pa.table(TABLE),
    "rows reversed": pd.DataFrame(TABLE).iloc[::-1],
    "array": DENSE,
    "int8": DENSE.astype(np.int8),
    "float32": DENSE.astype(np.float32),
    "Fortran order": np.asfortranarray(DENSE),
    "transposed": Relation(DENSE.T, indices=("j", "i")),
    "masked array without gaps": np.ma.array(DENSE),
    "scipy csr": scipy.sparse.csr_array(DENSE),
    "scipy csc matrix": scipy.sparse.csc_matrix(DENSE),
    "scipy coo with repeated cells": scipy.sparse.coo_array(([1.0, 1.0, 1.0, 3.0], ([0, 0, 0, 1], [1, 2, 1, 0]))),
    "scipy transposed": Relation(scipy.sparse.csr_array(DENSE.T), indices=("j", "i")),
    "sparse.COO": sparse.COO.from_numpy(DENSE),
    "sparse.GCXS": sparse.GCXS.from_numpy(DENSE),
    "sparse.DOK": sparse.DOK.from_numpy(DENSE),
    "other column names": Relation(OTHER_NAMES, columns={"i": "from", "j": "to"}, value="n"),
}


@pytest.mark.parametrize("name", SAME_DATA)
def test_every_kind_of_data_binds_to_the_same_relation(name):
    x = bind(MATRIX, {"X": SAME_DATA[name]}).relations["X"]
    assert x.shape == (2, 3)
    assert x.cells.dtype == np.uint32
    assert x.cells.tolist() == [[0, 1], [0, 2], [1, 0]]
    assert x.values.tolist() == [2.0, 1.0, 3.0]
    assert x.cell_weights.tolist() == [1.0, 1.0, 1.0]
    assert str(x.weights) == "1"


@pytest.mark.parametrize("observed", ["all", "listed", 0.25])
@pytest.mark.parametrize(
    ("array", "shown"),
    [
        (np.array([[0.0, 2.0, np.nan], [3.0, 0.0, 0.0]]), "1 - T[i, j](1)"),
        (np.array([[0.0, 2.0, np.nan], [np.nan, np.nan, np.nan]]), "T[i, j](2)"),
        (np.full((2, 3), np.nan), "0"),
    ],
    ids=["few gaps", "mostly gaps", "only gaps"],
)
def test_nan_in_an_array_is_a_missing_cell(array, shown, observed):
    x = bind(MATRIX, {"X": Relation(array, observed=observed)}).relations["X"]
    zero = 1.0 if isinstance(observed, str) else observed
    wanted = np.where(np.isnan(array), 0.0, np.where(array > 0, 1.0, zero))
    assert x.weights.at(np.argwhere(np.ones((2, 3)))).tolist() == wanted.ravel().tolist()
    assert x.missing_cells == np.isnan(array).sum()
    if isinstance(observed, str):
        assert str(x.weights) == shown


STORED = scipy.sparse.coo_array(([2.0, 0.0, np.nan], ([0, 1, 1], [1, 0, 2])), shape=(2, 3))
FILLED = sparse.COO(np.array([[0, 1], [1, 2]]), np.array([2.0, 0.0]), shape=(2, 3), fill_value=np.nan)
MASKED = np.ma.array(DENSE, mask=[[True, False, False], [False, False, False]])


@pytest.mark.parametrize(
    ("data", "counts"),
    [(Relation(STORED, observed="listed"), (1, 1, 4)), (STORED, (1, 4, 1)), (FILLED, (1, 1, 4)), (MASKED, (3, 2, 1))],
    ids=["listed", "stored", "filled with NaN", "masked"],
)
def test_links_zeros_and_missing_cells_of_sparse_and_masked_arrays(data, counts):
    x = bind(MATRIX, {"X": data}).relations["X"]
    assert (len(x.values), x.observed_zeros, x.missing_cells) == counts


@pytest.mark.parametrize("data", [np.array(4.0), 4, pd.DataFrame({"value": [4.0]}), np.nan])
def test_a_relation_without_indices_is_one_number(data):
    x = bind(Model("X[] = c[] d[]"), {"X": data}).relations["X"]
    missing = isinstance(data, float)
    assert (x.total_cells, x.missing_cells, str(x.weights)) == (1, int(missing), "0" if missing else "1")
    assert x.values.tolist() == ([] if missing else [4.0])


# --- axes and unseen entities

FRIENDS = Model("""
    visits[user, place] = U[user, r] P[place, r]
    friends[user, friend] = U[user, r] F[friend, r]
    friend: user
""")
VISITS = pd.DataFrame({"user": ["a", "b"], "place": [1, 2]})
LIKES = pd.DataFrame({"user": ["a", "a"], "friend": ["c", "d"]})
BOTH = {"visits": VISITS, "friends": LIKES}


def test_indices_of_one_axis_share_labels_and_observed_entities():
    data = bind(FRIENDS, BOTH)
    assert list(data.entities["user"]) == list(data.entities["friend"]) == ["a", "b", "c", "d"]
    assert data.sizes == {"user": 4, "place": 2, "friend": 4}
    friends = data.relations["friends"]
    assert friends.cells.tolist() == [[0, 2], [0, 3]]
    # b occurs neither as a user nor as a friend.
    assert friends.weights.total() == 9 - 3  # without the diagonal
    assert friends.n_unseen == {"user": 1, "friend": 1}


def test_entities_of_other_relations_are_missing_or_zeros():
    here = bind(FRIENDS, BOTH).relations["visits"]
    assert (here.n_unseen, here.missing_cells) == ({"user": 2, "place": 0}, 4)
    everywhere = bind(FRIENDS, BOTH | {"visits": Relation(VISITS, unseen="zero")}).relations["visits"]
    assert (everywhere.n_unseen, everywhere.missing_cells) == ({"user": 2, "place": 0}, 0)


def test_an_empty_table_is_legal_if_the_entities_are_known():
    empty = LIKES.iloc[:0]
    for relation, zeros in ((Relation(empty, unseen="zero"), 2), (empty, 0)):
        x = bind(FRIENDS, {"visits": VISITS, "friends": relation}).relations["friends"]
        assert (len(x.values), x.observed_zeros, x.missing_cells) == (0, zeros, 4 - zeros)
    empty = Relation(pd.DataFrame({"i": [], "j": []}), unseen="zero")
    x = bind(MATRIX, {"X": empty}, entities={"i": [1, 2], "j": ["a"]}).relations["X"]
    assert (x.shape, x.observed_zeros) == ((2, 1), 2)


def test_labels_are_declared_by_axis_or_index():
    for name in ("user", "friend"):
        assert list(bind(FRIENDS, BOTH, entities={name: ["z", "b"]}).entities["user"]) == ["a", "b", "c", "d", "z"]
    assert list(bind(FRIENDS, BOTH, entities={"user": list("zdcba")}).entities["user"]) == list("zdcba")


def test_a_table_uses_the_rows_of_an_array_on_its_axis():
    model = Model("X[i,j] = A[i,r] B[j,r]; Y[i] = A[i,r] w[r]")
    data = bind(model, {"X": DENSE, "Y": pd.DataFrame({"i": [1]})})
    assert data.relations["Y"].cells.tolist() == [[1]]
    data = bind(model, {"X": DENSE, "Y": pd.DataFrame({"i": ["p"]})}, entities={"i": ["q", "p"]})
    assert data.relations["Y"].cells.tolist() == [[1]]
    assert list(data.entities["i"]) == ["q", "p"]
    empty = pl.DataFrame({"i": []}, schema={"i": pl.Int64})
    assert len(bind(model, {"X": DENSE, "Y": empty}).entities["i"]) == 2


def test_missing_tables_use_the_names_of_columns_or_of_indices():
    table = pd.DataFrame({"from": ["a", "b"], "j": [1, 2]})
    for hidden in (pd.DataFrame({"from": ["a", "a"]}), pd.DataFrame({"i": ["a"]})):
        x = bind(MATRIX, {"X": Relation(table, columns={"i": "from"}, missing=hidden)}).relations["X"]
        assert x.cells.tolist() == [[1, 1]]


def test_weights_list_the_observed_cells_if_most_are_hidden():
    left = [("a", 0), ("b", 1), ("c", 3)]
    cells = [cell for cell in itertools.product("abc", range(4)) if cell not in left]
    hidden = pl.DataFrame(cells, schema=["i", "j"], orient="row")
    table = pl.DataFrame({"i": ["a", "a", "b", "c"], "j": [0, 2, 1, 3]})
    x = bind(MATRIX, {"X": Relation(table, missing=hidden, unseen="zero")}).relations["X"]
    assert str(x.weights) == "T[i, j](3)"
    assert x.cells.tolist() == [[0, 0], [1, 1], [2, 3]]


def test_a_row_hidden_cell_by_cell_is_a_hidden_slice():
    hidden = pl.DataFrame({"i": ["a"] * 4 + ["b"], "j": [0, 1, 2, 3, 0]})
    relation = Relation(pl.DataFrame({"i": ["b", "c"], "j": [1, 2]}), missing=hidden, unseen="zero")
    x = bind(MATRIX, {"X": relation}, entities={"i": list("abc"), "j": range(4)}).relations["X"]
    assert str(x.weights) == "m[i] - T[i, j](1)"
    assert x.missing_cells == 5


def test_a_hidden_slice_of_a_third_index_does_not_close_self_links():
    model = Model("X[i, j, k] = A[i, r] B[j, r] C[k, r]; j: i")
    table = pl.DataFrame({"i": [0, 1, 2, 0], "j": [0, 1, 2, 1], "k": [0, 0, 0, 1]})
    x = model.bind({"X": Relation(table, hidden=pl.DataFrame({"k": [1]}))}).relations["X"]
    assert ("i", "j") not in x.structural_zeros.tables


def test_print_summarises_the_data():
    visits = pd.DataFrame({"user": ["a", "a", "b"], "place": [1, 1, 2], "value": [1, 2, 0]})
    hidden = pd.DataFrame({"user": ["b"], "place": [1]})
    relation = Relation(visits, duplicates="sum", missing=hidden, weight=0.5, unseen="zero")
    assert str(bind(FRIENDS, {"visits": relation, "friends": LIKES})) == (
        "axes: user 4, place 2\n"
        "visits[user, place]: 4 × 2 = 8 cells\n"
        "  observed links  1, sum of values 3\n"
        "  observed zeros  6\n"
        "  missing cells   1\n"
        "  without links   2 of 4 user\n"
        "  duplicates      1 row summed\n"
        "  likelihood      poisson (auto: counts)\n"
        "  weights         0.5 - 0.5 T[user, place](1)\n"
        "friends[user, friend]: 4 × 4 = 16 cells\n"
        "  observed links  2, sum of values 2\n"
        "  observed zeros  4\n"
        "  missing cells   10\n"
        "  self-links      missing\n"
        "  without links   1 of 4 user\n"
        "  without links   1 of 4 friend\n"
        "  likelihood      bernoulli (auto: all values are 0 or 1)\n"
        "  weights         m[user] m[friend] - T[user, friend](3)"
    )


# --- errors


def table(i=("a", "b", "a"), j=(1, 2, 2), **columns):
    return pd.DataFrame({"i": list(i), "j": list(j), **columns})


SAME_CELL = table("aa", [1, 1])
VALUE, WEIGHT = "X, column 'value', row ", "X, column 'w', row "

# model, data, words of the error
DATA_ERRORS = {
    "no data": (FRIENDS, {"visits": VISITS}, ["friends"]),
    "data for no relation": (FRIENDS, {"visits": VISITS, "freinds": LIKES}, ["'freinds'", "Did you mean 'friends'?"]),
    "no dict": (FRIENDS, VISITS, ["DataFrame", "dict"]),
    "mixed labels": (FRIENDS, BOTH | {"friends": LIKES.assign(friend=7)}, ["friends, column 'friend'", "integers"]),
}

# data of X, words of the error
RELATION_ERRORS = {
    "no file": ("x.csv", ["X: ", "x.csv: the file does not exist"]),
    "no table": (None, ["X: ", "NoneType"]),
    "negative": (table(value=[1, -2, 3]), [VALUE + "1", "-2"]),
    "infinite": (table(value=[1, 2, np.inf]), [VALUE + "2", "inf"]),
    "value missing": (Relation(table(n=[1, np.nan, 3]), value="n"), ["X, column 'n', row 1", "missing"]),
    "negative in an array": (np.array([[1.0, 2.0], [np.nan, -1.0]]), ["X, cell [1, 1]", "-1"]),
    "text for values": (table(value=["x", "y", "z"]), [VALUE + "0", "'x'", "String"]),
    "negative weight": (Relation(table(w=[1, 2, -1]), weight="w"), [WEIGHT + "2", "-1"]),
    "weight missing": (Relation(table(w=[1, None, 1]), weight="w"), [WEIGHT + "1", "missing"]),
    "label missing": (table(["a", None], [1, 2]), ["X, column 'i', row 1", "missing"]),
    "twice": (table("babaa", [1, 2, 2, 2, 2]), ["rows 1 and 3", "i='a', j=2", "1 more", '`duplicates="sum"`']),
    "twice, after hidden rows": (
        Relation(table("bacc", [1, 2, 2, 2]), missing=pd.DataFrame({"i": ["b"]})),
        ["X, rows 2 and 3", "i='c', j=2"],
    ),
    "summed with different weights": (
        Relation(SAME_CELL.assign(w=[1.0, 2.0]), weight="w", duplicates="sum"),
        ["i='a', j=1", "weights"],
    ),
    "count under bernoulli": (
        Relation(table(value=[1, 0, 3]), likelihood="bernoulli"),
        [VALUE + "2", "is 3", "bernoulli", '`likelihood="poisson"`'],
    ),
    "sum above 1 under bernoulli": (
        Relation(SAME_CELL, likelihood="bernoulli", duplicates="sum"),
        ["i='a', j=1", "is 2", "bernoulli"],
    ),
    "unknown entity in missing": (
        Relation(table(), missing=pd.DataFrame({"i": ["a", "q"]})),
        ["X, missing, column 'i', row 1", "'q'", "'a', 'b'", "`entities={'i': …}`"],
    ),
    "other labels in missing": (
        Relation(table(), missing=pd.DataFrame({"i": [1]})),
        ["X, missing, column 'i'", "integers", "strings"],
    ),
    "no entity": (table([], []), ["axis i", "X, column 'i'", "`entities={'i': …}`"]),
    "filled with ones": (sparse.COO.from_numpy(np.ones((2, 2)), fill_value=1.0), ["X: ", "fill value", "got 1"]),
}


@pytest.mark.parametrize(
    ("model", "data", "words"),
    [*DATA_ERRORS.values(), *((MATRIX, {"X": data}, words) for data, words in RELATION_ERRORS.values())],
    ids=[*DATA_ERRORS, *RELATION_ERRORS],
)
def test_bad_data_are_refused_with_their_place(model, data, words):
    assert_mentions(error_text(bind, model, data), *words)


@pytest.mark.parametrize(
    ("labels", "words"),
    [({"usr": []}, ["'usr'", "Did you mean 'user'?"]), ({"user": ["a"], "friend": ["a"]}, ["user", "twice"])],
)
def test_bad_labels_are_refused(labels, words):
    assert_mentions(error_text(bind, FRIENDS, BOTH, entities=labels), "`entities`", *words)


# --- exposures

DATA = bind(MATRIX, {"X": table("aba", [1, 2, 3])})
GRID = np.array(list(itertools.product(range(2), range(3))))
CELL = table("a", [2])

EXPOSURES = {
    "table with default": (Exposure(CELL, default=0.25), [[0.25, 1, 0.25], [0.25] * 3]),
    "table with values": (Exposure(table("ab", [2, 1], value=[0.5, 0.0]), default=1), [[1, 0.5, 1], [0, 1, 1]]),
    "table by other names": (
        Exposure(pl.DataFrame({"x": ["a"], "y": [2], "v": [4]}), 1.0, columns={"i": "x", "j": "y"}, value="v"),
        [[1, 4, 1], [1, 1, 1]],
    ),
    "complete table": (table("aaabbb", [1, 2, 3] * 2), [[1] * 3, [1] * 3]),
    "array": (np.array([[2.0, 2, 0], [2, 0.5, 2]]), [[2, 2, 0], [2, 0.5, 2]]),
    "sparse": (scipy.sparse.coo_array(np.array([[2.0, 0, 0], [0, 0.5, 2]])), [[2, 0, 0], [0, 0.5, 2]]),
    "sparse with default": (Exposure(scipy.sparse.coo_array(np.diag([2.0, 3, 4])[:2]), 1), [[2, 1, 1], [1, 3, 1]]),
}


@pytest.mark.parametrize("name", EXPOSURES)
def test_an_exposure_is_its_table_and_the_default_elsewhere(name):
    exposure, wanted = EXPOSURES[name]
    v = bind_exposure(exposure, ("i", "j"), DATA, "V")
    assert v.at(GRID).reshape(2, 3).tolist() == wanted


def test_an_exposure_over_one_index_or_none():
    vector = bind_exposure(Exposure(pd.DataFrame({"j": [3], "value": [5]}), default=2.0), ("j",), DATA, "V")
    assert [list(term.vectors) for term in vector.terms] == [["j"]]
    assert vector.at(np.arange(3)[:, None]).tolist() == [2.0, 2.0, 5.0]
    assert bind_exposure(np.array([1.0, 2, 3]), ("j",), DATA, "V").at(np.array([[2]])) == 3.0
    assert str(bind_exposure(2.5, (), DATA, "c")) == "2.5"


EXPOSURE_ERRORS = {
    "incomplete": (CELL, ["1 of 6 cells", "`default=1.0`"]),
    "shape": (np.ones((3, 2)), ["(3, 2)", "(2, 3)"]),
    "sparse shape": (scipy.sparse.coo_array((3, 2)), ["(3, 2)", "(2, 3)"]),
    "NaN": (np.array([[1, 1, 1], [1, np.nan, 1]]), ["cell [1, 1]", "nan"]),
    "NaN in a sparse array": (scipy.sparse.coo_array(([np.nan], ([0], [1])), shape=(2, 3)), ["cell [0, 1]", "nan"]),
    "negative": (Exposure(CELL.assign(value=-1), default=1), ["column 'value', row 0", "-1"]),
    "twice": (Exposure(table("aa", [2, 2]), default=1), ["rows 0 and 1", "i='a', j=2"]),
    "surplus column": (Exposure(CELL.assign(n=1), default=1), ["column 'n'", "`value='n'`"]),
    "unknown entity": (Exposure(table("z", [2]), default=1), ["column 'i', row 0", "'z'", "'a', 'b'"]),
    "text": ("v.csv", ["str"]),
}


@pytest.mark.parametrize("name", EXPOSURE_ERRORS)
def test_a_bad_exposure_is_refused(name):
    exposure, words = EXPOSURE_ERRORS[name]
    assert_mentions(error_text(bind_exposure, exposure, ("i", "j"), DATA, "V"), "V", *words)


def test_importing_the_data_layer_imports_no_heavy_library():
    heavy = "{'polars', 'pandas', 'scipy', 'numba', 'pyarrow'}"
    code = f"import sys, plait.data.binding.bind; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"
