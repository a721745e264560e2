"""Last.fm and its stand-in: what was read or drawn is what is said."""

from pathlib import Path

import polars as pl
import pytest

from lab.paper.experiment import Lab
from lab.paper.sources.lastfm import SMALL, STAND_IN, drawn, load
from plait.errors import DataError, SettingError

DATA = Path(__file__).parents[4] / "shared" / "data"

real = pytest.mark.skipif(not (DATA / "lastfm").is_dir(), reason="the Last.fm data are not here")


@real
def test_the_data_have_the_counts_of_the_data_set():
    data = load(Lab(False, DATA, DATA))
    assert [data.tags[name].n_unique() for name in ("user", "artist", "tag")] == [1892, 12_523, 9749]
    assert len(data.tags) == 186_479
    assert len(data.plays) == 92_834
    assert len(data.friends) == 2 * 12_717
    assert "stand-in" not in data.source


@real
def test_quick_mode_keeps_all_about_few_users():
    few, whole = (load(Lab(quick, DATA, DATA)) for quick in (True, False))
    users = set(few.tags["user"])
    assert len(users) == 150
    assert users >= set(few.friends["user"]) | set(few.friends["friend"])
    for one, all_ in ((few.tags, whole.tags), (few.plays, whole.plays)):
        assert one.equals(all_.filter(pl.col("user").is_in(list(users))))


def test_without_data_a_stand_in_says_what_it_is(tmp_path):
    for data in (None, tmp_path):
        assert load(Lab(True, data, tmp_path)).source == STAND_IN


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(SettingError, match=r"(?s)there is no .*gone.*\nName the folder"):
        load(Lab(True, tmp_path / "gone", tmp_path))


def test_a_table_without_its_columns_is_named(tmp_path):
    (tmp_path / "lastfm").mkdir()
    pl.DataFrame({"a": [1], "b": [2]}).write_parquet(tmp_path / "lastfm" / "user_tag_artist_rels.parquet")
    with pytest.raises(
        DataError, match=r"user_tag_artist_rels.parquet: there is no column 'sourceNodeId', only a, b\."
    ):
        load(Lab(True, tmp_path, tmp_path))


def test_the_stand_in_lists_every_link_once_and_is_the_same_every_time():
    data, again = drawn(*SMALL), drawn(*SMALL)
    for table, twin in ((data.tags, again.tags), (data.plays, again.plays), (data.friends, again.friends)):
        assert table.equals(twin)
        assert table.is_unique().all()
    for name, size in zip(("user", "artist", "tag"), SMALL[0]):
        assert data.tags[name].min() >= 0
        assert data.tags[name].max() < size


def test_friends_of_the_stand_in_are_friends_both_ways_and_never_of_themselves():
    friends = drawn(*SMALL).friends
    turned = friends.select(user="friend", friend="user")
    assert friends.sort("user", "friend").equals(turned.sort("user", "friend"))
    assert (friends["user"] != friends["friend"]).all()
