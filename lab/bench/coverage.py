"""Coverage of 90 % intervals on simulated data: the figures of docs/models.md and of decision 16."""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import poisson

import plait
from lab.harness.table import percent, show

SHAPE, RANK, SETS = (40, 30, 8), 3, range(6)
EQUATIONS = {2: "X[i,j] = A[i,r] B[j,r]", 3: "X[i,j,k] = A[i,r] B[j,r] C[k,r]"}
CASES = [
    (likelihood, concentration, adapt)
    for likelihood in ("poisson", "bernoulli")
    for concentration in (0.5, 3.0)
    for adapt in (None, "factor")
]
SEEDS = range(3)  # of each truth
HIDDEN, MAX_CELLS, DRAWS = 0.2, 1000, 200  # share of hidden cells; those that are judged; posterior draws of each
FITS: dict[str, dict[str, Any]] = {
    "one": {},
    "five": {"restarts": 5},
    "five, bootstrap": {"restarts": 5, "bootstrap": True},
}


class Truth(NamedTuple):
    """Where simulated rates come from: `draw(rng, shape, rank)` up to a scale, which gives them the mean `rate`."""

    name: str
    shape: tuple[int, ...]
    rank: int
    rate: float
    draw: Callable[[np.random.Generator, tuple[int, ...], int], np.ndarray]


class Outcome(NamedTuple):
    """Coverage of one fit on one set; factor: that of the width of intervals, in logarithms, that would cover 90 %."""

    truth: str
    rank: str
    fits: str
    all: float
    links: float
    likely: float
    predicted: float
    counts: float
    factor: float


def compare() -> None:
    """Coverage by sd with the prior of the truth; then by the columns of `predict`, default options, other truths."""
    rows = []
    for likelihood, concentration, adapt in CASES:
        inside = [_covered(n, likelihood, concentration, adapt) for n in SETS]
        rows.append([likelihood, f"{concentration:g}", str(adapt), percent(float(np.mean(inside)))])
    title = f"Coverage of mean ± 1.645 sd of the rate, nominally 90 %: hidden cells of {len(SETS)} data sets"
    show(title, ["likelihood", "concentration", "adapt", "inside"], rows)
    for likelihood in ("bernoulli", "poisson"):
        compare_fits(likelihood)


def compare_fits(likelihood: str) -> None:
    """Two tables of one likelihood: means over all sets, and the coverage of all cells by truth."""
    found = [outcome for truth in TRUTHS for seed in SEEDS for outcome in _outcomes(truth, likelihood, seed)]
    rows = []
    for rank in ("given", "auto"):
        for fits in FITS:
            own = [outcome for outcome in found if (outcome.rank, outcome.fits) == (rank, fits)]
            means = [_mean(values) for values in zip(*(outcome[3:8] for outcome in own))]
            factors = np.quantile([outcome.factor for outcome in own], (0.0, 0.5, 1.0))
            shown = " · ".join(f"{value:.2f}" for value in factors)
            rows.append([rank, fits, *means, shown])
    what = "the probability, `low` to `high`" if likelihood == "bernoulli" else "the rate, mean ± 1.645 sd"
    sets = len(TRUTHS) * len(SEEDS)
    columns = ["rank", "fits", "all cells", "links", "true > .05", "predicted > .05", "counts, PIT", "factor wanted"]
    show(f"{likelihood}: coverage of {what}, ± standard error, {sets} sets", columns, rows)
    rows = [[truth.name, *_by_truth(truth.name, found)] for truth in TRUTHS]
    columns = [f"{rank}: {fits}" for rank in ("given", "auto") for fits in FITS]
    show(f"{likelihood}: coverage of all hidden cells, {len(SEEDS)} sets each", ["truth", *columns], rows)


def _by_truth(name: str, found: Sequence[Outcome]) -> list[str]:
    return [
        percent(float(np.mean([one.all for one in found if (one.truth, one.rank, one.fits) == (name, rank, fits)])))
        for rank in ("given", "auto")
        for fits in FITS
    ]


