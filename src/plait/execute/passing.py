"""One sum over a table on a cluster: a task for each of its runs, asked again until all of them have answered.

Few nodes of the tree are joined here. Where they are large and many, workers join them among themselves, and only the
rows that runs have for themselves, and the total, come here; after a loss all runs answer themselves, one by one.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from plait.compile.step import Step
from plait.data.cells.trees import Table
from plait.errors import FitError
from plait.execute.calling import as_stats
from plait.execute.cluster import Cluster, is_alive
from plait.execute.executor import Stats
from plait.execute.joining import Joined
from plait.execute.mail import Letter, Mail
from plait.execute.parts import part_of
from plait.execute.placing import Placement, Run
from plait.execute.remote import Written, join_shared, lies_together, own_of, shared_of, sum_run
from plait.likelihood import State
from plait.types import Array

if TYPE_CHECKING:
    from distributed import Future

WIDE = 32 << 20  # bytes of all runs' sums, beyond which workers join them
IN_VAIN = 5  # tries in a row that bring nothing, after which a sum is given up
TOTAL = -1  # the name of the sum of all runs, beside the runs' numbers


class Asked(NamedTuple):
    """What an executor is asked for."""

    step: Step
    table: Table
    arrays: Sequence[Array]
    state: State | None


class Passing:
    """A sum that is under way; order: what all its tasks have in common."""

    def __init__(self, cluster: Cluster, mail: Mail, placement: Placement, asked: Asked, order: bytes) -> None:
        self.cluster, self.mail, self.placement, self.asked, self.order = cluster, mail, placement, asked, order
        step = asked.step
        self.rooted = [step.order[0] in operand.visible for operand in step.operands]
        self.sliced = is_sliced(step, placement)
        self.whole: list[Array | None] = [None] * len(step.wanted)
        self.wide = len(placement.runs) > 2 and len(placement.runs) * self._shared_bytes() > WIDE
        self.joined = Joined(asked.table.leaf_count, join_shared)
        self.tasks: dict[int, Future] = {}  # those of runs
        self.letters: dict[int, list[Letter]] = {}  # their operands
        self.written: set[int] = set()  # runs whose own rows are here
        self.left = {run.number for run in placement.runs} | ({TOTAL} if self.wide else set())

    def _shared_bytes(self) -> int:
        wanted = (p for p in self.asked.step.wanted if not self.rooted[p])
        return sum(8 * math.prod(self.asked.arrays[position].shape) for position in wanted)

    def stats(self) -> Stats:
        """Ask until everything is known."""
        self._ask_for_all()
        total = self.joined.total
        writable = tuple(np.require(gradient, requirements="W") for gradient in total.gradients)
        return as_stats(replace(total, gradients=writable), self.whole)

    def _ask_for_all(self) -> None:
        in_vain = 0
        while self.left:
            before = set(self.left)
            self._place()
            for name, found in self.cluster.collect(self._goals()):
                self._take(name, found)
            if self.left:
                in_vain = 0 if self.left < before else in_vain + 1
                self._lose(in_vain)

    # --- asking

    def _place(self) -> None:
        """Every run has an owner, and its data are somewhere."""
        self.placement.assign(self.cluster.workers())
        away = [run for run in self.placement.runs if not self.cluster.has(run.data)]
        parts = [(part_of(self.asked.table, run.lo, run.hi), str(run.worker)) for run in away]
        for run, future in zip(away, self.cluster.send(parts)):
            run.data = future

    def _goals(self) -> "dict[int, Future]":
        """Tasks whose results are wanted here, by the numbers of runs."""
        self._have([run for run in self.placement.runs if run.number in self.left or self.wide])
        numbers = sorted(self.left - {TOTAL})
        if self.wide:
            owners = [self.placement.runs[n].worker for n in numbers]
            goals = dict(zip(numbers, self.cluster.submit(own_of, [(self.tasks[n],) for n in numbers], owners)))
        else:
            goals = {number: self.tasks[number] for number in numbers}
        return goals | ({TOTAL: self._join_there()} if TOTAL in self.left else {})

    def _have(self, runs: Sequence[Run]) -> None:
        """A task for each of some runs that is done or under way."""
        again = [run for run in runs if run.number not in self.tasks or not is_alive(self.tasks[run.number])]
        self.tasks |= {run.number: task for run, task in zip(again, self._submit(again))}

    def _submit(self, runs: Sequence[Run]) -> "list[Future]":
        """A task for each of some runs, once their operands are on the way, as they were at first."""
        if not runs:
            return []
        new = [(run, self._operands(run)) for run in runs if run.number not in self.letters]
        letters = iter(self.mail.send([one for _, operands in new for one in operands]))
        self.letters |= {run.number: [next(letters) for _ in operands] for run, operands in new}
        self.mail.renew([(letter, str(run.worker)) for run in runs for letter in self.letters[run.number]])
        given = []
        for run in runs:
            operands = [letter.future for letter in self.letters[run.number]]
            span = run.span if self.sliced else None
            given.append((self.order, self.asked.state, run.data, run.hi - run.lo, span, *operands))
        return self.cluster.submit(sum_run, given, [run.worker for run in runs])

    def _operands(self, run: Run) -> list[tuple[Array, str]]:
        """What a run is sent, and where to: what all runs need to one worker, for its peers."""
        one = str(self.placement.runs[self.mail.sums % len(self.placement.runs)].worker)
        return [
            (run.span.rows_of(array), str(run.worker)) if self.sliced and own and run.span else (array, one)
            for array, own in zip(self.asked.arrays, self.rooted)
        ]

    def _join_there(self) -> "Future":
        """The sum of all runs, joined by workers in the fixed tree."""
        tasks = [(self.tasks[run.number],) for run in self.placement.runs]
        nodes = self.cluster.submit(shared_of, tasks, [run.worker for run in self.placement.runs])
        while len(nodes) > 1:
            pairs = list(zip(nodes[::2], nodes[1::2]))
            nodes = self.cluster.submit(join_shared, pairs, [None] * len(pairs)) + nodes[2 * len(pairs) :]
        return nodes[0]

    # --- what came

    def _take(self, number: int, found: Any) -> None:
        if number == TOTAL:
            self.joined = Joined(1, join_shared)
            self.joined.add(0, found)
        elif self.wide:
            self._write(number, found)
        else:
            self._write(number, own_of(found))
            self.joined.add(number, shared_of(found), self.placement.level)
            del self.tasks[number]  # its worker needs the sum no longer
        self.left.discard(number)

    def _write(self, number: int, own: Sequence[Written]) -> None:
        """Rows of a run's own go into the gradient that all of them share, once."""
        if number in self.written:
            return
        self.written.add(number)
        for place, rows, gradient in own:
            target = self.whole[place]
            if target is None:
                shape = self.asked.arrays[self.asked.step.wanted[place]].shape
                target = self.whole[place] = np.zeros(shape, gradient.dtype)
            target[rows] += gradient  # they meet only in a root row that is cut, which they leave at 0

    def _lose(self, in_vain: int) -> None:
        """Forget what is lost, so that it is sent again; after a while, all."""
        if in_vain >= IN_VAIN:
            raise FitError(
                f"Dask workers were lost {in_vain} times in a row before they had answered: {self.cluster.lost!r}.",
                cure="Look at their logs: memory, above all. Go on from the checkpoint, if there is one.",
            )
        if TOTAL in self.left:
            self.wide, self.left = False, {run.number for run in self.placement.runs}
        self.lose(in_vain)

    def lose(self, in_vain: int) -> None:
        """Believe that what seems to be there is, unless that was in vain before."""
        if in_vain >= 2:
            self.tasks.clear()
            for letter in (letter for letters in self.letters.values() for letter in letters):
                letter.future = None
            for run in self.placement.runs:
                run.data = None


def is_sliced(step: Step, placement: Placement) -> bool:
    """Whether runs need no more of operands with the root index than the rows of their own."""
    return lies_together(step) and all(run.span is not None for run in placement.runs)
