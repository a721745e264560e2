"""Names typed by a person become labels of their axis's kind; tables on stdout are aligned."""

import datetime
import json

import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import plait
from plait.cli import app
from plait.data.labels.names import Labels
from plait.data.labels.typed import read_label as label
from plait.show.plain import plain
from plait.show.words import align, write_bytes

DAY = datetime.date(2024, 1, 31)
CASES = [
    (["ann lee", "a=b"], "a=b", "a=b"),
    (["007", "8"], "007", "007"),
    ([1, -2], "-2", -2),
    ([True, False], "True", True),
    ([DAY], "2024-01-31", DAY),
    ([datetime.datetime(2024, 1, 31, 13, 45)], "2024-01-31T13:45", datetime.datetime(2024, 1, 31, 13, 45)),
    ([datetime.time(13, 45)], "13:45", datetime.time(13, 45)),
]


@pytest.mark.parametrize(("names", "text", "name"), CASES)
def test_a_typed_name_is_of_the_kind_of_its_axis(names, text, name):
    labels = Labels.of("axis", names)
    assert label(labels, text, "axis") == name
    assert name in labels


@pytest.mark.parametrize(
    ("names", "text", "words"),
    [
        ([1], "one", "'one' is not a whole number, but axis axis has integers"),
        ([DAY], "31.1.2024", "'31.1.2024' is not a date such as 2024-01-31, but axis axis has dates"),
        ([True], "maybe", "'maybe' is not true or false, but axis axis has booleans"),
    ],
)
def test_a_name_of_another_kind_is_refused(names, text, words):
    with pytest.raises(plait.DataError, match=words):
        label(Labels.of("axis", names), text, "axis")


def test_names_with_equal_signs_dates_and_codes_work_from_the_shell(tmp_path):
    from tests.cli.conftest import World

    world = World(tmp_path)
    rows = {"who": ["a=b", "007", "a=b"], "day": [DAY, DAY, datetime.date(2024, 2, 1)], "value": [1, 2, 3]}
    model = "X[who, day] = A[who, r] B[day, r]"
    plait.fit(model, {"X": pl.DataFrame(rows)}, rank=1, seed=0, sweeps=3, progress=False).save(tmp_path / "run")
    found = json.loads(world.plait("top run X -k 1 --given who=a=b --known --json").stdout)
    assert found[0]["who"] == "a=b"
    found = json.loads(world.plait("top run X -k 1 --given day=2024-02-01 --given who=007 --json").stdout)
    assert (found[0]["who"], found[0]["day"]) == ("007", "2024-02-01")


def test_ids_that_look_like_numbers_are_text_where_the_run_has_text(tmp_path):
    from tests.cli.conftest import World

    world = World(tmp_path)
    rows = {"i": ["1", "02", "a"], "j": [1, 2, 3]}
    fit = plait.fit("X[i, j] = A[i, r] B[j, r]", {"X": pl.DataFrame(rows)}, rank=1, seed=0, sweeps=3, progress=False)
    fit.save(tmp_path / "run")
    world.write("cells.csv", "i,j\n1,1\n1,2\n")
    assert [row["i"] for row in json.loads(world.plait("predict run X cells.csv --json").stdout)] == ["1", "1"]


def test_numbers_of_a_column_have_the_same_decimals():
    assert align([1.0, 2.0]) == ["1", "2"]
    assert align([1.25, 0.00001, 0.0]) == ["1.2500", "1e-05", "0.0000"]
    assert align([12345.6, 0.5]) == ["12,346", "0"]
    assert align([123.456, 7.0]) == ["123.46", "7.00"]
    assert align([1000, "—", True]) == ["1,000", "—", "True"]


def test_json_has_no_nan_and_dates_are_text():
    import numpy as np

    found = plain({"a": float("nan"), "b": [np.float64("inf"), np.arange(2)], 3: DAY, "c": (None, True)})
    assert (
        json.dumps(found, allow_nan=False) == '{"a": null, "b": [null, [0, 1]], "3": "2024-01-31", "c": [null, true]}'
    )


@pytest.mark.parametrize(("count", "words"), [(12, "12 B"), (2400, "2 kB"), (5e6, "5 MB"), (3.21e9, "3.2 GB")])
def test_sizes_in_words(count, words):
    assert write_bytes(count) == words


def test_files_of_any_name_and_with_blanks_are_read_as_they_are_said_to_be(scratch):
    (scratch.folder / "cells").write_text("user, place, day\nann lee, gym, 3\nfay, cafe, 1\n")
    wanted = json.loads(scratch.stdout("predict run visits cells.csv --json"))
    assert json.loads(scratch.stdout("predict run visits cells --kind csv --strip --json")) == wanted
    (scratch.folder / "test").write_text((scratch.folder / "test.csv").read_text())
    assert scratch.stdout("evaluate run visits test --kind csv") == scratch.stdout("evaluate run visits test.csv")
    scratch.stdout("convert cells cells.parquet --kind csv --strip")
    assert pl.read_parquet(scratch.folder / "cells.parquet").columns == ["user", "place", "day"]


def test_a_file_whose_name_does_not_say_its_kind_is_read_with_an_option(scratch):
    (scratch.folder / "cells").write_text("user,place,day\nann lee,gym,3\n")
    result = scratch.plait("predict run visits cells")
    assert result.exit_code == 2
    assert 'Give its kind: `kind="csv"`.' in " ".join(result.stderr.split())
    result = scratch.plait("predict run visits cells --kind cvs")
    assert result.exit_code == 2
    assert "`kind` is 'cvs'." in result.stderr


def test_top_prints_the_links_of_a_run_that_was_fitted_to_pandas(tmp_path):
    table = pd.DataFrame({"user": ["ann", "bob"], "place": ["cafe", "gym"]})
    plait.fit("X[user, place] = U[user, r] P[place, r]", {"X": table}, rank=1, seed=0, sweeps=2).save(tmp_path / "run")
    result = CliRunner().invoke(app, ["top", str(tmp_path / "run"), "X", "--json"])
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)) == 2
