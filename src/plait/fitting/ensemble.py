"""Ensemble of restarts: members run in parallel where they are small, one after another where each uses all threads."""

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from plait.executors import Threads
from plait.fitting.prepare import Task
from plait.inference.loop import OnState, OnSweep, Outcome, run
from plait.inference.problem import Problem
from plait.inference.state import Reason, Record, State, Stop
from plait.storage.checkpoint import Saver
from plait.storage.fitted import Member
from plait.tuning import TUNING


class Ran(NamedTuple):
    """Results of the members that started: outcomes in order, stop reasons, and the best one."""

    members: list[Member]
    stop: Stop
    best: Problem
    outcome: Outcome


class Runner:
    """Runs the members of a task; if the watcher stops one, all stop."""

    def __init__(self, task: Task, watch: OnSweep, saver: Saver | None) -> None:
        self.task, self.watch, self.saver = task, watch, saver
        self.stopped: Stop | None = None  # stop reason of the watcher
        self.lock = threading.Lock()
        self.states: dict[int, Member] = {
            seed: Member(seed, task.begun[seed], None) for seed in task.seeds if seed in task.begun
        }
        self.ends: dict[int, tuple[Problem, Outcome]] = {}

    def run(self) -> Ran:
        """Run all members, or those that started before the watcher stopped them."""
        if n_threads := _threads_of_members(self.task):
            self._run_side_by_side(n_threads)
        else:
            for seed in self.task.seeds:
                if not self.stopped:  # else its problem is not needed
                    self._run(seed, self.task.begin(seed, self.task.executor))
        return self._ran()

    def _run_side_by_side(self, threads: int) -> None:
        """One thread per member; problems are built before, so that trees are built once."""
        problems = {seed: self.task.begin(seed, Threads(1)) for seed in self.task.seeds}
        with ThreadPoolExecutor(threads, thread_name_prefix="plait-member") as pool:
            runs = [pool.submit(self._run, seed, problem, copied=True) for seed, problem in problems.items()]
            try:
                for one in runs:
                    one.result()
            except BaseException as error:  # the others stop after their sweep
                self.stopped = self.stopped or Stop(Reason.FAILED, f"stopped by {type(error).__name__}.")
                raise

    def _run(self, seed: int, problem: Problem, *, copied: bool = False) -> None:
        if self.stopped:  # before its first sweep: a random start is no fit
            return
        keep = self._keeper(seed, copied)
        outcome = run(problem, self.task.loop, self._watch, keep, self.task.begun.get(seed))
        with self.lock:
            self.ends[seed] = problem, outcome
            self.states[seed] = Member(seed, outcome.state, outcome.stop)

    def _watch(self, record: Record) -> Stop | None:
        with self.lock:
            self.stopped = self.stopped or self.watch(record)
            return self.stopped

    def _keeper(self, seed: int, copied: bool) -> OnState:
        """Callback for the states of a member; `copied`: whether another thread may save them meanwhile."""
        saver = self.saver
        if saver is None:
            return lambda state: None

        def members(state: Callable[[], State]) -> Sequence[Member]:
            self.states[seed] = Member(seed, state().copy() if copied else state(), None)
            return [self.states[other] for other in self.task.seeds if other in self.states]

        def keep(state: Callable[[], State]) -> None:
            with self.lock:
                saver.keep(lambda: members(state))

        return keep

    def _ran(self) -> Ran:
        members = [self.states[seed] for seed in self.task.seeds if seed in self.states]
        ends = [self.ends[seed] for seed in self.task.seeds if seed in self.ends]
        bootstrap = self.task.origin.settings["bootstrap"]
        problem, outcome = ends[0] if bootstrap else max(ends, key=lambda end: _worth(end[1]))
        return Ran(members, self.stopped or outcome.stop, problem, outcome)


def _worth(outcome: Outcome) -> tuple[bool, float]:
    """Ranking key of members: the objective, after the warm-up."""
    last = outcome.state.history[-1]
    return not last.warm_up, last.objective


def _threads_of_members(task: Task) -> int:
    """Number of members run at a time; 0: one after another, on all threads."""
    threads = task.executor.threads
    if len(task.seeds) == 1 or threads == 1 or type(task.executor) is not Threads:
        return 0
    ranks, factors = task.origin.settings["rank"], task.data.model.factors
    columns = max(math.prod(ranks[i] for i in task.data.model.factor(name).latent) for name in factors)
    entries = sum(len(relation.links) for relation in task.data.relations.values())
    return min(threads, len(task.seeds)) if entries * columns < TUNING.min_member_entries else 0
