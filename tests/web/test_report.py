"""The report in a real browser, with the network off."""

from collections import Counter
from unicodedata import normalize

import pytest

pytest.importorskip("jinja2", reason="the page needs jinja2")
pytest.importorskip("vl_convert", reason="pictures need vl-convert-python")

from plait.rendering.document import Details, Picture
from plait.report.report_data import ReportData
from plait.report.report_file import describe_whole, measure
from tests.support.report_run import HOSTILE, LONG, PLACES, USERS, fitted, report, split

pytestmark = pytest.mark.thorough

OPEN = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
WIDE, NARROW = (1280, 900), (390, 844)


@pytest.fixture(scope="module")
def document():
    return describe_whole(ReportData(fitted(), metrics=measure(fitted(), split().test, "visits")[0]))


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    return report(tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def interactive(tmp_path_factory):
    return report(tmp_path_factory.mktemp("report") / "interactive.html", interactive=True)


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_it_is_one_request_and_logs_nothing(opened, static, document, script):
    watched = opened(static, script=script)
    assert watched.requests == [static.as_uri()]
    assert (watched.messages, watched.errors) == ([], [])
    pictures = watched.page.locator("figure > svg[role=img][aria-label]")
    assert pictures.count() == len(list(document.every(Picture))) > 3
    assert watched.page.locator("script").count() == 0
    assert watched.page.locator("main > div > section > h2").all_inner_texts() == [
        "Summary", "Predicted links", "Components", "Evaluation", "Surprises", "The fit", "Reproduce",
    ]  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_in_drawings_too(opened, static, scheme):
    watched = opened(static, scheme=scheme)
    watched.page.evaluate(OPEN)
    assert watched.page.locator("figure text").count() > 30
    assert watched.faint_text() == []


def test_it_breaks_no_rule_of_accessibility(opened, static):
    watched = opened(static)
    watched.page.evaluate(
        OPEN.replace("'details'", "'section > details, article details, #links tr:nth-child(2) details'")
    )
    assert watched.page.locator("details[open]").count() > 4
    assert watched.broken_rules("color-contrast") == []  # which is looked at above, in drawings too


def test_keys_reach_everything_that_opens(opened, static, document):
    page = opened(static).page
    page.evaluate("document.querySelectorAll('summary').forEach((one, n) => { one.dataset.n = n; })")
    reached = set()
    for _ in range(page.locator("a, summary, [tabindex]").count() + 5):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.n ?? ''"))
    count = len(list(document.every(Details)))
    assert page.locator("summary").count() == count > 10
    assert reached - {""} == set(map(str, range(count)))
    page.locator("summary").last.focus()
    page.keyboard.press("Enter")
    assert page.locator("details").last.get_attribute("open") == ""


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_names_of_any_length_do_not_widen_the_page(opened, static, size):
    page = opened(static, size=size).page
    page.evaluate(OPEN)
    assert page.evaluate("document.documentElement.scrollWidth") == size[0]
    assert page.get_by_text("x" * 100).count() > 0


@pytest.mark.parametrize("kind", ["static", "interactive"])
def test_a_hostile_name_stays_text(opened, request, kind):
    watched = opened(request.getfixturevalue(kind))
    page = watched.page
    dialogs = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.evaluate(OPEN)
    page.wait_for_timeout(100)
    assert page.locator("img, b, td script").count() == 0
    cells = page.locator("td").all_text_contents()
    assert HOSTILE in cells
    assert "<b>bold</b>" in cells
    assert dialogs == []
    assert (watched.messages, watched.errors) == ([], [])
    assert len(watched.requests) == 1


def test_every_name_is_shown_as_it_is(opened, static):
    page = opened(static).page
    shown = " ".join(page.locator("td, summary, code, pre").all_text_contents())
    for name in (*USERS, *PLACES):
        assert (name if name != LONG else LONG[:300]) in shown


def test_paper_has_every_row_of_every_table(opened, static, tmp_path):
    pypdf = pytest.importorskip("pypdf", reason="pypdf, which reads the PDF, is not installed")
    page = opened(static).page
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    printed = "".join(sheet.extract_text() for sheet in pypdf.PdfReader(tmp_path / "report.pdf").pages)
    printed = "".join(normalize("NFKC", printed).split())  # fi may be one letter
    rows = page.locator("tbody tr:not(:has(details))").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    # Letters of scripts that are written from right to left, and long ones cut by lines, are read in another order.
    plain = ["".join("".join(row).split()) for row in rows]
    plain = [row for row in plain if row.isascii() and len(row) < 200]
    assert len(plain) > 40
    counts = Counter(plain)
    assert [row for row in counts if printed.count(row) < counts[row]] == []
    pages = len(pypdf.PdfReader(tmp_path / "report.pdf").pages)
    assert pages < 60


def test_interactive_charts_have_tooltips_under_a_strict_policy(opened, interactive, document):
    watched = opened(interactive)
    page = watched.page
    page.wait_for_selector("html[data-charts=drawn]")
    policy = page.locator("meta[http-equiv]").get_attribute("content")
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'sha256-" in policy
    assert page.locator("figure svg.marks").count() == len(list(document.every(Picture)))
    page.locator("#summary figure .mark-symbol path").first.hover()
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "predicted" in tip.inner_text()
    assert (watched.requests, watched.messages, watched.errors) == ([interactive.as_uri()], [], [])


def test_interactive_charts_stand_out_and_break_no_rule(opened, interactive):
    watched = opened(interactive, scheme="dark")
    watched.page.wait_for_selector("html[data-charts=drawn]")
    assert watched.faint_text() == []
    assert watched.broken_rules("color-contrast") == []  # which is looked at above, in drawings too


def test_without_scripts_the_interactive_page_is_the_static_one(opened, interactive, document):
    watched = opened(interactive, script=False)
    assert watched.page.locator("figure > svg[role=img]").count() == len(list(document.every(Picture)))
    assert watched.page.locator("th button").count() == 0


def test_tables_sort_by_keys_with_their_details(opened, interactive):
    page = opened(interactive).page
    table = page.locator("#links table").first
    before = table.locator("> tbody > tr").all_text_contents()
    heading = table.locator("> thead th", has_text="probability")
    heading.locator("button").focus()
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    shown = [float(text.strip(" %<>")) for text in table.locator("> tbody > tr > td:nth-child(3)").all_text_contents()]
    assert shown == sorted(shown)
    after = table.locator("> tbody > tr").all_text_contents()
    assert sorted(before) == sorted(after)


def test_ids_are_unique_and_links_reach_them(opened, static):
    page = opened(static).page
    names = page.locator("[id]").evaluate_all("all => all.map(one => one.id)")
    assert len(names) == len(set(names))
    for link in page.locator("nav a, .skip").all():
        assert link.get_attribute("href").removeprefix("#") in names
