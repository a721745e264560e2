"""Options are declared once: everything that lists them agrees with the declaration."""

import inspect
import os
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import plait
from plait.cli import app
from plait.config.schema import FIT
from plait.fitting.options import DECLARED, Options, flag, table

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
BETWEEN = re.compile(r"(<!-- options: .* -->\n)(.*?)(\n<!-- end -->)", re.DOTALL)
INSIDE = {"rank_by", "found_weights"}  # said by `plait.fit` to itself


def test_the_signature_of_fit_has_every_option_with_its_default():
    parameters = inspect.signature(plait.fit).parameters
    for option in DECLARED:
        if option.name not in INSIDE:
            assert parameters[option.name].default is option.default, option.name
    others = {name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY} - {o.name for o in DECLARED}
    assert others == {"progress", "checkpoint"}


def test_every_option_is_told_of_in_the_docstring():
    for option in DECLARED:
        if option.name not in INSIDE:
            assert re.search(rf"\b{option.name}\b", plait.fit.__doc__), option.name


def test_config_files_have_the_options_that_say_so():
    assert set(FIT) == {option.name for option in DECLARED if option.toml} - {"rank"}


def test_the_command_line_has_the_options_that_say_so():
    said = CliRunner().invoke(app, ["fit", "--help"], env={"COLUMNS": "200"}).output
    for option in DECLARED:
        assert (f"{flag(option)} " in said) == option.command, option.name
        if option.command:
            assert "".join(option.help.split()) in "".join(said.split())  # wherever its lines are broken


def test_the_table_in_the_docs_is_the_declaration():
    text = PAGE.read_text()
    if os.environ.get("PLAIT_UPDATE_DOCS"):
        PAGE.write_text(BETWEEN.sub(lambda found: found[1] + table() + found[3], text))
    assert BETWEEN.search(PAGE.read_text())[2] == table()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sweeps": 1.5}, "`sweeps` must be a whole number, 0 or more, got 1.5."),
        ({"sweeps": True}, "`sweeps` must be a whole number, 0 or more, got True."),
        ({"sweeps": np.array([3])}, "`sweeps` must be a whole number, 0 or more, got array([3])."),
        ({"tol": -1}, "`tol` must be a finite number, 0 or more, got -1."),
        ({"tol": float("nan")}, "`tol` must be a finite number, 0 or more, got nan."),
        ({"prune": 1}, "`prune` must be True or False, got 1."),
        ({"method": "VB"}, "`method` must be one of 'vb', 'em', 'map', got 'VB'.\nDid you mean 'vb'?"),
        ({"start": "warm"}, "`start` must be one of 'em', 'random', got 'warm'."),
        ({"keep": 3}, "`keep` must be one of 'average', 'best', got 3."),
        ({"threads": 0}, "`threads` must be a whole number, 1 or more, got 0."),
        ({"restarts": None}, "`restarts` must be a whole number, 1 or more, got None."),
    ],
)
def test_a_value_of_another_kind_is_refused(given, message):
    with pytest.raises(plait.SettingError) as caught:
        Options(**given).check()
    assert str(caught.value) == message


def test_numbers_of_numpy_are_numbers():
    Options(sweeps=np.int32(3), tol=np.float32(1e-3), seed=np.uint8(0)).check()


def test_an_option_of_the_command_line_wins_over_the_config(tmp_path):
    (tmp_path / "links.csv").write_text("user,place\nann,cafe\nbob,cafe\nbob,gym\n")
    (tmp_path / "model.toml").write_text(
        'model = "X[user, place] = U[user, r] P[place, r]"\nrank = 1\n[relations.X]\nsource = "links.csv"\n'
        '[fit]\nmethod = "vb"\nsweeps = 4\nseed = 0\n'
    )
    run = tmp_path / "run"
    told = [
        "fit",
        str(tmp_path / "model.toml"),
        "-o",
        str(run),
        "--method",
        "em",
        "--tol",
        "0",
    ]
    result = CliRunner().invoke(app, told)
    assert result.exit_code == 0, result.output
    fit = plait.load(run)
    assert (fit.method, fit.settings["tol"]) == ("em", 0.0)
    assert (fit.settings["sweeps"], fit.seed) == (4, 0)
