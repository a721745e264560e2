"""bind against weights built cell by cell from their definition; every kind of data; every error."""

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

import plait
from plait.data.binding.bind import bind
from plait.data.binding.given import bind_exposure
from plait.data.observing import observed
from plait.data.reading.relation import Exposure, Relation
from plait.errors import DataError
from plait.model import Model

INDICES = ("i", "j", "k")
SHAPE = (3, 4, 2)
LABELS = {"i": ["a", "b", "c"], "j": [10, 11, 12, 13], "k": [True, False]}
CP3 = Model("X[i,j,k] = A[i,r] B[j,r] C[k,r]")
MATRIX = Model("X[i,j] = A[i,r] B[j,r]")


def message(call):
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


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
    universe: str
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
            universe=self.universe,
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
        if self.universe == "relation" and not all(any(k[a] == cell[a] for k in kept) for a in range(3)):
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
    universe = draw(st.sampled_from(["relation", "model"]))
    return Case(cells, missing, observed, universe, draw(st.sampled_from([0.0, 1.0, 0.7])), draw(st.booleans()))


def bound(relation, labels=LABELS):
    return bind(CP3, {"X": relation}, labels=labels).relations["X"]


@given(case=cases(), listing=st.booleans())
def test_weights_and_cells_are_those_of_the_definition(case, listing):
    with pytest.MonkeyPatch.context() as patch:
        if not listing:
            patch.setattr(observed, "MOST_CELLS", -1)
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
    """Whether two bound relations agree in every bit."""
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
def test_hidden_values_do_not_change_a_single_bit(case, junk):
    other = dataclasses.replace(
        case, cells={cell: (junk, own) if case.is_hidden(cell) else (x, own) for cell, (x, own) in case.cells.items()}
    )
    same(bound(case.relation()), bound(other.relation()))


@given(case=cases())
def test_a_hidden_row_may_as_well_not_be_there(case):
    other = dataclasses.replace(case, cells={c: pair for c, pair in case.cells.items() if not case.is_hidden(c)})
    same(bound(case.relation()), bound(other.relation()))


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

SAME_DATA = {
    "pandas": lambda: pd.DataFrame(TABLE),
    "polars": lambda: pl.DataFrame(TABLE),
    "polars lazy": lambda: pl.LazyFrame(TABLE),
    "pyarrow": lambda: pa.table(TABLE),
    "rows in another order": lambda: pd.DataFrame(TABLE).iloc[::-1],
    "an array": lambda: DENSE,
    "an array of integers": lambda: DENSE.astype(np.int8),
    "an array of float32": lambda: DENSE.astype(np.float32),
    "an array in Fortran order": lambda: np.asfortranarray(DENSE),
    "an array the other way round": lambda: Relation(DENSE.T, indices=("j", "i")),
    "a masked array without gaps": lambda: np.ma.array(DENSE),
    "scipy coo": lambda: scipy.sparse.coo_array(DENSE),
    "scipy csr": lambda: scipy.sparse.csr_array(DENSE),
    "scipy csc matrix": lambda: scipy.sparse.csc_matrix(DENSE),
    "scipy coo with parts to be added": lambda: scipy.sparse.coo_array(
        ([1.0, 1.0, 1.0, 3.0], ([0, 0, 0, 1], [1, 2, 1, 0])), shape=(2, 3)
    ),
    "scipy the other way round": lambda: Relation(scipy.sparse.csr_array(DENSE.T), indices=("j", "i")),
    "sparse.COO": lambda: sparse.COO.from_numpy(DENSE),
    "sparse.GCXS": lambda: sparse.GCXS.from_numpy(DENSE),
    "sparse.DOK": lambda: sparse.DOK.from_numpy(DENSE),
    "other column names": lambda: Relation(
        pd.DataFrame({"from": TABLE["i"], "to": TABLE["j"], "n": TABLE["value"]}),
        columns={"i": "from", "j": "to"},
        value="n",
    ),
}


