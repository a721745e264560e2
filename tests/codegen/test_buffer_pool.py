"""Reused buffers: never while an array or a view holds them."""

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from plait.executors.tree_reduce import MAX_IDLE_REQUESTS, MIN_POOLED_BYTES, BufferPool

SHAPE = (MIN_POOLED_BYTES // 8, 1)


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[5:9], lambda a: a.T[:, 1:], lambda a: a.reshape(-1)[::2]])
def test_memory_that_a_view_holds_is_not_used_again(view):
    pool = BufferPool()
    array = pool.array(SHAPE, np.float64)[0]
    array[:] = 7.0
    held = view(array)
    del array
    gc.collect()
    for _ in range(3):
        pool.array(SHAPE, np.float64)[0][:] = 1.0
    assert (held == 7.0).all()


def test_unused_memory_is_freed():
    pool = BufferPool()
    pool.array(SHAPE, np.float64)
    for _ in range(MAX_IDLE_REQUESTS + 1):
        pool.array((SHAPE[0] + 1, 1), np.float64)
    assert [block.memory.nbytes for block in pool._blocks] == [8 * (SHAPE[0] + 1)]


def test_threads_never_share_memory():
    pool = BufferPool()

    def work(number):
        array = pool.array(SHAPE, np.float64)[0]
        array[:] = number
        time.sleep(0.001)
        return bool((array == number).all())

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(200)))
