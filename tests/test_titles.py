"""Titles appear next to names in all answers of a fit, and change nothing else."""

import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import plait
from tests.support.manifests import manifest

TEXT = "seen[user, film] = U[user, r] F[film, r]"
ODD = 'Häns, "the" 🎬 </script><img src=x onerror=alert(1)>\n'
TITLES = {1: "Casablanca", 3: ODD, 99: "never seen"}
SETTINGS = {"rank": 2, "seed": 0, "max_iter": 15, "progress": False}


def seen():
    users = ["ann", "ann", "bob", "bob", "cem", "dee", "dee"]
    return pl.DataFrame({"user": users, "film": [1, 2, 1, 3, 2, 3, 4]})


def fit_of(titles=None, **settings):
    return plait.fit(TEXT, {"seen": seen()}, titles=titles, **SETTINGS | settings)


@pytest.fixture(scope="module")
def plain():
    return fit_of()


@pytest.fixture(scope="module")
def fit():
    return fit_of({"film": TITLES})


def titles_of(fit, axis="film"):
    return {name: fit.title(axis, name) for name in fit.entities[axis]}


OF_FILMS = {1: "Casablanca", 2: None, 3: ODD, 4: None}


# --- what is given


def as_table(make, **columns):
    return make({"film": list(TITLES), "title": list(TITLES.values())} | columns)


@pytest.mark.parametrize(
    "given",
    [
        TITLES,
        {"film": list(TITLES), "title": list(TITLES.values())},
        as_table(pl.DataFrame),
        as_table(pl.LazyFrame),
        as_table(pd.DataFrame),
        as_table(pa.table),
        pd.DataFrame({"film": [1.0, 3.0, 99.0], "title": pd.Categorical(list(TITLES.values()))}),
        as_table(pl.DataFrame, year=[1942, 2000, 2001], name=["not", "this", "one"]),
        pl.DataFrame({"year": [1, 1, 1], "name": list(TITLES.values()), "film": list(TITLES)}),
        pl.DataFrame({"id": list(TITLES), "words": list(TITLES.values())}),
        pl.DataFrame({"film": [1, 3, 1, 2, 4], "title": ["Casablanca", ODD, "Casablanca", None, ""]}),
    ],
    ids=["id to title", "columns", "polars", "lazy", "pandas", "pyarrow", "floats and categories", "title before name",
         "by the axis' name", "first and only other", "gaps and twice the same"],
)  # fmt: skip
def test_titles_are_read_from_dicts_and_tables(plain, given):
    found = plain.with_titles({"film": given})
    assert titles_of(found) == OF_FILMS
    assert dict(found.titles["film"]) == {1: "Casablanca", 3: ODD}
    assert list(found.titles) == ["film"]


def test_strings_dates_and_booleans_have_titles_too():
    day = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, 3), eager=True)
    table = pl.DataFrame({"day": day, "open": [True, False, True], "place": ["a/b", "💡", ""]})
    fit = plait.fit("x[day, open, place] = D[day, r] O[open, r] P[place, r]", {"x": table}, **SETTINGS)
    named = fit.with_titles(
        {"day": {day[0]: "New Year"}, "open": {True: "yes"}, "place": {"💡": "bulb", "": "nothing"}}
    )
    assert named.title("day", day[0]) == "New Year"
    assert named.title("open", True) == "yes"
    assert [named.title("place", name) for name in ("💡", "", "a/b")] == ["bulb", "nothing", None]
    cells = named.predict("x", table.head(1))
    assert cells.columns[:5] == ["day", "day_title", "open", "open_title", "place"]
    assert cells.row(0)[:6] == (day[0], "New Year", True, "yes", "a/b", None)


def test_a_title_is_asked_for_by_axis_and_name(fit):
    assert fit.title("film", 2) is None
    assert fit.title("film", "of another kind") is None
    assert fit.title("user", "ann") is None
    with pytest.raises(plait.errors.ParameterError, match=r"'flim' is not an axis of the model\.\nDid you mean 'film'"):
        fit.title("flim", 1)
    with pytest.raises(KeyError):
        fit.titles["film"][2]


