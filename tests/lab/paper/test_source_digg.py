"""Digg: what is drawn follows the model, and the original files are read or refused with their line."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lab.paper.experiment import Lab
from lab.paper.sources import digg
from plait.errors import DataError, SettingError

FILES = {
    "user_comment_story_v1.m": "% user comment story\n1 7 3\n  2\t8   3\n\n1 7 3\n",
    "story_keyword_topic.csv": "3,10,0\n4,11,1 # a note\n",
    "user_digg_story.txt": "   1.0000000e+00   3.0000000e+00\n   2.0000000e+00   4.0000000e+00\n",
}


@pytest.fixture
def folder(tmp_path):
    """The three files, small."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "README.txt").write_text("not a table")
    (tmp_path / "user_submit_story.m").write_text("another relation")
    return tmp_path


def lab(data=None, quick=True):
    return Lab(quick, data, Path("nowhere"))


def test_links_are_drawn_as_often_as_the_model_says():
    rng = np.random.default_rng(0)
    factors = [rng.gamma(0.5, 1.0, (size, 3)) for size in (4, 5, 3)]
    expected = np.einsum("ir,jr,kr->ijk", *factors)
    # One cell at a time: repeated cells are dropped, which would flatten the distribution of many.
    drawn = np.zeros(expected.shape)
    for _ in range(2000):
        drawn[tuple(column[0] for column in digg.draw(factors, 1, rng))] += 1
    expected *= 2000 / expected.sum()
    common = expected > 5
    chi2 = np.sum((drawn - expected)[common] ** 2 / expected[common])
    assert chi2 < common.sum() + 4 * np.sqrt(2 * common.sum())


def test_every_link_is_drawn_once_until_there_are_enough():
    rng = np.random.default_rng(1)
    factors = [rng.gamma(0.5, 1.0, (size, 2)) for size in (6, 5)]
    cells = np.stack(digg.draw(factors, 27, rng), axis=1)
    assert len(np.unique(cells, axis=0)) == 27
    assert (cells.max(axis=0) < (6, 5)).all()


def test_popularity_has_a_heavy_tail_and_most_entities_few_components():
    factor = digg.memberships(2000, np.random.default_rng(2))
    rows = np.sort(factor.sum(axis=1))[::-1]
    assert rows[:200].sum() > 0.4 * rows.sum()
    assert np.median(factor.max(axis=1) / factor.sum(axis=1)) > 0.6


def test_quick_data_have_the_proportions_of_digg_and_differ_between_runs():
    first, again, other = (digg.load(lab(), run) for run in (0, 0, 1))
    assert {name: len(table) for name, table in first.links.items()} == {
        name: round(digg.QUICK * count) for name, count in digg.LINKS.items()
    }
    assert first.links["diggs"].equals(again.links["diggs"])
    assert not first.links["diggs"].equals(other.links["diggs"])
    assert {axis: len(names) for axis, names in first.labels.items()} == {
        axis: len(factor) for axis, factor in first.truth.items()
    }
    assert digg.source(lab()) == digg.DRAWN


def test_the_original_files_are_read_by_the_columns_that_their_names_say(folder):
    data = digg.load(lab(folder, quick=False), 0)
    assert data.links["comments"].rows() == [(1, 3, 7), (2, 3, 8)]
    assert data.links["topics"].rows() == [(3, 10, 0), (4, 11, 1)]
    assert data.links["diggs"].rows() == [(1, 3), (2, 4)]
    assert data.links["comments"].columns == ["user", "story", "comment"]
    assert data.labels["story"] == [3, 4]
    assert data.labels["comment"] == [7, 8]
    assert data.truth is None
    assert digg.source(lab(folder)) == digg.ORIGINAL


def test_the_files_may_be_in_a_folder_called_digg(folder, tmp_path_factory):
    above = tmp_path_factory.mktemp("data")
    (above / "digg").symlink_to(folder)
    assert len(digg.load(lab(above), 0).links["comments"]) == 2


