"""Large tables, packed into words, bind like small ones; so do tables in files."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plait
from plait import Model
from plait.data.binding.bind import bind
from plait.errors import DataError
from tests.support.tuning import tuned

GRAPH = Model("X[i, j] = A[i, r] B[j, r]\nj: i")
MATRIX = Model("X[i, j] = A[i, r] B[j, r]")
TWICE = Model("X[i, j, k] = A[i, r] A[j, r] C[k, r]\nj: i")
DOUBLED = Model("X[i, j] = A[i, r] A[j, r] + B[i]\nj: i")
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
        "unseen": draw(st.sampled_from(["missing", "zero"])),
    }
    if model is GRAPH:
        options["self_links"] = draw(st.sampled_from(["auto", "missing", "observed"]))
    for option in ("missing", "hidden"):
        over, few = draw(st.sampled_from(["", "i", "ij"])), draw(st.integers(0, 3))
        if over:
            options[option] = pl.DataFrame({index: columns[index][:few] for index in over})
    return model, plait.Relation(pl.DataFrame(columns), **options)


def bound(model, relation, fewest=50_000):
    """Bind a relation, or return the text of its error. Tables of `fewest` rows are packed into words."""
    with tuned(min_threaded_rows=fewest):
        try:
            return bind(model, {"X": relation}, warn=False).relations["X"]
        except DataError as error:
            return str(error)


def assert_equal(one, other):
    assert str(one) == str(other)
    assert one.links.fibres.equals(other.links.fibres)
    assert one.links.stored.dtype == other.links.stored.dtype
    np.testing.assert_array_equal(one.links.stored, other.links.stored)
    np.testing.assert_array_equal(one.cell_weights, other.cell_weights)
    assert {i: seen.tolist() for i, seen in one.seen.items()} == {i: seen.tolist() for i, seen in other.seen.items()}
    assert one.rule.self_links == other.rule.self_links


@given(relations())
def test_words_and_entries_bind_alike(case):
    words, entries = bound(*case, fewest=1), bound(*case)
    if isinstance(words, str) or isinstance(entries, str):
        assert words == entries
        return
    assert_equal(words, entries)
    everywhere = np.argwhere(np.ones(words.shape))
    np.testing.assert_array_equal(words.weights.at(everywhere), entries.weights.at(everywhere))


def many(**columns):
    """More rows than are sorted plainly, in no order and each once."""
    cells = np.random.default_rng(0).permutation(400 * 300)[:50_007]
    return {"i": cells // 300, "j": cells % 300, **{name: made(cells) for name, made in columns.items()}}


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
def test_a_mistake_in_a_large_table_is_refused_with_its_rows(mistake, tmp_path):
    change, words = MISTAKES[mistake]
    table = pl.DataFrame(change(many()))
    table.write_parquet(tmp_path / "x.parquet")
    for data in (table, plait.scan(tmp_path / "x.parquet")):
        with pytest.raises(DataError, match=words):
            MATRIX.bind({"X": plait.Relation(data, likelihood="bernoulli")})


def test_chunked_columns_bind_alike():
    whole = pl.DataFrame(many(value=lambda cells: cells % 5))
    pieces = pl.concat([whole[at : at + 1000] for at in range(0, len(whole), 1000)], rechunk=False)
    assert pieces.n_chunks() > 1
    assert_equal(*(bound(MATRIX, plait.Relation(table)) for table in (whole, pieces)))


SCANNED = {
    "counts": (MATRIX, {"value": lambda cells: cells % 5}, {}),
    "links": (MATRIX, {}, {}),
    "a graph": (GRAPH, {}, {}),
    "a factor twice": (DOUBLED, {}, {}),
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
def test_a_table_in_files_binds_as_in_memory(kind, tmp_path, monkeypatch):
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
    assert_equal(here.relations["X"], there.relations["X"])
