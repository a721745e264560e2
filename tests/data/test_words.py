"""Cells packed into words of 64 bits: sorting, reading and memory, against NumPy."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plait.data.sparse.csf_index import CSFIndex
from plait.data.sparse.sorting import sort_words
from plait.data.sparse.words import CellWords, WordFormat
from plait.machine import resident
from plait.tuning import TUNING
from tests.support.tuning import tuned


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 300, 3 * TUNING.min_threaded_rows])
def test_words_are_sorted_in_place(count, threads):
    words = np.random.default_rng(0).integers(0, 2**63, count, dtype=np.uint64)
    words[: count // 2] %= np.uint64(5)  # many equal words
    wanted = sorted(words.tolist())
    sort_words(words, threads)
    assert words.tolist() == wanted


@given(st.data(), st.sampled_from([1, 3, 50]))
def test_words_hold_the_distinct_cells_and_sums(data, stretch):
    sizes = tuple(data.draw(st.lists(st.sampled_from([1, 2, 7, 300, 70_000]), min_size=1, max_size=4)))
    count, most = data.draw(st.sampled_from([1, 2, 80])), data.draw(st.sampled_from([0, 1, 300, 65_535]))
    assume(WordFormat(sizes, most.bit_length()).fits)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    few = [min(size, data.draw(st.sampled_from([2, 400_000]))) for size in sizes]
    cells = np.stack([size - 1 - rng.integers(0, own, count) for size, own in zip(sizes, few)], axis=1)
    values = rng.integers(0, most + 1, count) if most else np.ones(count, np.int64)
    gap = data.draw(st.integers(0, 5))
    indices = tuple("ijkl"[: len(sizes)])
    with tuned(release_words=stretch):
        words = CellWords(WordFormat(sizes, most.bit_length()), count + gap)
        half = count // 2
        for at, part in ((0, slice(0, half)), (half + gap, slice(half, count))):
            words.write(at, list(cells[part].astype(np.uint32).T), values[part] if most else None)
        words.close([(0, half), (half + gap, count - half)])
        words.sort()
        found = words.read(indices)
    distinct, where = np.unique(cells, axis=0, return_inverse=True)
    assert found.cells.equals(CSFIndex.of(indices, sizes, distinct.astype(np.uint32)))
    np.testing.assert_array_equal(found.values, np.bincount(where.reshape(-1), values, len(distinct)))
    assert found.summed == count - len(distinct)
    assert len(words) == 0


def test_a_word_holds_63_bits():
    assert WordFormat((2**31, 2**32)).fits
    assert WordFormat((2**31, 2**31), 1).fits
    assert not WordFormat((2**32, 2**32)).fits
    assert not WordFormat((2**31, 2**32), 1).fits
    words = CellWords(WordFormat((1, 2**31, 2**32)), 3)
    rows = [np.zeros(3, np.int64), np.array([2**31 - 1, 0, 2**31 - 1]), np.array([2**32 - 1, 2**32 - 1, 0])]
    words.write(0, rows, None)
    words.sort()
    found = words.read(("i", "j", "k"))
    assert found.cells.cells().tolist() == [[0, 0, 2**32 - 1], [0, 2**31 - 1, 0], [0, 2**31 - 1, 2**32 - 1]]


@pytest.mark.parametrize(("most", "kind"), [(128, np.uint16), (40_000, np.float32), (60_000, np.float32)])
def test_sums_of_values_do_not_overflow(most, kind):
    words = CellWords(WordFormat((4, 4), most.bit_length()), 2)
    words.write(0, [np.array([3, 3]), np.array([1, 1])], np.array([most, most]))
    words.sort()
    found = words.read(("i", "j"))
    assert found.values.dtype == kind
    assert found.values.tolist() == [2 * most]


def held():
    """Return the bytes of private and of shared memory of this process."""
    with open("/proc/self/status") as file:
        found = dict(line.split(":", 1) for line in file)
    return [1024 * int(found[word].split()[0]) for word in ("RssAnon", "RssShmem")]


@pytest.mark.skipif(resident() is None, reason="this system does not say what a process holds")
def test_memory_is_released_while_words_are_read():
    count = 1 << 22
    words = CellWords(WordFormat((2**20, 2**20)), count)
    words.words[:] = np.arange(count, dtype=np.uint64)
    own, shared = held()
    words._give_back(0, count // 2)
    assert own - held()[0] >= 0.9 * 8 * count / 2
    assert held()[1] == shared
    np.testing.assert_array_equal(words.words[-5:], np.arange(count - 5, count))