def test_in_quick_mode_the_original_files_lose_stories(folder, monkeypatch):
    monkeypatch.setattr(digg, "QUICK", 1 / digg.SIZES["story"])
    links = digg.load(lab(folder), 0).links
    assert {story for table in links.values() for story in table["story"]} == {3}


def test_a_folder_of_other_data_is_no_reason_to_fail(tmp_path):
    (tmp_path / "uclaf.mat").write_bytes(b"")
    assert digg.source(lab(tmp_path)) == digg.DRAWN


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2", "line 6: 2 numbers, but its name says 3: user, comment, story"),
        ("1 2 x", "line 6: 'x' is not a whole number"),
        ("1 2 2.5", "line 6: '2.5' is not a whole number"),
        ("1 2 -1", "line 6: '-1' is not a whole number"),
        ("1 2 nan", "line 6: 'nan' is not a whole number"),
        ("1 2 inf", "line 6: 'inf' is not a whole number"),
        ("1 2 1e-400", "line 6: '1e-400' is not a whole number"),
        ("1 2 9223372036854775808", "line 6: '9223372036854775808' is larger than"),
        ("1 2 1e400", "line 6: '1e400' is larger than"),
        ("1 2 " + "9" * 5000, "line 6: '9999999999999999999999999999999999999999…' is larger than"),
        ("1 2 \0", "line 6: .* is not a whole number"),
    ],
)
def test_a_wrong_line_is_named(folder, line, message):
    path = folder / "user_comment_story_v1.m"
    path.write_text(FILES[path.name] + line + "\n")
    with pytest.raises(DataError, match=message) as error:
        digg.source(lab(folder))  # before anything is computed
    assert str(path) in str(error.value)
    assert "\n" in str(error.value)


def test_large_numbers_are_read_exactly(tmp_path):
    path = tmp_path / "user_story.txt"
    path.write_text("9223372036854775807 9007199254740993\n1.0000000e+17 0\n")
    assert digg.read_tuples(path, ["user", "story"]).rows() == [(2**63 - 1, 2**53 + 1), (10**17, 0)]


def test_what_is_no_text_file_is_refused(folder):
    path = folder / "user_digg_story.txt"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    with pytest.raises(DataError, match=r"user_digg_story\.txt, line 1: byte 0x89 .* is not UTF-8"):
        digg.source(lab(folder))
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match=r"user_digg_story\.txt: it cannot be read \(Is a directory\)"):
        digg.source(lab(folder))
    path.rmdir()
    path.symlink_to(folder / "gone")
    with pytest.raises(DataError, match=r"user_digg_story\.txt: it cannot be read \(No such file"):
        digg.source(lab(folder))


def test_a_file_that_is_missing_double_or_empty_is_named(folder):
    (folder / "user_story.m").write_text("1 3\n")
    with pytest.raises(DataError, match=r"both user_digg_story\.txt and user_story\.m are diggs"):
        digg.load(lab(folder), 0)
    (folder / "user_story.m").unlink()
    (folder / "user_digg_story.txt").write_text("% nothing\n")
    with pytest.raises(DataError, match="there is no link in it"):
        digg.load(lab(folder), 0)
    (folder / "user_digg_story.txt").unlink()
    with pytest.raises(DataError, match=r"no file of diggs, only README\.txt.*\n.*user_story\.txt"):
        digg.load(lab(folder), 0)


def test_data_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(SettingError, match="there is no"):
        digg.load(lab(tmp_path / "absent"), 0)


def test_a_long_file_is_read_as_it_is(tmp_path):
    path = tmp_path / "user_story.txt"
    links = pl.DataFrame({"user": range(100_000), "story": range(100_000)})
    links.write_csv(path, separator=" ", include_header=False)
    assert digg.read_tuples(path, ["user", "story"]).equals(links)
