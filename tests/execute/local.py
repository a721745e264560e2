"""What happens to a real cluster in tests: workers come and go."""

import os
import signal
import time

from plait.execute.cluster import Cluster


def scale(workers, client, count):
    """Have so many workers."""
    workers.scale(count)
    end = time.monotonic() + 60
    while len(client.nthreads()) != count:
        assert time.monotonic() < end
        time.sleep(0.05)


def kill(client, count=1):
    """Kill some workers by their process ids."""
    for pid in list(client.run(os.getpid).values())[:count]:
        os.kill(pid, signal.SIGKILL)


def in_the_middle(monkeypatch, number, event):
    """Let something happen once the tasks of a sum or of a change are sent, before they are answered."""
    collect, calls = Cluster.collect, [0]

    def interrupted(self, goals):
        calls[0] += 1
        if calls[0] == number:
            event()
        return collect(self, goals)

    monkeypatch.setattr(Cluster, "collect", interrupted)
    return calls