def _mean(values: Iterable[float]) -> str:
    """``88 ± 1 %``, the standard error behind the mean; of nothing (no cells, no counts) a dash."""
    known = [value for value in values if not math.isnan(value)]
    if len(known) < 2:
        return "–"
    return f"{100 * np.mean(known):.0f} ± {100 * np.std(known, ddof=1) / math.sqrt(len(known)):.0f} %"


def _outcomes(truth: Truth, likelihood: str, seed: int) -> list[Outcome]:
    """All fits of one set: with the true rank, and with the one that Plait chooses (the same for bootstrap)."""
    rate, counts, hidden = _set(truth, seed)
    X = np.minimum(counts, 1.0) if likelihood == "bernoulli" else counts
    text = EQUATIONS[len(truth.shape)]
    data = {"X": plait.Relation(np.where(hidden, np.nan, X), likelihood=likelihood)}
    rng = np.random.default_rng(seed)
    cells = rng.permutation(np.argwhere(hidden))[:MAX_CELLS]
    at = tuple(cells.T)
    found = []
    for rank in ("given", "auto"):
        size: int | dict[str, int] | str = truth.rank if rank == "given" else "auto"
        for fits, options in FITS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", plait.errors.BelowBaselineWarning)
                fit = plait.fit(text, data, rank=size, seed=seed, progress=False, **options)
            if rank == "auto" and fits == "five":
                size = fit.rank
            found.append(Outcome(truth.name, rank, fits, *_judged(fit, cells, rate[at], X[at], rng)))
    return found


def _judged(
    fit: plait.Fit, cells: np.ndarray, rate: np.ndarray, x: np.ndarray, rng: np.random.Generator
) -> tuple[float, ...]:
    """Coverage by kind of cell, of counts by randomised PIT, and by what factor intervals are too narrow."""
    said = fit.predict("X", dict(zip("ijk", cells.T)))
    mean, sd, low, high = (said[name].to_numpy() for name in ("mean", "sd", "lower", "upper"))
    if fit.likelihood["X"] == "bernoulli":
        true, likely, pit = -np.expm1(-rate), mean > 0.05, math.nan
    else:
        true, likely = rate, -np.expm1(-mean) > 0.05
        low, high = mean - 1.645 * sd, mean + 1.645 * sd
        pit = float(np.mean(np.abs(_pit(fit, cells, x, rng) - 0.5) <= 0.45))
    inside = (true >= low) & (true <= high)
    kinds = [np.ones(len(x), bool), x > 0, -np.expm1(-rate) > 0.05, likely]
    with np.errstate(divide="ignore"):
        centre, off = np.log(mean), np.abs(np.log(true) - np.log(mean))
        reach = np.where(true > mean, np.log(high) - centre, centre - np.log(np.maximum(low, 0.0)))
    factor = float(np.quantile(off / np.maximum(reach, 1e-12), 0.9))
    return (*(float(inside[kind].mean()) if kind.any() else math.nan for kind in kinds), pit, factor)


