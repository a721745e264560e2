"""Ranks that are found and settings that are compared, from the command line."""

import json

import pytest

import plait


def without_rank(scratch):
    text = (scratch.folder / "model.toml").read_text()
    scratch.write("model.toml", text.replace("rank = 2", ""))


def test_a_config_without_rank_is_fitted_and_the_run_says_how(scratch):
    without_rank(scratch)
    result = scratch.plait(["fit", "model.toml", "-o", "found"])
    assert result.exit_code == 0
    assert "(by rule)" in result.stdout
    assert plait.load(scratch.folder / "found").settings["rank_by"]["way"] == "rule"
    assert "(by rule)" in scratch.plait(["info", "found"]).stdout


def test_a_run_whose_rank_was_found_is_resumed(scratch):
    without_rank(scratch)
    scratch.plait(["fit", "model.toml", "-o", "found", "--sweeps", "5"])
    result = scratch.plait(["resume", "found", "--sweeps", "8"])
    assert result.exit_code == 0
    assert plait.load(scratch.folder / "found").history[-1].sweep == 8


def test_check_says_which_rank_a_fit_takes(scratch):
    without_rank(scratch)
    assert "(by rule)" in scratch.plait(["check", "model.toml", "--no-time"]).stdout
    found = json.loads(scratch.plait(["check", "model.toml", "--no-time", "--json"]).stdout)
    scratch.plait(["fit", "model.toml", "-o", "found"])
    assert found["rank"] == plait.load(scratch.folder / "found").rank


def test_a_rank_by_the_bound_is_asked_for_by_an_option(scratch):
    scratch.plait(["fit", "model.toml", "-o", "found", "--rank", "bound", "--sweeps", "10"])
    assert plait.load(scratch.folder / "found").settings["rank_by"]["asked"] == "bound"


@pytest.mark.parametrize("where", ["options", "config"])
def test_choose_compares_settings_in_a_table(scratch, where):
    options = ["--rank", "1,2", "--seeds", "1", "--by", "bound"]
    if where == "config":
        text = (scratch.folder / "model.toml").read_text()
        scratch.write("model.toml", f'{text}\n[choose]\nrank = [1, 2]\nseeds = 1\nby = "bound"\n')
        options = []
    found = json.loads(scratch.plait(["choose", "model.toml", *options, "--json"]).stdout)
    assert {row["rank"] for row in found["settings"]} == {1, 2}
    assert found["settings"][0]["bound"] == max(row["bound"] for row in found["settings"])
    assert found["best"]["rank"] == found["settings"][0]["rank"]


def test_choose_saves_the_best_run_which_can_go_on(scratch):
    result = scratch.plait(["choose", "model.toml", "--rank", "1,2", "--seeds", "2", "-o", "best"])
    assert result.exit_code == 0
    assert "links of visits put aside" in result.stdout
    fit = plait.load(scratch.folder / "best")
    assert len(fit.members) == 2
    assert scratch.plait(["resume", "best", "--sweeps", "60"]).exit_code == 0


def test_choose_replaces_a_run_only_if_told(scratch):
    assert scratch.plait(["choose", "model.toml", "--rank", "1", "-o", "run"]).exit_code != 0
    assert scratch.plait(["choose", "model.toml", "--rank", "1", "--seeds", "1", "-o", "run", "--force"]).exit_code == 0


def test_a_mistake_in_what_is_compared_names_its_cure(scratch):
    result = scratch.plait(["choose", "model.toml", "--rank", "1,2", "--adapt", "factor,component", "--by", "bound"])
    assert result.exit_code == 2
    assert "bounds compare under one adapt only" in result.stderr
