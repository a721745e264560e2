"""The command report."""

import json
import shlex

import pytest

pytest.importorskip("jinja2", reason="the page needs jinja2")
pytest.importorskip("vl_convert", reason="pictures need vl-convert-python")


def test_it_writes_a_page_and_says_where(scratch):
    assert scratch.stdout("report run").startswith("wrote report.html, ")
    page = (scratch.folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "source = &#34;visits.csv&#34;" in page or "source = &quot;visits.csv&quot;" in page
    assert str(scratch.folder) not in page


def test_a_file_that_is_there_is_replaced_only_by_force(scratch):
    scratch.write("page.html", "mine")
    refused = scratch.plait("report run -o page.html")
    assert refused.exit_code == 2
    assert "this file is there already" in refused.stderr
    assert "--force" in refused.stderr
    assert (scratch.folder / "page.html").read_text() == "mine"
    told = json.loads(scratch.stdout("report run -o page.html --force --json"))
    assert told == {"written": "page.html", "bytes": (scratch.folder / "page.html").stat().st_size}


def test_a_test_is_read_as_evaluate_reads_it(scratch):
    scratch.stdout("report run --test test.csv --relation visits")
    page = (scratch.folder / "report.html").read_text(encoding="utf-8")
    figures = json.loads(scratch.stdout("evaluate run visits test.csv --json"))
    assert f">{figures['metrics']['roc_auc']:.4f}<" in page
    assert "2 test links, 2 test zeros (test.csv)" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--test test.csv", "of which relation is the test? There are visits, friends."),
        ("--relation visits", "says what a test is of, but there is none"),
        ("--test none.csv --relation visits", "none.csv"),
        ("--test test.csv --relation visit", "visits"),
        ("-o .", "this file is there already"),
    ],
)
def test_mistakes_are_said_before_anything_is_written(scratch, words, message):
    result = scratch.plait(f"report run {words}")
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (scratch.folder / "report.html").exists()


def test_its_commands_make_the_run_again(scratch):
    from plait.report.commands import fitting
    from plait.report.subject import Subject
    from plait.result import load
    from plait.run.folder import manifest

    first = load(scratch.folder / "run")
    fit, report = fitting(Subject(first, "run", manifest(scratch.folder / "run"))).splitlines()
    assert shlex.split(report) == ["plait", "report", "run"]
    result = scratch.plait([*shlex.split(fit)[1:], "--force"])
    assert result.exit_code == 0, result.output
    assert load(scratch.folder / "run").bound == first.bound