# What is given, and words of the message separated by |.
MISTAKES = [
    ({"flim": TITLES}, "`titles`: 'flim' is not an axis|Did you mean 'film'? The axes are user, film."),
    ({"r": TITLES}, "`titles`: 'r' is not an axis|The axes are user, film."),
    ([TITLES], "`titles` must be a dict of tables by axis"),
    ({"film": 3}, "titles of film: expected a table, got int."),
    ({"film": {"1": "a"}}, "titles of film: the ids are strings, such as '1', but axis film has integers|Convert them"),
    ({"user": {1: "a"}}, "titles of user: the ids are integers, such as 1, but axis user has strings|Convert the ids"),
    ({"film": {7: "a"}}, "titles of film: no id is an entity of axis film, which has 1, 2, 3, 4; the ids are 7."),
    ({"film": {}}, "titles of film: no id is an entity|the ids are none."),
    ({"film": {"film": [2, 1, 2], "title": ["a", "b", "c"]}}, "titles of film, column 'film', rows 0 and 2|and 'c'"),
    ({"film": {"film": [2, 2], "title": ["a", None]}}, "2 has two titles, 'a' and none."),
    ({"film": {"film": [1], "b": ["x"], "c": ["y"]}}, "the column of titles|'film', 'b', 'c'|film and title"),
    ({"film": pl.DataFrame({"film": [1]})}, "the column of titles is unknown"),
    ({"film": {"film": [1], "title": [1942]}}, "column 'title', row 0|titles must be text, got 1942."),
    ({"film": {1: 1942}}, "titles must be text, got 1942."),
    ({"film": {"film": [1, None], "title": ["a", "b"]}}, "the name of the entity is missing."),
    ({"film": {"film": [1, 2], "title": ["a"]}}, "titles of film: the dict is not a table"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_wrong_titles_are_refused(plain, given, words):
    with pytest.raises(plait.PlaitError) as error:
        plain.with_titles(given)
    assert [word for word in words.split("|") if word not in str(error.value)] == []


def test_wrong_titles_are_refused_before_a_rank_is_looked_for():
    with pytest.raises(plait.errors.ParameterError, match="flim"):
        fit_of({"flim": TITLES}, rank="auto", progress=pytest.fail)


# --- what is shown


def test_top_and_responsibilities_have_a_column_of_titles(fit, plain):
    for ask in (
        lambda f: f.top("seen", 5),
        lambda f: f.responsibilities("seen", {"user": ["ann", "bob"], "film": [2, 3]}),
    ):
        table = ask(fit)
        assert table.columns[:3] == ["user", "film", "film_title"]
        assert table["film_title"].to_list() == [OF_FILMS[film] for film in table["film"]]
        assert table.drop("film_title").equals(ask(plain))


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, pa.table])
def test_predict_adds_titles_to_any_kind_of_table(fit, plain, make):
    cells = make({"film": [3, 2], "when": ["x", "y"], "user": ["ann", "bob"]})
    found = fit.predict("seen", cells)
    assert type(found) is type(cells)
    names = found.column_names if isinstance(found, pa.Table) else list(found.columns)
    assert names[:4] == ["film", "film_title", "when", "user"]
    values = found["film_title"].to_pylist() if isinstance(found, pa.Table) else list(found["film_title"])
    assert values[0] == ODD
    assert pd.isna(values[1])
    expected = plain.predict("seen", cells)
    assert np.array_equal(np.asarray(found["mean"]), np.asarray(expected["mean"]))


