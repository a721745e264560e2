"""`python -m lab.paper`: every experiment in its quick form, resumable, with plots and a page."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from lab.harness.command import ended
from lab.paper import NAMES
from lab.paper.__main__ import main
from tests.support.lab_data import ROOT

PAPER = [sys.executable, "-m", "lab.paper", "--folder", "paper"]
HERE = os.environ | {"COLUMNS": "100", "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def paper(*arguments, cwd, expect=0):
    """Run the program in a folder."""
    done = subprocess.run([*PAPER, *arguments], cwd=cwd, capture_output=True, text=True, env=HERE)
    assert done.returncode == expect, f"{arguments} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# The experiments on UCLAF share the choice of settings, so they run together.
TOGETHER = [("uclaf", "slices"), *([name] for name in NAMES if name not in ("choice", "uclaf", "slices"))]


@pytest.mark.thorough
@pytest.mark.parametrize("names", TOGETHER, ids=" ".join)
def test_every_experiment_runs_on_stand_ins_and_says_so(names, tmp_path):
    done = paper(*names, "--quick", cwd=tmp_path)
    assert "only to see that it works" in done.stdout
    page = (tmp_path / "paper" / "paper.md").read_text(encoding="utf-8")
    for path in (tmp_path / "paper" / "results").iterdir():
        head, *cells = lines(path)
        assert head["quick"]
        assert "stand-in" in head["source"] or "drawn" in head["source"]
        assert head["source"] in done.stdout
        assert head["source"] in page
        assert cells
        assert all(value is None or value == value for line in cells for value in line["figures"].values())
    for path in (tmp_path / "paper").glob("*.svg"):
        assert f"({path.name})" in page
        assert path.with_suffix(".png").stat().st_size > 5000
    if "slices" in names:
        check_others_are_kept(tmp_path)


def check_others_are_kept(folder):
    """A fresh start of one experiment keeps the results that it needs; without plots the page keeps its pictures."""
    choice, path = folder / "paper" / "results" / "choice.jsonl", folder / "paper" / "paper.md"
    before, page = choice.read_bytes(), path.read_text(encoding="utf-8")
    paper("slices", "--quick", "--fresh", "--no-plots", cwd=folder)
    assert choice.read_bytes() == before
    pictures = [line for line in page.splitlines() if line.startswith("![")]
    assert pictures
    assert all(line in path.read_text(encoding="utf-8") for line in pictures)


@pytest.mark.thorough
def test_an_interrupted_run_continues_with_the_same_figures(tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    paper("rank", "--quick", "--no-plots", cwd=whole)
    expected = lines(whole / "paper" / "results" / "rank.jsonl")

    process = subprocess.Popen(
        [*PAPER, "rank", "--quick", "--no-plots"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=HERE,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    path = tmp_path / "paper" / "results" / "rank.jsonl"
    while process.poll() is None and not (path.exists() and path.read_text().count("\n") >= 3):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    message = process.communicate()[1]
    if process.returncode:  # it may have been at its very end
        assert process.returncode == 130
        assert "the same command goes on" in message
        assert "Traceback" not in message
    kept = lines(path)
    paper("rank", "--quick", "--no-plots", cwd=tmp_path)
    found = lines(path)
    assert found[: len(kept)] == kept, "finished cells are not measured again"

    def figures(all_lines):
        """What does not depend on the clock."""
        return {
            json.dumps(line["cell"]): {k: v for k, v in line["figures"].items() if "seconds" not in k}
            for line in all_lines[1:]
        }

    assert figures(found) == figures(expected)


@pytest.mark.thorough
def test_mistakes_are_found_before_anything_is_computed(tmp_path, monkeypatch, capsys):
    """In this process: to start one takes a second each."""
    monkeypatch.chdir(tmp_path)

    def refused(*arguments):
        assert ended(lambda: main(["--folder", "paper", *arguments])) == 2
        return capsys.readouterr().err

    assert "Did you mean 'uclaf'?" in refused("ucalf")
    assert "there is no 'nowhere'" in refused("--data", "nowhere")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty").mkdir()
    assert "has none of uclaf/" in refused("hyper", "--data", "empty")
    assert "is a folder" in refused("hyper", "--page", "empty")
    (tmp_path / "data" / "uclaf").mkdir(parents=True)
    (tmp_path / "data" / "uclaf" / "aaai10.uclaf.data.mat").write_bytes(b"no data")
    results = tmp_path / "paper" / "results" / "hyper.jsonl"
    results.parent.mkdir(parents=True)
    results.write_text("precious")
    refused("hyper", "--data", "data", "--fresh")
    assert results.read_text() == "precious"
