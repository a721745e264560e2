"""Recalibration of a fit on held-out cells: complementary log-log regression.

With Λ = −log P(x = 0) of the fit, −log P'(x = 0) = exp(b + β log Λ). b and β maximise

    Σ w ( [x > 0] log(1 − e^−Λ') − [x = 0] Λ' ) + k (log β − β + 1),

which is concave, by Newton's method. The last term, a Gamma prior with mode 1, shrinks β to 1 as k links would. Weights
w say how many cells a zero stands for. The identity stays unless cross-validation prefers the regression by more than a
standard error (docs/math.md, section 12; decision 40).
"""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from plait._typing import Array, Flags, Rows
from plait.analysis.predict.prediction import raw_neg_log_p_zero
from plait.errors import DataError, ParameterError, TableLocation, one_of
from plait.evaluation.negative_sampling import KnownLinks, count_non_links, uniform
from plait.evaluation.test_set import read_test
from plait.storage.calibration import NO_CALIBRATION, Calibration
from plait.storage.fitted import closed_cells

if TYPE_CHECKING:
    from plait.result import Fit

F = TypeVar("F", bound="Fit")

HELD_OUT = TableLocation("held_out")
ZEROS = ("all", "sample")
ZEROS_PER_LINK, MIN_ZEROS, MAX_ZEROS = 10, 10_000, 100_000  # that are drawn; more listed ones are sampled
MAX_MISSING_ZEROS = 3.0  # factor by which the zeros of a random sample of cells may be fewer than expected
FOLDS = 5
SHRINKAGE = 10.0  # links that the prior of β counts as
TOLERANCE, MAX_STEPS = 1e-10, 100  # of Newton's method: gain of log-likelihood that a step promises


def calibrate(fit: F, relation: str, held_out: Any, *, zeros: str | None = None, seed: int = 0) -> F:
    """The fit with calibrated probabilities of a relation; see `Fit.calibrate`."""
    if zeros is not None:
        one_of("zeros", zeros, ZEROS)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ParameterError.must_be("seed", "an integer of at least 0", seed)
    cells, values = read_test(fit, relation, held_out)
    rng = np.random.default_rng(seed)
    rows, link, weights = _weighted(fit, relation, cells, values > 0, zeros, rng)
    calibration = regress(raw_neg_log_p_zero(fit, relation, rows), link, weights, rng)
    return replace(fit, calibration=fit.calibration | {relation: calibration})


# --- which cells


def _weighted(
    fit: "Fit", relation: str, cells: Rows, link: Flags, zeros: str | None, rng: np.random.Generator
) -> tuple[Rows, Flags, Array]:
    """Cells (n, order), which of them are links, and how many cells each stands for, (n,)."""
    links, others = cells[link], cells[~link]
    if not len(links):
        raise DataError(
            f"there are {len(others):,} zeros, but no links.", location=HELD_OUT, hint="Hold out more cells."
        )
    seen = int(np.count_nonzero(fit.known[relation].contain(links)))
    if seen:
        raise DataError(
            f"{seen:,} of {len(links):,} links are in the training data.",
            location=HELD_OUT,
            hint="Use links that the fit has not seen, such as those of plait.train_test_split.",
        )
    if len(others) and _is_listed(fit, relation):
        total = float(len(others))
    else:
        total = _expected_zeros(fit, relation, links)
        if not len(others):
            others = _drawn(fit, relation, links, rng)
        elif zeros != "sample":
            if zeros is None and total > MAX_MISSING_ZEROS * len(others):
                raise DataError(
                    f"there are {len(others):,} zeros, but about {total:,.0f} are expected for {len(links):,} "
                    "held-out links.",
                    location=HELD_OUT,
                    hint=(
                        'Set `zeros="sample"` if the zeros are a random sample of the cells without a link, '
                        '`zeros="all"` if no zeros are left out.'
                    ),
                )
            total = float(len(others))
    if len(others) > MAX_ZEROS:
        others = others[rng.permutation(len(others))[:MAX_ZEROS]]
    weights = np.repeat([1.0, total / max(len(others), 1)], [len(links), len(others)])
    return np.concatenate([links, others]), np.arange(len(weights)) < len(links), weights


def _is_listed(fit: "Fit", relation: str) -> bool:
    """Whether cells that the data do not list are missing."""
    rule = fit.known[relation].rule
    return rule is not None and rule.unlisted == 0


def _known(fit: "Fit", relation: str, links: Rows) -> KnownLinks:
    axes = [fit.model.axis(index) for index in fit.model.equation(relation).indices]
    return KnownLinks(fit.known[relation], closed_cells(fit, relation), links, axes)


