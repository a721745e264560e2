"""Ranks that are found and settings that are compared, from the command line."""

import pytest

import plait


def test_a_config_without_rank_is_fitted_and_resumed(scratch):
    scratch.change("rank = 2", "")
    assert "(by rule)" in scratch.stdout("check model.toml --no-time")
    rank = scratch.json("check model.toml --no-time")["rank"]
    assert "(by rule)" in scratch.stdout("fit model.toml -o found --max-iter 5")
    fit = plait.load(scratch.folder / "found")
    assert (fit.rank, fit.settings["rank_by"]["way"]) == (rank, "rule")
    assert "(by rule)" in scratch.stdout("info found")
    scratch.stdout("resume found --max-iter 8")
    assert plait.load(scratch.folder / "found").history[-1].sweep == 8


def test_a_rank_is_found_by_the_elbo(scratch):
    scratch.plait(["fit", "model.toml", "-o", "found", "--rank", "elbo", "--max-iter", "10"])
    assert plait.load(scratch.folder / "found").settings["rank_by"]["asked"] == "elbo"


@pytest.mark.parametrize("where", ["options", "config"])
def test_grid_search_compares_settings_in_a_table(scratch, where):
    options = ["--rank", "1,2", "--seeds", "1", "--by", "elbo"]
    if where == "config":
        scratch.write(
            "model.toml", f'{scratch.read("model.toml")}\n[grid_search]\nrank = [1, 2]\nseeds = 1\nby = "elbo"\n'
        )
        options = []
    found = scratch.json(["grid-search", "model.toml", *options])
    assert {row["rank"] for row in found["settings"]} == {1, 2}
    assert found["settings"][0]["objective"] == max(row["objective"] for row in found["settings"])
    assert found["best"]["rank"] == found["settings"][0]["rank"]


def test_grid_search_saves_the_best_run(scratch):
    assert "held-out links of visits" in scratch.stdout("grid-search model.toml --rank 1,2 --seeds 2 -o best")
    assert len(plait.load(scratch.folder / "best").members) == 2
    scratch.stdout("resume best --max-iter 60")
    scratch.refuse("grid-search model.toml --rank 1 -o run", "--force")
    scratch.stdout("grid-search model.toml --rank 1 --seeds 1 -o run --force")