@pytest.mark.parametrize("name", SAME_DATA)
def test_the_same_data_bind_to_the_same_relation_however_they_are_kept(name):
    x = bind(MATRIX, {"X": SAME_DATA[name]()}).relations["X"]
    assert x.shape == (2, 3)
    assert x.cells.dtype == np.uint32
    assert x.cells.flags.c_contiguous
    assert x.cells.tolist() == [[0, 1], [0, 2], [1, 0]]
    assert x.values.tolist() == [2.0, 1.0, 3.0]
    assert x.cell_weights.tolist() == [1.0, 1.0, 1.0]
    assert str(x.weights) == "1"


GAPS = {
    "few gaps": (np.array([[0.0, 2.0, np.nan], [3.0, 0.0, 0.0]]), "1 - T[i, j](1)"),
    "mostly gaps": (np.array([[0.0, 2.0, np.nan], [np.nan, np.nan, np.nan]]), "T[i, j](2)"),
    "only gaps": (np.full((2, 3), np.nan), "0"),
}


@pytest.mark.parametrize("name", GAPS)
@pytest.mark.parametrize("observed", ["all", "listed", 0.25])
def test_nan_in_an_array_is_a_missing_cell(name, observed):
    array, shown = GAPS[name]
    x = bind(MATRIX, {"X": Relation(array, observed=observed)}).relations["X"]
    zero = 1.0 if isinstance(observed, str) else observed
    wanted = np.where(np.isnan(array), 0.0, np.where(array > 0, 1.0, zero))
    assert x.weights.at(np.argwhere(np.ones((2, 3)))).tolist() == wanted.ravel().tolist()
    assert x.missing_cells == np.isnan(array).sum()
    if isinstance(observed, str):
        assert str(x.weights) == shown


def test_a_masked_cell_is_missing():
    masked = np.ma.array(DENSE, mask=[[True, False, False], [False, False, False]])
    assert bind(MATRIX, {"X": masked}).relations["X"].missing_cells == 1


def test_what_a_sparse_array_stores_is_what_it_lists():
    stored = scipy.sparse.coo_array(([2.0, 0.0, np.nan], ([0, 1, 1], [1, 0, 2])), shape=(2, 3))
    x = bind(MATRIX, {"X": Relation(stored, observed="listed")}).relations["X"]
    assert (len(x.values), x.observed_zeros, x.missing_cells) == (1, 1, 4)
    x = bind(MATRIX, {"X": stored}).relations["X"]
    assert (len(x.values), x.observed_zeros, x.missing_cells) == (1, 4, 1)


def test_a_sparse_array_filled_with_nan_lists_what_is_observed():
    filled = sparse.COO(np.array([[0, 1], [1, 2]]), np.array([2.0, 0.0]), shape=(2, 3), fill_value=np.nan)
    x = bind(MATRIX, {"X": filled}).relations["X"]
    assert (len(x.values), x.observed_zeros, x.missing_cells) == (1, 1, 4)


@pytest.mark.parametrize("data", [np.array(4.0), 4, 4.0, pd.DataFrame({"value": [4.0]})])
def test_a_relation_without_indices_is_one_number(data):
    x = bind(Model("X[] = c[] d[]"), {"X": data}).relations["X"]
    assert (x.cells.shape, x.values.tolist(), x.total_cells, x.missing_cells) == ((1, 0), [4.0], 1, 0)
    assert str(x.weights) == "1"


def test_a_relation_without_indices_may_be_missing():
    x = bind(Model("X[] = c[] d[]"), {"X": np.nan}).relations["X"]
    assert (len(x.values), x.missing_cells, str(x.weights)) == (0, 1, "0")


# --- axes and universes

FRIENDS = Model("""
    visits[user, place] = U[user, r] P[place, r]
    friends[user, friend] = U[user, r] F[friend, r]
    friend: user
""")
VISITS = pd.DataFrame({"user": ["a", "b"], "place": [1, 2]})
LIKES = pd.DataFrame({"user": ["a", "a"], "friend": ["c", "d"]})


