"""Options are declared once: everything that lists them agrees with the declaration."""

import inspect
import os
import re
from pathlib import Path

import plait
from plait.config.config_schema import FIT
from plait.fitting.options import DECLARED, DEFAULT_PRIOR, flag, table
from tests.support.command_line import plait_command

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
BETWEEN = re.compile(r"(<!-- options: .* -->\n)(.*?)(\n<!-- end -->)", re.DOTALL)
INSIDE = {"rank_by", "found_weights"}  # said by `plait.fit` to itself


def test_the_signature_of_fit_has_every_option_with_its_default():
    parameters = inspect.signature(plait.fit).parameters
    for option in DECLARED:
        if option.name not in INSIDE:
            default = DEFAULT_PRIOR if option.name == "prior" else parameters[option.name].default
            assert (type(default), default) == (type(option.default), option.default), option.name
    assert parameters["prior"].default is None  # it stands for DEFAULT_PRIOR
    others = {name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY} - {o.name for o in DECLARED}
    assert others == {"progress", "checkpoint"}


def test_the_docstring_names_every_option():
    for option in DECLARED:
        if option.name not in INSIDE:
            assert re.search(rf"\b{option.name}\b", plait.fit.__doc__), option.name


def test_config_files_have_the_options_that_say_so():
    assert set(FIT) == {option.name for option in DECLARED if option.toml} - {"rank"}


def test_the_command_line_has_the_options_that_say_so():
    text = plait_command("fit", "--help", env={"COLUMNS": "200"}).output
    for option in DECLARED:
        assert (f"{flag(option)} " in text) == option.command, option.name
        if option.command:
            assert "".join(option.help.split()) in "".join(text.split())  # wherever its lines are broken


def test_the_table_in_the_docs_is_the_declaration():
    text = PAGE.read_text()
    if os.environ.get("PLAIT_UPDATE_DOCS"):
        PAGE.write_text(BETWEEN.sub(lambda found: found[1] + table() + found[3], text))
    assert BETWEEN.search(PAGE.read_text())[2] == table()


def test_an_option_of_the_command_line_wins_over_the_config(tmp_path):
    (tmp_path / "links.csv").write_text("user,place\nann,cafe\nbob,cafe\nbob,gym\n")
    (tmp_path / "model.toml").write_text(
        'model = "X[user, place] = U[user, r] P[place, r]"\nrank = 1\n[relations.X]\nsource = "links.csv"\n'
        '[fit]\nmethod = "vb"\nmax_iter = 4\nseed = 0\n'
    )
    run = tmp_path / "run"
    command = f"fit {tmp_path}/model.toml -o {run} --method em --tol 0"
    result = plait_command(*command.split())
    assert result.exit_code == 0, result.output
    fit = plait.load(run)
    assert (fit.method, fit.settings["tol"]) == ("em", 0.0)
    assert (fit.settings["max_iter"], fit.seed) == (4, 0)
