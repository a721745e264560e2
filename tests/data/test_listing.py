"""Listed cells by words are those by entries; what is refused is said as before, with its rows."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plait
from plait.data.binding import listing as module
from plait.data.binding.bind import bind
from plait.data.cells import words as words_module
from plait.data.cells.ranges import MANY
from plait.errors import DataError
from plait.model import Model

GRAPH = Model("X[i, j] = A[i, r] B[j, r]\nj: i")
MATRIX = Model("X[i, j] = A[i, r] B[j, r]")
TWICE = Model("X[i, j, k] = A[i, r] A[j, r] C[k, r]\nj: i")
INDICES = {"graph": (GRAPH, "ij"), "matrix": (MATRIX, "ij"), "twice": (TWICE, "ijk")}


@st.composite
def relations(draw):
    """A model and a relation that says anything that a word can hold, or cannot."""
    model, indices = INDICES[draw(st.sampled_from(sorted(INDICES)))]
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    count, size = draw(st.sampled_from([1, 6, 40])), draw(st.sampled_from([3, 9]))
    names = draw(st.sampled_from([np.arange(9), np.arange(9) * 10**12, np.array(list("abcdefghi"))]))
    columns = {index: names[rng.integers(0, size, count)] for index in indices}
    kind = draw(st.sampled_from(["none", "counts", "links", "zeros", "fractions", "large", "bad"]))
    values = {
        "counts": rng.integers(0, 4, count),
        "links": np.ones(count),
        "zeros": np.zeros(count, np.uint8),
        "fractions": rng.integers(0, 4, count) / 2,
        "large": rng.integers(0, 3, count) * 10.0**12,
        "bad": np.where(np.arange(count) == count - 1, draw(st.sampled_from([-1.0, np.nan, np.inf])), 1.0),
    }
    if kind != "none":
        columns["value"] = values[kind]
    options = {
        "duplicates": draw(st.sampled_from(["sum", "sum", "error"])),
        "observed": draw(st.sampled_from(["all", "listed", 0.5])),
        "likelihood": draw(st.sampled_from(["poisson", "poisson", "negbin"])),
        "universe": draw(st.sampled_from(["relation", "model"])),
    }
    if model is GRAPH:
        options["diagonal"] = draw(st.sampled_from(["auto", "missing", "observed"]))
    for option in ("missing", "hidden"):
        over, few = draw(st.sampled_from(["", "i", "ij"])), draw(st.integers(0, 3))
        if over:
            options[option] = pl.DataFrame({index: columns[index][:few] for index in over})
    return model, plait.Relation(pl.DataFrame(columns), **options)


def bound(model, relation, fewest):
    """The bound relation, or what is wrong; and whether words were enough. fewest: entries for which they are made."""
    ways = []

    def by_words(asked, made=module._by_words):
        ways.append(made(asked))
        return ways[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MANY", fewest)
        patch.setattr(module, "_by_words", by_words)
        try:
            return bind(model, {"X": relation}, warn=False).relations["X"], ways[-1] is not None
        except DataError as error:
            return str(error), False


@given(relations())
def test_words_and_entries_are_the_same_data(case):
    (words, _), (entries, plainly) = bound(*case, 1), bound(*case, MANY)
    assert not plainly
    if isinstance(words, str) or isinstance(entries, str):
        assert words == entries
        return
    assert str(words) == str(entries)
    assert words.links.fibres.equals(entries.links.fibres)
    assert words.links.stored.dtype == entries.links.stored.dtype
    np.testing.assert_array_equal(words.links.stored, entries.links.stored)
    np.testing.assert_array_equal(words.cell_weights, entries.cell_weights)
    assert {index: seen.tolist() for index, seen in words.seen.items()} == {
        index: seen.tolist() for index, seen in entries.seen.items()
    }
    assert words.rule.diagonal == entries.rule.diagonal
    everywhere = np.argwhere(np.ones(words.shape))
    np.testing.assert_array_equal(words.weights.at(everywhere), entries.weights.at(everywhere))


def many(**columns):
    """More rows than are sorted plainly, in no order and each once."""
    cells = np.random.default_rng(0).permutation(400 * 300)[: MANY + 7]
    return {"i": cells // 300, "j": cells % 300, **{name: made(cells) for name, made in columns.items()}}


def test_counts_links_and_ratings_of_large_tables_go_by_words():
    counts = plait.Relation(pl.DataFrame(many(value=lambda cells: cells % 5)))
    links = plait.Relation(pl.DataFrame(many()))
    weighed = plait.Relation(pl.DataFrame(many(w=lambda cells: cells * 0.5)), weight="w")
    halves = plait.Relation(pl.DataFrame(many(value=lambda cells: (1 + cells % 10) * 0.5)))
    large = plait.Relation(pl.DataFrame(many(value=lambda cells: 1 + cells % 7 * 10.0**8)))
    amounts = plait.Relation(pl.DataFrame(many(value=lambda cells: 0.1 + cells)))
    assert all(bound(MATRIX, one, MANY)[1] for one in (counts, links, halves, large))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words_module, "MOST_CODES", 1000)
        assert not any(bound(MATRIX, one, MANY)[1] for one in (weighed, amounts))


MISTAKES = {
    "a cell twice": (
        lambda t: t | {"i": np.append(t["i"], t["i"][5]), "j": np.append(t["j"], t["j"][5])},
        "rows 5 and",
    ),
    "a value below 0": (lambda t: t | {"value": np.where(np.arange(len(t["i"])) == 9, -1.0, 1.0)}, "row 9"),
    "a value that is missing": (lambda t: t | {"value": np.where(np.arange(len(t["i"])) == 8, np.nan, 1.0)}, "row 8"),
    "no link": (lambda t: t | {"value": np.where(np.arange(len(t["i"])) == 7, 2, 1)}, "row 7"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_large_table_is_refused_with_its_rows(mistake):
    change, said = MISTAKES[mistake]
    relation = plait.Relation(pl.DataFrame(change(many())), likelihood="bernoulli")
    with pytest.raises(DataError, match=said):
        bind(MATRIX, {"X": relation})


def test_columns_in_many_pieces_are_read_as_they_are():
    whole = pl.DataFrame(many(value=lambda cells: cells % 5))
    pieces = pl.concat([whole[at : at + 1000] for at in range(0, len(whole), 1000)], rechunk=False)
    assert pieces.n_chunks() > 1
    one, other = (bound(MATRIX, plait.Relation(table), MANY)[0] for table in (whole, pieces))
    assert one.links.fibres.equals(other.links.fibres)
    np.testing.assert_array_equal(one.links.stored, other.links.stored)


SCANNED = {
    "counts": (MATRIX, {"value": lambda cells: cells % 5}, {}),
    "links": (MATRIX, {}, {}),
    "a graph": (GRAPH, {}, {}),
    "hidden cells": (
        MATRIX,
        {},
        {"hidden": pl.DataFrame({"i": [3, 4], "j": [5, 6]}), "missing": pl.DataFrame({"j": [9]})},
    ),
    "zeros that are listed": (MATRIX, {"value": lambda cells: cells % 2}, {"observed": "listed"}),
    "fractions": (MATRIX, {"value": lambda cells: cells * 0.5}, {}),
    "weights": (MATRIX, {"w": lambda cells: cells * 0.5}, {"weight": "w"}),
}


@pytest.mark.parametrize("kind", SCANNED)
def test_a_table_in_files_is_bound_as_in_memory(kind, tmp_path, monkeypatch):
    """Batch by batch where words hold it; else as a whole."""
    model, columns, options = SCANNED[kind]
    table, read = pl.DataFrame(many(**columns)), []
    for part in range(3):
        table[part::3].write_parquet(tmp_path / f"{part}.parquet")
    scan = plait.scan(tmp_path / "*.parquet")
    whole = type(scan).read
    monkeypatch.setattr(type(scan), "read", lambda self: read.append(self) or whole(self))
    here, there = (model.bind({"X": plait.Relation(data, **options)}) for data in (table, scan))
    assert bool(read) == (kind in ("fractions", "weights"))
    assert str(here) == str(there)
    mine, other = here.relations["X"], there.relations["X"]
    assert mine.links.fibres.equals(other.links.fibres)
    np.testing.assert_array_equal(mine.links.stored, other.links.stored)
    np.testing.assert_array_equal(mine.cell_weights, other.cell_weights)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_table_in_files_is_refused(mistake, tmp_path):
    change, said = MISTAKES[mistake]
    pl.DataFrame(change(many())).write_parquet(tmp_path / "x.parquet")
    relation = plait.Relation(plait.scan(tmp_path / "x.parquet"), likelihood="bernoulli")
    with pytest.raises(DataError, match=said):
        MATRIX.bind({"X": relation})