def test_indices_of_one_axis_have_the_same_labels():
    data = bind(FRIENDS, {"visits": VISITS, "friends": LIKES})
    assert list(data.labels["user"]) == list(data.labels["friend"]) == ["a", "b", "c", "d"]
    assert data.sizes == {"user": 4, "place": 2, "friend": 4}
    assert data.relations["friends"].cells.tolist() == [[0, 2], [0, 3]]


def test_an_entity_of_other_relations_is_missing_here_or_zeros():
    tables = {"visits": VISITS, "friends": LIKES}
    here = bind(FRIENDS, tables).relations["visits"]
    assert (here.unseen, here.missing_cells) == ({"user": 2, "place": 0}, 4)
    everywhere = bind(FRIENDS, tables | {"visits": Relation(VISITS, universe="model")}).relations["visits"]
    assert (everywhere.unseen, everywhere.missing_cells) == ({"user": 2, "place": 0}, 0)


def test_who_is_only_a_friend_is_here_as_a_user_too():
    friends = bind(FRIENDS, {"visits": VISITS, "friends": LIKES}).relations["friends"]
    # a, c and d occur, b does not: neither as a user nor as a friend.
    assert friends.weights.total() == 9 - 3  # none of the three beside itself
    assert friends.unseen == {"user": 1, "friend": 1}


def test_an_empty_table_is_legal_where_others_know_the_entities():
    nobody = LIKES.iloc[:0]
    x = bind(FRIENDS, {"visits": VISITS, "friends": Relation(nobody, universe="model")}).relations["friends"]
    assert (len(x.values), x.observed_zeros, x.missing_cells) == (0, 2, 2)
    x = bind(FRIENDS, {"visits": VISITS, "friends": nobody}).relations["friends"]
    assert (len(x.values), x.observed_zeros, x.missing_cells) == (0, 0, 4)
    empty = pd.DataFrame({"i": [], "j": []})
    x = bind(MATRIX, {"X": Relation(empty, universe="model")}, labels={"i": [1, 2], "j": ["a"]}).relations["X"]
    assert (x.shape, x.observed_zeros) == ((2, 1), 2)


def test_labels_are_declared_by_axis_or_index():
    for name in ("user", "friend"):
        data = bind(FRIENDS, {"visits": VISITS, "friends": LIKES}, labels={name: ["z", "b"]})
        assert list(data.labels["user"]) == ["a", "b", "c", "d", "z"]
    data = bind(FRIENDS, {"visits": VISITS, "friends": LIKES}, labels={"user": list("zdcba")})
    assert list(data.labels["user"]) == list("zdcba")  # all of them: that is their order


def test_a_table_beside_an_array_uses_the_arrays_rows():
    model = Model("X[i,j] = A[i,r] B[j,r]; Y[i] = A[i,r] w[r]")
    data = bind(model, {"X": DENSE, "Y": pd.DataFrame({"i": [1]})})
    assert data.relations["Y"].cells.tolist() == [[1]]
    data = bind(model, {"X": DENSE, "Y": pd.DataFrame({"i": ["p"]})}, labels={"i": ["q", "p"]})
    assert data.relations["Y"].cells.tolist() == [[1]]
    assert list(data.labels["i"]) == ["q", "p"]


def test_missing_tables_go_by_the_relations_columns_or_its_indices():
    table = pd.DataFrame({"from": ["a", "b"], "j": [1, 2]})
    for hidden in (pd.DataFrame({"from": ["a", "a"]}), pd.DataFrame({"i": ["a"]})):
        x = bind(MATRIX, {"X": Relation(table, columns={"i": "from"}, missing=hidden)}).relations["X"]
        assert x.cells.tolist() == [[1, 1]]


