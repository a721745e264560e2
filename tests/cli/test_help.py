"""Help: every command says what it does and shows an example; nothing is promised that is not there."""

import re
import runpy
import subprocess
import sys
from importlib import import_module

import polars as pl
import pytest
import typer

import plait
from plait import __version__
from plait.cli import app
from plait.cli.program import COMMANDS
from tests.support.command_line import plait_command


def helped(*arguments):
    result = plait_command(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_plait_alone_prints_its_help():
    assert helped() == helped("--help") == helped("-h")


def test_help_lists_every_command():
    listed = re.findall(r"^  ([\w-]+)  ", helped().partition("Commands:")[2], re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)
    assert typer.main.get_command(app).list_commands(None) == list(COMMANDS)


def test_help_names_exit_codes_and_completion():
    assert "Exit codes: 0 success; 1 failure; 2 invalid arguments, config or data." in helped()
    assert "--install-completion" in helped()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_json_and_examples_with_its_options(command):
    text = helped(command, "--help")
    assert "--json" in text
    assert not re.search("<[a-zA-Z]", text)  # types of Python
    assert re.fullmatch(rf"Usage: \S+ {command} \[OPTIONS\]( [A-Z_=…]+)*", text.splitlines()[0])
    examples = text.partition("Examples:\n")[2].partition("\n\n")[0]
    assert examples
    assert all(line.strip().startswith(f"plait {command}") for line in examples.splitlines())
    parameters = typer.main.get_command(app).get_command(None, command).params
    known = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    assert set(re.findall(r"(?<=\s)--?[a-z][\w-]*", examples)) <= known


def test_the_version_is_that_of_the_package():
    assert helped("--version") == f"plait {__version__}\n"


def test_the_command_line_is_a_module_too(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["__main__.py", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("plait", run_name="__main__")
    assert (end.value.code, capsys.readouterr().out) == (0, f"plait {__version__}\n")


def test_shells_complete_commands(monkeypatch):
    monkeypatch.setenv("_PLAIT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "plait res")
    monkeypatch.setenv("COMP_CWORD", "1")
    result = plait_command(prog_name="plait")
    assert result.stdout.split() == ["resume"]


def test_help_has_the_docstring_of_every_command():
    for name, (module, words) in COMMANDS.items():
        command = getattr(import_module(f"plait.cli.{module}"), name.replace("-", "_"))
        assert command.__doc__.splitlines()[0] == words


def test_help_imports_no_command_and_no_heavy_library():
    code = "import sys; from plait.cli import app; app(['--help'], standalone_mode=False); print(*sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"polars", "numba", "scipy", "dask", "rich", "narwhals"} & set(modules)
    assert [name for name in modules if name.startswith("plait.cli.")] == ["plait.cli.program"]


@pytest.mark.budget(3)
def test_answers_of_saved_runs_import_what_they_use(tmp_path):
    pairs = [(n, "near", (n + 1) % 12) for n in range(12)] + [(n, "far", (n + 2) % 12) for n in range(11)]
    links = pl.DataFrame(pairs, schema=["head", "relation", "tail"], orient="row")
    counts = pl.DataFrame({"user": [0, 0, 1, 1, 2], "film": [0, 1, 0, 1, 1], "value": [90, 70, 60, 80, 50]})
    triples = "links[head, relation, tail] = H[head, r] P[relation, r] T[tail, r]; tail: head"
    matrix = "plays[user, film] = U[user, r] F[film, r]"
    plays = {"plays": plait.Relation(counts, likelihood="poisson")}
    short = {"seed": 0, "warmup": 5, "max_iter": 5, "progress": False}
    fits = {
        "links": plait.fit(triples, {"links": plait.Relation(links, unseen="zero")}, rank=2, evidence="rules", **short),
        "plays": plait.fit(matrix, plays, rank=2, **short),
    }
    infos, tops = [], []
    for relation, fit in fits.items():
        run = str(tmp_path / relation)
        fit.save(run)
        infos.append(["info", run])
        tops.append(["top", run, relation, "--include-known"])
    code = ["import sys; from plait.cli import app"]
    for commands in (infos, tops):
        code += [f"app({command}, standalone_mode=False)" for command in commands]
        code.append("print(*sys.modules, file=sys.stderr)")
    done = subprocess.run([sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=True)
    assert "far" in done.stdout
    after_info, after_top = (set(line.split()) for line in done.stderr.splitlines())
    compilers = {"numba", "llvmlite", "plait.executors.dask", "dask", "distributed"}
    assert (compilers | {"pandas", "scipy.stats", "scipy.optimize", "plait.fitting.fit"}) & after_top == set()
    assert {"scipy.special", "narwhals", "starlette", "plait.evaluation"} & after_info == set()
