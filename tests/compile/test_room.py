"""Memory that is used again: never while anybody holds it."""

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from plait.execute.room import KEPT, LARGE, Room

SHAPE = (LARGE // 8, 1)


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_once_it_is_free():
    room = Room()
    first, ready = room.array(SHAPE, np.float64)
    assert ready
    assert not first.any()
    first[:] = 3.0
    place = address(first)
    del first
    again, ready = room.array(SHAPE, np.float64)
    assert address(again) == place
    assert not ready
    assert again.flags.writeable
    assert again.flags.c_contiguous


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[5:9], lambda a: a.T[:, 1:], lambda a: a.reshape(-1)[::2]])
def test_memory_that_a_view_holds_is_not_used_again(view):
    room = Room()
    array = room.array(SHAPE, np.float64)[0]
    array[:] = 7.0
    held = view(array)
    del array
    gc.collect()
    for _ in range(3):
        room.array(SHAPE, np.float64)[0][:] = 1.0
    assert (held == 7.0).all()


def test_floats_and_doubles_share_memory_but_sizes_do_not():
    room = Room()
    place = address(room.array(SHAPE, np.float64)[0])
    assert address(room.array((SHAPE[0], 2), np.float32)[0]) == place
    wide = room.array((SHAPE[0], 3), np.float64)[0]
    assert wide.shape == (SHAPE[0], 3)


def test_memory_that_is_not_asked_for_is_given_back():
    room = Room()
    room.array(SHAPE, np.float64)
    for _ in range(KEPT + 1):
        room.array((SHAPE[0] + 1, 1), np.float64)
    assert [block.memory.nbytes for block in room._blocks] == [8 * (SHAPE[0] + 1)]


def test_threads_never_share_memory():
    room = Room()

    def work(number):
        array = room.array(SHAPE, np.float64)[0]
        array[:] = number
        time.sleep(0.001)
        return bool((array == number).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(200)))


def test_small_arrays_are_always_fresh():
    room = Room()
    first, second = (room.array((3, 8), np.float32)[0] for _ in range(2))
    first[:] = 1.0
    assert not second.any()
    assert not room._blocks
