import numpy as np
import polars as pl
import pytest
import scipy.sparse
import sparse

import plait
from plait.files.tensors import table_of
from tests.support.data_errors import assert_mentions, error_text

DENSE = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
CELLS = [(0, 1, 2.0), (1, 0, 1.0), (1, 2, 3.0)]


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csc_matrix, sparse.COO])
def test_a_table_lists_the_cells_that_are_not_zero(kind):
    table = table_of(kind(DENSE), ["user", "place"])
    assert table.columns == ["user", "place", "value"]
    assert sorted(table.rows()) == CELLS


def test_an_array_with_missing_cells_lists_all_others():
    table = table_of(np.array([0.0, np.nan, 2.0]))
    assert table.rows() == [(0, 0.0), (2, 2.0)]
    gaps = sparse.COO(np.array([[0, 2]]), np.array([0.0, 2.0]), shape=(3,), fill_value=np.nan)
    assert table_of(gaps).rows() == [(0, 0.0), (2, 2.0)]


def test_a_table_of_an_array_binds_to_the_same_relation():
    rng = np.random.default_rng(0)
    data = rng.poisson(0.7, (4, 5, 3))
    model = plait.Model("x[i, j, k] = A[i, r] B[j, r] C[k, r]")
    table = table_of(data, ["i", "j", "k"])
    labels = {name: range(size) for name, size in zip("ijk", data.shape)}
    options = {"rank": 2, "seed": 0, "max_iter": 3, "warmup": 0}
    one = plait.fit(model, {"x": data}, **options)
    two = plait.fit(model, {"x": plait.Relation(table, unseen="zero")}, entities=labels, **options)
    assert one.objective == pytest.approx(two.objective)


def test_names_must_fit_the_dimensions():
    assert_mentions(error_text(table_of, DENSE, ["user"]), "`columns` has 'user'", "2 dimensions")


def test_a_matrix_is_converted_to_every_kind_of_table_and_back():
    plait.write(DENSE, "a.tns")
    assert plait.read("a.tns").rows() == [(i + 1, j + 1, x) for i, j, x in CELLS]
    plait.write(DENSE, "a.csv", columns=["user", "place"])
    table = plait.read("a.csv")
    assert table.columns == ["user", "place", "value"]
    assert table.rows() == CELLS
    plait.write(table, "back.npz")
    assert np.array_equal(plait.read("back.npz").toarray(), DENSE)
    plait.write(pl.DataFrame({"i": [0, 2], "plays": [1, 5]}), "named.npz", value="plays")
    assert plait.read("named.npz").toarray().tolist() == [1, 0, 5]
