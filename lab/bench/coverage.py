"""How often the true rate of a hidden cell lies in its interval: the figures of docs/models.md, "How sure?"."""

import numpy as np

import plait
from lab.harness.table import show

SHAPE, RANK, SETS = (40, 30, 8), 3, range(6)
TEXT = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
CASES = [
    (likelihood, concentration, adapt)
    for likelihood in ("poisson", "bernoulli")
    for concentration in (0.5, 3.0)
    for adapt in (None, "factor")
]


def compare() -> None:
    """Coverage of nominal 90 % intervals of rates, data drawn from the model with the prior that is fitted."""
    rows = []
    for likelihood, concentration, adapt in CASES:
        inside = [_covered(n, likelihood, concentration, adapt) for n in SETS]
        rows.append([likelihood, f"{concentration:g}", str(adapt), f"{100 * np.mean(inside):.0f} %"])
    title = f"Coverage of mean ± 1.645 sd of the rate, nominally 90 %: hidden cells of {len(SETS)} data sets"
    show(title, ["likelihood", "concentration", "adapt", "inside"], rows)
    _compare_members()


def _compare_members() -> None:
    """The same with default settings, of one fit, of five, and of five whose links are reweighed."""
    rows = []
    for likelihood in ("poisson", "bernoulli"):
        for concentration in (0.5, 3.0):
            for rank, scale in ((3, 0.6), (10, 0.4)):
                found = np.mean([_members(n, likelihood, concentration, rank, scale) for n in SETS], axis=0)
                shown = [" / ".join(f"{100 * value:.0f} %" for value in part[~np.isnan(part)]) for part in found]
                rows.append([likelihood, f"{concentration:g}", f"{rank}", *shown])
    title = f"Coverage of 90 % intervals of rates / counts, default settings: hidden cells of {len(SETS)} data sets"
    columns = ["likelihood", "concentration", "rank", "one fit", "five", "five, bootstrap"]
    show(title, columns, rows)


def _members(number: int, likelihood: str, concentration: float, rank: int, scale: float) -> list[tuple[float, float]]:
    rate, counts, hidden = _simulate(number, concentration, rank, scale)
    X = np.minimum(counts, 1.0) if likelihood == "bernoulli" else counts
    data = {"X": plait.Relation(np.where(hidden, np.nan, X), likelihood=likelihood)}
    found = []
    for restarts, bootstrap in ((1, False), (5, False), (5, True)):
        fit = plait.fit(TEXT, data, rank=rank, seed=number, restarts=restarts, bootstrap=bootstrap, progress=False)
        found.append(_inside(fit, rate[hidden], counts[hidden], np.argwhere(hidden)))
    return found


def _inside(fit: plait.Fit, rate: np.ndarray, counts: np.ndarray, cells: np.ndarray) -> tuple[float, float]:
    """How many true rates lie in their intervals, and true counts (Poisson: rates in mean ± 1.645 sd)."""
    said = fit.predict("X", dict(zip("ijk", cells.T)))
    low, high = said["low"].to_numpy(), said["high"].to_numpy()
    if fit.likelihood["X"] == "bernoulli":
        chance = -np.expm1(-rate)
        return float(np.mean((chance >= low) & (chance <= high))), float("nan")
    near = np.abs(rate - said["mean"].to_numpy()) <= 1.645 * said["sd"].to_numpy()
    return float(np.mean(near)), float(np.mean((counts >= low) & (counts <= high)))


def _simulate(number: int, concentration: float, rank: int, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rates drawn from the prior, counts, and which fifth of the cells is hidden."""
    rng = np.random.default_rng(number)
    factors = [rng.gamma(concentration, scale / concentration, (size, rank)) for size in SHAPE]
    rate = np.einsum("ir,jr,kr->ijk", *factors)
    return rate, rng.poisson(rate).astype(float), rng.random(rate.shape) < 0.2


def _covered(number: int, likelihood: str, concentration: float, adapt: str | None) -> float:
    prior = plait.Gamma(concentration, 0.6)
    rate, X, hidden = _simulate(number, concentration, RANK, 0.6)
    if likelihood == "bernoulli":
        X = np.minimum(X, 1.0)
    data = {"X": plait.Relation(np.where(hidden, np.nan, X), likelihood=likelihood)}
    fit = plait.fit(TEXT, data, rank=RANK, prior=prior, adapt=adapt, seed=number, sweeps=500, progress=False)
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
