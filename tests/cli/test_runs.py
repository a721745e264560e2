"""fit and resume: options of the command line, and runs that exist already."""

from unittest.mock import Mock

import numpy as np

import plait
from plait.storage import checkpoint


def loaded(world, name="run"):
    return plait.load(world.folder / name)


def test_options_of_the_command_line_win_over_the_file(scratch):
    found = scratch.json("fit model.toml -o other --seed 3 --max-iter 2 --rank r=3 --threads 2")
    assert (found["seed"], found["sweeps"], found["rank"]) == (3, 2, {"r": 3})
    assert found["settings"]["threads"] == 2
    assert (found["run"], found["resumed"]) == ("other", False)
    assert loaded(scratch, "other").rank == {"r": 3}


def test_a_run_is_replaced_by_force_only(scratch):
    before = loaded(scratch).objective
    scratch.refuse("fit model.toml -o run --seed 5", "run: this folder already contains a run.\n", "--force")
    assert loaded(scratch).objective == before
    assert scratch.plait("fit model.toml -o run --seed 5 --force").exit_code == 0
    assert loaded(scratch).seed == 5


def test_resume_ends_where_a_longer_fit_would_have_ended(scratch):
    assert scratch.plait("resume run --max-iter 50").exit_code == 0
    assert scratch.plait("fit model.toml -o long --max-iter 50").exit_code == 0
    resumed, long = loaded(scratch), loaded(scratch, "long")
    assert [record.objective for record in resumed.history] == [record.objective for record in long.history]
    for name in long.factors:
        np.testing.assert_array_equal(resumed.factors[name].mean, long.factors[name].mean)


def test_resume_remembers_options_of_the_command_line(scratch):
    scratch.plait("fit model.toml -o other --seed 7 --rank 3 --max-iter 5")
    found = scratch.json("resume other --max-iter 6")
    assert (found["seed"], found["rank"], found["sweeps"], found["resumed"]) == (7, {"r": 3}, 6, True)
    assert scratch.json("resume other")["resumed"] is False


def test_resume_says_when_nothing_is_left_to_do(scratch):
    assert scratch.stdout("resume run").startswith("run: nothing to resume: it stopped after 40 sweeps: ")
    assert scratch.stdout("resume run --max-iter 5").endswith("Continue with --max-iter 80.")  # not 10, which is done
    scratch.plait("resume run --max-iter 1000")
    assert scratch.stdout("resume run --max-iter 1000").startswith("run: nothing to resume: it converged after ")


def test_resume_of_a_finished_run_that_is_damaged_says_so(scratch):
    next((scratch.folder / "run").glob("labels-*")).unlink()
    scratch.refuse("resume run", "this file of the run is missing")


def test_a_run_without_sweeps_is_resumed(scratch):
    assert "ended       no sweeps: `max_iter` is 0" in scratch.stdout("fit model.toml -o zero --max-iter 0")
    assert scratch.stdout("resume zero").endswith("\nContinue with --max-iter 2.")
    assert scratch.json("resume zero --max-iter 2")["sweeps"] == 2


def test_resume_refuses_other_data(scratch):
    scratch.plait("fit model.toml -o own --max-iter 3")
    scratch.write("friends.csv", "user,friend\nann lee,bob\n")
    scratch.refuse("resume own --max-iter 5", "own: the run cannot continue: its data", "plait fit")


def test_resume_refuses_a_run_made_in_python(scratch):
    loaded(scratch).save(scratch.folder / "python")
    scratch.refuse("resume python", "python: `plait fit` did not make this run", "init='python'")
    assert scratch.plait("predict python visits cells.csv").exit_code == 0


def test_a_checkpoint_that_fails_is_a_warning_and_the_last_one_an_error(scratch, monkeypatch):
    def full(*arguments, **options):
        raise plait.errors.StorageError("run: the run cannot be saved: No space left.") from OSError(28, "")

    saves = Mock(wraps=checkpoint.save)

    def first_only(*arguments, **options):
        return full() if saves.called else saves(*arguments, **options)

    monkeypatch.setattr(checkpoint, "save", first_only)
    monkeypatch.setattr(plait.Fit, "save", full)
    result = scratch.plait("fit model.toml -o full --max-iter 2 --every 1000")
    assert result.exit_code == 1
    text = "run: the run cannot be saved: No space left.\n"
    assert result.stderr == f"warning: checkpoint not saved: {text}error: {text}"


def test_every_command_takes_a_run_in_one_file(scratch):
    made = scratch.plait("fit model.toml -o model.plait --max-iter 5")
    assert made.exit_code == 0, made.output
    assert (scratch.folder / "model.plait").is_file()
    assert "plait top model.plait visits" in made.stdout
    scratch.refuse("fit model.toml -o model.plait --max-iter 5", "model.plait: this file already contains a run.")
    scratch.stdout("fit model.toml -o model.plait --max-iter 5 --force")
    scratch.stdout("resume model.plait --max-iter 8")
    assert plait.load(scratch.folder / "model.plait").history[-1].sweep == 8
    for command in (
        "info model.plait", "top model.plait visits", "predict model.plait visits cells.csv",
        "explain model.plait visits user=bob place=gym day=1", "evaluate model.plait visits test.csv",
    ):  # fmt: skip
        scratch.stdout(command)
