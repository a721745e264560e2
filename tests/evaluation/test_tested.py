"""What a test is: columns by the names of the data, Relations, arrays; in Python and on the command line alike."""

import json
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import plait
from plait.errors import DataError
from tests.support.command_line import plait_command
from tests.support.evaluating import check_refused
from tests.support.manifests import seal

TEXT = "visits[user, place] = U[user, r] P[place, r]"
VISITS = pl.DataFrame(
    {
        "who": ["ann", "ann", "bob", "bob", "cem", "cem", "dee", "dee"],
        "place": ["cafe", "park", "cafe", "gym", "gym", "zoo", "zoo", "park"],
        "times": [3, 1, 2, 1, 4, 1, 2, 1],
    }
)
TEST = pl.DataFrame({"who": ["ann", "bob", "dee"], "place": ["zoo", "park", "gym"], "times": [0, 0, 1]})


def fitted(**options):
    relation = plait.Relation(VISITS, columns={"user": "who"}, value="times", **options)
    return plait.fit(TEXT, {"visits": relation}, rank=2, max_iter=5, seed=0)


@pytest.fixture(scope="module")
def fit():
    return fitted()


@pytest.fixture(scope="module")
def expected(fit):
    return plait.evaluate(fit, "visits", TEST.rename({"who": "user", "times": "value"}))


# --- names of columns


@pytest.mark.parametrize("user", ["user", "who"])
@pytest.mark.parametrize("value", ["value", "times"])
def test_columns_have_the_names_of_the_model_or_of_the_data(fit, expected, user, value):
    assert dict(plait.evaluate(fit, "visits", TEST.rename({"who": user, "times": value}))) == dict(expected)


def test_a_loaded_run_knows_the_names_and_an_older_run_asks_for_them(tmp_path, fit, expected):
    fit.save(tmp_path)
    assert dict(plait.evaluate(plait.load(tmp_path), "visits", TEST)) == dict(expected)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    del manifest["relations"]
    (tmp_path / "manifest.json").write_text(seal(manifest))
    old = plait.load(tmp_path)
    assert dict(plait.evaluate(old, "visits", TEST.rename({"who": "user", "times": "value"}))) == dict(expected)
    with pytest.raises(DataError, match=r"`value=.times.`"):
        plait.evaluate(old, "visits", TEST.rename({"who": "user"}))


def test_what_hide_gives_is_understood_with_any_names():
    relation = plait.Relation(VISITS, columns={"user": "who"}, value="times")
    for by in ("cells", "links", "thinned_links"):
        train, test = plait.train_test_split({"visits": relation}, fraction=0.3, by=by, seed=1, model=TEXT)
        fit = plait.fit(TEXT, train, rank=1, max_iter=2, seed=0)
        assert plait.evaluate(fit, "visits", test).links == (test["value"] > 0).sum()


def test_an_index_that_is_read_from_a_column_called_value_is_not_the_values():
    table = VISITS.rename({"who": "value"})
    relation = plait.Relation(table, columns={"user": "value"}, value="times")
    fit = plait.fit(TEXT, {"visits": relation}, rank=1, max_iter=2, seed=0)
    assert plait.evaluate(fit, "visits", TEST.rename({"who": "value"})).zeros == 2


def test_other_columns_are_ignored(fit, expected):
    more = TEST.with_columns(note=pl.lit("x"), mean=pl.lit(0.5))
    assert dict(plait.evaluate(fit, "visits", more)) == dict(expected)


