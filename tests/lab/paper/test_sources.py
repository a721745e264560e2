"""Data of the paper's experiments: the real files where they are, stand-ins elsewhere, errors that name the file."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.io

import plait
from lab.paper.acts import COUPLED_CP
from lab.paper.experiment import Lab
from lab.paper.sources import cube, digg, drawn, lastfm, uclaf
from plait.errors import DataError, ParameterError
from tests.support.lab_data import DATA, needs


def lab(data=None, quick=False):
    return Lab(quick, data, Path("results"))


@pytest.mark.parametrize(
    "load", [uclaf.load, lastfm.load, lambda own: digg.load(own, 0)], ids=["uclaf", "lastfm", "digg"]
)
def test_a_folder_that_is_not_there_is_an_error(load, tmp_path):
    with pytest.raises(ParameterError, match=r"(?s)there is no .*gone.*\n"):
        load(lab(tmp_path / "gone"))


# --- UCLAF


@needs("uclaf")
def test_uclaf_has_the_counts_of_the_paper():
    data = uclaf.load(lab(DATA))
    assert data.source == "UCLAF"
    assert {axis: len(names) for axis, names in data.entities.items()} == {"user": 146, "place": 168, "activity": 5}
    assert (len(data.links), len(data.visits)) == (1436, 2316)
    assert data.links["user"].n_unique() == 146
    assert data.visits["value"].unique().to_list() == [1.0]
    assert len(data.links.join(data.visits, on=["user", "place"], how="semi")) == len(data.links)
    assert data.features["feature"].n_unique() == 5  # the first column numbers the rows
    assert uclaf.load(lab(DATA / "uclaf" / uclaf.FILE)).links.equals(data.links)


def written(path, **others):
    """A small file with the names of UCLAF's."""
    path.parent.mkdir(exist_ok=True)
    scipy.io.savemat(
        path, {"UserLocAct": np.ones((4, 3, 2)), "UserLoc": np.ones((4, 3)), "LocFea": np.ones((3, 2))} | others
    )
    return path


@pytest.mark.parametrize("named", [f"uclaf/{uclaf.FILE}", "uclaf", ""])
def test_the_file_its_folder_or_the_one_above_may_be_named(named, tmp_path):
    written(tmp_path / "uclaf" / uclaf.FILE)
    data = uclaf.load(lab(tmp_path / named))
    assert data.source == "UCLAF"
    assert (len(data.links), len(data.visits), len(data.features)) == (24, 12, 3)


def test_a_folder_or_file_that_is_not_uclaf_is_an_error(tmp_path):
    (tmp_path / "uclaf").mkdir()
    (tmp_path / "uclaf" / "b.mat").touch()
    for named in ("uclaf", ""):
        with pytest.raises(DataError, match=rf"--data: .*uclaf has no {uclaf.FILE}; it has b\.mat\.\n"):
            uclaf.load(lab(tmp_path / named))
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(DataError, match=rf"--data: .*notes\.txt is no MATLAB file.*\nName {uclaf.FILE}"):
        uclaf.load(lab(tmp_path / "notes.txt"))


@pytest.mark.parametrize("quick", [False, True])
def test_the_stand_in_looks_like_uclaf(quick):
    data = uclaf.load(lab(None, quick))
    sizes = {axis: len(names) for axis, names in data.entities.items()}
    assert quick or sizes == {"user": 146, "place": 168, "activity": 5}
    assert data.links["user"].n_unique() == sizes["user"]
    assert len(data.links.join(data.visits, on=["user", "place"], how="semi")) == len(data.links)
    assert data.links.n_unique() == len(data.links)
    assert plait.Model(COUPLED_CP).bind(data.relations(), entities=data.entities)


# --- Last.fm


@needs("lastfm")
def test_lastfm_has_the_counts_of_the_data_set():
    data = lastfm.load(lab(DATA))
    assert [data.tags[name].n_unique() for name in ("user", "artist", "tag")] == [1892, 12_523, 9749]
    assert (len(data.tags), len(data.plays), len(data.friends)) == (186_479, 92_834, 2 * 12_717)
    assert "stand-in" not in data.source
    few = lastfm.load(lab(DATA, quick=True))
    users = set(few.tags["user"])
    assert len(users) == 150
    assert users >= set(few.friends["user"]) | set(few.friends["friend"])
    for one, whole in ((few.tags, data.tags), (few.plays, data.plays)):
        assert one.equals(whole.filter(pl.col("user").is_in(list(users))))


# --- Digg