def _expected_zeros(fit: "Fit", relation: str, links: Rows) -> float:
    """Number of zeros among the cells that these links are the held-out links of.

    Missing or thinned links are a share of all links, and stand for this share of all cells. Links that the fit saw as
    zeros are all that is hidden among its zeros.
    """
    known = fit.known[relation]
    count = count_non_links(_known(fit, relation, links))
    as_zeros = known.rule is not None and known.rule.unlisted == 1 and np.mean(known.observed.at(links) > 0) > 0.5
    return count if as_zeros else count * len(links) / (len(links) + len(known))


def _drawn(fit: "Fit", relation: str, links: Rows, rng: np.random.Generator) -> Rows:
    """Random cells without a link."""
    if _is_listed(fit, relation):
        raise DataError(
            "there are no zeros, and cells that the data do not list are missing.",
            location=HELD_OUT,
            hint='Hold out zeros too: `plait.train_test_split(…, by="cells")`.',
        )
    count = min(max(ZEROS_PER_LINK * len(links), MIN_ZEROS), MAX_ZEROS)
    found = uniform(_known(fit, relation, links), count, rng)
    if not len(found):
        raise DataError("all cells are links.", location=HELD_OUT, hint="Hold out zeros too.")
    return found


# --- regression


def regress(miss: Array, link: Flags, weights: Array, rng: np.random.Generator) -> Calibration:
    """Calibration from Λ = −log P(x = 0) of held-out cells; all (n,)."""
    some = miss > 0  # a cell of probability 0 keeps it
    log, link, weights = np.log(miss[some]), link[some], weights[some]
    n_links, n_zeros = int(np.count_nonzero(link)), int(np.count_nonzero(~link))
    folds = min(FOLDS, n_links, n_zeros)
    found = replace(NO_CALIBRATION, links=n_links, zeros=n_zeros)
    if folds < 2:
        return found
    fold = np.empty(len(link), np.int64)
    for kind, count in ((link, n_links), (~link, n_zeros)):
        fold[kind] = rng.permutation(count) % folds
    gains = np.empty(len(link))
    for n in range(folds):
        out = fold == n
        b, slope = newton(log[~out], link[~out], weights[~out])
        own = log_likelihood(b + slope * log[out], link[out]) - log_likelihood(log[out], link[out])
        gains[out] = weights[out] * own
    gain, error = float(gains.sum()), float(np.sqrt(np.sum((gains - gains.mean()) ** 2)))
    found = replace(found, gain=gain / n_links, gain_error=error / n_links)
    if not gain > error:
        return found
    b, slope = newton(log, link, weights)
    return replace(found, intercept=b, slope=slope)


def log_likelihood(log: Array, link: Flags) -> Array:
    """log(1 − e^−Λ) of links and −Λ of zeros, (n,), from log Λ."""
    with np.errstate(divide="ignore", over="ignore"):
        rate = np.exp(log)
        return np.where(link, np.log(-np.expm1(-rate)), -rate)


def newton(log: Array, link: Flags, weights: Array) -> tuple[float, float]:
    """b and β > 0 that maximise the penalised likelihood; log Λ, links and weights (n,)."""
    centre = float(np.average(log, weights=weights))
    x = np.stack([np.ones(len(log)), log - centre])

    def objective(theta: Array) -> float:
        if theta[1] <= 0:
            return -math.inf
        shrunk = SHRINKAGE * float(np.log(theta[1]) - theta[1] + 1)
        return float(weights @ log_likelihood(theta @ x, link)) + shrunk

    theta = np.array([centre, 1.0])
    value = objective(theta)
    for _ in range(MAX_STEPS):
        with np.errstate(over="ignore", invalid="ignore"):
            rate = np.exp(theta @ x)
            share = np.where(rate < 700, rate / np.expm1(np.minimum(rate, 700.0)), 0.0)
        first = weights * np.where(link, share, -rate)
        second = weights * np.where(link, share * (rate + share - 1), rate)  # minus the second derivative
        gradient = x @ first + np.array([0.0, SHRINKAGE * (1 / theta[1] - 1)])
        hessian = (x * second) @ x.T + np.diag([1e-12, SHRINKAGE / theta[1] ** 2])
        step = np.linalg.solve(hessian, gradient)
        if gradient @ step < TOLERANCE:
            break
        while not (new := objective(theta + step)) > value:
            step = step / 2
            if np.abs(step).max() < 1e-14:
                return float(theta[0] - theta[1] * centre), float(theta[1])
        theta, value = theta + step, new
    return float(theta[0] - theta[1] * centre), float(theta[1])
