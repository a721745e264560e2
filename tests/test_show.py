"""Documents: every renderer says the same; HTML is well formed, escaped, without scripts."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plait
from plait.show import html, markdown, plain, svg, text
from plait.show.document import (
    Action,
    Cards,
    Code,
    Details,
    Document,
    Facts,
    Faint,
    Note,
    Picture,
    Ref,
    Section,
    Several,
    Share,
    Table,
    Warn,
)
from plait.show.html import PAGE
from plait.show.words import write


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


@given(names, names, st.lists(st.tuples(names, names), max_size=3), names)
def test_any_text_is_shown_as_it_is(heading, column, rows, small):
    shown = words(page(Table((column, "other"), rows, heading, small), Code(heading), Note(small), Warn(small)))
    for one in [heading, column, small, *(value for row in rows for value in row)]:
        assert one in shown


@given(names, names)
def test_any_text_is_shown_as_it_is_on_a_page_of_our_own(heading, name):
    inner = (Facts(((name, heading),)), Details(name, (Cards((Section(name, (Note(heading),)),)),)))
    shown = words(html.render(Document(heading, (Section(heading, inner), Table((name,), [(Ref(name, name),)]))), PAGE))
    assert heading in shown
    assert name in shown


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


def test_a_page_of_our_own_has_no_style_of_its_elements():
    document = Document("", (Table(("a",), [(Share(0.5),)]), Facts((("a", 1),)), Warn("w"), Code("c")))
    assert "style=" not in html.render(document, PAGE)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, "3"),
        (12345, "12,345"),
        (0.123456, "0.1235"),
        (np.float64(2.5), "2.5"),
        (np.int64(7), "7"),
        (True, "True"),
        ("x", "x"),
    ],
)
def test_numbers_are_written_for_people(value, shown):
    assert write(value) == shown


def test_a_table_without_rows_has_a_head():
    assert words(page(Table(("a", "b"), [], "t"))) == "tab"


def test_a_bar_stays_within_its_bounds():
    for fraction, wide in [(-1.0, "0.0"), (0.25, "15.0"), (7.0, "60.0")]:
        assert f"width:{wide}px" in page(Table(("a",), [(Share(fraction),)]))


def test_every_renderer_says_every_number_and_word():
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
    for shown in (text.render(document), words(html.render(document)), markdown.render(document)):
        assert [one for one in said if one not in shown] == []
    assert "p|q" in text.render(document)
    assert r"p\|q" in markdown.render(document)
    found = json.loads(plain.render(document))
    assert found["title"] == "Title"
    assert [block["kind"] for block in found["blocks"]] == [
        "note", "warn", "code", "facts", "table", "details", "cards",
    ]  # fmt: skip
    assert found["blocks"][3]["pairs"] == [["fact", 12345]]


def test_what_is_behind_a_row_is_written_with_it():
    behind = [Details("why 1", (Note("because"),)), Details("why 2", (Note("therefore"),))]
    document = Document("", (Table(("n",), [("p",), ("q",)], behind=behind),))
    for shown in (text.render(document), words(html.render(document)), markdown.render(document)):
        assert all(one in shown for one in ("p", "why 1", "because", "q", "why 2", "therefore"))
    assert [note.text for note in document.every(Note)] == ["because", "therefore"]
    on_page = html.render(document, html.PAGE)
    assert on_page.index(">p<") < on_page.index("because") < on_page.index(">q<") < on_page.index("therefore")


def test_a_page_cuts_names_of_any_length():
    document = Document("", (Table(("n",), [("x" * 10_000,)]),))
    assert f">{'x' * 400}…<" in html.render(document, html.PAGE)
    assert "x" * 10_000 in html.render(document)


def test_blocks_are_found_however_deep():
    deep = Document("", (Section("a", (Details("b", (Cards((Section("c", (Note("x"),)),)),)), Note("y"))),))
    assert [note.text for note in deep.every(Note)] == ["x", "y"]


def test_data_come_before_blocks_where_a_program_asks():
    assert json.loads(plain.render(Document("t", (), {"a": float("nan")}))) == {"a": None}


@pytest.fixture(scope="module")
def table():
    return pl.DataFrame({"user": ["<ann>", "bob", "eve & co"], "place": ["inn", "spa", "inn"]})


@pytest.mark.parametrize("method", ["vb", "em"])
def test_a_fit_is_shown_with_model_bound_and_factors(table, method):
    fit = plait.fit(
        "visits[user,place] = U[user,r] P[place,r]", {"visits": table}, rank=2, seed=3, sweeps=5, method=method
    )
    shown = words(fit._repr_html_())
    for one in (
        "visits[user, place] = U[user, r] P[place, r]",
        "user 3, place 2",
        str(fit.stop),
        "3 × 2",
        "visits 3",
        "r 2",
    ):
        assert one in shown
    assert write(fit.bound) in shown


def test_data_are_shown_with_axes_and_relations(table):
    model = plait.Model("visits[user,place] = U[user,r] P[place,r]; likes[user] = U[user,r] w[r]")
    data = model.bind({"visits": table, "likes": pl.DataFrame({"user": ["bob"]})})
    shown = words(data._repr_html_())
    for one in ("<ann>, bob, eve & co", "visits", "3 × 2", "poisson", "unseen in likes: 2 user"):
        assert one in shown


def test_a_model_is_shown_with_what_couples_it():
    model = plait.Model("visits[user,place] = U[user,r] P[place,r]; friends[user,pal] = U[user,r] U[pal,r]; pal: user")
    shown = words(model._repr_html_())
    for one in ("visits[user, place] = U[user, r] P[place, r]", "user (also pal); place", "r", "visits, friends"):
        assert one in shown


def test_a_relation_is_shown_with_all_that_was_said_of_it(table):
    relation = plait.Relation(
        table.with_columns(when=pl.lit("<now>")),
        columns={"user": "who & what"},
        ignore=["when"],
        weight=2.0,
        strip=True,
        missing=table.select("user"),
    )
    shown = words(relation._repr_html_())
    for option, said in relation.facts:
        assert option in shown
        assert said in shown
    assert "user = who & what" in shown
    assert "3 rows, columns 'user', 'place', 'when'" in shown


def test_a_split_is_shown_with_its_twins():
    table = pl.DataFrame({"user": [f"u{n % 9}" for n in range(27)], "place": [f"p{n // 9}" for n in range(27)]})
    split = plait.hide({"a": table, "b": table}, relation="a", fraction=0.3, seed=0, twins="hide")
    shown = words(split._repr_html_())
    assert shown.startswith("Split of a")
    assert f"{split.chosen} of {split.candidates} {split.what}, seed 0" in shown
    assert str(split).splitlines()[0] == (
        f"Split of a[user, place]: {split.chosen} of {split.candidates} {split.what} hidden, seed 0"
    )
    for word, said in split.facts[1:]:
        assert said in shown
        assert f"  {word:<6} {said}" in str(split).splitlines()


@pytest.mark.parametrize("method", ["vb", "em"])
def test_a_posterior_is_shown_with_its_first_entries(method):
    fit = plait.fit("X[i,j] = A[i,r] B[j,r] c[]", {"X": np.eye(9)}, rank=2, seed=0, sweeps=3, method=method)
    factor = fit.factors["A"]
    shown = words(factor._repr_html_())
    assert shown.startswith("Posterior[i, r]")
    assert "9 × 2" in shown
    assert "the first 6 of 9 rows and 2 of 2 columns" in shown
    assert write(factor.mean[5, 1]) in shown
    assert (f"±\u00a0{write(factor.sd[5, 1])}" in shown) == (method == "vb")
    assert ("points, known exactly" in shown) == (method == "em")
    assert "one number" in words(fit.factors["c"]._repr_html_())


def test_a_posterior_over_pairs_says_what_its_rows_are():
    pairs = plait.fit("X[i,j] = A[i,r] B[j,r] + M[i,j]", {"X": np.eye(80)}, rank=1, seed=0, sweeps=2)
    assert "80 pairs, then one for all others" in words(pairs.factors["M"]._repr_html_())


def test_an_action_is_a_form_on_a_page_and_its_text_elsewhere():
    table = Table(("what if",), [(Several((Action("Hide", "/x?a=1&b=2", (("name", '"><b>'),)), Ref("why", "/why"))),)])
    document = Document("", (Section("card", (table,), address="/card"),))
    page = html.render(document, html.PAGE)
    assert '<form class="action" method="post" action="/x?a=1&amp;b=2">' in page
    assert '<input type="hidden" name="name" value="&quot;&gt;&lt;b&gt;"/><button type="submit">Hide</button>' in page
    assert '<a href="/card">card</a>' in page
    for words in (html.render(document), markdown.render(document), plain.render(document)):
        assert "Hide" in words
        assert "<form" not in words


def test_a_chart_of_names_with_control_characters_is_drawn():
    spec = {"data": {"values": [{"a": "nul\x00l\x1f", "b": 2}]}, "mark": "bar", "encoding": {"y": {"field": "a"}}}
    assert "nul\ufffdl\ufffd" in svg.drawn(Picture(lambda: spec, "a bar"))


def test_names_do_not_steer_a_terminal():
    shown = text.render(Document("a\x1b[31m", [Table(["n"], [["\x1b]0;title\x07"]]), Facts((("b", "\x9bx"),))]))
    assert not any((ord(one) < 32 and one != "\n") or 127 <= ord(one) < 160 for one in shown)
    assert r"\x1b]0;title\x07" in shown