WRONG = {
    "not understood": (TEST.rename({"times": "plays"}), ("column 'plays'", "`value='plays'`")),
    "two": (TEST.with_columns(value=1), ("'value' and 'times'", "`value='times'`")),
    "no such values": (plait.Relation(TEST, value="tims"), ("'tims'", "Did you mean 'times'?")),
    "no such column": (plait.Relation(TEST, columns={"user": "whom"}), ("'whom'", "Did you mean 'who'?")),
    "weight": (plait.Relation(TEST, value="times", weight=2.0), ("`weight` is 2.0", "Remove it")),
    "weights": (plait.Relation(TEST, weight="times"), ("`weight` is 'times'", "Remove it")),
    "weight of zeros": (plait.Relation(TEST, observed=0.5), ("`observed` is 0.5", "Remove it")),
    "likelihood": (plait.Relation(TEST, likelihood="bernoulli"), ("bernoulli", "poisson", "Remove it")),
    "shape": (plait.Relation(np.ones((4, 3))), ("(4, 3)", "(4, 4)", "Give one entry per cell")),
    "order": (plait.Relation(np.ones(4)), ("1 dimension", "expected 2", "one dimension per index")),
    "bad value": (
        plait.Relation(
            TEST.with_columns(times=pl.Series([-2, -1, 2])),
            columns={"user": "who"},
            missing=TEST[:1].select("who", "place"),
        ),
        ("column 'times', row 1 (counting from 0)", "-1", "correct it"),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_test_is_refused_with_a_hint(fit, name):
    test, words = WRONG[name]
    check_refused(DataError, lambda: plait.evaluate(fit, "visits", test), "test", *words)


# --- relations


def test_a_relation_says_what_its_columns_are(fit, expected):
    other = TEST.rename({"who": "person", "times": "plays"})
    for table in (other, pd.DataFrame(other.to_dict(as_series=False))):
        test = plait.Relation(table, columns={"user": "person"}, value="plays", observed="listed", unseen="zero")
        assert dict(plait.evaluate(fit, "visits", test)) == dict(expected)


def test_a_relation_without_names_takes_those_of_the_fit(fit, expected):
    assert dict(plait.evaluate(fit, "visits", plait.Relation(TEST))) == dict(expected)


def test_repeated_cells_of_a_relation_are_summed_where_it_says_so(fit):
    twice = pl.concat([TEST, TEST[2:]])
    found = plait.evaluate(fit, "visits", plait.Relation(twice, duplicates="sum"))
    once = plait.evaluate(fit, "visits", TEST.with_columns(times=pl.Series([0, 0, 2])))
    assert dict(found) == dict(once)
    with pytest.raises(DataError, match="rows 2 and 3"):
        plait.evaluate(fit, "visits", plait.Relation(twice))


@pytest.mark.parametrize("option", ["missing", "hidden"])
def test_cells_that_a_relation_calls_missing_are_not_tested(fit, option):
    out = [pl.DataFrame({"place": ["park", "unheard of"]})]
    found = plait.evaluate(fit, "visits", plait.Relation(TEST, columns={"user": "who"}, **{option: out}))
    assert dict(found) == dict(plait.evaluate(fit, "visits", TEST.filter(pl.col("place") != "park")))


@pytest.mark.parametrize("turned", [False, True])
def test_an_array_tests_all_its_cells_but_nan_and_a_sparse_one_those_it_stores(fit, turned):
    X = np.full((4, 4), np.nan)
    users, places = fit.entities["user"].encode(TEST["who"]), fit.entities["place"].encode(TEST["place"])
    X[users, places] = TEST["times"]
    stored = scipy.sparse.coo_array((TEST["times"].to_numpy().astype(float), (users, places)), (4, 4))
    expected = plait.evaluate(fit, "visits", TEST)
    for array in (X, stored):
        test = plait.Relation(array.T, indices=("place", "user")) if turned else plait.Relation(array)
        assert dict(plait.evaluate(fit, "visits", test)) == pytest.approx(dict(expected), rel=1e-12)


# --- Python and the command line


def command(folder, *arguments):
    result = plait_command("evaluate", folder / "run", "visits", *arguments, "--json")
    return result.exit_code, json.loads(result.stdout or result.stderr.splitlines()[0])


@pytest.mark.parametrize("made_by", ["python", "config", "config of an earlier version"])
def test_the_command_line_and_python_agree_on_every_naming_of_columns(tmp_path, made_by):
    if made_by == "python":
        fitted().save(tmp_path / "run")
    else:
        VISITS.write_csv(tmp_path / "visits.csv")
        (tmp_path / "model.toml").write_text(
            f'model = "{TEXT}"\nrank = 2\n[relations.visits]\nsource = "visits.csv"\nvalue = "times"\n'
            'columns = { user = "who" }\n[fit]\nseed = 0\nmax_iter = 5\n'
        )
        done = plait_command("fit", tmp_path / "model.toml", "-o", tmp_path / "run")
        assert done.exit_code == 0, done.output
    if made_by == "config of an earlier version":
        manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
        del manifest["relations"]
        (tmp_path / "run" / "manifest.json").write_text(seal(manifest))
    fit = fitted()
    for user, value in product(("user", "who"), ("value", "times", None)):
        test = TEST.rename({"who": user}) if value else TEST.drop("times").rename({"who": user})
        test = test.rename({"times": value}) if value else test
        test.write_csv(tmp_path / "test.csv")
        code, found = command(tmp_path, str(tmp_path / "test.csv"))
        assert code == 0
        assert found == plait.evaluate(fit, "visits", test).to_dict()
    test = TEST.rename({"times": "plays"})
    test.write_csv(tmp_path / "test.csv")
    code, found = command(tmp_path, str(tmp_path / "test.csv"))
    assert code == 2
    assert "`value='plays'`" in json.dumps(found)
    code, found = command(tmp_path, str(tmp_path / "test.csv"), "--value", "plays")
    assert found == plait.evaluate(fit, "visits", plait.Relation(test, value="plays")).to_dict()
