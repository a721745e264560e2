"""Titles stand beside the names of entities in all that a fit answers, and change nothing else."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import plait
from plait.answer.titles import add_titles
from plait.run.folder import manifest

TEXT = "seen[user, film] = U[user, r] F[film, r]"
ODD = 'Häns, "the" 🎬 </script><img src=x onerror=alert(1)>\n'
TITLES = {1: "Casablanca", 3: ODD, 99: "never seen"}
SETTINGS = {"rank": 2, "seed": 0, "sweeps": 15, "progress": False}


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
    return {name: fit.title(axis, name) for name in fit.labels[axis]}


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
def test_titles_are_read_from_what_people_have(plain, given):
    found = plain.titled({"film": given})
    assert titles_of(found) == OF_FILMS
    assert dict(found.titles["film"]) == {1: "Casablanca", 3: ODD}
    assert len(found.titles["film"]) == 2
    assert list(found.titles) == ["film"]
    assert repr(found.titles["film"]) == "Titles('film', 2 of 4)"


def test_strings_dates_and_booleans_have_titles_too():
    day = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, 3), eager=True)
    table = pl.DataFrame({"day": day, "open": [True, False, True], "place": ["a/b", "💡", ""]})
    fit = plait.fit("x[day, open, place] = D[day, r] O[open, r] P[place, r]", {"x": table}, **SETTINGS)
    named = fit.titled({"day": {day[0]: "New Year"}, "open": {True: "yes"}, "place": {"💡": "bulb", "": "nothing"}})
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
    with pytest.raises(plait.SettingError, match=r"'flim' is no axis of the model\.\nDid you mean 'film'"):
        fit.title("flim", 1)
    with pytest.raises(KeyError):
        fit.titles["film"][2]


MISTAKES = {
    "axis": ({"flim": TITLES}, "`titles` names 'flim', which is no axis of the model.\nDid you mean 'film'? "
             "Its axes are user, film."),
    "latent": ({"r": TITLES}, "`titles` names 'r', which is no axis of the model.\nIts axes are user, film."),
    "no dict": ([TITLES], "`titles` must be a dict of tables by axis"),
    "no table": ({"film": 3}, "titles of film: wanted a table, got int."),
    "strings for integers": ({"film": {"1": "a"}}, "titles of film: the ids are strings, such as '1', but axis film "
                             "has integers, such as 1.\nConvert them to integers"),
    "integers for strings": ({"user": {1: "a"}}, "titles of user: the ids are integers, such as 1, but axis user has "
                             "strings, such as 'ann'.\nConvert the ids to text"),
    "none known": ({"film": {7: "a"}}, "titles of film: no id is an entity of axis film, which has 1, 2, 3, 4; the "
                   "ids are 7."),
    "nothing": ({"film": {}}, "titles of film: no id is an entity of axis film, which has 1, 2, 3, 4; the ids are "
                "none."),
    "two titles": ({"film": {"film": [2, 1, 2], "title": ["a", "b", "c"]}}, "titles of film, column 'film', rows 0 "
                   "and 2 (counting from 0): 2 has two titles, 'a' and 'c'.\nAn entity has one title"),
    "a title and none": ({"film": {"film": [2, 2], "title": ["a", None]}}, "2 has two titles, 'a' and none."),
    "which column": ({"film": {"film": [1], "b": ["x"], "c": ["y"]}}, "titles of film: which column holds the titles "
                     "is not clear; the table has 'film', 'b', 'c'.\nGive a table with the columns film and title"),
    "ids alone": ({"film": pl.DataFrame({"film": [1]})}, "which column holds the titles is not clear"),
    "numbers": ({"film": {"film": [1], "title": [1942]}}, "titles of film, column 'title', row 0 (counting from 0): "
                "titles are text, got 1942."),
    "numbers in a dict": ({"film": {1: 1942}}, "titles are text, got 1942."),
    "an id that is missing": ({"film": {"film": [1, None], "title": ["a", "b"]}}, "the label is missing."),
    "uneven columns": ({"film": {"film": [1, 2], "title": ["a"]}}, "titles of film: the dict is no table"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_wrong_with_titles_is_said(plain, name):
    given, message = MISTAKES[name]
    with pytest.raises(plait.PlaitError) as error:
        plain.titled(given)
    assert message in str(error.value)


def test_wrong_titles_are_refused_before_a_rank_is_looked_for():
    with pytest.raises(plait.SettingError, match="flim"):
        fit_of({"flim": TITLES}, rank="auto", progress=pytest.fail)


# --- what is shown


def test_top_and_allocate_have_a_column_of_titles_behind_that_of_names(fit, plain):
    for ask in (lambda f: f.top("seen", 5), lambda f: f.allocate("seen", {"user": ["ann", "bob"], "film": [2, 3]})):
        table = ask(fit)
        assert table.columns[:3] == ["user", "film", "film_title"]
        assert table["film_title"].to_list() == [OF_FILMS[film] for film in table["film"]]
        assert table.drop("film_title").equals(ask(plain))


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, pa.table])
def test_predict_answers_with_the_kind_of_table_that_was_asked(fit, plain, make):
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


def test_rows_of_pandas_keep_their_index(fit):
    found = fit.predict("seen", pd.DataFrame({"user": ["ann", "bob"], "film": [1, 3]}, index=[7, 5]))
    assert found["film_title"].to_dict() == {7: "Casablanca", 5: ODD}


def test_a_column_of_that_name_stays_as_it_is(fit):
    found = fit.predict("seen", {"user": ["ann"], "film_title": [1942], "film": [1]})
    assert found.columns[:4] == ["user", "film_title", "film", "mean"]
    assert found["film_title"].to_list() == [1942]


def test_names_that_a_fit_does_not_know_and_guests_have_no_title(fit):
    found = fit.predict("seen", {"user": ["ann", "ann"], "film": [1, 99]}, unknown="prior")
    assert found["film_title"].to_list() == ["Casablanca", None]
    rows = {"seen": pl.DataFrame({"user": ["ann", "bob"], "film": [50, 50]})}
    alone = fit.top("seen", 2, given={"film": 50}, new=rows)
    assert alone["film_title"].to_list() == [None] * len(alone)
    beside = fit.top("seen", 9, new=rows)
    assert beside["film_title"].to_list() == [OF_FILMS.get(film) for film in beside["film"]]


def test_both_ends_of_a_link_have_their_titles():
    links = pl.DataFrame({"user": ["ann", "bob", "cem"], "friend": ["bob", "cem", "dee"]})
    titles = {"friend": {"ann": "Ann Lee", "dee": "Dr Dee"}}  # by an index of the axis
    text = "friends[user, friend] = U[user, r] F[friend, r]\nfriend: user"
    fit = plait.fit(text, {"friends": links}, titles=titles, **SETTINGS)
    assert fit.title("user", "ann") == fit.title("friend", "ann") == "Ann Lee"
    found = fit.predict("friends", {"user": ["ann"], "friend": ["dee"]})
    assert found.row(0)[:4] == ("ann", "Ann Lee", "dee", "Dr Dee")
    assert found.columns[:4] == ["user", "user_title", "friend", "friend_title"]
    with pytest.raises(plait.SettingError, match="`titles` names user and friend, which are one axis"):
        fit.titled({"friend": {"ann": "a"}, "user": {"ann": "a"}})


def test_columns_of_other_names_get_titles_by_their_axis(fit):
    table = pl.DataFrame({"entity": [3, 1], "entity2": [2, 3]})
    found = add_titles(fit, table, {"entity": "film", "entity2": "film"})
    assert found.columns == ["entity", "entity_title", "entity2", "entity2_title"]
    assert found["entity_title"].to_list() == [ODD, "Casablanca"]
    assert add_titles(fit, table, {"entity": "user"}) is table


def test_an_explanation_says_titles_beside_names(fit, plain):
    cell = {"user": "ann", "film": 3}
    words, html = str(fit.explain("seen", cell)), fit.explain("seen", cell)._repr_html_()
    short = 'Häns, "the" 🎬 </script><img src=x oner…'  # 40 columns of a terminal
    assert words.startswith(f'Why seen(user=ann, film=3 "{short}")?\n')
    assert 'seen(ann, 1 "Casablanca")' in words
    assert f'film 3 "{short}"   F ' in words
    assert "1 &quot;Casablanca&quot;" in html
    assert "<img" not in html
    assert "</script>" not in html
    for title in (f' "{short}"', ' "Casablanca"'):
        words = words.replace(title, "")
    rules = str.maketrans("", "", "─")  # are as long as the tables are wide
    assert words.translate(rules).split() == str(plain.explain("seen", cell)).translate(rules).split()


def test_an_explanation_as_data_has_titles(fit):
    found = fit.explain("seen", {"user": "ann", "film": 3})
    told = json.loads(json.dumps(found.to_dict()))
    assert told["titles"] == {"film": ODD}
    assert all(one["titles"].get("film") == OF_FILMS[one["cell"]["film"]] for one in told["links"])
    assert {one["title"] for one in told["entities"] if one["index"] == "user"} == {None}
    assert all(one["title"] == OF_FILMS[one["name"]] for one in told["entities"] if one["index"] == "film")
    assert [one["titles"] for one in told["evidence"]] == [{}, {"film": ODD}]
    table = found.entities
    assert table.columns[2:4] == ["name", "title"]
    films = table.filter(pl.col("index") == "film")
    assert films["title"].to_list() == [OF_FILMS[int(name)] for name in films["name"]]


def test_without_titles_nothing_is_another(fit, plain):
    cell = {"user": "ann", "film": 3}
    assert plain.titles == {}
    assert "title" not in json.dumps(plain.explain("seen", cell).to_dict())
    assert "title" not in plain.explain("seen", cell).entities.columns
    table = pl.DataFrame({"film": [1]})
    assert add_titles(plain, table, ["film"]) is table
    assert fit.fingerprint == plain.fingerprint
    assert np.array_equal(fit.factors["F"].mean, plain.factors["F"].mean)
    assert fit.settings == plain.settings


def test_labelled_factors_have_titles_as_a_coordinate(fit, plain):
    pytest.importorskip("xarray")
    found = fit.to_xarray()
    assert found["film_title"].dims == ("film",)
    assert found["film_title"].to_numpy().tolist() == ["Casablanca", "", ODD, ""]
    assert "film_title" not in plain.to_xarray().coords


# --- what is kept


@pytest.mark.parametrize("name", ["run", "run.plait"])
def test_a_run_keeps_titles(fit, tmp_path, name):
    fit.save(tmp_path / name)
    loaded = plait.load(tmp_path / name)
    assert titles_of(loaded) == OF_FILMS
    assert loaded.top("seen", 5).equals(fit.top("seen", 5))
    assert titles_of(pickle.loads(pickle.dumps(loaded))) == OF_FILMS


def content(folder):
    """What a run says, but for random names of files."""
    header = manifest(folder)
    return {name: entry["sha256"] for name, entry in header.pop("files").items()}, header


def test_a_run_without_titles_is_what_it_was(fit, plain, tmp_path):
    plain.save(tmp_path / "plain")
    fit.save(tmp_path / "titled")
    files, header = content(tmp_path / "plain")
    more, _ = content(tmp_path / "titled")
    assert not [name for name in files if "title" in name]
    assert "titles" not in header
    assert set(more) - set(files) == {"titles-1-film"}


def test_the_file_of_titles_is_written_again_only_when_they_change(fit, tmp_path):
    fit.save(tmp_path / "run")
    before = manifest(tmp_path / "run")["files"]
    fit.save(tmp_path / "run")
    assert manifest(tmp_path / "run")["files"]["titles-1-film"] == before["titles-1-film"]
    fit.titled({"film": {2: "Two"}}).save(tmp_path / "run")
    assert titles_of(plait.load(tmp_path / "run")) == OF_FILMS | {2: "Two"}
    assert manifest(tmp_path / "run")["files"]["labels-1-film"] == before["labels-1-film"]


def test_a_damaged_file_of_titles_is_said(fit, tmp_path):
    fit.save(tmp_path / "run")
    file = tmp_path / "run" / manifest(tmp_path / "run")["files"]["titles-1-film"]["file"]
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(plait.StoreError, match="damaged"):
        plait.load(tmp_path / "run")


def test_titles_given_later_join_those_that_are_there(fit):
    found = fit.titled({"film": {1: None, 2: "Two"}}).titled({"user": {"bob": "Bob"}})
    assert titles_of(found) == OF_FILMS | {1: None, 2: "Two"}
    assert titles_of(found, "user") == {"ann": None, "bob": "Bob", "cem": None, "dee": None}
    assert titles_of(fit) == OF_FILMS


def test_an_ensemble_and_its_members_have_titles(tmp_path):
    fit = fit_of({"film": TITLES}, restarts=2)
    fit.save(tmp_path / "run")
    for found in (fit, plait.load(tmp_path / "run"), fit_of(restarts=2).titled({"film": TITLES})):
        assert len(found.members) == 2
        assert [titles_of(one) for one in (found, *found.members)] == [OF_FILMS] * 3
        assert found.top("seen", 5)["film_title"].to_list() == fit.top("seen", 5)["film_title"].to_list()
    grown = fit.fold_in({"seen": pl.DataFrame({"user": ["eve"], "film": [1]})})
    assert [titles_of(one) for one in grown.members] == [OF_FILMS] * 2


@pytest.mark.parametrize("learn", [plait.Fit.fold_in, plait.Fit.update])
def test_new_entities_come_behind_and_have_no_title_until_it_is_given(fit, tmp_path, learn):
    rows = pl.DataFrame({"user": ["ann", "eve", "eve"], "film": [0, 0, 1]})
    grown = learn(fit, {"seen": rows})
    assert list(grown.labels["film"]) == [1, 2, 3, 4, 0]
    assert titles_of(grown) == OF_FILMS | {0: None}
    named = grown.titled({"film": {0: "Zero"}})
    named.save(tmp_path / "run")
    loaded = plait.load(tmp_path / "run")
    assert titles_of(loaded) == OF_FILMS | {0: "Zero"}
    found = loaded.top("seen", 3, given={"user": "eve"})
    assert found["film_title"].to_list() == [(OF_FILMS | {0: "Zero"})[film] for film in found["film"]]
    again = learn(loaded, {"seen": pl.DataFrame({"user": ["ann"], "film": [-1]})})
    assert titles_of(again) == OF_FILMS | {0: "Zero", -1: None}


def test_a_checkpoint_has_titles_and_a_run_that_goes_on_keeps_them(tmp_path):
    run = tmp_path / "run"
    fit_of({"film": TITLES}, checkpoint=run, sweeps=5)
    assert titles_of(plait.load(run)) == OF_FILMS
    further = fit_of(init=run, checkpoint=run, sweeps=8)
    assert titles_of(further) == titles_of(plait.load(run)) == OF_FILMS
    assert titles_of(fit_of({"film": {2: "Two"}}, init=run, sweeps=9)) == OF_FILMS | {2: "Two"}


def test_the_fit_that_is_chosen_has_titles():
    for by in ("bound", "hidden"):
        choice = plait.choose(
            TEXT,
            {"seen": seen()},
            rank=[1, 2],
            seeds=1,
            by=by,
            seed=0,
            sweeps=5,
            progress=False,
            titles={"film": TITLES},
        )
        assert titles_of(choice.fit) == OF_FILMS


def test_a_million_titles_are_one_column():
    """Artists of Last.fm have no names in the data: these are made up."""
    path = Path(__file__).parents[2] / "shared/data/lastfm/user_listen_artist_rels.parquet"
    if not path.exists():
        pytest.skip("the Last.fm data are not here")
    plays = pl.read_parquet(path).rename({"sourceNodeId": "user", "targetNodeId": "artist"}).head(20_000)
    relation = plait.Relation(plays.select("user", "artist"), likelihood="bernoulli")
    artists = pl.int_range(0, 1_000_000, eager=True)
    titles = pl.DataFrame({"artist": artists, "title": "artist no. " + artists.cast(pl.String)})
    fit = plait.fit("plays[user, artist] = U[user, r] A[artist, r]", {"plays": relation}, titles={"artist": titles},
                    **SETTINGS | {"sweeps": 2})  # fmt: skip
    found = fit.top("plays", 50)
    assert found["artist_title"].to_list() == [f"artist no. {name}" for name in found["artist"]]
    assert len(fit.titles["artist"]) == len(fit.labels["artist"])
