"""Search finds what it should, in the order that it should."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from plait.explore.search import Index, fold


def naive(names: list[str], query: str) -> list[int]:
    """Rows that begin with it, then rows that have it, by looking at every name."""
    folded = [fold(name.replace("\n", " ").replace("\r", " ")) for name in names]
    sought = fold(query).replace("\n", " ").replace("\r", " ")
    first = [row for row, name in enumerate(folded) if name.startswith(sought)]
    return first + [row for row, name in enumerate(folded) if sought in name and row not in first]


letters = st.text(st.sampled_from("abAB éÉß\n🎷"), max_size=6)


@given(st.lists(letters, min_size=1, max_size=12), letters.filter(lambda text: text != ""), st.integers(1, 20))
def test_what_is_found_is_what_looking_at_every_name_finds(names, query, most):
    found, more = Index.of(pl.Series(names)).find(query, most)
    wanted = naive(names, query)
    assert found == wanted[:most]
    assert more == (len(wanted) > most)


def test_letters_are_compared_as_people_do():
    index = Index.of(pl.Series(["Straße", "E\u0301tude", "İstanbul"]))
    assert index.find("STRASSE", 5)[0] == [0]
    assert index.find("étu", 5)[0] == [1]


def test_numbers_are_found_by_their_digits():
    assert Index.of(pl.Series([12, 112, 3])).find("12", 5)[0] == [0, 1]


def test_a_title_is_found_once_with_its_name():
    index = Index.of(pl.Series(["m1", "m2"]), pl.Series(["m one", None]))
    assert index.find("m", 5) == ([0, 1], False)
    assert index.find("one", 5) == ([0], False)


def test_search_answers_a_page_that_is_typed_into_with_its_part_only(served):
    part = served.get("/search?q=ja", headers={"HX-Request": "true"}).text
    whole = served.get("/search?q=ja").text
    assert "jazz" in part
    assert "<html" not in part
    assert "jazz" in whole
    assert "<html" in whole
    assert "No entity" in served.get("/search?q=nothing+at+all").text
