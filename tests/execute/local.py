"""What happens to a real cluster in tests: workers come and go."""

import time

from plait.execute import Dask


def scale(workers, client, count):
    """Have so many workers."""
    workers.scale(count)
    end = time.monotonic() + 60
    while len(client.nthreads()) != count:
        assert time.monotonic() < end
        time.sleep(0.05)


def in_the_middle(monkeypatch, number, event):
    """Let something happen once the tasks of a sum are sent, before they are answered."""
    gather, calls = Dask._gather, [0]

    def interrupted(self, tasks):
        calls[0] += 1
        if calls[0] == number:
            event()
        return gather(self, tasks)

    monkeypatch.setattr(Dask, "_gather", interrupted)
    return calls
