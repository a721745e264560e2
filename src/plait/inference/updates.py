"""Coordinate updates of factors: VB, MAP and EM, from gradients and exposures, with their term of the objective
(docs/math.md, sections 2 to 4).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plait import special
from plait._typing import Array
from plait.executors import Executor
from plait.inference.gamma import (
    NO_PRIOR,
    ZERO,
    FactorState,
    PriorTerms,
    RowShape,
    prior_terms,
    refresh_points,
    writable,
)
from plait.inference.row_kernels import (
    N_TERMS,
    density_rows,
    kl_rows,
    refresh_rows,
    rows_point,
    rows_twice,
    rows_vb,
)
from plait.jit import WIDTH


@dataclass(frozen=True)
class RowEvidence:
    """Gradients of F, underflow counts, and the exposure of one factor.

    `twice`: exposure from terms in which the factor occurs twice, at its present mean; `exposure`: from the others.
    """

    gradient: Array
    underflow: Array | None
    exposure: Array  # (rows or 1) × (columns or 1)
    twice: Array | None = None

    def joined(self, factor: FactorState, A: Array, rate: Array, executor: Executor) -> "RowEvidence":
        """Evidence with one exposure, by which the plain update is that of a factor that occurs twice."""
        if self.twice is None:
            return self
        whole, underflow = np.zeros(factor.exp_mean_log.shape), ZERO if self.underflow is None else self.underflow
        exposure, twice = writable(self.exposure), writable(self.twice)
        arrays = self.gradient, underflow, exposure, twice, writable(A), rate, factor.mean, factor.exp_mean_log, whole

        def work(lo: int, hi: int) -> float:
            rows_twice(lo, hi, factor.layout.real, factor.layout.pad, *arrays)
            return 0.0

        executor.rows(work, *factor.exp_mean_log.shape)
        return RowEvidence(self.gradient, self.underflow, whole)


def update_vb(factor: FactorState, evidence: RowEvidence, prior: PriorTerms, executor: Executor) -> float:
    """C = A + counts, D = 1/(A/B + exposure), in place; returns −KL(posterior ‖ prior)."""
    inputs = _inputs(factor, evidence.joined(factor, prior[0], prior[1], executor), prior)
    arrays = *inputs, *factor.parameters, *factor.derived

    def work(lo: int, hi: int) -> float:
        terms = np.ones((N_TERMS, max(factor.exp_mean_log.shape[1], WIDTH)))
        return float(rows_vb(lo, hi, *(*arrays, terms)))

    factor.version += 1
    return _over_rows(work, factor, prior, _divergences, executor)


def update_map(factor: FactorState, evidence: RowEvidence, prior: PriorTerms, executor: Executor) -> float:
    """Z = (A − 1 + counts)/(A/B + exposure) in place; returns the log prior density of Z."""
    evidence = evidence.joined(factor, prior[0] - 1.0, prior[1], executor)
    arrays = *_inputs(factor, evidence, prior[:2]), *factor.parameters, *factor.derived
    density = _density(factor, prior)

    def work(lo: int, hi: int) -> float:
        rows_point(lo, hi, *arrays)
        return density(lo, hi)

    factor.version += 1
    return _over_rows(work, factor, prior, _densities, executor)


def update_em(factor: FactorState, evidence: RowEvidence, executor: Executor) -> None:
    """Z = counts/exposure in place; Z stays where the exposure is 0."""
    flat = prior_terms(*NO_PRIOR)[:2]
    inputs = _inputs(factor, evidence.joined(factor, ZERO, flat[1], executor), flat)
    arrays = *inputs, *factor.parameters, *factor.derived

    def work(lo: int, hi: int) -> float:
        rows_point(lo, hi, *arrays)
        return 0.0

    factor.version += 1
    executor.rows(work, *factor.exp_mean_log.shape)


def refresh_vb(factor: FactorState, A: Array, B: Array, executor: Executor) -> float:
    """Recompute a posterior from C and D; returns −KL(posterior ‖ prior)."""
    prior = prior_terms(A, B, executor)
    arrays = *RowShape.of(factor.layout), *prior, *factor.parameters, *factor.derived

    def work(lo: int, hi: int) -> float:
        return float(refresh_rows(lo, hi, *arrays))

    factor.version += 1
    return _over_rows(work, factor, prior, _divergences, executor)


def refresh_em(factor: FactorState, executor: Executor) -> None:
    """Recompute a point from Z."""

    def work(lo: int, hi: int) -> float:
        refresh_points(factor, lo, hi)
        return 0.0

    factor.version += 1
    executor.rows(work, *factor.exp_mean_log.shape)


def refresh_map(factor: FactorState, A: Array, B: Array, executor: Executor) -> float:
    """Recompute a point from Z; returns its log prior density."""
    refresh_em(factor, executor)
    prior = prior_terms(A, B, executor)
    return _over_rows(_density(factor, prior), factor, prior, _densities, executor)


def divergence(factor: FactorState, A: Array, B: Array) -> float:
    """−KL(posterior ‖ prior)."""
    layout, prior = factor.layout, prior_terms(A, B)
    arrays = layout.real, layout.pad, *factor.parameters, *prior
    return _over_rows(lambda lo, hi: -float(kl_rows(lo, hi, *arrays)), factor, prior, _divergences, None)


def log_density(factor: FactorState, A: Array, B: Array) -> float:
    """Log prior density of a point."""
    prior = prior_terms(A, B)
    return _over_rows(_density(factor, prior), factor, prior, _densities, None)


def _over_rows(
    work: Callable[[int, int], float],
    factor: FactorState,
    prior: Sequence[Array],
    again: "Again",
    executor: Executor | None,
) -> float:
    """Sum of work over all rows; rows that pairs share count once per pair.

    `again` gives the values of these rows alone, (n_rows, n_columns).
    """
    (rows, columns), pairs = factor.exp_mean_log.shape, factor.layout.pairs
    own = rows if pairs is None else len(pairs)
    result = work(0, own) if executor is None else executor.rows(work, own, columns)
    if pairs is None:
        return result
    work(own, rows)
    shared, shape = factor.shared, (rows - own, columns)
    here = (np.broadcast_to(array[own:] if len(array) > 1 else array, shape) for array in prior)
    parts = again(shared, *(shared.layout.unpack(array) for array in here))
    return result + float(pairs.others @ parts.reshape(len(parts), -1).sum(axis=1))


Again = Callable[[FactorState, Array, Array, Array, Array], Array]


def _divergences(factor: FactorState, A: Array, rate: Array, log_rate: Array, log_gamma: Array) -> Array:
    """−KL of every entry."""
    C, D = (np.asarray(factor.layout.unpack(a), np.float64) for a in factor.parameters)
    kl = (C - A) * special.psi(C) + log_gamma - special.gammaln(C) - A * (np.log(D) + log_rate) + C * (D * rate - 1.0)
    return np.asarray(-kl)


def _densities(factor: FactorState, A: Array, rate: Array, log_rate: Array, log_gamma: Array) -> Array:
    """Log prior density of every entry."""
    Z = np.asarray(factor.layout.unpack(factor.mean), np.float64)
    return np.asarray(special.xlogy(A - 1.0, Z) - rate * Z + A * log_rate - log_gamma)


def _density(factor: FactorState, prior: Sequence[Array]) -> Callable[[int, int], float]:
    """Log prior density of a range of rows."""
    columns = factor.layout.real, factor.layout.pad
    return lambda lo, hi: float(density_rows(lo, hi, *columns, factor.mean, factor.log_geomean, *prior))


def _inputs(factor: FactorState, evidence: RowEvidence, prior: Sequence[Array]) -> tuple[Any, ...]:
    """Arguments of the row kernels: shape of a row, gradient, then arrays (n_rows or 1, n_columns or 1)."""
    underflow = ZERO if evidence.underflow is None else evidence.underflow
    return *RowShape.of(factor.layout), evidence.gradient, underflow, writable(evidence.exposure), *prior
