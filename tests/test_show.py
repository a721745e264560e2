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


def test_a_model_is_shown_with_what_couples_it():
    model = plait.Model("visits[user,place] = U[user,r] P[place,r]; friends[user,pal] = U[user,r] U[pal,r]; pal: user")
    shown = words(model._repr_html_())
    for text in ("visits[user, place] = U[user, r] P[place, r]", "user (also pal); place", "r", "visits, friends"):
        assert text in shown


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
    assert show.number(factor.mean[5, 1]) in shown
    assert (f"±\u00a0{show.number(factor.sd[5, 1])}" in shown) == (method == "vb")
    assert ("points, known exactly" in shown) == (method == "em")
    assert "one number" in words(fit.factors["c"]._repr_html_())


def test_a_posterior_over_pairs_says_what_its_rows_are():
    pairs = plait.fit("X[i,j] = A[i,r] B[j,r] + M[i,j]", {"X": np.eye(80)}, rank=1, seed=0, sweeps=2)
    assert "80 pairs, then one for all others" in words(pairs.factors["M"]._repr_html_())
