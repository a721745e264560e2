"""fit and resume: settings from the command line, runs that are there already, and going on exactly."""

import json

import numpy as np
import pytest

import plait
from plait.run.folder import manifest
from tests.sealed import change


def loaded(world, name="run"):
    return plait.load(world.folder / name)


def test_options_of_the_command_line_win_over_the_file(scratch):
    result = scratch.plait("fit model.toml -o other --seed 3 --sweeps 2 --rank r=3 --threads 2 --json")
    found = json.loads(result.stdout)
    assert (found["seed"], found["sweeps"], found["rank"]) == (3, 2, {"r": 3})
    assert found["settings"]["threads"] == 2
    assert (found["run"], found["resumed"]) == ("other", False)
    assert loaded(scratch, "other").rank == {"r": 3}


def test_a_run_is_not_replaced_unless_told(scratch):
    before = loaded(scratch).bound
    result = scratch.plait("fit model.toml -o run --seed 5")
    assert (result.exit_code, result.stdout, result.stderr) == (
        2, "", "error: run: this folder holds a run already.\n"
        "Go on with it: plait resume run; or replace it: --force.\n",
    )  # fmt: skip
    assert loaded(scratch).bound == before
    assert scratch.plait("fit model.toml -o run --seed 5 --force").exit_code == 0
    assert loaded(scratch).seed == 5


def test_a_folder_with_other_things_is_never_replaced(scratch):
    (scratch.folder / "mine").mkdir()
    scratch.write("mine/thesis.txt", "words")
    result = scratch.plait("fit model.toml -o mine --force")
    assert result.exit_code == 2
    assert "this folder holds other things, such as 'thesis.txt'" in result.stderr
    assert [path.name for path in (scratch.folder / "mine").iterdir()] == ["thesis.txt"]


def test_resume_ends_where_a_longer_fit_would_have_ended(scratch):
    assert scratch.plait("resume run --sweeps 50").exit_code == 0
    assert scratch.plait("fit model.toml -o long --sweeps 50").exit_code == 0
    resumed, long = loaded(scratch), loaded(scratch, "long")
    assert [record.bound for record in resumed.history] == [record.bound for record in long.history]
    for name in long.factors:
        np.testing.assert_array_equal(resumed.factors[name].mean, long.factors[name].mean)


def test_resume_remembers_options_of_the_command_line(scratch):
    scratch.plait("fit model.toml -o other --seed 7 --rank 3 --sweeps 5")
    found = json.loads(scratch.plait("resume other --sweeps 6 --json").stdout)
    assert (found["seed"], found["rank"], found["sweeps"], found["resumed"]) == (7, {"r": 3}, 6, True)
    assert json.loads(scratch.plait("resume other --json").stdout)["resumed"] is False


def test_resume_says_when_nothing_is_left_to_do(scratch):
    assert scratch.stdout("resume run") == (
        "run: nothing left to do: it stopped after 40 sweeps; the last one changed the bound by 4.7e-04 of its size "
        "(tol=1e-06).\nGo further with --sweeps 80."
    )
    assert scratch.stdout("resume run --sweeps 5").endswith("Go further with --sweeps 80.")  # not 10, which is done
    scratch.plait("resume run --sweeps 1000")
    assert scratch.stdout("resume run --sweeps 1000").startswith("run: nothing left to do: it converged: sweep ")


def test_resume_of_a_finished_run_that_is_damaged_says_so(scratch):
    next((scratch.folder / "run").glob("labels-*")).unlink()
    result = scratch.plait("resume run")
    assert (result.exit_code, "this file of the run is missing" in result.stderr) == (2, True)


def test_a_run_without_sweeps_says_so_and_goes_on(scratch):
    assert "ended  no sweep was asked for: this is the start itself.\n" in scratch.stdout(
        "fit model.toml -o zero --sweeps 0"
    )
    assert scratch.stdout("resume zero") == (
        "zero: nothing left to do: no sweep was asked for: this is the start itself.\nGo further with --sweeps 2."
    )
    assert json.loads(scratch.plait("resume zero --sweeps 2 --json").stdout)["sweeps"] == 2


def test_fit_and_info_tell_the_same_time(scratch):
    assert scratch.plait("fit model.toml -o other").exit_code == 0
    fitted, told = scratch.plait("resume other --sweeps 41").stdout, scratch.plait("info other").stdout
    line = next(line.split(maxsplit=1)[1] for line in fitted.splitlines() if line.startswith("bound"))
    assert line in told
    assert line.endswith(f"{sum(record.seconds for record in loaded(scratch, 'other').history):.1f} s")


