"""Names typed by a person become labels of their axis's kind; tables on stdout are aligned."""

import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import plait
from plait.data.encoding.names import Labels
from plait.data.encoding.names import read_label as label
from plait.rendering.document import to_jsonable
from plait.rendering.formatting import align, write_bytes, write_seconds
from tests.support.cli_world import World

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
        ([1], "one", "'one' is not an integer, but axis axis has integers"),
        ([DAY], "31.1.2024", "'31.1.2024' is not a date such as 2024-01-31, but axis axis has dates"),
        ([True], "maybe", "'maybe' is not true or false, but axis axis has booleans"),
    ],
)
def test_a_name_of_another_kind_is_refused(names, text, words):
    with pytest.raises(plait.errors.DataError, match=words):
        label(Labels.of("axis", names), text, "axis")


def test_names_with_equal_signs_dates_and_codes_work_from_the_shell(tmp_path):
    world = World(tmp_path)
    rows = {"who": ["a=b", "007", "a=b"], "day": [DAY, DAY, datetime.date(2024, 2, 1)], "value": [1, 2, 3]}
    model = "X[who, day] = A[who, r] B[day, r]"
    plait.fit(model, {"X": pl.DataFrame(rows)}, rank=1, seed=0, max_iter=3, progress=False).save(tmp_path / "run")
    found = world.json("top run X -k 1 --given who=a=b --include-known")
    assert found[0]["who"] == "a=b"
    found = world.json("top run X -k 1 --given day=2024-02-01 --given who=007")
    assert (found[0]["who"], found[0]["day"]) == ("007", "2024-02-01")


def test_ids_that_look_like_numbers_are_text_where_the_run_has_text(tmp_path):
    world = World(tmp_path)
    rows = {"i": ["1", "02", "a"], "j": [1, 2, 3]}
    fit = plait.fit("X[i, j] = A[i, r] B[j, r]", {"X": pl.DataFrame(rows)}, rank=1, seed=0, max_iter=3, progress=False)
    fit.save(tmp_path / "run")
    world.write("cells.csv", "i,j\n1,1\n1,2\n")
    assert [row["i"] for row in world.json("predict run X cells.csv")] == ["1", "1"]


def test_numbers_of_a_column_have_the_same_decimals():
    assert align([1.0, 2.0]) == ["1", "2"]
    assert align([1.25, 0.00001, 0.0]) == ["1.2500", "1e-05", "0.0000"]
    assert align([12345.6, 0.5]) == ["12,346", "0"]
    assert align([123.456, 7.0]) == ["123.46", "7.00"]
    assert align([1000, "—", True]) == ["1,000", "—", "True"]


def test_json_has_no_nan_and_dates_are_text():
    found = to_jsonable({"a": float("nan"), "b": [np.float64("inf"), np.arange(2)], 3: DAY, "c": (None, True)})
    assert (
        json.dumps(found, allow_nan=False) == '{"a": null, "b": [null, [0, 1]], "3": "2024-01-31", "c": [null, true]}'
    )


def test_sizes_and_durations_in_words():
    assert [write_bytes(size) for size in (12, 2400, 5e6, 3.21e9)] == ["12 B", "2 kB", "5 MB", "3.2 GB"]
    words = {0.00123: "1.2 ms", 0.14: "140 ms", 1.26: "1.3 s", 59.7: "60 s", 600: "10 min", 9000: "2.5 h"}
    assert {seconds: write_seconds(seconds) for seconds in words} == words


def test_kind_and_strip_read_files_of_any_name(scratch):
    (scratch.folder / "cells").write_text("user, place, day\nann lee, gym, 3\nfay, cafe, 1\n")
    wanted = scratch.json("predict run visits cells.csv")
    assert scratch.json("predict run visits cells --kind csv --strip") == wanted
    (scratch.folder / "test").write_text((scratch.folder / "test.csv").read_text())
    assert scratch.stdout("evaluate run visits test --kind csv") == scratch.stdout("evaluate run visits test.csv")
    scratch.stdout("convert cells cells.parquet --kind csv --strip")
    assert pl.read_parquet(scratch.folder / "cells.parquet").columns == ["user", "place", "day"]


def test_top_prints_the_links_of_a_run_that_was_fitted_to_pandas(tmp_path):
    table = pd.DataFrame({"user": ["ann", "bob"], "place": ["cafe", "gym"]})
    plait.fit("X[user, place] = U[user, r] P[place, r]", {"X": table}, rank=1, seed=0, max_iter=2).save(
        tmp_path / "run"
    )
    assert len(World(tmp_path).json("top run X")) == 2
