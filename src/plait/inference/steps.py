"""Steps of the optimisation loop.

One iteration is a list of functions `LoopState -> None`, built by `build_schedule`: adapt priors, join evidence, update
the likelihood's parameters, sweep over the factors, end the EM warm-up, extrapolate, prune, record. A step decides from
`state.history` alone, so resuming from a checkpoint repeats the same steps.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from plait.errors import FitError
from plait.inference import acceleration
from plait.inference.acceleration import Momentum
from plait.inference.empirical_bayes import adapt, full_adaptation_sweep
from plait.inference.expected_counts import ExpectedCounts
from plait.inference.initialisation import begin_vb, match_totals
from plait.inference.problem import Problem
from plait.inference.prune import prune
from plait.inference.state import MomentumState, Record, State
from plait.rendering.formatting import plural

PRUNE_PAUSE = 10  # sweeps to wait after a refused removal
FIRST_CHOICE = 10  # sweeps to the first choice of likelihood parameters that needs all nonzeros


@dataclass
class LoopState:
    """What one sweep needs from the previous one."""

    problem: Problem
    counts: Sequence[ExpectedCounts]
    history: list[Record] = field(default_factory=list)
    pause: int = 0  # sweeps until pruning is tried again
    momentum: MomentumState = field(default_factory=MomentumState)
    began: float = field(default_factory=time.perf_counter)  # when the current sweep began

    @property
    def sweep(self) -> int:
        """The number of the last sweep."""
        return self.history[-1].sweep

    def snapshot(self) -> State:
        """Return all that the loop needs to continue from here."""
        return self.problem.state(self.history, self.pause, self.momentum)

    def recount(self) -> None:
        """Compute the expected counts at the current factors."""
        self.counts = ()  # so that their arrays can be used again
        self.counts = self.problem.expected_counts()


LoopStep = Callable[[LoopState], None]


def build_schedule(
    *, ties: Mapping[str, str | Sequence[str]], adapt_after: int, late: frozenset[str], held: frozenset[str], join: int,
    dtype: str, warm_up: int, tol: float, max_iter: int, prune: bool, early: bool, momentum: Momentum | None,
) -> list[LoopStep]:  # fmt: skip
    """Return the steps of one iteration, in order."""
    steps: list[LoopStep] = [
        update_likelihood_params,
        sweep_factors(late | held, join),
        end_warm_up(dtype, early=early),
    ]
    if late:
        steps.insert(0, join_evidence(late, join))
    if ties:
        steps.insert(0, adapt_priors(ties, adapt_after, join if late | held else None, early=early))
    steps.append(count_or_extrapolate(momentum, tol, max_iter))
    if prune:
        steps.append(prune_components(adapt_after, momentum))
    return [*steps, record_sweep(warm_up)]


def adapt_priors(
    ties: Mapping[str, str | Sequence[str]], after: int, until: int | None = None, *, early: bool = False
) -> LoopStep:
    """Adapt the priors of updated factors (empirical Bayes), from sweep `after` on and before sweep `until`.

    early: adapt as soon as a fit has converged after its warm-up.
    """
    whole = full_adaptation_sweep(ties, after)

    def step(state: LoopState) -> None:
        begun = state.sweep >= after or (early and acceleration.has_converged_early(state.history))
        if begun and (until is None or state.sweep < until):
            own = {name: tie for name, tie in ties.items() if name in state.problem.exposed}
            adapt(state.problem, own, hold=state.sweep < whole)

    return step


def update_likelihood_params(state: LoopState) -> None:
    """Update the parameters of the likelihoods; count again where one was chosen by a pass over all nonzeros."""
    if _is_choice_due(state.sweep) and state.problem.choose():
        state.recount()
    else:
        state.problem.learn(state.counts)


def _is_choice_due(sweep: int) -> bool:
    """Whether this is sweep 10, 20, 40, 80, … of the warm-up's end or of the fit: a choice costs several sweeps."""
    tens, rest = divmod(abs(sweep), FIRST_CHOICE)
    return rest == 0 and tens.bit_count() == 1


def sweep_factors(later: frozenset[str] = frozenset(), join: int = 0) -> LoopStep:
    """Update every free factor once; scales of evidence from sweep `join` on."""

    def step(state: LoopState) -> None:
        waiting = later if state.sweep < join else frozenset[str]()
        sweep_once(state.problem, state.counts, waiting)

    return step


def join_evidence(late: frozenset[str], join: int) -> LoopStep:
    """Give late factors as large a share of the data as the others, once; the objective may fall there."""

    def step(state: LoopState) -> None:
        if state.sweep == join:
            match_totals(state.problem, [name for name in state.problem.free if name in late])
            state.problem.recompute_elbo_terms()
            state.recount()

    return step


def sweep_once(problem: Problem, counts: Sequence[ExpectedCounts], waiting: frozenset[str] = frozenset()) -> None:
    """Update every free factor that does not wait, from the counts of one pass."""
    for name in problem.free:
        if name not in waiting:
            problem.update(name, counts)


def end_warm_up(dtype: str, *, early: bool = False) -> LoopStep:
    """Replace the EM problem by VB around its points after the last EM sweep; early: as soon as EM changes little."""

    def step(state: LoopState) -> None:
        if state.sweep == -1 or (early and state.sweep < 0 and acceleration.has_warmed_up(state.history)):
            state.problem = begin_vb(state.problem, np.dtype(dtype))
            state.problem.recompute_elbo_terms()

    return step


def count_or_extrapolate(momentum: Momentum | None, tol: float, max_iter: int) -> LoopStep:
    """Compute expected counts at the new factors, or at factors extrapolated from them."""

    def step(state: LoopState) -> None:
        if momentum is None:
            state.momentum = MomentumState()
            state.recount()
            return
        state.counts = ()
        state.counts = momentum.count(state.problem, state.history, tol, max_iter)
        state.momentum = momentum.state

    return step


def prune_components(after: int, momentum: Momentum | None) -> LoopStep:
    """Remove components that explain nothing; momentum starts again, since the problem has another shape."""

    def step(state: LoopState) -> None:
        state.pause -= 1
        if state.sweep < after or state.pause > 0:
            return
        if (smaller := prune(state.problem, state.counts)) is None:
            state.pause = PRUNE_PAUSE
        else:
            state.problem, state.counts = smaller
            if momentum:
                momentum.reset()
                state.momentum = momentum.state

    return step


def record_sweep(warm_up: int) -> LoopStep:
    """Append a record; the first is that of the start, numbered −`warm_up`."""

    def step(state: LoopState) -> None:
        seconds = time.perf_counter() - state.began
        state.history.append(_record(state.problem, state.counts, state.history, warm_up, seconds))

    return step


def _record(
    problem: Problem, counts: Sequence[ExpectedCounts], history: list[Record], warm_up: int, seconds: float
) -> Record:
    objective, sweep = problem.objective(counts), history[-1].sweep + 1 if history else -warm_up
    if sweep < 0 and problem.method == "vb":  # the warm-up has ended early
        sweep = 0
    if not math.isfinite(objective):
        raise FitError(
            f"the objective is {objective} after {plural(len(history), 'sweep')}.",
            hint=f"Values or weights may be too large for {problem.numbers}; scale them down.",
        )
    is_comparable = history and (sweep != 0 or not history[-1].warm_up)
    size = abs(objective - problem.by_unit) or 1.0
    change = (objective - history[-1].objective) / size if is_comparable else math.inf
    rank = {
        i: n for f in problem.factors.values() for i, n in zip(f.layout.inside, f.layout.sizes) if i in f.layout.latent
    }
    return Record(sweep, objective, change, seconds, rank)