def test_a_column_of_that_name_and_the_index_of_pandas_stay(fit):
    found = fit.predict("seen", pd.DataFrame({"user": ["ann", "bob"], "film": [1, 3]}, index=[7, 5]))
    assert found["film_title"].to_dict() == {7: "Casablanca", 5: ODD}
    found = fit.predict("seen", {"user": ["ann"], "film_title": [1942], "film": [1]})
    assert found.columns[:4] == ["user", "film_title", "film", "mean"]
    assert found["film_title"].to_list() == [1942]


def test_unknown_and_new_entities_have_no_title(fit):
    found = fit.predict("seen", {"user": ["ann", "ann"], "film": [1, 99]}, handle_unknown="prior")
    assert found["film_title"].to_list() == ["Casablanca", None]
    rows = {"seen": pl.DataFrame({"user": ["ann", "bob"], "film": [50, 50]})}
    alone = fit.top("seen", 2, given={"film": 50}, new_entities=rows)
    assert alone["film_title"].to_list() == [None] * len(alone)
    links = fit.top("seen", 9, new_entities=rows)
    assert links["film_title"].to_list() == [OF_FILMS.get(film) for film in links["film"]]


def test_both_ends_of_a_link_have_their_titles():
    links = pl.DataFrame({"user": ["ann", "bob", "cem"], "friend": ["bob", "cem", "dee"]})
    titles = {"friend": {"ann": "Ann Lee", "dee": "Dr Dee"}}  # by an index of the axis
    text = "friends[user, friend] = U[user, r] F[friend, r]\nfriend: user"
    fit = plait.fit(text, {"friends": links}, titles=titles, **SETTINGS)
    assert fit.title("user", "ann") == fit.title("friend", "ann") == "Ann Lee"
    found = fit.predict("friends", {"user": ["ann"], "friend": ["dee"]})
    assert found.row(0)[:4] == ("ann", "Ann Lee", "dee", "Dr Dee")
    assert found.columns[:4] == ["user", "user_title", "friend", "friend_title"]
    with pytest.raises(plait.errors.ParameterError, match="`titles`: user and friend are the same axis"):
        fit.with_titles({"friend": {"ann": "a"}, "user": {"ann": "a"}})


def test_an_explanation_prints_titles_next_to_names(fit):
    cell = {"user": "ann", "film": 3}
    words, html = str(fit.explain("seen", cell)), fit.explain("seen", cell)._repr_html_()
    short = 'Häns, "the" 🎬 </script><img src=x oner…'  # 40 columns of a terminal
    assert words.startswith(f'seen(ann, 3 "{short}")\n')
    assert 'seen(ann, 1 "Casablanca")' in words
    assert f' of 3 "{short}"' in words
    assert "1 &quot;Casablanca&quot;" in html
    assert "<img" not in html
    assert "</script>" not in html


def test_an_explanation_as_data_has_titles(fit):
    found = fit.explain("seen", {"user": "ann", "film": 3})
    parts = json.loads(json.dumps(found.to_dict()))
    assert parts["titles"] == {"film": ODD}
    assert all(one["titles"].get("film") == OF_FILMS[one["cell"]["film"]] for one in parts["links"])
    assert {one["title"] for one in parts["entities"] if one["index"] == "user"} == {None}
    assert all(one["title"] == OF_FILMS[one["name"]] for one in parts["entities"] if one["index"] == "film")
    assert [one["titles"] for one in parts["evidence"]] == [{}, {"film": ODD}]
    films = found.entities.filter(pl.col("index") == "film")
    assert films["title"].to_list() == [OF_FILMS[int(name)] for name in films["name"]]


def test_titles_change_no_number(fit, plain):
    cell = {"user": "ann", "film": 3}
    assert plain.titles == {}
    assert "title" not in json.dumps(plain.explain("seen", cell).to_dict())
    assert "title" not in plain.explain("seen", cell).entities.columns
    assert fit.fingerprint == plain.fingerprint
    assert np.array_equal(fit.factors["F"].mean, plain.factors["F"].mean)
    assert fit.settings == plain.settings


# --- what is kept


