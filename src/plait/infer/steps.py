"""What takes a loop from one state to the next: steps of one subject each, which a course puts in order.

A step changes where the loop stands and nothing else. It looks at the last record for the number of the sweep before,
so a course that is taken up in its midst goes on as if it had not been left.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from plait.errors import FitError
from plait.execute.owned import HOLD, RowsLost
from plait.infer import patience
from plait.infer.accelerate import Momentum
from plait.infer.blocks import Blocks
from plait.infer.counts import Counted
from plait.infer.hyper import adapt, settled
from plait.infer.problem import Problem
from plait.infer.prune import prune
from plait.infer.start import begin_vb, match_totals
from plait.infer.state import Record, State, Trail
from plait.types import Array

TRIES = 5  # to go on from the same state
PRUNE_PAUSE = 10  # sweeps to wait after a refused removal
LOOK = 10  # sweeps to the first choice of a likelihood's own numbers that needs all nonzeros


@dataclass
class Moment:
    """Where a loop stands: its problem, the counts there, how it got there, and when the sweep under way began."""

    problem: Problem
    counted: Sequence[Counted]
    history: list[Record] = field(default_factory=list)
    pause: int = 0
    trail: Trail = field(default_factory=Trail)
    began: float = field(default_factory=time.perf_counter)
    cutting: bool = False  # whether links are visited in blocks, …
    blocks: Blocks | None = None  # … where there are several
    held: "Held | None" = None  # where to go back to, while rows are with workers who may be lost

    @property
    def sweep(self) -> int:
        """The number of the last sweep."""
        return self.history[-1].sweep

    def state(self) -> State:
        """All that the loop needs to go on from here."""
        state = self.problem.state(self.history, self.pause, self.trail)
        return state if self.blocks is None else replace(state, visits=self.blocks.visits())

    def count(self) -> None:
        """The counts of the state, all afresh."""
        self.counted = ()  # so that their arrays can be used again
        self.blocks = Blocks.of(self.problem) if self.cutting else None
        if self.blocks is None:
            self.counted = self.problem.count()
        else:
            self.blocks.fill()
            self.counted = self.blocks.counted()

    def recall(self, state: State) -> None:
        """The counts of a state that the loop goes on from: with blocks, those of its last visits."""
        self.blocks = Blocks.of(self.problem) if self.cutting else None
        if self.blocks is not None and self.blocks.recall(state.visits):
            self.counted = self.blocks.counted()
        else:
            self.count()

    def hold(self) -> None:
        """Remember where to go back to, now and then, while workers own rows."""
        if not self.problem.is_away:
            self.held = None
        elif self.held is None or self.held.is_old(self.problem, self.sweep):
            self.held = Held(self.problem, self.state().copy())

    def go_back(self, error: RowsLost) -> None:
        """To the state that was held last; its counts are to be taken anew. Tried in vain too often, it is an error."""
        if self.held is None or self.held.is_used_up(self.sweep):
            raise error
        state = self.held.state
        self.problem, self.history, self.pause = self.held.problem, list(state.history), state.pause
        self.problem.go_back(state)


@dataclass
class Held:
    """A state of a problem, in arrays of its own; how far one came from it before rows were lost, and how often."""

    problem: Problem
    state: State
    reached: float = math.inf
    tries: int = 0

    def is_old(self, problem: Problem, sweep: int) -> bool:
        """Whether it is time for another one: after many sweeps, or where one was when rows were lost."""
        begun = self.state.history[-1].sweep
        return self.problem is not problem or sweep - begun >= HOLD or begun < self.reached <= sweep

    def is_used_up(self, sweep: int) -> bool:
        """Whether one went back to it too often without getting any further; rows were lost after a sweep."""
        self.tries, self.reached = self.tries + 1 if sweep == self.reached else 1, sweep
        return self.tries > TRIES


Move = Callable[[Moment], None]
Times = Mapping[str, Array]


def adapting(
    ties: Mapping[str, str | Sequence[str]], after: int, until: int | None = None, *, hasty: bool = False
) -> Move:
    """New priors, from some sweep on, and perhaps only until another; of factors that have been updated.

    hasty: sooner, where a fit has come to rest after its warm-up.
    """
    whole = settled(ties, after)

    def step(place: Moment) -> None:
        begun = place.sweep >= after or (hasty and patience.settled(place.history))
        if begun and (until is None or place.sweep < until):
            own = {name: tie for name, tie in ties.items() if name in place.problem.exposed}
            adapt(place.problem, own, hold=place.sweep < whole)

    return step


def learning(place: Moment) -> None:
    """The likelihoods' own numbers anew; where one was chosen by a look at all nonzeros, the counts too."""
    if _looks(place.sweep) and place.problem.choose():
        place.count()
    else:
        place.problem.learn(place.counted)


