"""The command report."""

import html
import re
import shlex

import pytest

import plait

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
    scratch.refuse("report run -o page.html", "the file already exists", "--force")
    assert (scratch.folder / "page.html").read_text() == "mine"
    assert scratch.json("report run -o page.html --force") == {
        "written": "page.html",
        "bytes": (scratch.folder / "page.html").stat().st_size,
    }


def test_a_test_is_read_as_evaluate_reads_it(scratch):
    scratch.stdout("report run --test test.csv --relation visits")
    page = (scratch.folder / "report.html").read_text(encoding="utf-8")
    figures = scratch.json("evaluate run visits test.csv")
    assert f">{figures['metrics']['roc_auc']:.4f}<" in page
    assert "2 test links, 2 test zeros (test.csv)" in page


@pytest.mark.budget(5)
def test_its_commands_make_the_run_again(scratch):
    first = plait.load(scratch.folder / "run")
    scratch.stdout("report run")
    page = html.unescape(scratch.read("report.html"))
    lines = re.findall(r"^plait [a-z].*$", re.sub(r"<[^>]+>", "\n", page), re.MULTILINE)
    assert [line.split()[1] for line in lines] == ["train-test-split", "fit", "report", "fit", "report"]
    for line in lines:
        result = scratch.plait([*shlex.split(line)[1:], "--force"])
        assert result.exit_code == 0, result.output
    assert plait.load(scratch.folder / "run").objective == first.objective


@pytest.mark.budget(5)
def test_the_command_of_a_report_with_a_test_makes_it_again(scratch):
    header, *rows = scratch.read("test.csv").splitlines()
    scratch.write("a test.csv", "\n".join(row.replace(",", "\t") for row in rows) + "\n")
    given = ["--value", "n", "--columns", header.replace("plays", "n"), "--delimiter", "\t", "--unquoted", "--strip"]
    scratch.plait(["report", "run", "--test", "a test.csv", "--relation", "visits", *given])
    page = scratch.read("report.html")
    (line,) = re.findall(r"^plait report .*$", re.sub(r"<[^>]+>", "\n", html.unescape(page)), re.MULTILINE)
    assert line.startswith("plait report run --test 'a test.csv' --relation visits --value n --columns ")
    assert "--unquoted" in line
    assert "--strip" in line
    assert scratch.plait([*shlex.split(line)[1:], "--force"]).exit_code == 0
    assert scratch.read("report.html") == page
