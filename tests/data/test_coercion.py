"""Data in other forms than a table by relation: bare tables, dicts, tuples, paths, coordinates."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import plait
from plait.errors import DataError

LIKES = "likes[user, film] = U[user, r] F[film, r]"
EVENTS = "events[who, where, when] = A[who, r] B[where, r] C[when, r]"
TABLE = pl.DataFrame({"user": [0, 0, 1, 3], "film": [1, 2, 1, 0], "value": [1, 2, 1, 5]})
COLUMNS = TABLE.to_dict(as_series=False)
CELLS = TABLE["user"].to_numpy(), TABLE["film"].to_numpy()


def bound(data: Any, model: str = LIKES) -> tuple[Any, ...]:
    """What is bound: links by name and their values."""
    found = plait.Model(model).bind(data)
    (relation,) = found.relations.values()
    names = [
        found.entities[index].names.gather(relation.cells[:, k].astype(int)).to_list()
        for k, index in enumerate(relation.indices)
    ]
    return (*names, relation.values.tolist())


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_pandas(),
        COLUMNS,
        {name: pd.Series(column) for name, column in COLUMNS.items()},
        {name: np.array(column) for name, column in COLUMNS.items()},
        TABLE.to_dicts(),
        TABLE.rows(),
        (*CELLS, TABLE["value"].to_numpy()),
        plait.Relation(TABLE),
        plait.Relation(TABLE.rows()),
        plait.Relation(TABLE.select("film", "user", "value").rows(), indices=("film", "user")),
    ],
    ids=lambda data: type(data).__name__,
)
def test_a_model_of_one_relation_takes_its_data_alone(data: Any) -> None:
    expected = bound({"likes": TABLE})
    assert bound(data) == expected
    if not isinstance(data, plait.Relation):
        assert bound({"likes": data}) == expected


def test_a_path_is_read(tmp_path: Path) -> None:
    TABLE.write_csv(tmp_path / "likes.csv")
    for data in (tmp_path / "likes.csv", str(tmp_path / "likes.csv")):
        assert bound(data) == bound({"likes": data}) == bound(plait.Relation(data)) == bound({"likes": TABLE})
    with pytest.raises(DataError, match="the file does not exist"):
        bound(str(tmp_path / "likse.csv"))


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_an_array_of_two_dimensions_lists_the_cells_of_a_relation_of_three_indices(kind: Any) -> None:
    cells = np.array([[0, 1, 2], [3, 0, 0], [0, 0, 5]], kind)
    table = pl.DataFrame(dict(zip(("who", "where", "when"), cells.astype(int).T)))
    assert bound(cells, EVENTS) == bound({"events": table}, EVENTS)
    values = np.column_stack([cells, [2, 1, 1]])
    assert bound(values, EVENTS) == bound(table.with_columns(value=pl.Series([2, 1, 1])), EVENTS)
    assert bound(list(map(tuple, cells.astype(int).tolist())), EVENTS) == bound(table, EVENTS)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.array([[0, 1], [0, 3], [2, 1]]), "can be a matrix, or the coordinates of 3 cells"),
        (np.array([[0, 1, 2], [0, 3, 1]]), "can be a matrix, or the coordinates and values of 2 cells"),
        ([[0, 1], [0, 3]], "row 0 of the list is a list"),
        ([(0, 1), (0,)], "row 1 of the list has 1 entries"),
        ([(0, 1, 2, 3)], "a row has 4 entries, but the relation has 2 indices"),
        (((0, 1), (0, 3)), "a tuple must contain one NumPy array"),
        ((np.zeros(2, int), np.zeros(3, int)), "the arrays have different lengths: 2, 3"),
        ({"user": [1], "film": [2], "likes": [3]}, "the key 'likes' can be the relation or a column"),
        ({"user": [1, 2], "film": [2]}, "the dict is not a table"),
        ({"user": [1, 2], "flim": [2, 1]}, "there is no column 'film'"),
        ({"like": TABLE}, "'like' is not a relation"),
    ],
)
def test_what_is_ambiguous_or_broken_is_refused(data: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        bound(data)
    assert caught.value.hint


def test_columns_of_a_file_without_a_header_are_named_by_the_hint() -> None:
    facts = {"ann": ["bob"], "7": ["zoe"], "tuesday": ["x"]}
    with pytest.raises(DataError, match="there is no column 'user'") as caught:
        bound(pl.DataFrame(facts))
    assert "If the file has no header, read it with `columns=['user', 'film', '…']`." in str(caught.value)


def test_a_model_of_two_relations_needs_their_names() -> None:
    model = f"{LIKES}\ntags[film, word] = F[film, r] W[word, r]"
    with pytest.raises(DataError, match="the model has 2 relations") as caught:
        plait.Model(model).bind(TABLE)
    assert "'likes': …, 'tags': …" in caught.value.hint


@pytest.mark.parametrize("data", [TABLE, COLUMNS, TABLE.rows(), plait.Relation(TABLE)], ids=lambda d: type(d).__name__)
def test_a_split_of_a_bare_relation_is_fitted_and_evaluated(data: Any) -> None:
    split = plait.train_test_split(data, by="links", fraction=0.25, seed=1, model=LIKES)
    fit = plait.fit(LIKES, split.train, rank=1, max_iter=3, warmup=0, seed=0)
    expected = plait.evaluate(fit, "likes", split.test, negatives=0)
    rows = split.test.rows()
    for test in (rows, split.test.to_dict(as_series=False), tuple(map(np.array, zip(*rows)))):
        assert dict(plait.evaluate(fit, "likes", test, negatives=0)) == dict(expected)


def test_a_split_without_a_model_takes_a_dict_of_columns() -> None:
    split = plait.train_test_split(COLUMNS, by="links", fraction=0.25, seed=1)
    assert split.test.equals(plait.train_test_split(TABLE, by="links", fraction=0.25, seed=1).test)
    with pytest.raises(DataError, match="the names of the entries of a row are unknown"):
        plait.train_test_split(TABLE.rows(), by="links", fraction=0.25)


def test_fold_in_takes_bare_rows_for_a_model_of_one_relation() -> None:
    fit = plait.fit(LIKES, TABLE, rank=1, max_iter=3, warmup=0, seed=0)
    rows = [(9, 1, 2)]
    table = {"likes": pl.DataFrame(rows, ["user", "film", "value"], orient="row")}
    assert (
        fit.fold_in(rows)
        .predict("likes", {"user": [9], "film": [1]})
        .equals(fit.fold_in(table).predict("likes", {"user": [9], "film": [1]}))
    )
