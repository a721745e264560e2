"""Written, inside and stored shapes of a factor convert into each other."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plait.codegen.layout import Layout

WIDTH = 8


@st.composite
def layouts(draw):
    visible = draw(st.lists(st.sampled_from("ijk"), unique=True, max_size=3))
    latent = draw(st.lists(st.sampled_from("pqr"), unique=True, max_size=3))
    sizes = {i: draw(st.integers(1, 4)) for i in visible} | {i: draw(st.integers(1, 10)) for i in latent}
    written = draw(st.permutations(visible + latent))
    inside = [*visible, *latent]
    return Layout("A", tuple(written), tuple(visible), tuple(latent), tuple(sizes[i] for i in inside))


def numbers(shape):
    """Distinct and nonzero, so that no mix-up goes unnoticed."""
    return 1.0 + np.arange(math.prod(shape), dtype=float).reshape(shape)


@given(layouts())
def test_a_packed_array_has_one_padded_row_per_entity(layout):
    inside, split = numbers(layout.sizes), len(layout.visible)
    stored = layout.pack(inside)
    assert stored.shape == (layout.rows, layout.columns)
    assert stored.flags.c_contiguous
    np.testing.assert_array_equal(layout.unpack(stored), inside)
    assert not stored.reshape(-1, layout.pad)[:, layout.real :].any()
    for row, at in enumerate(np.ndindex(*layout.sizes[:split])):
        block = stored[row].reshape(-1, layout.pad)[:, : layout.real]
        np.testing.assert_array_equal(block.ravel(), inside[at].ravel())
    assert layout.pad % WIDTH == 0 or not layout.latent
    assert layout.pad - layout.real < WIDTH


@given(layouts())
def test_a_written_array_comes_back_as_a_copy_in_the_written_order(layout):
    sizes = dict(zip(layout.inside, layout.sizes))
    written = numbers([sizes[index] for index in layout.indices])
    stored = layout.pack(layout.moved(written))
    back = layout.written(stored)
    np.testing.assert_array_equal(back, written)
    assert back.flags.c_contiguous
    assert not np.shares_memory(back, stored)


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
