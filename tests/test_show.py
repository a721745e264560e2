"""Documents: every renderer says the same; HTML is well formed, escaped, without scripts."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plait
from plait.rendering import html, svg, text
from plait.rendering.document import (
    Action,
    Cards,
    Code,
    Details,
    Document,
    Facts,
    Faint,
    FigureTile,
    IntervalBar,
    Note,
    Picture,
    Ref,
    Section,
    Several,
    Share,
    Table,
    Tiles,  # fmt: skip
    Warn,
    render_json,
)
from plait.rendering.formatting import plural, write
from plait.rendering.html import PAGE
from plait.rendering.text import render_markdown


def read(html):
    """The page as a tree; XML is stricter than HTML, so what it reads is well formed."""
    assert "<script" not in html
    return ET.fromstring(html)


def words(html):
    return "".join(read(html).itertext())


# What XML 1.0 cannot hold at all is left out.
names = st.text(st.characters(min_codepoint=32, blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffe\uffff"))


def page(*blocks):
    return html.render(Document("", blocks))


@pytest.mark.parametrize("look", [html.NOTEBOOK, PAGE])
@given(heading=names, column=names, rows=st.lists(st.tuples(names, names), max_size=3), small=names)
def test_any_text_is_shown_as_it_is(look, heading, column, rows, small):
    inner = (Facts(((column, heading),)), Details(column, (Cards((Section(column, (Note(heading),)),)),)))
    blocks = (Table((column, "other"), rows, heading, small), Code(heading), Warn(small), Section(heading, inner))
    shown = words(html.render(Document(heading, blocks), look))
    for one in [heading, column, small, *(value for row in rows for value in row)]:
        assert one in shown


@pytest.mark.parametrize("look", [html.NOTEBOOK, PAGE])
def test_markup_in_names_is_escaped(look):
    hostile = '"><script>alert(1)</script>'
    block = Table(("a&b",), [[hostile], [Ref(hostile, hostile)], [Faint(hostile)], [Details(hostile, ())]], "<i>")
    written = html.render(Document("", (block,)), look)
    assert "<i>" not in written
    assert words(written).count(hostile) == 4


def test_numbers_stand_right_and_words_left():
    tree = read(page(Table(("name", "size"), [("a", 1234567), ("b", 2)])))
    cells = tree.findall(".//tbody/tr/td")
    assert [c.text for c in cells] == ["a", "1,234,567", "b", "2"]
    assert ["right" in c.get("style") for c in cells] == [False, True, False, True]


def test_numbers_are_written_with_commas_and_four_digits():
    values = [3, 12345, 0.123456, np.float64(2.5), np.int64(7), True, "x"]
    assert [write(value) for value in values] == ["3", "12,345", "0.1235", "2.5", "7", "True", "x"]


def test_every_renderer_shows_every_number_and_word():
    blocks = (
        Note("a note"),
        Warn("a warning"),
        Code("X[i] = A[i]"),
        Facts((("fact", 12345),)),
        Table(("n", "x"), [("p|q", 0.25)]),
        Details("more", (Note("inside"),)),
        Cards((Section("card", (Table(("s",), [(Share(0.5),)]),)),)),
    )
    document = Document("Title", blocks)
    said = ["Title", "a note", "a warning", "X[i] = A[i]", "12,345", "0.2500", "more", "inside", "card", "50 %"]
    for shown in (text.render(document), words(html.render(document)), render_markdown(document)):
        assert [one for one in said if one not in shown] == []
    assert "p|q" in text.render(document)
    assert r"p\|q" in render_markdown(document)
    found = json.loads(render_json(document))
    assert found["title"] == "Title"
    assert found["blocks"][3]["pairs"] == [["fact", 12345]]


def test_nouns_have_their_plural():
    said = [
        plural(count, noun) for count, noun in ((1, "activity"), (5, "activity"), (2, "day"), (2, "users"), (2, "y"))
    ]
    assert said == ["1 activity", "5 activities", "2 days", "2 users", "2 ys"]


def test_rows_of_tables_too_wide_for_a_phone_name_their_cells():
    narrow = Table(["user", "place"], [["ann", "cafe"]])
    long = Table(["user", "place"], [["ann", "a very long name of a place, which takes more than half of a line"]])
    bars = Table(["component", "a", "b"], [["0", IntervalBar(0.1), IntervalBar(0.2)]])
    wide = Table(list("abcde"), [list("vwxyz")])
    for table, named in ((narrow, False), (long, True), (bars, True), (wide, True)):
        assert ("data-head" in html.render(Document("", [table]), PAGE)) is named
        assert "data-head" not in html.render(Document("", [table]))


def test_details_in_cells_are_shown_everywhere():
    why = [Details("why 1", (Note("because"),)), Details("why 2", (Note("therefore"),))]
    document = Document("", (Table(("n", "why"), [("p", why[0]), ("q", why[1])]),))
    for shown in (text.render(document), words(html.render(document)), render_markdown(document)):
        assert all(one in shown for one in ("p", "why 1", "because", "q", "why 2", "therefore"))
    assert [note.text for note in document.every(Note)] == ["because", "therefore"]
    on_page = html.render(document, html.PAGE)
    assert on_page.index(">p<") < on_page.index("because") < on_page.index(">q<") < on_page.index("therefore")


def test_figures_and_estimates_are_numbers_outside_of_pages():
    tile = FigureTile("precision", 0.25, "popularity 0.1", (1.0, 3.0, float("nan"), 2.0))
    table = Table(("n", "p"), [("a", IntervalBar(0.25, 0.1, 0.5)), ("b", IntervalBar(3.0, full=6.0, text="3.00"))])
    document = Document("", (Tiles((tile,)), table))
    for shown in (text.render(document), words(html.render(document)), render_markdown(document)):
        assert all(one in shown for one in ("precision", "0.25", "popularity 0.1", "25 %", "3.00"))
    assert json.loads(render_json(document))["blocks"][1]["rows"][0] == [
        "a",
        {"value": 0.25, "lower": 0.1, "upper": 0.5},
    ]
    page = html.render(document, html.PAGE)
    assert re.findall('class="(fill|line)"[^>]*? width="([0-9.]+)"', page) == [
        ("fill", "25.0"), ("line", "40.0"), ("fill", "50.0"),
    ]  # fmt: skip
    assert re.findall('points="([^"]*)"', page) == ["0.0,22.0 50.0,2.0 100.0,12.0"]  # what is not finite is left out


def test_a_page_cuts_names_of_any_length():
    document = Document("", (Table(("n",), [("x" * 10_000,)]),))
    assert f">{'x' * 400}…<" in html.render(document, html.PAGE)
    assert "x" * 10_000 in html.render(document)


@pytest.fixture(scope="module")
def table():
    return pl.DataFrame({"user": ["<ann>", "bob", "eve & co"], "place": ["inn", "spa", "inn"]})


@pytest.mark.parametrize("method", ["vb", "em"])
def test_a_fit_is_shown_with_model_bound_and_factors(table, method):
    text = "visits[user, place] = U[user, r] P[place, r]"
    fit = plait.fit(text, {"visits": table}, rank=2, seed=3, max_iter=5, method=method)
    shown = words(fit._repr_html_())
    for one in (text, "user 3, place 2", str(fit.stop), "3 × 2", "visits 3", "r 2", write(fit.objective)):
        assert one in shown


def test_data_are_shown_with_axes_and_relations(table):
    model = plait.Model("visits[user,place] = U[user,r] P[place,r]; likes[user] = U[user,r] w[r]")
    data = model.bind({"visits": table, "likes": pl.DataFrame({"user": ["bob"]})})
    shown = words(data._repr_html_())
    for one in ("<ann>, bob, eve & co", "visits", "3 × 2", "bernoulli", "without links in likes: 2 user"):
        assert one in shown


def test_a_model_is_shown_with_what_couples_it():
    model = plait.Model("visits[user,place] = U[user,r] P[place,r]; friends[user,pal] = U[user,r] U[pal,r]; pal: user")
    shown = words(model._repr_html_())
    for one in ("visits[user, place] = U[user, r] P[place, r]", "user (also pal); place", "r", "visits, friends"):
        assert one in shown


def test_a_relation_is_shown_with_all_its_options(table):
    options = {"columns": {"user": "who & what"}, "ignore_columns": ["when"], "weight": 2.0, "strip": True}
    relation = plait.Relation(table.with_columns(when=pl.lit("<now>")), missing=table.select("user"), **options)
    shown = words(relation._repr_html_())
    for option, said in relation.facts:
        assert option in shown
        assert said in shown
    assert "user = who & what" in shown
    assert "3 rows, columns 'user', 'place', 'when'" in shown


def test_a_split_is_shown_with_its_leaks():
    table = pl.DataFrame({"user": [f"u{n % 9}" for n in range(27)], "place": [f"p{n // 9}" for n in range(27)]})
    split = plait.train_test_split({"a": table, "b": table}, relation="a", fraction=0.3, seed=0, leakage="remove")
    shown = words(split._repr_html_())
    assert shown.startswith("Split of a")
    assert f"{split.chosen} of {split.candidates} {split.what}, seed 0" in shown
    assert str(split).splitlines()[0] == (
        f"Split of a[user, place]: {split.chosen} of {split.candidates} {split.what} held out, seed 0"
    )
    for word, said in split.facts[1:]:
        assert said in shown
        assert f"  {word:<6} {said}" in str(split).splitlines()


@pytest.mark.parametrize("method", ["vb", "em"])
def test_a_posterior_is_shown_with_its_first_entries(method):
    fit = plait.fit("X[i,j] = A[i,r] B[j,r] c[]", {"X": np.eye(9)}, rank=2, seed=0, max_iter=3, method=method)
    factor = fit.factors["A"]
    shown = words(factor._repr_html_())
    assert shown.startswith("Posterior[i, r]")
    assert "9 × 2" in shown
    assert "the first 6 of 9 rows and 2 of 2 columns" in shown
    assert write(factor.mean[5, 1]) in shown
    assert (f"±\u00a0{write(factor.sd[5, 1])}" in shown) == (method == "vb")
    assert ("point estimates" in shown) == (method == "em")
    assert "one number" in words(fit.factors["c"]._repr_html_())


def test_a_posterior_over_pairs_names_its_rows():
    pairs = plait.fit("X[i,j] = A[i,r] B[j,r] + M[i,j]", {"X": np.eye(80)}, rank=1, seed=0, max_iter=2)
    assert "80 pairs, and one row per first entity" in words(pairs.factors["M"]._repr_html_())


def test_an_action_is_a_form_on_a_page_and_its_text_elsewhere():
    table = Table(("what if",), [(Several((Action("Hide", "/x?a=1&b=2", (("name", '"><b>'),)), Ref("why", "/why"))),)])
    document = Document("", (Section("card", (table,), address="/card"),))
    page = html.render(document, html.PAGE)
    assert '<form class="action" method="post" action="/x?a=1&amp;b=2">' in page
    assert '<input type="hidden" name="name" value="&quot;&gt;&lt;b&gt;"/><button type="submit">Hide</button>' in page
    assert '<a href="/card">card</a>' in page
    for shown in (html.render(document), render_markdown(document), render_json(document)):
        assert "Hide" in shown
        assert "<form" not in shown


def test_a_chart_of_names_with_control_characters_is_drawn():
    spec = {"data": {"values": [{"a": "nul\x00l\x1f", "b": 2}]}, "mark": "bar", "encoding": {"y": {"field": "a"}}}
    assert "nul\ufffdl\ufffd" in svg.drawn(Picture(lambda: spec, "a bar"))


def test_control_characters_of_names_do_not_reach_a_terminal():
    shown = text.render(Document("a\x1b[31m", [Table(["n"], [["\x1b]0;title\x07"]]), Facts((("b", "\x9bx"),))]))
    assert not any((ord(one) < 32 and one != "\n") or 127 <= ord(one) < 160 for one in shown)
    assert r"\x1b]0;title\x07" in shown
