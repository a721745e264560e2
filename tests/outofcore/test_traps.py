"""Packing gives the warnings of binding in memory."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.checks import MIRROR_SAMPLE_LINKS
from plait.data.outofcore.packed import Packed
from tests.support.blocks_warnings import caught_both

MATRIX = "v[i, j] = A[i, r] B[j, r]"
COUPLED = "v[i, j] = A[i, r] B[j, r]; w[j, k] = B[j, r] C[k, r]"
DIRECTED = "v[i, j] = A[i, r] B[j, r]; j: i"
THREE = "v[i, j, k] = A[i, r] B[j, r] C[k, r]; j: i"


def pairs(count, size, *, falling=False, both=False):
    """Links between entities of one axis; falling: from the larger to the smaller, both: each the other way, too."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, size, (2, count))
    first, second = (np.maximum(first, second), np.minimum(first, second)) if falling else (first, second)
    ends = pl.DataFrame({"i": first, "j": second}).filter(pl.col("i") != pl.col("j")).unique(maintain_order=True)
    return pl.concat([ends, ends.select(i="j", j="i")]).unique(maintain_order=True) if both else ends


def deeper(table):
    """The same pairs below a longer axis."""
    return table.with_columns(k=pl.Series(np.arange(len(table)) % 700))


def listed(values, **options):
    cells = pl.DataFrame({"i": np.arange(12) % 4, "j": np.arange(12) // 4, "value": values})
    more = pl.DataFrame({"i": [4], "j": [3], "value": values[:1]})
    return plait.Relation(pl.concat([cells, more]), observed="listed", **options)


TRAPS = {
    "case": (MATRIX, {"v": pl.DataFrame({"i": ["ann", "bob", "Bob"], "j": ["x", "y", "z"]})}),
    "blanks": (MATRIX, {"v": pl.DataFrame({"i": ["ann", " bob", "cem"], "j": ["x", "y", "z"]})}),
    "strangers": (
        COUPLED,
        {
            "v": pl.DataFrame({"i": [1, 2], "j": ["roof", "park"]}),
            "w": pl.DataFrame({"j": ["bar", "mill"], "k": [1, 2]}),
        },
    ),
    "events": (MATRIX, {"v": pl.DataFrame({"i": np.arange(600) % 20, "j": np.arange(600) * 60})}),
    "no zeros": (MATRIX, {"v": listed([1] * 12)}),
    "no zeros, all 2.5": (MATRIX, {"v": listed([2.5] * 12)}),
    "one way": (DIRECTED, {"v": pairs(3000, 500, falling=True)}),
    "one way below another axis": (THREE, {"v": deeper(pairs(3000, 500, falling=True))}),
}
NO_TRAPS = {
    "ratings": (MATRIX, {"v": listed([1, 2] * 6)}),
    "a listed zero": (MATRIX, {"v": listed([1] * 11 + [0])}),
    "both ways": (DIRECTED, {"v": pairs(3000, 500, both=True)}),
    "some both ways": (DIRECTED, {"v": pairs(3000, 100)}),
    "too few to tell": (DIRECTED, {"v": pairs(300, 5000, falling=True)}),
    "the other way is missing": (
        DIRECTED,
        {
            "v": plait.Relation(
                pairs(3000, 500, falling=True).with_columns(value=1 + pl.col("i") % 3), observed="listed"
            )
        },
    ),
    "one entity": (DIRECTED, {"v": pl.DataFrame({"i": [1], "j": [1]})}),
    "no direction": ("v[i, j] = A[i, r] A[j, r]; j: i", {"v": pairs(3000, 500, falling=True)}),
    "weights of cells": (
        DIRECTED,
        {"v": plait.Relation(pairs(3000, 100).with_columns(w=pl.lit(0.5)), weight="w")},
    ),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_packing_warns_as_binding_does(tmp_path, trap):
    in_memory, packed = caught_both(tmp_path, *TRAPS[trap])
    assert len(in_memory) == 1
    assert packed == in_memory


@pytest.mark.parametrize("data", NO_TRAPS)
def test_packing_does_not_warn_where_binding_does_not(tmp_path, data):
    in_memory, packed = caught_both(tmp_path, *NO_TRAPS[data])
    assert packed == in_memory == []


def test_an_empty_table_gives_no_warning(tmp_path):
    nothing = pl.DataFrame(schema={"i": pl.Int64, "j": pl.Int64})
    packed = plait.pack(
        DIRECTED, {"v": nothing}, tmp_path / "x.blocks", entities={"i": [1]}
    )  # warnings are errors here
    assert packed.relations["v"].links == 0


def test_one_reversed_link_beyond_the_first_block_is_enough(tmp_path):
    table = pairs(40_000, 2000, falling=True)
    assert len(table) < MIRROR_SAMPLE_LINKS
    last = table.filter(pl.col("i") == table["i"].max())[:1]
    for more, warned in ((last.clear(), 1), (last.select(i="j", j="i"), 0)):
        data = {"v": pl.concat([table, more])}
        in_memory, packed = caught_both(tmp_path, DIRECTED, data)
        assert packed == in_memory
        assert len(packed) == warned


def test_a_warning_that_is_an_error_comes_after_the_blocks(tmp_path):
    model, data = TRAPS["case"]
    with pytest.raises(plait.errors.SpellingWarning, match="'Bob' and 'bob'"):  # warnings are errors here
        plait.pack(model, data, tmp_path / "x.blocks")
    assert Packed.open(tmp_path / "x.blocks").relations["v"].links == 3
