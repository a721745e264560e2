"""One error in the words of Python, of a config file, of a command, and as JSON: side by side in `dialects.txt`.

After a change that is meant: PLAIT_UPDATE_GOLDEN=1 .venv/bin/pytest tests/test_dialects.py
"""

import copy
import json
import os
import pickle
import warnings
from pathlib import Path

import pytest
import typer

import plait
from plait.cli import app
from plait.cli.cells import Cells
from plait.cli.dialect import CommandLine, of_tables
from plait.config import Config
from plait.config.dialect import Toml
from plait.errors import UnknownArgumentError
from plait.saying import CLOSE, OPEN, PYTHON, Argument, FilePlace, Key, Place, Subject, Within
from tests.dialects import ASKING, CONFIG, DATA, READING, SETTINGS, cells, fit, visits, write_files

GOLDEN = Path(__file__).parent / "dialects.txt"
CASES = {**SETTINGS, **DATA, **READING, **ASKING}
TYPED = {"method": "em", "prune": True, "dtype": "float32", "rank": "bound", "keep": "best", "sweeps": -1}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def error_of(provoke):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        with pytest.raises(plait.PlaitError) as caught:
            provoke()
    return caught.value


def command_line(name, tables=None):
    dialect = CommandLine(tables)
    dialect.know(typer.main.get_command(app).get_command(None, name))
    return dialect


def dialects(name):
    """The provoked error, and who says it."""
    config = Config("model.toml", CONFIG)
    if name in SETTINGS:
        return error_of(SETTINGS[name]), {"TOML": Toml(config), "command line": Toml(config.changed(**TYPED))}
    if name in DATA:
        return error_of(DATA[name]), {"TOML": Toml(config)}
    if name in READING:
        source, provoke = READING[name]
        own = Config("model.toml", CONFIG.replace("visits.csv", source))
        return error_of(provoke), {"TOML": Toml(own), "command line": command_line("convert")}
    command, provoke = ASKING[name]
    table = Cells(None, "cells.csv", {}, None)
    return error_of(provoke), {"command line": command_line(command, {"cells": table, "test": table})}


def side_by_side(name):
    error, others = dialects(name)
    said = {"Python": PYTHON, **others}
    texts = [f"[{who}]\n{dialect.message(error)}" for who, dialect in said.items()]
    parts = {key: value for key, value in list(said.values())[-1].to_dict(error).items() if key != "message"}
    return "\n".join([f"# {name}", *texts, f"[JSON]\n{json.dumps(parts, ensure_ascii=False)}", ""])


def golden():
    return {text.split("\n", 1)[0][2:]: text for text in GOLDEN.read_text(encoding="utf-8").split("\n\n") if text}


