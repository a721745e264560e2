"""The command `plait pack`."""

import json

import polars as pl
import pytest

from plait.data.outofcore.packed import Packed
from tests.support.command_line import plait_command

CONFIG = """
model = "visits[user, place] = U[user, r] P[place, r]"

[relations.visits]
source = "{source}"
columns = {{ user = "who" }}
ignore_columns = ["when"]
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pl.DataFrame({"who": ["a", "b", "a"], "place": [1, 1, 2], "when": [3, 4, 5], "value": [1, 2, 3]})

    def pack(source="v.csv", *arguments, table=table):
        table.write_csv("v.csv")
        table.write_parquet("v.parquet")
        (tmp_path / "m.toml").write_text(CONFIG.format(source=source))
        return plait_command("pack", "m.toml", "-o", "out", *arguments)

    return pack


@pytest.mark.parametrize("source", ["v.csv", "v.parquet", "*.parquet"])
def test_it_packs(run, source):
    done = run(source)
    assert done.exit_code == 0, done.output
    assert "packed into out" in done.stdout
    assert Packed.open("out").relations["visits"].links == 3


def test_as_json(run):
    found = json.loads(run("v.csv", "--json", "--memory", "1MB").stdout)
    assert found["relations"]["visits"]["links"] == 3
    assert found["fingerprint"] == Packed.open("out").fingerprint


def test_a_cell_twice(run):
    twice = pl.DataFrame({"who": ["a", "a"], "place": [1, 1], "when": [3, 4], "value": [1, 2]})
    done = run(table=twice)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: v.csv, lines 2 and 3: both rows contain user='a', place=1.\nRemove one, or ")


def test_memory_is_checked(run):
    done = run("v.csv", "--memory", "much")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: `memory` must be a number of bytes, got 'much'.")
    many = pl.DataFrame({"who": range(9000), "place": [n % 50 for n in range(9000)], "when": 1, "value": 1})
    done = run("v.parquet", "--memory", "200KB", table=pl.concat([many, many.with_columns(pl.col("place") + 50)]))
    assert done.exit_code == 2
    assert done.stderr.startswith("error: `memory` must be at least ")
    assert '\nSet `memory="' in done.stderr


def test_names_with_blanks_are_warned_of(run):
    done = run(table=pl.DataFrame({"who": ["ann", " bob"], "place": [1, 1], "when": [3, 4], "value": [1, 2]}))
    assert done.exit_code == 0
    assert done.stderr.startswith("warning: axis user: 1 of 2 names begin or end with a blank, such as ' bob'.\n")
    assert "`strip=True`" in done.stderr
    assert "packed into out" in done.stdout