def _pit(fit: plait.Fit, cells: np.ndarray, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Randomised PIT of counts, (n,): uniform if their predictive distributions are right."""
    factors = fit.sample(DRAWS, seed=0)
    rates = np.prod([factors[name][:, rows] for name, rows in zip("ABC", cells.T)], axis=0).sum(axis=2)
    below, upto = (poisson.cdf(count, rates).mean(axis=0) for count in (x - 1, x))
    return np.asarray(below + rng.random(len(x)) * (upto - below))


def _set(truth: Truth, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rates, counts, and which cells are hidden."""
    rng = np.random.default_rng([seed, TRUTHS.index(truth)])
    rate = truth.draw(rng, truth.shape, truth.rank)
    rate *= truth.rate / rate.mean()
    return rate, rng.poisson(rate).astype(float), rng.random(rate.shape) < HIDDEN


def _gamma(concentration: float, skew: float = 0.0) -> Callable[..., np.ndarray]:
    """The model itself; skew: sd of the logarithm of a popularity that multiplies rows of the first two factors."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...], rank: int) -> np.ndarray:
        factors = [rng.gamma(concentration, 1.0, (size, rank)) for size in shape]
        for factor in factors[:2]:
            factor *= rng.lognormal(0.0, skew, (len(factor), 1))
        return _product(factors)

    return draw


def _logistic(rng: np.random.Generator, shape: tuple[int, ...], rank: int) -> np.ndarray:
    """P(x > 0) = sigmoid of an inner product and two popularities."""
    rows, columns = (rng.normal(0.0, 1.0, (size, rank)) for size in shape)
    popularity = rng.normal(0.0, 0.7, (shape[0], 1)) + rng.normal(0.0, 0.7, shape[1])
    latent = 0.8 * rows @ columns.T + popularity
    shift = brentq(lambda shift: np.logaddexp(0.0, latent + shift).mean() - 0.2, -30.0, 30.0)
    return np.logaddexp(0.0, latent + shift)


def _blocks(rng: np.random.Generator, shape: tuple[int, ...], rank: int) -> np.ndarray:
    """A stochastic block model with degrees."""
    groups = [rng.integers(0, rank, size) for size in shape]
    between = rng.gamma(0.3, 1.0, (rank, rank)) + 2.0 * np.eye(rank)
    degrees = [rng.gamma(2.0, 0.5, size) for size in shape]
    return between[np.ix_(*groups)] * np.multiply.outer(*degrees)


TRUTHS = [
    Truth("CP, concentration .5, rank 3", (40, 30, 8), 3, 0.6, _gamma(0.5)),
    Truth("CP, 3, rank 3", (40, 30, 8), 3, 0.6, _gamma(3.0)),
    Truth("CP, 3, rank 10", (40, 30, 8), 10, 0.6, _gamma(3.0)),
    Truth("matrix, .5, rank 5, sparse", (150, 100), 5, 0.05, _gamma(0.5)),
    Truth("matrix, 1, rank 3", (80, 60), 3, 0.3, _gamma(1.0)),
    Truth("CP, .5, rank 5, skewed, sparse", (40, 40, 10), 5, 0.05, _gamma(0.5, skew=1.0)),
    Truth("matrix, 1, rank 4, skewed", (120, 80), 4, 0.1, _gamma(1.0, skew=1.0)),
    Truth("logistic matrix, rank 3", (100, 80), 3, 0.2, _logistic),
    Truth("blocks and degrees, 4", (90, 90), 4, 0.15, _blocks),
]


def _simulate(number: int, concentration: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rates drawn from the prior, counts, and which fifth of the cells is hidden."""
    rng = np.random.default_rng(number)
    factors = [rng.gamma(concentration, 0.6 / concentration, (size, RANK)) for size in SHAPE]
    rate = _product(factors)
    return rate, rng.poisson(rate).astype(float), rng.random(rate.shape) < HIDDEN


def _product(factors: Sequence[np.ndarray]) -> np.ndarray:
    """The sum over components of the products of all factors' entries."""
    return np.asarray(np.einsum("ir,jr->ij" if len(factors) == 2 else "ir,jr,kr->ijk", *factors))


def _covered(number: int, likelihood: str, concentration: float, adapt_prior: str | None) -> float:
    prior = plait.Gamma(concentration, 0.6)
    rate, X, hidden = _simulate(number, concentration)
    if likelihood == "bernoulli":
        X = np.minimum(X, 1.0)
    data = {"X": plait.Relation(np.where(hidden, np.nan, X), likelihood=likelihood)}
    fit = plait.fit(
        EQUATIONS[3], data, rank=RANK, prior=prior, adapt_prior=adapt_prior, seed=number, max_iter=500, progress=False
    )
    mean, sd = _moments(fit)
    return float(np.mean(np.abs(rate - mean)[hidden] <= 1.645 * sd[hidden]))


def _moments(fit: plait.Fit) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of the rate of every cell under the fit's posterior."""
    posteriors = [fit.factors[name] for name in "ABC"]
    first = [p.mean for p in posteriors]
    second = [p.mean**2 + p.sd**2 for p in posteriors]
    squares = [p.mean**2 for p in posteriors]
    product = "ir,jr,kr->ijk"
    variance = np.einsum(product, *second) - np.einsum(product, *squares)
    return np.einsum(product, *first), np.sqrt(variance)
