"""Written, inside and stored shapes of a factor lead into each other."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.compile.layout import Layout

WIDTH = 8


@st.composite
def layouts(draw):
    visible = draw(st.lists(st.sampled_from("ijk"), unique=True, max_size=3))
    latent = draw(st.lists(st.sampled_from("pqr"), unique=True, max_size=3))
    sizes = {i: draw(st.integers(1, 4)) for i in visible} | {i: draw(st.integers(1, 10)) for i in latent}
    written = draw(st.permutations(visible + latent))
    return make(written, visible, latent, sizes)


def make(written, visible, latent, sizes):
    inside = [*visible, *latent]
    return Layout("A", tuple(written), tuple(visible), tuple(latent), tuple(sizes[i] for i in inside))


def numbers(shape):
    """Distinct and nonzero, so that no mix-up goes unnoticed."""
    return 1.0 + np.arange(math.prod(shape), dtype=float).reshape(shape)


@given(layouts())
def test_packing_and_unpacking_give_the_same_array(layout):
    inside = numbers(layout.sizes)
    stored = layout.pack(inside)
    assert stored.shape == (layout.rows, layout.columns)
    assert stored.flags.c_contiguous
    np.testing.assert_array_equal(layout.unpack(stored), inside)


@given(layouts())
def test_padding_is_zero_and_the_rest_is_there_once(layout):
    stored = layout.pack(numbers(layout.sizes))
    assert sorted(stored[stored != 0].tolist()) == sorted(numbers(layout.sizes).ravel().tolist())
    padding = stored.reshape(-1, layout.pad)[:, layout.real :]
    assert not padding.any()


@given(layouts())
def test_a_written_array_comes_back_in_the_written_order(layout):
    sizes = dict(zip(layout.inside, layout.sizes))
    written = numbers([sizes[index] for index in layout.indices])
    back = layout.written(layout.pack(layout.moved(written)))
    np.testing.assert_array_equal(back, written)
    assert back.flags.c_contiguous


@given(layouts())
def test_written_is_a_copy_and_unpack_a_view(layout):
    stored = layout.pack(numbers(layout.sizes))
    assert not np.shares_memory(layout.written(stored), stored)
    assert np.shares_memory(layout.unpack(stored), stored)


@given(layouts())
def test_a_row_is_the_latent_block_of_one_entity(layout):
    inside, split = numbers(layout.sizes), len(layout.visible)
    stored = layout.pack(inside)
    for row, at in enumerate(np.ndindex(*layout.sizes[:split])):
        block = stored[row].reshape(-1, layout.pad)[:, : layout.real]
        np.testing.assert_array_equal(block.ravel(), inside[at].ravel())


@given(layouts())
def test_stored_latent_blocks_are_whole_vectors(layout):
    assert layout.pad % WIDTH == 0 or not layout.latent
    assert layout.pad - layout.real < WIDTH
    assert layout.columns % layout.pad == 0


@given(layouts(), st.data())
def test_a_spread_array_broadcasts_as_it_did_inside(layout, data):
    split = len(layout.visible)
    tied = data.draw(st.lists(st.booleans(), min_size=len(layout.sizes), max_size=len(layout.sizes)))
    shape = [1 if t else n for t, n in zip(tied, layout.sizes)]
    small = numbers(shape)
    spread = layout.spread(small)
    rows, columns = spread.shape
    assert rows in (1, layout.rows)
    assert columns in (1, layout.columns)
    assert rows == 1 or math.prod(shape[:split]) > 1
    assert columns == 1 or math.prod(shape[split:]) > 1
    full = np.array(np.broadcast_to(spread, (layout.rows, layout.columns)))
    np.testing.assert_array_equal(layout.unpack(full), np.broadcast_to(small, layout.sizes))


@pytest.mark.parametrize(
    ("written", "visible", "latent", "sizes", "stored"),
    [
        ("ir", "i", "r", {"i": 5, "r": 3}, (5, 8)),
        ("ri", "i", "r", {"i": 5, "r": 8}, (5, 8)),
        ("ir", "i", "r", {"i": 5, "r": 9}, (5, 16)),
        ("pqr", "", "pqr", {"p": 2, "q": 3, "r": 4}, (1, 48)),
        ("piq", "i", "pq", {"i": 5, "p": 2, "q": 3}, (5, 16)),
        ("kri", "ki", "r", {"i": 5, "k": 4, "r": 3}, (20, 8)),
        ("i", "i", "", {"i": 5}, (5, 1)),
        ("", "", "", {}, (1, 1)),
        ("r", "", "r", {"r": 3}, (1, 8)),
    ],
)
def test_only_the_last_latent_index_is_padded(written, visible, latent, sizes, stored):
    layout = make(written, visible, latent, sizes)
    assert (layout.rows, layout.columns) == stored
