"""HTML for notebooks: well formed, escaped, without scripts."""

import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import plait
from plait import show


def read(html):
    """The page as a tree; XML is stricter than HTML, so what it reads is well formed."""
    assert "<script" not in html
    return ET.fromstring(html)


def words(html):
    return "".join(read(html).itertext())


# What XML 1.0 cannot hold at all is left out.
names = st.text(st.characters(min_codepoint=32, blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffe\uffff"))


@given(names, names, st.lists(st.tuples(names, names), max_size=3), names)
def test_any_text_is_shown_as_it_is(heading, column, rows, small):
    html = show.page(show.table(heading, (column, "other"), rows, small), show.text(heading), show.note(small))
    shown = words(html)
    for text in [heading, column, small, *(value for row in rows for value in row)]:
        assert text in shown


def test_markup_in_names_is_escaped():
    html = show.page(show.table("<i>", ("a&b",), [['"><script>alert(1)</script>']]))
    assert "<i>" not in html
    assert '"><script>alert(1)</script>' in words(html)


def test_numbers_stand_right_and_words_left():
    tree = read(show.page(show.table("", ("name", "size"), [("a", 1234567), ("b", 2)])))
    cells = tree.findall(".//tbody/tr/td")
    assert [c.text for c in cells] == ["a", "1,234,567", "b", "2"]
    assert ["right" in c.get("style") for c in cells] == [False, True, False, True]


@pytest.mark.parametrize(
    ("value", "text"),
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
def test_numbers_are_written_for_people(value, text):
    assert show.number(value) == text


def test_a_table_without_rows_has_a_head():
    assert words(show.page(show.table("t", ("a", "b"), []))) == "tab"


def test_a_bar_stays_within_its_bounds():
    for fraction, text in [(-1.0, "0 %"), (0.25, "25 %"), (7.0, "100 %")]:
        assert words(show.page(show.bar(fraction))).strip() == text


def points(svg):
    line = ET.fromstring(svg).find("{http://www.w3.org/2000/svg}polyline")
    return [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]


def test_a_rising_curve_rises_from_left_to_right():
    curve = points(show.sparkline([-9e9, -5.0, -3.0, -2.0, -1.5, -1.2, -1.1, -1.0, -0.9, -0.85, -0.84]))
    across, down = zip(*curve)
    assert list(across) == sorted(across)
    assert list(down) == sorted(down, reverse=True)
    assert down[3] - down[-1] > 1  # the terrible start does not flatten the rest


@given(st.lists(st.floats(), max_size=700))
@example([1.7e308, -1.7e308, 0.0])
@example([5e-324, 0.0])
def test_any_curve_stays_in_its_frame(values):
    svg = show.sparkline(values)
    if svg:
        curve = points(svg)
        assert len(curve) <= show.POINTS + 1
        assert all(0 <= x <= 220 and 0 <= y <= 36 for x, y in curve)


@pytest.fixture(scope="module")
def table():
    return pl.DataFrame({"user": ["<ann>", "bob", "eve & co"], "place": ["inn", "spa", "inn"]})


@pytest.mark.parametrize("method", ["vb", "em"])
def test_a_fit_is_shown_with_model_bound_and_factors(table, method):
    fit = plait.fit(
        "visits[user,place] = U[user,r] P[place,r]", {"visits": table}, rank=2, seed=3, sweeps=5, method=method
    )
    shown = words(show.fit_html(fit))
    for text in (
        "visits[user, place] = U[user, r] P[place, r]",
        "user 3, place 2",
        str(fit.stop),
        "3 × 2",
        "visits 3",
        "r 2",
    ):
        assert text in shown
    assert "<svg" in show.fit_html(fit)
    assert show.number(fit.bound) in shown


def test_data_are_shown_with_axes_and_relations(table):
    model = plait.Model("visits[user,place] = U[user,r] P[place,r]; likes[user] = U[user,r] w[r]")
    data = model.bind({"visits": table, "likes": pl.DataFrame({"user": ["bob"]})})
    shown = words(show.data_html(data))
    for text in ("<ann>, bob, eve & co", "visits", "3 × 2", "poisson", "unseen in likes: 2 user"):
        assert text in shown
