"""How often the true rate of a hidden cell lies within mean ± 1.645 sd: the figures of docs/models.md, "How sure?"."""

import numpy as np

import plait
from bench import measure

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
    measure.show(title, ["likelihood", "concentration", "adapt", "inside"], rows, measure.machine())


def _covered(number: int, likelihood: str, concentration: float, adapt: str | None) -> float:
    rng = np.random.default_rng(number)
    prior = plait.Gamma(concentration, 0.6)
    factors = [rng.gamma(concentration, 0.6 / concentration, (size, RANK)) for size in SHAPE]
    rate = np.einsum("ir,jr,kr->ijk", *factors)
    X = rng.poisson(rate).astype(float)
    if likelihood == "bernoulli":
        X = np.minimum(X, 1.0)
    hidden = rng.random(X.shape) < 0.2
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
