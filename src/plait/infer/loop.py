"""The only loop: begin, look, stop or take the steps to the next state. What the steps are is in `steps`."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from plait.infer.accelerate import Momentum
from plait.infer.hyper import settled
from plait.infer.problem import Problem
from plait.infer.state import Record, State, Trail
from plait.infer.steps import (
    Moment,
    Move,
    adapting,
    count,
    ending_warm_up,
    joining,
    leaping,
    learning,
    pruning,
    recording,
    sweeping,
)
from plait.infer.stop import Reason, Stop

ADAPT_AFTER = 10  # sweeps before priors adapt: from a random start they would only learn the noise
WARM_UP = 50  # sweeps of EM from which VB begins (docs/decisions/0004-start.md)
JOIN = 100  # the sweep from which evidence joins; half of all sweeps where they are fewer
ADAPT_WARM = 30  # sweeps before priors adapt after a warm-up: sooner, they learn how sharp EM is


@dataclass(frozen=True)
class Settings:
    """What the loop needs to know."""

    sweeps: int
    tol: float
    ties: Mapping[str, str | Sequence[str]]  # adapted factors
    prune: bool = False
    accelerate: bool = False
    warm_up: int = 0  # sweeps of EM, where the problem that the loop begins with is one of EM
    adapt_after: int = ADAPT_AFTER
    dtype: str = "float64"  # that VB goes on in
    late: frozenset[str] = frozenset()  # scales of evidence: they join, and priors stay, …
    join: int = 0  # … from this sweep on (docs/decisions/0020-sums.md)


class Outcome(NamedTuple):
    """How the loop ended: the final state, and why."""

    state: State
    stop: Stop


Watch = Callable[[Record], Stop | None]  # sees every record, and may stop the fit
Keep = Callable[[Callable[[], State]], None]  # may have every state, before its stop is decided


def run(problem: Problem, settings: Settings, watch: Watch, keep: Keep, begun: State | None = None) -> Outcome:
    """Sweep until the bound stands still, the sweeps are used up or the watcher says stop.

    begun: the state that the problem's factors and priors come from; its last sweep is not repeated.
    """
    momentum = Momentum(begun.trail if begun else Trail()) if settings.accelerate else None
    place, steps = _begin(problem, settings, momentum, begun), _course(settings, momentum)
    while True:
        place.began = time.perf_counter()
        keep(place.state)
        if stop := watch(place.history[-1]) or _stop(place, settings):
            return Outcome(place.state(), stop)
        for step in steps:
            step(place)


def _begin(problem: Problem, settings: Settings, momentum: Momentum | None, begun: State | None) -> Moment:
    """The place of a problem at its start, or of one that goes on."""
    began = time.perf_counter()
    if begun is None:
        problem.measure()
        place = Moment(problem, (), began=began)
        place.count()
        recording(settings.warm_up)(place)
    else:
        problem.recall(begun)
        place = Moment(problem, (), list(begun.history), begun.pause, Trail(leapt=begun.trail.leapt))
        place.count()
    if momentum:
        place.trail = momentum.trail
    return place


def _course(settings: Settings, momentum: Momentum | None) -> list[Move]:
    """The steps from one state to the next, in order."""
    sweep = sweeping(settings.late, settings.join)
    steps: list[Move] = [learning, sweep, ending_warm_up(settings.dtype, hasty=settings.accelerate)]
    if settings.late:
        steps.insert(0, joining(settings.late, settings.join))
    if settings.ties:
        until = settings.join if settings.late else None
        steps.insert(0, adapting(settings.ties, settings.adapt_after, until, hasty=settings.accelerate))
    steps.append(leaping(momentum, settings.tol, settings.sweeps) if momentum else count)
    if settings.prune:
        steps.append(pruning(settings.adapt_after, momentum))
    return [*steps, recording(settings.warm_up)]


def _stop(place: Moment, settings: Settings) -> Stop | None:
    sweep, _, change, *_ = place.history[-1]
    if not place.problem.free:
        return Stop(Reason.NOTHING, "nothing to update: every factor is given.")
    if sweep < 0:
        return None
    early = sweep <= max(
        settled(settings.ties, settings.adapt_after) + 1 if settings.ties else 0,
        settings.join + 1 if settings.late else 0,
    )
    if not early and abs(change) < settings.tol and not place.trail.leapt:  # a leap may gain little by going too far
        sentence = f"converged: sweep {sweep} changed the bound by less than {settings.tol:g} of its size."
        return Stop(Reason.CONVERGED, sentence)
    if sweep >= settings.sweeps:
        if settings.sweeps == 0:
            return Stop(Reason.NO_SWEEPS, "no sweep was asked for: this is the start itself.")
        sentence = (
            f"stopped after {sweep} sweeps; the last one changed the bound by {change:.1e} of its size "
            f"(tol={settings.tol:g})."
        )
        return Stop(Reason.SWEEPS, sentence, "Raise `sweeps` to go on.")
    return None