def test_the_observed_cells_are_listed_where_most_are_hidden():
    left = [("a", 0), ("b", 1), ("c", 3)]
    cells = [cell for cell in itertools.product("abc", range(4)) if cell not in left]
    hidden = pl.DataFrame(cells, schema=["i", "j"], orient="row")
    table = pl.DataFrame({"i": ["a", "a", "b", "c"], "j": [0, 2, 1, 3]})
    x = bind(MATRIX, {"X": Relation(table, missing=hidden, universe="model")}).relations["X"]
    assert str(x.weights) == "T[i, j](3)"
    assert x.cells.tolist() == [[0, 0], [1, 1], [2, 3]]


def test_a_row_hidden_cell_by_cell_is_a_hidden_slice():
    hidden = pl.DataFrame({"i": ["a"] * 4 + ["b"], "j": [0, 1, 2, 3, 0]})
    table = pl.DataFrame({"i": ["b", "c"], "j": [1, 2]})
    x = bind(MATRIX, {"X": Relation(table, missing=hidden, universe="model")}, labels={"i": list("abc"), "j": range(4)})
    assert str(x.relations["X"].weights) == "m[i] - T[i, j](1)"
    assert x.relations["X"].missing_cells == 5


def test_print_says_everything_that_was_understood():
    visits = pd.DataFrame({"user": ["a", "a", "b"], "place": [1, 1, 2], "value": [1, 2, 0]})
    hidden = pd.DataFrame({"user": ["b"], "place": [1]})
    relation = Relation(visits, duplicates="sum", missing=hidden, weight=0.5, universe="model")
    assert str(bind(FRIENDS, {"visits": relation, "friends": LIKES})) == (
        "axes: user 4, place 2\n"
        "visits[user, place]: 4 × 2 = 8 cells\n"
        "  observed links  1, values adding up to 3\n"
        "  observed zeros  6\n"
        "  missing cells   1\n"
        "  unseen here     2 of 4 user\n"
        "  duplicates      1 row added to another\n"
        "  likelihood      poisson\n"
        "  weights         0.5 - 0.5 T[user, place](1)\n"
        "friends[user, friend]: 4 × 4 = 16 cells\n"
        "  observed links  2, values adding up to 2\n"
        "  observed zeros  4\n"
        "  missing cells   10\n"
        "  diagonal        missing: no entity is observed with itself\n"
        "  unseen here     1 of 4 user\n"
        "  unseen here     1 of 4 friend\n"
        "  likelihood      poisson\n"
        "  weights         m[user] m[friend] - T[user, friend](3)"
    )


# --- errors


def table(**columns):
    return pd.DataFrame({"i": ["a", "b", "a"], "j": [1, 2, 2], **columns})


def one(data, **options):
    return lambda: bind(MATRIX, {"X": Relation(data, **options) if options else data})


