"""What takes a loop from one state to the next: steps of one subject each, which a course puts in order.

A step changes where the loop stands and nothing else. It looks at the last record for the number of the sweep before,
so a course that is taken up in its midst goes on as if it had not been left.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from plait.errors import FitError
from plait.infer import patience
from plait.infer.accelerate import Momentum
from plait.infer.counts import Counted
from plait.infer.hyper import adapt, settled
from plait.infer.problem import Problem
from plait.infer.prune import prune
from plait.infer.start import begin_vb, match_totals
from plait.infer.state import Record, State, Trail

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

    @property
    def sweep(self) -> int:
        """The number of the last sweep."""
        return self.history[-1].sweep

    def state(self) -> State:
        """All that the loop needs to go on from here."""
        return self.problem.state(self.history, self.pause, self.trail)

    def count(self) -> None:
        """The counts of the state, all afresh."""
        self.counted = ()  # so that their arrays can be used again
        self.counted = self.problem.count()


Move = Callable[[Moment], None]


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


def sweeping(late: frozenset[str] = frozenset(), join: int = 0) -> Move:
    """Update every free factor once; late ones from sweep `join` on."""

    def step(place: Moment) -> None:
        waiting = late if place.sweep < join else frozenset[str]()
        sweep_once(place.problem, place.counted, waiting)

    return step


def joining(late: frozenset[str], join: int) -> Move:
    """Late factors begin: their terms get as large a part of the data as the others, once. The bound may fall there."""

    def step(place: Moment) -> None:
        if place.sweep == join:
            match_totals(place.problem, [name for name in place.problem.free if name in late])
            place.problem.measure()
            place.count()

    return step


def sweep_once(problem: Problem, counted: Sequence[Counted], waiting: frozenset[str] = frozenset()) -> None:
    """Update every free factor that does not wait, from the counts of one pass."""
    for name in problem.free:
        if name not in waiting:
            problem.update(name, counted)


def ending_warm_up(dtype: str, *, hasty: bool = False) -> Move:
    """From the last sweep of EM to a problem of VB around its points; hasty: as soon as it changes little."""

    def step(place: Moment) -> None:
        if place.sweep == -1 or (hasty and place.sweep < 0 and patience.warm(place.history)):
            place.problem = begin_vb(place.problem, np.dtype(dtype))
            place.problem.measure()

    return step


def count(place: Moment) -> None:
    """Count at the new state."""
    place.trail = Trail()
    place.count()


def leaping(momentum: Momentum, tol: float, sweeps: int) -> Move:
    """Count at the new state, or at one beyond it."""

    def step(place: Moment) -> None:
        place.counted = ()
        place.counted = momentum.count(place.problem, place.history, tol, sweeps)
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
            hint=f"Values or weights beyond what {problem.numbers} can hold? Scale them down.",
        )
    compares = history and (sweep != 0 or not history[-1].warm_up)
    size = abs(bound - problem.by_unit) or 1.0
    change = (bound - history[-1].bound) / size if compares else math.inf
    rank = {
        i: n for f in problem.factors.values() for i, n in zip(f.layout.inside, f.layout.sizes) if i in f.layout.latent
    }
    return Record(sweep, bound, change, seconds, rank)
