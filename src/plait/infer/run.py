"""The only loop: count, bound, stop or go on, adapt, update, leap; before it, for VB, some sweeps of EM."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from plait.errors import FitError
from plait.infer.accelerate import Momentum
from plait.infer.counts import Counted
from plait.infer.hyper import adapt
from plait.infer.problem import Problem
from plait.infer.prune import prune
from plait.infer.start import begin_vb
from plait.infer.state import Record, State, Trail

Order = Literal["one-pass", "per-factor"]

ADAPT_AFTER = 10  # sweeps before priors adapt: from a random start they would only learn the noise
WARM_UP = 50  # sweeps of EM from which VB begins (docs/decisions/0004-start.md)
ADAPT_WARM = 30  # sweeps before priors adapt after a warm-up: sooner, they learn how sharp EM is
PRUNE_PAUSE = 10  # sweeps to wait after a refused removal


@dataclass(frozen=True)
class Settings:
    """What the loop needs to know."""

    order: Order
    sweeps: int
    tol: float
    ties: Mapping[str, str | Sequence[str]]  # adapted factors
    prune: bool = False
    accelerate: bool = False
    warm_up: int = 0  # sweeps of EM, where the problem that the loop begins with is one of EM
    adapt_after: int = ADAPT_AFTER
    dtype: str = "float64"  # that VB goes on in


class Outcome(NamedTuple):
    """How the loop ended: the final state, and the reason as a sentence."""

    state: State
    stop: str


Watch = Callable[[Record], str | None]  # sees every record; a sentence stops the fit
Keep = Callable[[State], None]  # sees every state, before its stop is decided


def run(problem: Problem, settings: Settings, watch: Watch, keep: Keep, begun: State | None = None) -> Outcome:
    """Sweep until the bound stands still, the sweeps are used up or the watcher says stop.

    begun: the state that the problem's factors and priors come from; its last sweep is not repeated.
    """
    history: list[Record] = [] if begun is None else list(begun.history)
    pause = begun.pause if begun else 0
    momentum = Momentum(begun.trail if begun else Trail()) if settings.accelerate else None
    leapt = begun.trail.leapt if begun else False
    fresh, began = begun is None, time.perf_counter()
    if begun is None:
        problem.measure()
    else:
        problem.recall(begun)
    counted: Sequence[Counted] = problem.count()
    while True:
        if fresh:
            pause -= 1
            if settings.prune and history and history[-1].sweep >= settings.adapt_after and pause <= 0:
                if (smaller := prune(problem, counted)) is None:
                    pause = PRUNE_PAUSE
                else:
                    problem, counted = smaller
                    if momentum:
                        momentum.forget()
            history.append(_record(problem, counted, history, settings.warm_up, time.perf_counter() - began))
        fresh, began = True, time.perf_counter()
        state = problem.state(history, pause, momentum.trail if momentum else Trail(leapt=leapt))
        keep(state)
        stop = watch(history[-1]) or _stop(state, settings, bool(problem.free))
        if stop:
            return Outcome(state, stop)
        if settings.ties and history[-1].sweep >= settings.adapt_after:
            adapt(problem, settings.ties)
        sweep_once(problem, counted, settings.order)
        if history[-1].sweep == -1:
            problem = begin_vb(problem, np.dtype(settings.dtype))
            problem.measure()
        leapt, last, counted = False, history[-1], ()  # so that their arrays can be used again
        counted = momentum.count(problem, last, settings.tol, settings.sweeps) if momentum else problem.count()


def sweep_once(problem: Problem, counted: Sequence[Counted], order: Order) -> None:
    """Update every free factor once; per factor, with counts taken anew before each."""
    for position, name in enumerate(problem.free):
        if position and order == "per-factor":
            counted = [relation.count(problem.factors, (name,), bound=False) for relation in problem.relations]
        problem.update(name, counted)


def _record(
    problem: Problem, counted: Sequence[Counted], history: list[Record], warm_up: int, seconds: float
) -> Record:
    bound, sweep = problem.bound(counted), history[-1].sweep + 1 if history else -warm_up
    if not math.isfinite(bound):
        raise FitError(
            f"the bound is {bound} after {len(history)} sweeps.\n"
            f"Values or weights beyond what {problem.numbers} can hold? Scale them down."
        )
    compares = history and (sweep != 0 or not history[-1].warm_up)
    change = (bound - history[-1].bound) / (abs(bound) or 1.0) if compares else math.inf
    rank = {
        i: n for f in problem.factors.values() for i, n in zip(f.layout.inside, f.layout.sizes) if i in f.layout.latent
    }
    return Record(sweep, bound, change, seconds, rank)


def _stop(state: State, settings: Settings, free: bool) -> str | None:
    sweep, _, change, *_ = state.history[-1]
    if not free:
        return "nothing to update: every factor is given."
    if sweep < 0:
        return None
    settled = sweep > (settings.adapt_after + 1 if settings.ties else 0)
    if settled and abs(change) < settings.tol and not state.trail.leapt:  # a leap may gain little by going too far
        return f"converged: sweep {sweep} changed the bound by less than {settings.tol:g} of its size."
    if sweep >= settings.sweeps:
        if settings.sweeps == 0:
            return "not updated: sweeps=0 asks for the start itself."
        return (
            f"stopped after {sweep} sweeps; the last one changed the bound by {change:.1e} of its size "
            f"(tol={settings.tol:g}). Raise sweeps= to go on."
        )
    return None