FILES = {
    "user_comment_story_v1.m": "% user comment story\n1 7 3\n  2\t8   3\n\n1 7 3\n",
    "story_keyword_topic.csv": "3,10,0\n4,11,1 # a note\n",
    "user_digg_story.txt": "   1.0000000e+00   3.0000000e+00\n   2.0000000e+00   4.0000000e+00\n",
}


@pytest.fixture
def folder(tmp_path):
    """The three files of Digg, small, in a folder of that name."""
    (tmp_path / "digg").mkdir()
    for name, text in FILES.items():
        (tmp_path / "digg" / name).write_text(text)
    (tmp_path / "digg" / "README.txt").write_text("not a table")
    (tmp_path / "digg" / "user_submit_story.m").write_text("another relation")
    return tmp_path / "digg"


def test_the_files_of_digg_are_read_by_the_columns_that_their_names_say(folder, monkeypatch):
    for named in (folder, folder.parent):
        data = digg.load(lab(named), 0)
        assert data.links["comments"].rows() == [(1, 3, 7), (2, 3, 8)]
        assert data.links["topics"].rows() == [(3, 10, 0), (4, 11, 1)]
        assert data.links["diggs"].rows() == [(1, 3), (2, 4)]
        assert data.links["comments"].columns == ["user", "story", "comment"]
        assert (data.entities["story"], data.entities["comment"]) == ([3, 4], [7, 8])
        assert data.truth is None
    assert digg.source(lab(folder)) == digg.ORIGINAL
    monkeypatch.setattr(digg, "QUICK", 1 / digg.SIZES["story"])
    links = digg.load(lab(folder, quick=True), 0).links
    assert {story for table in links.values() for story in table["story"]} == {3}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2", "2 numbers, but its name says 3"),
        ("1 2 x", "'x' is not a whole number"),
        ("1 2 2.5", "'2.5' is not a whole number"),
        ("1 2 -1", "'-1' is not a whole number"),
        ("1 2 nan", "'nan' is not a whole number"),
        ("1 2 1e-400", "'1e-400' is not a whole number"),
        ("1 2 9223372036854775808", "'9223372036854775808' is larger than"),
        ("1 2 \0", ".* is not a whole number"),
    ],
)
def test_a_wrong_line_of_digg_is_named(folder, line, message):
    path = folder / "user_comment_story_v1.m"
    path.write_text(FILES[path.name] + line + "\n")
    with pytest.raises(DataError, match=f"line 6: {message}") as error:
        digg.source(lab(folder))  # before anything is computed
    assert str(path) in str(error.value)
    assert "\n" in str(error.value)


def test_a_file_of_digg_that_is_missing_double_empty_or_unreadable_is_named(folder):
    path = folder / "user_digg_story.txt"

    def refused(message):
        with pytest.raises(DataError, match=message):
            digg.load(lab(folder), 0)

    (folder / "user_story.m").write_text("1 3\n")
    refused(r"both user_digg_story\.txt and user_story\.m are diggs")
    (folder / "user_story.m").unlink()
    path.write_text("% nothing\n")
    refused("there is no link in it")
    path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    refused(r"user_digg_story\.txt, line 1: byte 0x89 .* is not UTF-8")
    path.unlink()
    refused(r"no file of diggs, only README\.txt.*\n.*user_story\.txt")
    path.mkdir()
    refused(r"user_digg_story\.txt: it cannot be read \(Is a directory\)")


# --- drawn arrays


def test_drawn_counts_have_their_total_and_rank_and_depend_on_the_seed():
    X = drawn.draw((12, 10, 8), 3, 10**10, seed=1)
    assert abs(X.sum() - 10**10) < 5 * np.sqrt(10**10)
    values = np.linalg.svd(X.reshape(12, -1).astype(float), compute_uv=False)
    assert values[2] > 30 * values[3]  # what is left is Poisson noise
    first, again, other = (drawn.draw((12, 10, 5), 3, 2000, seed) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_no_cell_of_a_cube_is_both_known_and_held_out():
    found = cube.draw(40, 12_000, 3_000, seed=0)
    cells = pl.concat([found.known, found.held_out]).select("i", "j", "k")
    assert cells.n_unique() == len(cells) == 15_000
    noise = found.held_out["value"].to_numpy() - found.truth
    inner = found.truth > 4 * cube.NOISE  # where nothing is clipped
    assert abs(np.sqrt(np.mean(found.truth**2)) - 1) < 0.05
    assert abs(noise[inner].std() - cube.NOISE) < 0.02
    assert cube.draw(10, 50, 5, seed=3).known.equals(cube.draw(10, 50, 5, seed=3).known)
