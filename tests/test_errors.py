"""The text, the parts and the location of errors and warnings."""

import copy
import inspect
import pickle
from pathlib import Path

import polars as pl
import pytest

import plait
from plait import errors
from plait.cli import app
from plait.cli.link_commands import CellTable, locating
from plait.config.config_file import read_config
from plait.errors import DataError, FileLocation, ParameterError, TableLocation, relocating

CLASSES = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, errors._Message)][1:]


def test_the_text_is_location_message_excerpt_and_hint():
    error = DataError("the value is -1.", location=TableLocation("visits", "n", rows=(1, 3)), hint="Remove it.")
    assert str(error) == "visits, column 'n', rows 1 and 3 (counting from 0): the value is -1.\nRemove it."
    with pytest.raises(plait.errors.ModelError) as caught:
        plait.Model("x[i, j] = A[i, r] B[j, r")
    first, line, carets, hint = str(caught.value).splitlines()
    assert first == caught.value.message
    assert line[carets.index("^") :].startswith("B[j")
    assert hint == caught.value.hint


def test_parts_are_json():
    error = DataError("wrong.", location=FileLocation("a.csv", (3,), "n"), expected="a number", actual=[1], hint="Fix.")
    assert list(error.to_dict().items()) == [
        ("kind", "DataError"), ("text", "a.csv, line 3, column 'n': wrong.\nFix."), ("message", "wrong."),
        ("location", {"file": "a.csv", "lines": [3], "column": "n"}),
        ("actual", "[1]"), ("expected", "a number"), ("hint", "Fix."),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", CLASSES)
def test_every_kind_has_the_same_parts_and_can_be_copied(kind):
    error = kind("wrong.", hint="Fix it.", location=TableLocation("visits", rows=(1,)))
    for other in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(other), other.to_dict()) == (kind, error.to_dict())
        assert other.actual is errors.MISSING
    assert (error.args, error.to_dict()["kind"], error.to_dict()["message"]) == (("wrong.",), kind.__name__, "wrong.")


@pytest.mark.parametrize(("actual", "shown"), [(0, "0"), ("x", "'x'"), (None, "None"), (list, "list")])
def test_an_option_of_the_wrong_kind_shows_its_value_or_its_type(actual, shown):
    error = ParameterError.must_be("rank", "at least 1", actual)
    assert str(error) == f"`rank` must be at least 1, got {shown}."
    assert (error.expected, error.actual) == ("at least 1", actual)
    assert str(ParameterError.must_be("rank", "at least 1")) == "`rank` must be at least 1."


def test_a_location_inside_another_one():
    assert str(DataError("wrong.").within("model.toml").within("runs")) == "runs: model.toml: wrong."
    error = DataError("wrong.", location=TableLocation("visits", "n")).within(FileLocation("a.zip"))
    assert str(error) == "a.zip: visits, column 'n': wrong."
    assert error.to_dict()["location"] == {"file": "a.zip", "table": "visits", "column": "n"}


def test_a_row_in_memory_becomes_a_line_of_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("user,place\nann,gym\n\nbob,gym\n")
    Path("model.toml").write_text(
        'model = "x[user, place] = A[user, r] B[place, r]"\n[relations.x]\nsource="visits.csv"'
    )
    cells = CellTable(pl.DataFrame(), "visits.csv", {}, None)
    for table, located in (("x", relocating(read_config("model.toml").locate)), ("cells", locating({"cells": cells}))):
        with pytest.raises(DataError, match=r"^visits.csv, line 4, column 'user': wrong\.$"), located:
            raise DataError("wrong.", location=TableLocation(table, "user", rows=(1,)))


def test_no_source_has_private_characters():
    texts = {path: path.read_text() for path in Path(plait.__file__).parent.rglob("*.py")}
    assert [path for path, text in texts.items() if any("\ue000" <= letter <= "\uf8ff" for letter in text)] == []


def test_a_misspelt_name_of_a_fit_or_of_metrics_is_a_key_error_with_what_was_meant():
    table = pl.DataFrame({"user": ["ann", "bob", "ann"], "film": ["Alien", "Heat", "Heat"], "value": [1, 1, 0]})
    fit = plait.fit("likes[user, film] = U[user, r] F[film, r]", table, rank=1, max_iter=2, warmup=0, seed=0)
    with pytest.warns(plait.errors.LeakWarning):
        metrics = plait.evaluate(fit, "likes", table)
    for get, known in (
        (lambda: fit.factors["Ux"], "'U'"),
        (lambda: fit.entities["usr"], "'user'"),
        (lambda: fit.known["like"], "'likes'"),
        (lambda: metrics["roc_auk"], "'roc_auc'"),
    ):
        with pytest.raises(KeyError, match=f"Did you mean {known}") as caught:
            get()
        assert isinstance(caught.value, plait.errors.UnknownNameError)
    assert "usr" not in fit.entities
    assert pickle.loads(pickle.dumps(fit)).entities.keys() == fit.entities.keys()


def test_an_unknown_user_is_pointed_to_new_entities():
    fit = plait.fit("likes[user, film] = U[user, r] F[film, r]", [("ann", "Alien")], rank=1, max_iter=2, warmup=0)
    with pytest.raises(plait.errors.DataError, match="`new_entities`"):
        fit.top("likes", given={"user": "cy"})


def test_a_misspelt_command_is_refused_with_what_was_meant(capsys):
    with pytest.raises(SystemExit) as ended:
        app(["fitt"], prog_name="plait")
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: there is no command 'fitt'. Did you mean 'fit'?\nTry 'plait --help'.\n"
