"""`plait.train_test_split` by time and the last of each entity: what is hidden, and that train has nothing of it."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import plait
from plait.errors import DataError, ParameterError
from tests.support.evaluating import check_refused

MODEL = "visits[user, place] = U[user, r] P[place, r]"


def log(n=60, seed=0, **columns):
    """Visits, each cell once, at different times."""
    rng = np.random.default_rng(seed)
    cells = rng.permutation(np.argwhere(np.ones((10, 12))))[:n]
    table = {"user": [f"u{i}" for i in cells[:, 0]], "place": [f"p{j}" for j in cells[:, 1]]}
    return pl.DataFrame(table | {"when": rng.permutation(n)} | columns)


def cells(table):
    return set(table.select("user", "place").rows())


def known(train, labels=None, model=MODEL):
    """Which cells a fit of train would know as links."""
    bound = plait.Model(model).bind({"visits": train}, entities=labels)
    names = bound.entities
    return {
        tuple(names[i][int(row)] for i, row in zip(("user", "place"), cell)) for cell in bound.relations["visits"].cells
    }


def last_of_each(table, count=1, index="user"):
    """By sorting in Python: the last of each, where more than these are there."""
    found = set()
    for _, own in table.group_by(index):
        if len(own) > count:
            found |= cells(own.sort("when").tail(count))
    return found


def test_the_latest_links_are_hidden_and_the_others_known():
    table = log()
    split = plait.train_test_split(table, fraction=0.25, by="time", time="when", seed=0)
    assert cells(split.test) == cells(table.filter(pl.col("when") >= 45))
    assert known(split.train) == cells(table.filter(pl.col("when") < 45))
    assert str(split).startswith("Split of data[user, place]: 15 of 60 links (the latest by when) held out, seed 0")
    assert (split.by, split.fraction, split.links, split.zeros) == ("time", 0.25, 15, None)


@pytest.mark.parametrize("kind", ["date", "text", "float"])
def test_times_may_be_dates_text_or_numbers(kind):
    table = log()
    start = datetime.date(2024, 1, 1)
    dates = [start + datetime.timedelta(days=int(day)) for day in table["when"]]
    other = {"date": dates, "text": [day.isoformat() for day in dates], "float": table["when"] / 7}[kind]
    split = plait.train_test_split(
        table.with_columns(when=pl.Series(other)), fraction=0.25, by="time", time="when", seed=0
    )
    assert cells(split.test) == cells(table.filter(pl.col("when") >= 45))


def test_of_equal_times_some_are_hidden_at_random():
    table = log().with_columns(when=pl.col("when") // 30)
    splits = [plait.train_test_split(table, fraction=0.25, by="time", time="when", seed=seed) for seed in (0, 0, 1)]
    tests = [cells(split.test) for split in splits]
    assert all(len(test) == 15 and test <= cells(table.filter(when=1)) for test in tests)
    assert tests[0] == tests[1] != tests[2]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("index", ["user", "place"])
def test_the_last_links_of_each_entity_are_hidden_where_one_is_left(index, count):
    table = log()
    split = plait.train_test_split(table, by=("leave_last_out", index), time="when", count=count, seed=0)
    expected = last_of_each(table, count, index)
    assert cells(split.test) == expected
    assert known(split.train) == cells(table) - expected
    assert split.by == ("leave_last_out", index)
    assert split.fraction == len(expected) / 60
    assert f"links (the last {count} of each {index} by when) held out" in str(split)


def test_without_times_one_link_of_each_is_hidden_at_random():
    table = log().drop("when")
    one, two, three = (
        plait.train_test_split(table, by=("leave_last_out", "user"), seed=seed).test for seed in (0, 0, 1)
    )
    assert cells(one) == cells(two) != cells(three)
    assert one["user"].is_unique().all()
    counts = dict(table["user"].value_counts().iter_rows())
    assert set(one["user"]) == {user for user, links in counts.items() if links > 1}
    array = np.random.default_rng(0).integers(0, 2, (6, 7)).astype(float)
    split = plait.train_test_split(
        plait.Relation(array, indices=("user", "place")), by=("leave_last_out", "user"), seed=0
    )
    assert len(split.test) == np.sum((array > 0).sum(1) > 1)


def test_the_last_link_of_each_pair_is_hidden():
    table = log(80).with_columns(what=pl.Series(np.arange(80) % 2)).rename({"place": "spot"})
    table = pl.concat([table, table.with_columns(what=1 - pl.col("what"), when=pl.col("when") + 100)])
    split = plait.train_test_split(table, by=("leave_last_out", "user", "spot"), time="when", seed=0)
    assert len(split.test) == 80
    assert split.test.join(table, on=["user", "spot", "what"])["when"].min() >= 100


@pytest.mark.parametrize("by", ["time", ("leave_last_out", "user")])
@pytest.mark.parametrize("observed", ["all", 0.5])
def test_a_hidden_link_weighs_what_an_unknown_cell_weighs(by, observed):
    table = log()
    options = {"fraction": 0.25} if by == "time" else {}
    split = plait.train_test_split(plait.Relation(table, observed=observed), by=by, time="when", seed=0, **options)
    bound = plait.Model(MODEL).bind({"visits": split.train}).relations["visits"]
    weights = bound.weights.at(np.argwhere(np.ones(bound.shape))).reshape(bound.shape)
    links = np.zeros(bound.shape, bool)
    links[tuple(bound.cells.T)] = True
    full = 1.0 if observed == "all" else observed
    np.testing.assert_allclose(weights[links], 1.0)
    np.testing.assert_allclose(weights[~links], full * (1 - len(split.test) / 60))


def test_listed_zeros_are_hidden_as_links_are():
    table = log(value=np.arange(60) % 3)
    relation = plait.Relation(table, observed="listed")
    split = plait.train_test_split(relation, fraction=0.25, by="time", time="when", seed=0)
    late = table.filter(pl.col("when") >= 45)
    assert cells(split.test) == cells(late)
    assert (split.links, split.zeros) == ((late["value"] > 0).sum(), (late["value"] == 0).sum())
    assert split.zeros > 0
    bound = plait.Model(MODEL).bind({"visits": split.train}).relations["visits"]
    weights = bound.weights.at(np.argwhere(np.ones(bound.shape)))
    assert weights.sum() == 45  # what is hidden is missing, as what is not listed


def test_columns_of_a_pandas_table_may_have_other_names():
    table = log()
    frame = pd.DataFrame(table.rename({"user": "who"}).to_dict(as_series=False))
    relation = plait.Relation(frame, columns={"user": "who"})
    split = plait.train_test_split(
        {"visits": relation}, "visits", fraction=0.25, by="time", time="when", seed=0, model=MODEL
    )
    assert isinstance(split.test, pd.DataFrame)
    assert cells(pl.from_pandas(split.test)) == cells(table.filter(pl.col("when") >= 45))
    assert known(split.train["visits"]) == cells(table.filter(pl.col("when") < 45))


def test_the_time_may_be_an_index_too():
    table = log()
    model = "visits[user, place, when] = U[user, r] P[place, r] W[when, r]"
    split = plait.train_test_split(
        {"visits": table}, "visits", fraction=0.25, by="time", time="when", seed=0, model=model
    )
    assert set(split.test["when"]) == set(range(45, 60))
    assert plait.Model(model).bind(split.train).relations["visits"].shape[2] == 60


def test_leaks_of_the_latest_links_and_of_as_many_zeros_are_removed():
    text = "friends[a, b] = A[a, r] B[b, r]; b: a"
    rng = np.random.default_rng(0)
    pairs = rng.permutation(np.argwhere(np.triu(np.ones((12, 12)), 1)))[:30]
    both = np.concatenate([pairs, pairs[:, ::-1]])
    table = pl.DataFrame({"a": both[:, 0], "b": both[:, 1], "when": np.arange(60)})
    split = plait.train_test_split(
        {"friends": table}, "friends", fraction=0.2, by="time", time="when", seed=0, model=text, leakage="remove"
    )
    assert (split.links, split.zeros) == (12, 12)
    bound = plait.Model(text).bind(split.train).relations["friends"]
    hidden = {tuple(sorted(cell)) for cell in split.test.select("a", "b").rows()}
    assert not {tuple(sorted(map(int, cell))) for cell in bound.cells} & hidden


def test_a_cell_of_several_times_is_refused():
    table = pl.concat([log(), log()[:1].with_columns(when=pl.lit(99, pl.Int64))])
    relation = plait.Relation(table, duplicates="sum")
    cell = table.row(0, named=True)
    check_refused(
        DataError,
        lambda: plait.train_test_split({"visits": relation}, "visits", fraction=0.25, by="time", time="when", seed=0),
        f"visits: user='{cell['user']}', place='{cell['place']}' has rows with different", "Give one row per cell",
    )  # fmt: skip
    same = plait.Relation(pl.concat([log(), log()[:1]]), duplicates="sum")
    assert len(plait.train_test_split(same, fraction=0.25, by="time", time="when", seed=0).test) == 15


LAST, LATE = ("leave_last_out", "user"), {"fraction": 0.5, "by": "time", "time": "when"}
WEIGHTED = pl.DataFrame(
    {"user": [0, 1, 2], "place": [0, 1, 0], "value": [1, 0, 2], "weight": [1.0, 0.3, 1.0], "when": [1, 2, 3]}
)
WRONG = {
    "no time": ({"by": "time", "fraction": 0.2}, ParameterError, ('`by="time"` requires `time`',)),
    "unused time": ({"by": "links", "fraction": 0.2, "time": "when"}, ParameterError, ("`time` is 'when'", "'links'")),
    "no such column": (
        {"by": "time", "fraction": 0.2, "time": "wen"}, DataError, ("column 'wen'", "Did you mean 'when'?")
    ),
    "fraction of the last": (
        {"by": LAST, "fraction": 0.2, "time": "when"}, ParameterError, ("`fraction`", str(LAST), "got 0.2", "Remove")
    ),
    "count of a fraction": (
        {"by": "time", "fraction": 0.2, "time": "when", "count": 2}, ParameterError, ("`count=2`", "`fraction`")
    ),
    "count of none": ({"by": LAST, "time": "when", "count": 0}, ParameterError, ("`count`", "got 0")),
    "count of all": (
        {"by": LAST, "time": "when", "count": 50}, ParameterError, ("more than 50", "Use a smaller `count`")
    ),
    "no fraction": ({"by": "time", "time": "when"}, ParameterError, ("requires `fraction`", "0.2 holds out a fifth")),
    "no index": ({"by": ("leave_last_out", "usr"), "time": "when"}, ParameterError, ("'usr'", "Did you mean 'user'?")),
    "row without a time": (
        {"data": log().with_columns(when=pl.when(pl.col("when") != 7).then("when")), **LATE}, DataError,
        ("column 'when'", f"row {log()['when'].to_list().index(7)} (counting from 0)"),
    ),
    "array": (
        {"data": plait.Relation(np.ones((3, 4)), indices=("user", "place")), **LATE}, DataError, ("`time` requires",)
    ),
    "weighted zeros": ({"data": plait.Relation(WEIGHTED, weight="weight"), **LATE}, ParameterError, ("one weight",)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_hidden_is_refused_with_a_hint(name):
    options, error, words = WRONG[name]
    check_refused(error, lambda: plait.train_test_split(**{"data": log(), **options}), *words)