def test_resume_goes_on_after_a_crash(scratch, monkeypatch):
    """The run as a crash leaves it: a checkpoint, without an end."""
    from plait.run import checkpoint

    monkeypatch.setattr(checkpoint.Saver, "finish", lambda self, state, stop: None)
    monkeypatch.setattr(plait.Fit, "save", lambda self, path, replace, extra: None)
    assert scratch.plait("fit model.toml -o crashed --every 0 --sweeps 32").exit_code == 0
    monkeypatch.undo()
    assert manifest(scratch.folder / "crashed")["stop"] is None
    assert "not yet: this is its last checkpoint" in scratch.stdout("info crashed")
    assert scratch.plait("resume crashed --sweeps 40").exit_code == 0
    assert loaded(scratch, "crashed").bound == loaded(scratch).bound


def test_resume_refuses_other_data(scratch):
    scratch.plait("fit model.toml -o own --sweeps 3")
    scratch.write("friends.csv", "user,friend\nann lee,bob\n")
    result = scratch.plait("resume own --sweeps 5")
    assert (result.exit_code, result.stdout, result.stderr) == (
        2, "", "error: own: the run cannot go on: its data is not what it was.\n"
        "Put it back, or fit again with `plait fit`.\n",
    )  # fmt: skip


def test_resume_refuses_a_run_of_an_older_version(scratch):
    scratch.plait("fit model.toml -o own --sweeps 3")
    path = scratch.folder / "own" / "manifest.json"
    change(path, version=1, fingerprint="0" * 32)
    result = scratch.plait("resume own --sweeps 5")
    assert (result.exit_code, result.stdout, result.stderr) == (
        2, "", "error: own: the run cannot go on: an older version of Plait made it.\nFit again with `plait fit`.\n",
    )  # fmt: skip


def test_resume_refuses_a_run_made_in_python(scratch):
    loaded(scratch).save(scratch.folder / "python")
    result = scratch.plait("resume python")
    assert (result.exit_code, result.stderr) == (
        2, "error: python: this run was not made by `plait fit`, so where its data are is unknown.\n"
        "Go on in Python: plait.fit(model, data, init='python').\n",
    )  # fmt: skip
    assert scratch.plait("predict python visits cells.csv").exit_code == 0


def test_a_checkpoint_that_fails_is_a_warning_and_the_last_one_an_error(scratch, monkeypatch):
    from plait.run import checkpoint

    def full(*arguments, **options):
        raise plait.StoreError("run: the run cannot be saved: No space left on device.\nMake room.") from OSError(
            28, ""
        )

    saves = []
    real = checkpoint.save

    def first_only(*arguments, **options):
        saves.append(arguments)
        return real(*arguments, **options) if len(saves) == 1 else full()

    monkeypatch.setattr(checkpoint, "save", first_only)
    monkeypatch.setattr(plait.Fit, "save", full)
    result = scratch.plait("fit model.toml -o full --sweeps 2 --every 1000")
    assert result.exit_code == 1
    assert result.stderr == (
        "warning: checkpoint not saved: run: the run cannot be saved: No space left on device.\nMake room.\n"
        "error: run: the run cannot be saved: No space left on device.\nMake room.\n"
    )


@pytest.mark.parametrize(
    ("given", "ranks"), [([], None), (["10"], 10), (["r=10"], {"r": 10}), (["r=10", "s=4"], {"r": 10, "s": 4})]
)
def test_rank_is_a_number_or_one_for_each_index(given, ranks):
    from plait.cli import fitting

    assert fitting.ranks(given) == ranks


def test_every_command_takes_a_run_in_one_file(scratch):
    made = scratch.plait("fit model.toml -o model.plait --sweeps 5")
    assert made.exit_code == 0, made.output
    assert (scratch.folder / "model.plait").is_file()
    assert "plait top model.plait visits" in made.stdout
    again = scratch.plait("fit model.toml -o model.plait --sweeps 5")
    assert again.exit_code == 2
    assert "model.plait: this file holds a run already." in again.stderr
    assert scratch.plait("fit model.toml -o model.plait --sweeps 5 --force").exit_code == 0
    assert scratch.plait("resume model.plait --sweeps 8").exit_code == 0
    assert plait.load(scratch.folder / "model.plait").history[-1].sweep == 8
    for command in (
        "info model.plait", "top model.plait visits", "predict model.plait visits cells.csv",
        "explain model.plait visits user=bob place=gym day=1", "evaluate model.plait visits test.csv",
    ):  # fmt: skip
        scratch.stdout(command)
