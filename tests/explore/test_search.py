"""Search finds what it should, in the order that it should."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from plait.explore.entity_urls import Index, fold


def naive(names: list[str], query: str) -> list[int]:
    """Rows that begin with it, then rows that have it, by looking at every name."""
    folded = [fold(name.replace("\n", " ").replace("\r", " ")) for name in names]
    sought = fold(query).replace("\n", " ").replace("\r", " ")
    first = [row for row, name in enumerate(folded) if name.startswith(sought)]
    return first + [row for row, name in enumerate(folded) if sought in name and row not in first]


letters = st.text(st.sampled_from("abAB éÉß\n🎷"), max_size=6)


@given(st.lists(letters, min_size=1, max_size=12), letters.filter(lambda text: text != ""), st.integers(1, 20))
def test_search_equals_a_scan_of_all_names(names, query, most):
    found, more = Index.of(pl.Series(names)).find(query, most)
    wanted = naive(names, query)
    assert found == wanted[:most]
    assert more == (len(wanted) > most)


def test_letters_are_folded_and_titles_and_numbers_are_found():
    index = Index.of(pl.Series(["Straße", "E\u0301tude", "İstanbul"]))
    assert index.find("STRASSE", 5)[0] == [0]
    assert index.find("étu", 5)[0] == [1]
    assert Index.of(pl.Series([12, 112, 3])).find("12", 5)[0] == [0, 1]
    index = Index.of(pl.Series(["m1", "m2"]), pl.Series(["m one", None]))
    assert index.find("m", 5) == ([0, 1], False)
    assert index.find("one", 5) == ([0], False)


def test_search_answers_htmx_with_a_part_of_the_page(served):
    part = served.get("/search?q=ja", headers={"HX-Request": "true"}).text
    whole = served.get("/search?q=ja").text
    assert "jazz" in part
    assert "<html" not in part
    assert "jazz" in whole
    assert "<html" in whole
    assert "No name matches" in served.get("/search?q=nothing+at+all").text