def _looks(sweep: int) -> bool:
    """Whether it is sweep 10, 20, 40, 80, … of the warm-up's end or of the fit: a look costs as much as some sweeps."""
    tens, rest = divmod(abs(sweep), LOOK)
    return rest == 0 and tens.bit_count() == 1


def sweeping(
    order: str, late: frozenset[str] = frozenset(), join: int = 0, leap: Callable[[Moment], Times] | None = None
) -> Move:
    """Every free factor updated once, or once a block; late ones only from some sweep on.

    leap: what comes before a sweep over blocks.
    """

    def step(place: Moment) -> None:
        waiting = late if place.sweep < join else frozenset[str]()
        if place.blocks is None:
            sweep_once(place.problem, place.counted, order, waiting)
        else:
            place.blocks.sweep(waiting, leap(place) if leap else None)

    return step


def joining(late: frozenset[str], join: int) -> Move:
    """Late factors begin: their terms get as large a part of the data as the others, once. The bound may fall there."""

    def step(place: Moment) -> None:
        if place.sweep == join:
            match_totals(place.problem, [name for name in place.problem.free if name in late])
            place.problem.measure()
            place.count()

    return step


def sweep_once(problem: Problem, counted: Sequence[Counted], order: str, waiting: frozenset[str] = frozenset()) -> None:
    """Update every free factor that does not wait once; per factor, with counts taken anew before each."""
    for position, name in enumerate(name for name in problem.free if name not in waiting):
        if position and order == "per-factor":
            counted = [problem.count_one(relation, (name,), bound=False) for relation in problem.relations]
        problem.update(name, counted)


def ending_warm_up(dtype: str, *, hasty: bool = False) -> Move:
    """From the last sweep of EM to a problem of VB around its points; hasty: as soon as it changes little."""

    def step(place: Moment) -> None:
        if place.sweep == -1 or (hasty and place.sweep < 0 and patience.warm(place.history)):
            place.problem = begin_vb(place.problem, np.dtype(dtype))
            place.problem.measure()

    return step


def count(place: Moment) -> None:
    """The counts of the new state; of blocks they are known, unless it is that of another problem."""
    place.trail = Trail()
    if place.blocks is not None and place.blocks.problem is place.problem:
        place.counted = place.blocks.counted()
    else:
        place.count()


def leaping(momentum: Momentum, tol: float, sweeps: int) -> Move:
    """The counts of the new state, or of one beyond it; of blocks, after a leap that went too far, of the old one."""

    def step(place: Moment) -> None:
        place.counted = ()
        if place.blocks is None:
            place.counted = momentum.count(place.problem, place.history, tol, sweeps)
        elif place.blocks.problem is place.problem:
            place.counted = place.blocks.counted()
            if not momentum.stands(place.problem, place.problem.bound(place.counted), place.history[-1]):
                place.count()
        else:
            place.count()
        place.trail = momentum.trail

    return step


def pruning(after: int, momentum: Momentum | None) -> Move:
    """Components that explain nothing removed; momentum begins anew, for the problem has another shape."""

    def step(place: Moment) -> None:
        place.pause -= 1
        if place.sweep < after or place.pause > 0:
            return
        if (smaller := prune(place.problem, place.counted)) is None:
            place.pause = PRUNE_PAUSE
        else:
            place.problem, place.counted = smaller
            if place.cutting:
                place.count()
            if momentum:
                momentum.forget()
                place.trail = momentum.trail

    return step


def recording(warm_up: int) -> Move:
    """One record more; the first is that of the start, numbered from the warm-up below 0."""

    def step(place: Moment) -> None:
        seconds = time.perf_counter() - place.began
        place.history.append(_record(place.problem, place.counted, place.history, warm_up, seconds))

    return step


def _record(
    problem: Problem, counted: Sequence[Counted], history: list[Record], warm_up: int, seconds: float
) -> Record:
    bound, sweep = problem.bound(counted), history[-1].sweep + 1 if history else -warm_up
    if sweep < 0 and problem.method == "vb":  # the warm-up has ended early
        sweep = 0
    if not math.isfinite(bound):
        raise FitError(
            f"the bound is {bound} after {len(history)} sweeps.",
            cure=f"Values or weights beyond what {problem.numbers} can hold? Scale them down.",
        )
    compares = history and (sweep != 0 or not history[-1].warm_up)
    size = abs(bound - problem.by_unit) or 1.0
    change = (bound - history[-1].bound) / size if compares else math.inf
    rank = {
        i: n for f in problem.factors.values() for i, n in zip(f.layout.inside, f.layout.sizes) if i in f.layout.latent
    }
    return Record(sweep, bound, change, seconds, rank)