def test_the_mistakes_are_of_all_kinds(folder):
    if os.environ.get("PLAIT_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text("\n".join(map(side_by_side, CASES)) + "\n", encoding="utf-8")
    assert list(golden()) == list(CASES)
    assert len(CASES) >= 25
    assert {type(error_of(case)) for case in DATA.values()} == {plait.DataError}


@pytest.mark.parametrize("name", CASES)
def test_every_front_end_says_it_in_its_own_words(folder, name):
    assert side_by_side(name).strip() == golden()[name].strip()


@pytest.mark.parametrize("name", CASES)
def test_no_token_is_left_in_what_is_said(folder, name):
    error, others = dialects(name)
    for dialect in (PYTHON, *others.values()):
        said = json.dumps(dialect.to_dict(error), ensure_ascii=False) + repr(error)
        assert OPEN not in said
        assert CLOSE not in said


def test_an_error_has_its_parts_as_values():
    error = error_of(DATA["a negative value"])
    assert error.where == Place("visits", "value", (1,))
    assert error.got == -1.0
    assert error.wanted == "a finite number, 0 or more"
    assert error.what == "the value is -1."
    assert error.cure == "Counts and links are finite numbers, 0 or more."
    assert str(error) == f"visits, column 'value', row 1 (counting from 0): {error.what}\n{error.cure}"


def test_a_sentence_is_made_of_what_was_wanted_and_got():
    error = plait.SettingError(where=Argument("sweeps"), wanted="a whole number", got="x")
    assert str(error) == "sweeps must be a whole number, got 'x'."


def test_the_span_of_a_model_is_a_value():
    error = error_of(lambda: plait.Model("X[i, j] = A[i, r B[j, r]"))
    assert error.to_dict()["where"] == {"line": 1, "text": "X[i, j] = A[i, r B[j, r]", "start": 10, "stop": 16}
    assert error.what == "the bracket of A is not closed."
    assert str(error).splitlines()[1:3] == ["  X[i, j] = A[i, r B[j, r]", "            ^^^^^^"]


def test_a_place_inside_another_says_both():
    inner = error_of(lambda: plait.Model("X[i, j] = A[i, r B[j, r]")).within(Key("model.toml", "model"))
    assert str(inner).startswith("model.toml, model: the bracket of A is not closed.\n  X[i, j]")
    assert inner.to_dict()["where"]["file"] == "model.toml"
    assert Within(FilePlace("a.csv"), Subject("X")).to_dict() == {"file": "a.csv", "subject": "X"}


@pytest.mark.parametrize("name", ["a cell twice", "prune by EM", "a missing value"])
def test_an_error_is_the_same_after_pickling_and_copying(name):
    error = error_of({**DATA, **SETTINGS}[name])
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert other.to_dict() == error.to_dict()


def test_a_private_character_of_the_users_is_shown_as_it_is():
    text = f"{OPEN}not a part{CLOSE}"
    assert text.strip(OPEN + CLOSE) in str(plait.DataError(f"the name is {text}."))


def test_who_knows_an_error_best_says_it(folder):
    table = Cells(None, "cells.csv", {}, None)
    with pytest.raises(plait.DataError, match=r"^cells\.csv, line 4") as caught, of_tables({"cells": table}):
        fit().predict("visits", cells("ann", "zoe"))
    assert str(caught.value.spoken(PYTHON)).startswith("cells.csv, line 4")


def test_a_file_that_is_gone_still_has_a_name(folder):
    (folder / "visits.csv").unlink()
    error = error_of(DATA["a negative value"])
    said = Toml(Config("model.toml", CONFIG)).message(error)
    assert said.startswith("visits.csv, column 'value', row 1 (counting from 0): ")


# --- arguments that there are not

UNKNOWN = {
    "a word of another library": (lambda: fit(n_components=3), "plait.fit: there is no argument 'n_components'.\n"
                                  "Did you mean 'rank'?"),
    "iterations": (lambda: fit(max_iter=3), "plait.fit: there is no argument 'max_iter'.\nDid you mean 'sweeps'?"),
    "seeds": (lambda: fit(random_state=3), "plait.fit: there is no argument 'random_state'.\nDid you mean 'seed'?"),
    "an option of a relation": (lambda: fit(likelihood="bernoulli"), "plait.fit: there is no argument 'likelihood'.\n"
                                "It is for one relation: plait.Relation(table, likelihood=…)."),
    "a choice": (lambda: plait.choose("X[i, j] = A[i, r] B[j, r]", {}, n_iter=3), (
        "plait.choose: there is no argument 'n_iter'.\nDid you mean 'sweeps'?"
    )),
    "a loss": (lambda: plait.Relation(visits(), loss="x"), "plait.Relation: there is no argument 'loss'.\n"
               "Did you mean 'likelihood'?"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_argument_is_refused_with_the_one_that_was_meant(name):
    provoke, message = UNKNOWN[name]
    error = error_of(provoke)
    assert str(error) == message
    assert isinstance(error, UnknownArgumentError)
    assert isinstance(error, plait.SettingError)
    assert isinstance(error, TypeError)  # as Python's own


@pytest.mark.parametrize("call", [lambda: fit(swepes=3), lambda: plait.Relation(visits(), vlaue="x")])
def test_a_misspelt_argument_is_refused_with_the_closest_and_all_others(call):
    message = str(error_of(call))
    assert "Did you mean 'sweeps'? It has model, data, rank" in message or "Did you mean 'value'? It has" in message
    assert "_entities" not in message


def test_the_signature_is_that_of_the_function():
    import inspect

    assert list(inspect.signature(plait.fit).parameters)[:3] == ["model", "data", "rank"]
    assert "likelihood" in inspect.signature(plait.Relation).parameters
