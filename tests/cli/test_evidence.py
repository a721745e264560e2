"""evidence = "auto" in a config, and --evidence on the command line."""

import json

import numpy as np
import polars as pl

CONFIG = """
model = "likes[user, film] = U[user, r] F[film, r]"
rank = 2
[relations.likes]
source = "likes.csv"
[fit]
seed = 0
max_iter = 6
warmup = 0
evidence = "neighbours"
"""


def write_likes(scratch):
    users, films = np.nonzero(np.abs(np.subtract.outer(range(30), range(30))) <= 2)
    pl.DataFrame({"user": users, "film": films}).write_csv(scratch.folder / "likes.csv")
    scratch.write("likes.toml", CONFIG)


def test_check_fit_info_and_explain_show_evidence(scratch):
    write_likes(scratch)
    assert "neighbours of likes" in scratch.plait("check likes.toml --no-time").stdout  # it may warn
    assert "neighbours of likes" in scratch.stdout("fit likes.toml -o band")
    assert "neighbours of likes" in scratch.stdout("info band")
    found = scratch.json("explain band likes user=3 film=6")
    assert "neighbours" in json.dumps(found["components"])
    assert "paths of likes" in scratch.stdout("fit likes.toml -o other --evidence paths")


def test_check_estimates_the_cost_of_evidence(scratch):
    write_likes(scratch)
    cost = scratch.json("check likes.toml --no-time --json")["evidence"]["neighbours"]
    assert 100 < cost["cells"] <= 900
    assert 0 < cost["seconds"] < 600
    assert f"{cost['cells']:,} cells, computed in" in scratch.plait("check likes.toml --no-time").stdout


def test_wrong_evidence_is_refused_with_a_suggestion(scratch):
    write_likes(scratch)
    result = scratch.plait("fit likes.toml -o band --evidence neighbors")
    assert result.exit_code == 2
    assert "neighbours" in result.stderr
    assert "Traceback" not in result.output
