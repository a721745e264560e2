"""Workers of a cluster that start and stop during a test."""

import time

from plait.executors import Dask


def scale(workers, client, count):
    """Set the number of workers."""
    workers.scale(count)
    end = time.monotonic() + 60
    while len(client.nthreads()) != count:
        assert time.monotonic() < end
        time.sleep(0.05)


def in_the_middle(monkeypatch, number, event):
    """Call `event` after the tasks of a sum are sent, before they are gathered."""
    gather, calls = Dask._gather, [0]

    def interrupted(self, tasks):
        calls[0] += 1
        if calls[0] == number:
            event()
        return gather(self, tasks)

    monkeypatch.setattr(Dask, "_gather", interrupted)
    return calls