ERRORS = {
    "no data": (
        lambda: bind(FRIENDS, {"visits": VISITS}),
        "relation friends has no data.\nAdd 'friends' to the data, or remove its equation.",
    ),
    "data for no relation": (
        lambda: bind(FRIENDS, {"visits": VISITS, "freinds": LIKES}),
        "there are data for 'freinds', which is no relation of the model.\n"
        "Did you mean 'friends'? Its relations are visits, friends.",
    ),
    "no dict": (
        lambda: bind(MATRIX, VISITS),
        "`data` is DataFrame.\nGive a dict, relation -> table: {'X': …}.",
    ),
    "no table": (
        lambda: bind(MATRIX, {"X": "x.csv"}),
        "X: a relation cannot be read from str.\n"
        "Give a table (pandas, polars, pyarrow), a NumPy array, a SciPy sparse matrix or a sparse.COO. "
        "A graph of NetworkX will do, too.",
    ),
    "labels of no index": (
        lambda: bind(FRIENDS, {"visits": VISITS, "friends": LIKES}, labels={"usr": []}),
        "`labels` names 'usr', which is no visible index of the model.\n"
        "Did you mean 'user'? It has user, place, friend.",
    ),
    "labels of one axis twice": (
        lambda: bind(FRIENDS, {"visits": VISITS, "friends": LIKES}, labels={"user": ["a"], "friend": ["a"]}),
        "`labels` declares axis user twice.\nDeclare it once, under 'user'.",
    ),
    "negative": (
        one(table(value=[1, -2, 3])),
        "X, column 'value', row 1 (counting from 0): the value is -2.\nCounts and links are finite numbers, 0 or more.",
    ),
    "infinite": (
        one(table(value=[1, 2, np.inf])),
        "X, column 'value', row 2 (counting from 0): the value is inf.\n"
        "Counts and links are finite numbers, 0 or more.",
    ),
    "value missing": (
        one(table(n=[1, np.nan, 3]), value="n"),
        "X, column 'n', row 1 (counting from 0): the value is missing.\nRemove the row and name its cell in `missing`.",
    ),
    "negative in an array": (
        one(np.array([[1.0, 2.0], [np.nan, -1.0]])),
        "X, cell [1, 1]: the value is -1.\nCounts and links are finite numbers, 0 or more.",
    ),
    "text for values": (
        one(table(value=["x", "y", "z"])),
        "X, column 'value', row 0 (counting from 0): 'x' is not a number; the column is of type String.\n"
        "Convert the column to numbers.",
    ),
    "negative weight": (
        one(table(w=[1, 2, -1]), weight="w"),
        "X, column 'w', row 2 (counting from 0): the weight is -1.\nA weight is a finite number, 0 or more.",
    ),
    "weight missing": (
        one(table(w=[1, None, 1]), weight="w"),
        "X, column 'w', row 1 (counting from 0): the weight is missing.\nRemove the row.",
    ),
    "label missing": (
        one(pd.DataFrame({"i": ["a", None], "j": [1, 2]})),
        "X, column 'i', row 1 (counting from 0): the label is missing.\nEvery row names its entities; remove the row.",
    ),
    "twice": (
        one(pd.DataFrame({"i": ["b", "a", "b", "a", "a"], "j": [1, 2, 2, 2, 2]})),
        "X, rows 1 and 3 (counting from 0): both are about i='a', j=2; 1 more row repeats a cell.\n"
        'Remove one, or add them up with `duplicates="sum"`.',
    ),
    "twice, after hidden rows": (
        one(
            pd.DataFrame({"i": ["b", "a", "c", "c"], "j": [1, 2, 2, 2]}),
            missing=pd.DataFrame({"i": ["b"]}),
        ),
        "X, rows 2 and 3 (counting from 0): both are about i='c', j=2.\n"
        'Remove one, or add them up with `duplicates="sum"`.',
    ),
    "summed with different weights": (
        one(pd.DataFrame({"i": ["a", "a"], "j": [1, 1], "w": [1.0, 2.0]}), weight="w", duplicates="sum"),
        "X: rows about i='a', j=1 are to be summed but have different weights.\n"
        "Give rows of one cell the same weight, or sum them before.",
    ),
    "count under bernoulli": (
        one(table(value=[1, 0, 3]), likelihood="bernoulli"),
        "X, column 'value', row 2 (counting from 0): the value is 3, but the likelihood is bernoulli.\n"
        'Links are 0 or 1. Use `likelihood="poisson"` for counts.',
    ),
    "sum above 1 under bernoulli": (
        one(pd.DataFrame({"i": ["a", "a"], "j": [1, 1]}), likelihood="bernoulli", duplicates="sum"),
        "X: the values of i='a', j=1 add up to 2, but the likelihood is bernoulli.\n"
        'Links are 0 or 1. Use `likelihood="poisson"` for counts.',
    ),
    "missing names a stranger": (
        one(table(), missing=pd.DataFrame({"i": ["a", "q"]})),
        "X, missing, column 'i', row 1 (counting from 0): 'q' is no entity of axis i, which has 'a', 'b'.\n"
        "Declare further entities with `labels={'i': …}`, or remove the rows.",
    ),
    "missing by other labels": (
        one(table(), missing=pd.DataFrame({"i": [1]})),
        "X, missing, column 'i': the labels are integers, but axis i has strings: 'a', 'b'.\n"
        "Convert the column to strings.",
    ),
    "mixed labels of two tables": (
        lambda: bind(FRIENDS, {"visits": VISITS, "friends": pd.DataFrame({"user": ["a"], "friend": [7]})}),
        "friends, column 'friend': the labels are integers, but strings in visits, column 'user'.\n"
        "Both are axis user: convert one of the two, or read the integers as text (`text`).",
    ),
    "no entity": (
        one(pd.DataFrame({"i": [], "j": []})),
        "axis i has no entity: there is nothing in X, column 'i'.\n"
        "Give at least one row, or declare the entities with `labels={'i': …}`.",
    ),
    "filled with ones": (
        one(sparse.COO.from_numpy(np.ones((2, 2)), fill_value=1.0)),
        "X: the fill value is 1.\nA cell that is not stored is 0, or NaN for missing.",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_the_error_says_what_and_where_and_a_cure(name):
    call, wanted = ERRORS[name]
    assert message(call) == wanted


# --- exposures

DATA = bind(MATRIX, {"X": pd.DataFrame({"i": ["a", "b", "a"], "j": [1, 2, 3]})})
GRID = np.array(list(itertools.product(range(2), range(3))))

EXPOSURES = {
    "table with default": (Exposure(pd.DataFrame({"i": ["a"], "j": [2]}), default=0.25), [[0.25, 1, 0.25], [0.25] * 3]),
    "table with values": (
        Exposure(pl.DataFrame({"j": [2, 1], "i": ["a", "b"], "value": [0.5, 0.0]}), default=1),
        [[1, 0.5, 1], [0, 1, 1]],
    ),
    "table by other names": (
        Exposure(pl.DataFrame({"x": ["a"], "y": [2], "v": [4]}), 1.0, columns={"i": "x", "j": "y"}, value="v"),
        [[1, 4, 1], [1, 1, 1]],
    ),
    "complete table": (pd.DataFrame(list(itertools.product("ab", [1, 2, 3])), columns=["i", "j"]), [[1] * 3, [1] * 3]),
    "array": (np.array([[2.0, 2, 0], [2, 0.5, 2]]), [[2, 2, 0], [2, 0.5, 2]]),
    "sparse": (scipy.sparse.coo_array(np.array([[2.0, 0, 0], [0, 0.5, 2]])), [[2, 0, 0], [0, 0.5, 2]]),
    "sparse with default": (Exposure(scipy.sparse.coo_array(np.diag([2.0, 3, 4])[:2]), 1), [[2, 1, 1], [1, 3, 1]]),
}


@pytest.mark.parametrize("name", EXPOSURES)
def test_an_exposure_is_its_table_and_the_default_elsewhere(name):
    given_, wanted = EXPOSURES[name]
    v = bind_exposure(given_, ("i", "j"), DATA, "V")
    assert v.at(GRID).reshape(2, 3).tolist() == wanted


def test_an_exposure_over_one_index_is_a_vector_and_over_none_a_constant():
    vector = bind_exposure(Exposure(pd.DataFrame({"j": [3], "value": [5]}), default=2.0), ("j",), DATA, "V")
    assert [list(term.vectors) for term in vector.terms] == [["j"]]
    assert vector.at(np.arange(3)[:, None]).tolist() == [2.0, 2.0, 5.0]
    assert bind_exposure(np.array([1.0, 2, 3]), ("j",), DATA, "V").at(np.array([[2]])) == 3.0
    assert str(bind_exposure(2.5, (), DATA, "c")) == "2.5"


EXPOSURE_ERRORS = {
    "incomplete": (
        pd.DataFrame({"i": ["a"], "j": [2]}),
        "V: the table lists 1 of 6 cells.\nSay what the others are: `default=1.0`.",
    ),
    "shape": (
        np.ones((3, 2)),
        "V: the array has shape (3, 2), but wanted is (2, 3) (i: 2, j: 3).\nGive one entry per cell.",
    ),
    "sparse shape": (
        scipy.sparse.coo_array((3, 2)),
        "V: the array has shape (3, 2), but wanted is (2, 3) (i: 2, j: 3).\nGive one entry per cell.",
    ),
    "NaN": (
        np.array([[1, 1, 1], [1, np.nan, 1]]),
        "V, cell [1, 1]: the exposure is nan.\nAn exposure is a finite number, 0 or more.",
    ),
    "negative": (
        Exposure(pd.DataFrame({"i": ["a"], "j": [2], "value": [-1]}), default=1),
        "V, column 'value', row 0 (counting from 0): the exposure is -1.\nAn exposure is a finite number, 0 or more.",
    ),
    "twice": (
        Exposure(pd.DataFrame({"i": ["a", "a"], "j": [2, 2]}), default=1),
        "V, rows 0 and 1 (counting from 0): both are about i='a', j=2.\nRemove one.",
    ),
    "surplus column": (
        Exposure(pd.DataFrame({"i": ["a"], "j": [2], "n": [1]}), default=1),
        "V: column 'n' is not used; wanted are 'i', 'j'.\nDrop what is not part of it, or say what it is: `value='n'`.",
    ),
    "unknown": (
        Exposure(pd.DataFrame({"i": ["z"], "j": [2]}), default=1),
        "V, column 'i', row 0 (counting from 0): 'z' is no entity of axis i, which has 'a', 'b'.\n"
        "Declare further entities with `labels={'i': …}`, or remove the rows.",
    ),
    "NaN in a sparse array": (
        scipy.sparse.coo_array(([np.nan], ([0], [1])), shape=(2, 3)),
        "V, cell [0, 1]: the exposure is nan.\nAn exposure is a finite number, 0 or more.",
    ),
    "text": (
        "v.csv",
        "V: an exposure cannot be read from str.\n"
        "Give a table (pandas, polars, pyarrow), a NumPy array, a SciPy sparse matrix or a sparse.COO.",
    ),
}


@pytest.mark.parametrize("name", EXPOSURE_ERRORS)
def test_a_bad_exposure_is_refused(name):
    given_, wanted = EXPOSURE_ERRORS[name]
    assert message(lambda: bind_exposure(given_, ("i", "j"), DATA, "V")) == wanted


def test_importing_the_data_layer_imports_no_heavy_library():
    heavy = "{'polars', 'pandas', 'scipy', 'numba', 'pyarrow'}"
    code = f"import sys, plait.data.binding.bind; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


def test_an_empty_table_beside_an_array_names_no_entity_of_it():
    model = plait.Model("X[i, j] = A[i, r] B[j, r]; Y[i, k] = A[i, r] C[k, r]")
    empty = pl.DataFrame({"i": [], "k": []}, schema={"i": pl.Int64, "k": pl.Int64})
    data = model.bind({"X": np.ones((3, 2)), "Y": empty}, labels={"k": [7]})
    assert len(data.labels["i"]) == 3
    assert len(data.relations["Y"].links) == 0


def test_a_hidden_slice_of_a_third_index_says_nothing_of_self_links():
    model = plait.Model("X[i, j, k] = A[i, r] B[j, r] C[k, r]; j: i")
    table = pl.DataFrame({"i": [0, 1, 2, 0], "j": [0, 1, 2, 1], "k": [0, 0, 0, 1]})
    bound = model.bind({"X": plait.Relation(table, hidden=pl.DataFrame({"k": [1]}))}).relations["X"]
    assert ("i", "j") not in bound.closed.tables
