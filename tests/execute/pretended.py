"""A cluster in one process, whose workers are lost whenever a test likes: no clocks, no sockets."""

import pickle

import numpy as np

from plait.execute.cluster import Cluster


class Promise:
    """What a worker has, as bytes that came over a wire; inputs: what it is made of again, None: it came from here."""

    def __init__(self, worker, thing, inputs=None):
        self.inputs = inputs
        self.workers, self.status = {worker}, "finished"
        buffers = []
        self.bytes = pickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
        self.buffers = [bytes(buffer) for buffer in buffers]

    def thing(self):
        """A copy whose arrays are read-only and begin at odd places, as they may behind a header."""
        return pickle.loads(self.bytes, buffers=[memoryview(b"\0" + buffer)[1:] for buffer in self.buffers])


class Pretended(Cluster):
    """So many workers, of a thread each; loses: of tasks, with how large a chance a worker is lost at each."""

    def __init__(self, count, loses=0.0, seed=0):
        self.patience, self.lost, self.direct = 0.0, None, True
        self.alive = {f"w{n}": 1 for n in range(count)}
        self.promises, self.sent, self.killed, self.tasks = [], [], 0, 0
        self.loses, self.rng = loses, np.random.default_rng(seed)

    def workers(self):
        return dict(self.alive)

    def add(self, name):
        self.alive[name] = 1

    def kill(self, name):
        """Lose a worker and all that nobody else has; another one takes its place."""
        self.killed += 1
        self.add(f"new {self.killed}")
        del self.alive[name]
        for promise in self.promises:
            promise.workers.discard(name)
            if not promise.workers:
                self._make_again(promise)

    def _make_again(self, promise):
        """Tasks are pure: what another worker makes of the same things is the same."""
        if promise.inputs is None or any(one.status != "finished" for one in promise.inputs):
            promise.status = "cancelled"
        else:
            promise.workers.add(min(self.alive))

    def send(self, things):
        self.sent += things
        return [self._kept(Promise(worker if worker in self.alive else min(self.alive), t)) for t, worker in things]

    def submit(self, function, given, workers):
        return [self._submit(function, one, worker) for one, worker in zip(given, workers, strict=True)]

    def _submit(self, function, given, worker):
        self.tasks += 1
        worker = worker if worker in self.alive else min(self.alive)
        if self.rng.random() < self.loses:
            self.kill(str(self.rng.choice(sorted(self.alive))))
            worker = min(self.alive)
        inputs = [one for one in given if isinstance(one, Promise)]
        if any(one.status != "finished" for one in inputs):
            promise = self._kept(Promise(worker, None))
            promise.status = "cancelled"
            return promise
        for one in inputs:
            one.workers.add(worker)
        found = function(*(one.thing() if isinstance(one, Promise) else one for one in given))
        return self._kept(Promise(worker, found, inputs))

    def collect(self, goals):
        for name in self.rng.permutation(sorted(goals)).tolist():
            if goals[name].status == "finished":
                yield name, goals[name].thing()

    def wait(self, futures):
        pass

    def owners(self, futures):
        return [sorted(one.workers) for one in futures]

    def _kept(self, promise):
        self.promises.append(promise)
        return promise

    def close(self):
        pass
