"""Coordinate ascent on the objective: EM, MAP and variational Bayes (docs/math.md, sections 2 to 4)."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from plait.inference.acceleration import Momentum
from plait.inference.empirical_bayes import full_adaptation_sweep
from plait.inference.problem import Problem
from plait.inference.state import MomentumState, Reason, Record, State, Stop
from plait.inference.steps import LoopState, LoopStep, build_schedule, record_sweep
from plait.rendering.formatting import percent, plural

ADAPT_AFTER = 10  # sweeps before priors adapt: earlier they would fit the noise of a random start
WARM_UP = 50  # sweeps of EM before VB (docs/decisions/0004-start.md)
JOIN_SWEEP = 100  # sweep from which evidence joins; half of all sweeps if there are fewer
RATE_SWEEPS = 10  # over which the decay of changes is averaged, twice
ADAPT_WARM = 30  # sweeps before priors adapt after a warm-up: earlier they would fit the sharp points of EM


@dataclass(frozen=True)
class Settings:
    """Settings of the loop."""

    max_iter: int
    tol: float
    ties: Mapping[str, str | Sequence[str]]  # adapted factors
    prune: bool = False
    accelerate: bool = False
    warm_up: int = 0  # sweeps of EM, if the problem starts as one of EM
    adapt_after: int = ADAPT_AFTER
    dtype: str = "float64"  # of VB's factors
    late: frozenset[str] = frozenset()  # scales of evidence that join, and …
    held: frozenset[str] = frozenset()  # … those that are fitted alone first and then held: both are updated, and …
    join: int = 0  # … priors stay, from this sweep on (docs/decisions/0020-sums.md)


class Outcome(NamedTuple):
    """The final state, and why the loop stopped."""

    state: State
    stop: Stop


OnSweep = Callable[[Record], Stop | None]  # sees every record, and may stop the fit
OnState = Callable[[Callable[[], State]], None]  # may take every state, before the loop decides whether to stop


def run(
    problem: Problem, settings: Settings, on_sweep: OnSweep, on_state: OnState, resume_from: State | None = None
) -> Outcome:
    """Sweep until the objective converges, `max_iter` is reached, or `on_sweep` asks to stop.

    resume_from: state that the problem's factors and priors come from; its last sweep is not repeated.
    """
    momentum = Momentum(resume_from.momentum if resume_from else MomentumState()) if settings.accelerate else None
    state = _initial_state(problem, settings) if resume_from is None else _restore(problem, resume_from)
    if momentum:
        state.momentum = momentum.state
    schedule = _schedule(settings, momentum)
    while True:
        state.began = time.perf_counter()
        on_state(state.snapshot)
        if stop := on_sweep(state.history[-1]) or _check_convergence(state, settings):
            return Outcome(state.snapshot(), stop)
        for step in schedule:
            step(state)


def _initial_state(problem: Problem, settings: Settings) -> LoopState:
    state = LoopState(problem, (), began=time.perf_counter())
    problem.recompute_elbo_terms()
    state.recount()
    record_sweep(settings.warm_up)(state)
    return state


def _restore(problem: Problem, begun: State) -> LoopState:
    problem.restore(begun)
    momentum = MomentumState(extrapolated=begun.momentum.extrapolated)
    state = LoopState(problem, (), list(begun.history), begun.pause, momentum)
    state.recount()
    return state


def _schedule(settings: Settings, momentum: Momentum | None) -> list[LoopStep]:
    return build_schedule(
        ties=settings.ties, adapt_after=settings.adapt_after, late=settings.late, held=settings.held,
        join=settings.join, dtype=settings.dtype, warm_up=settings.warm_up, tol=settings.tol,
        max_iter=settings.max_iter, prune=settings.prune, early=settings.accelerate, momentum=momentum,
    )  # fmt: skip


def _check_convergence(state: LoopState, settings: Settings) -> Stop | None:
    sweep, _, change, *_ = state.history[-1]
    if not state.problem.free:
        return Stop(Reason.NOTHING, "nothing to update: every factor is fixed.")
    if sweep < 0:
        return None
    first = max(
        full_adaptation_sweep(settings.ties, settings.adapt_after) + 1 if settings.ties else 0,
        settings.join + 1 if settings.late | settings.held else 0,
    )
    # An extrapolation that goes too far may gain little, which is no sign of convergence.
    if sweep > first and abs(change) < settings.tol and not state.momentum.extrapolated:
        sentence = (
            f"converged after {plural(sweep, 'sweep')}: the relative change of the objective is below "
            f"{settings.tol:g} (`tol`)."
        )
        return Stop(Reason.CONVERGED, sentence)
    if sweep >= settings.max_iter:
        if settings.max_iter == 0:
            return Stop(Reason.NO_SWEEPS, "no sweeps: `max_iter` is 0, so the factors are those of the initialisation.")
        soon = ", before priors adapt" if sweep < first and not settings.accelerate else ""
        left = _words_left([record for record in state.history if record.sweep > first], settings.tol)
        sentence = (
            f"stopped after {plural(sweep, 'sweep')}{soon}: the relative change of the objective is {change:.1e} "
            f"(`tol` is {settings.tol:g}){left}."
        )
        return Stop(Reason.MAX_ITER, sentence, "Increase `max_iter` to continue.")
    return None


def _words_left(history: Sequence[Record], tol: float) -> str:
    """How many sweeps are left until convergence, and what they gain, if changes continue to decay as in `history`."""
    changes = np.array([record.change for record in history[-2 * RATE_SWEEPS :]])
    if len(changes) < 2 * RATE_SWEEPS or (changes <= 0).any() or tol <= 0:  # not where rounding lowers the objective
        return ""
    before, now = (np.log(half).mean() for half in np.split(changes, 2))
    decay = (before - now) / RATE_SWEEPS  # of log change in a sweep
    end = now - decay * RATE_SWEEPS / 2
    if decay <= 0 or end <= np.log(tol):
        return ""
    count, gain = (end - np.log(tol)) / decay, np.exp(end) / decay
    return f"; at this rate about {float(f'{count:.1g}'):,.0f} more sweeps would raise it by {percent(gain)}"