@pytest.mark.parametrize("name", ["run", "run.plait"])
def test_a_run_keeps_titles(fit, tmp_path, name):
    fit.save(tmp_path / name)
    loaded = plait.load(tmp_path / name)
    assert titles_of(loaded) == OF_FILMS
    assert loaded.top("seen", 5).equals(fit.top("seen", 5))
    assert titles_of(pickle.loads(pickle.dumps(loaded))) == OF_FILMS


def test_a_damaged_file_of_titles_is_refused(fit, tmp_path):
    fit.save(tmp_path / "run")
    file = tmp_path / "run" / manifest(tmp_path / "run")["files"]["titles-1-film"]["file"]
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(plait.errors.StorageError, match="damaged"):
        plait.load(tmp_path / "run")


def test_titles_given_later_are_added(fit):
    found = fit.with_titles({"film": {1: None, 2: "Two"}}).with_titles({"user": {"bob": "Bob"}})
    assert titles_of(found) == OF_FILMS | {1: None, 2: "Two"}
    assert titles_of(found, "user") == {"ann": None, "bob": "Bob", "cem": None, "dee": None}
    assert titles_of(fit) == OF_FILMS


def test_an_ensemble_and_its_members_have_titles(tmp_path):
    fit = fit_of({"film": TITLES}, restarts=2)
    fit.save(tmp_path / "run")
    for found in (fit, plait.load(tmp_path / "run"), fit_of(restarts=2).with_titles({"film": TITLES})):
        assert len(found.members) == 2
        assert [titles_of(one) for one in (found, *found.members)] == [OF_FILMS] * 3
        assert found.top("seen", 5)["film_title"].to_list() == fit.top("seen", 5)["film_title"].to_list()
    grown = fit.fold_in({"seen": pl.DataFrame({"user": ["eve"], "film": [1]})})
    assert [titles_of(one) for one in grown.members] == [OF_FILMS] * 2


@pytest.mark.parametrize("learn", [plait.Fit.fold_in, plait.Fit.update])
def test_new_entities_get_titles_later(fit, tmp_path, learn):
    rows = pl.DataFrame({"user": ["ann", "eve", "eve"], "film": [0, 0, 1]})
    grown = learn(fit, {"seen": rows})
    assert list(grown.entities["film"]) == [1, 2, 3, 4, 0]
    assert titles_of(grown) == OF_FILMS | {0: None}
    named = grown.with_titles({"film": {0: "Zero"}})
    named.save(tmp_path / "run")
    loaded = plait.load(tmp_path / "run")
    assert titles_of(loaded) == OF_FILMS | {0: "Zero"}
    found = loaded.top("seen", 3, given={"user": "eve"})
    assert found["film_title"].to_list() == [(OF_FILMS | {0: "Zero"})[film] for film in found["film"]]
    again = learn(loaded, {"seen": pl.DataFrame({"user": ["ann"], "film": [-1]})})
    assert titles_of(again) == OF_FILMS | {0: "Zero", -1: None}


def test_a_resumed_checkpoint_keeps_titles(tmp_path):
    run = tmp_path / "run"
    fit_of({"film": TITLES}, checkpoint=run, max_iter=5)
    assert titles_of(plait.load(run)) == OF_FILMS
    further = fit_of(init=run, checkpoint=run, max_iter=8)
    assert titles_of(further) == titles_of(plait.load(run)) == OF_FILMS
    assert titles_of(fit_of({"film": {2: "Two"}}, init=run, max_iter=9)) == OF_FILMS | {2: "Two"}


@pytest.mark.parametrize("by", ["elbo", "hidden"])
def test_the_chosen_fit_has_titles(by):
    options = SETTINGS | {"rank": [1, 2], "max_iter": 5, "seeds": 1, "by": by}
    assert titles_of(plait.grid_search(TEXT, {"seen": seen()}, **options, titles={"film": TITLES}).fit) == OF_FILMS
