"""Ordered axes: the pace of simulated chains, coverage of forecasts, the cost of a sweep (decisions 41, 51)."""

import warnings
from typing import cast

import numpy as np
import polars as pl
from scipy.optimize import brentq
from scipy.special import psi
from scipy.stats import gamma, nbinom, poisson

import plait
from lab.bench.sums import in_turn, sweep_of
from lab.harness.table import show
from plait.analysis.forecast import with_later_periods

HORIZONS = (1, 3, 6)
DRAWS = 200_000
LAST = 20.0  # concentration of the last period's posterior
SCALE = 5.0  # expected count of the last period
PERIODS = 24  # of fits, before the forecast
GRID = (4.0, 8.0, 16.0, 32.0, 64.0)
ITEMS = "n[item, month] = b[item, month]; month: ordered"
MONTHLY = "n[user, place, month] = U[user, r] P[place, r] T[month, r]; month: ordered"


def compare() -> None:
    warnings.simplefilter("ignore", plait.PlaitWarning)
    shapes()
    paces()
    coverage()
    sweeps()


def shapes() -> None:
    """Two Gamma distributions for a chain run on: of its mean and variance, and of its mean and E[log θ]."""
    rng, shown = np.random.default_rng(0), []
    for a in (2.5, 4.0, 8.0, 16.0, 40.0):
        theta = rng.gamma(LAST, 1 / LAST, DRAWS)
        for step in range(1, max(HORIZONS) + 1):
            theta = following(theta, a, rng)
            if step in HORIZONS:
                counts, truth = rng.poisson(SCALE * theta), (1 - np.exp(-theta)).mean()
                for moment, of in (("variance", by_variance), ("E log", by_log)):
                    C = of(a, step)
                    low, high = gamma.ppf([0.05, 0.95], C, scale=1 / C)
                    inside = ((theta >= low) & (theta <= high)).mean()
                    score = nbinom.logpmf(counts, C, C / (C + SCALE)).mean()
                    shown.append([f"{a:g}", f"{step}", moment, inside, pit(counts, C, rng), score, truth,
                                  1 - (1 + 1 / C) ** -C])  # fmt: skip
    head = ["a", "horizon", "matched", "rates inside", "PIT inside", "log-likelihood", "P(x>0)", "of the Gamma"]
    show("Gamma distributions of forecasts, 90 % intervals", head, shown)


def following(theta: np.ndarray, a: float, rng: np.random.Generator) -> np.ndarray:
    """The next period of chains."""
    return rng.gamma(a, 1 / (a * rng.gamma(a + 1, 1 / (a * theta))))


def drawn(a: float, chains: int, periods: int, rng: np.random.Generator) -> np.ndarray:
    """Chains (n_chains, n_periods) that begin with Gamma(1, 1)."""
    theta = [rng.gamma(1.0, 1.0, chains)]
    while len(theta) < periods:
        theta.append(following(theta[-1], a, rng))
    return np.stack(theta, axis=1)


def by_variance(a: float, step: int) -> float:
    return 1 / ((1 + 1 / LAST) * ((a + 1) / (a - 1)) ** step - 1)


def by_log(a: float, step: int) -> float:
    gap = np.log(LAST) - psi(LAST) + step / a
    return float(brentq(lambda C: np.log(C) - psi(C) - gap, 1e-3, 1e4))


def pit(counts: np.ndarray, C: float, rng: np.random.Generator) -> float:
    """Share of randomised probability integral transforms within .05 and .95."""
    p = C / (C + SCALE)
    u = nbinom.cdf(counts - 1, C, p) + rng.random(len(counts)) * nbinom.pmf(counts, C, p)
    return float(((u > 0.05) & (u < 0.95)).mean())


def paces() -> None:
    """The concentration that a fit chooses, and the one of largest ELBO."""
    shown = []
    for chains, mean in ((300, 5.0), (3000, 0.3)):
        for a in (4.0, 8.0, 20.0, 50.0):
            rng = np.random.default_rng(int(a))
            relation = plait.Relation(rng.poisson(mean * drawn(a, chains, 12, rng)), likelihood="poisson")
            chosen = float(_fit(ITEMS, relation).prior["b"].concentration)
            bounds = [_fit(ITEMS, relation, prior={"b": plait.GammaChain(g)}).objective for g in GRID]
            shown.append([f"{chains} × 12", mean, f"{a:g}", chosen, f"{GRID[int(np.argmax(bounds))]:g}"])
    head = ["chains × periods", "events per period", "a", "chosen", f"largest ELBO of {GRID}"]
    show("Concentrations of simulated chains", head, shown)


def _fit(text: str, relation: plait.Relation, **options: object) -> plait.Fit:
    arguments = {"seed": 0, "threads": 1, "max_iter": 60, "progress": False} | options
    return plait.fit(text, {"n": relation}, **arguments)  # type: ignore[arg-type]


def coverage() -> None:
    """Share of later rates and counts inside 90 % intervals of forecasts, of fits that choose a."""
    shown = []
    for name, text, known in (("b[item, month]", ITEMS, False), ("U P T[month, r]", MONTHLY, False),
                               ("U P T[month, r], U and P known", MONTHLY, True)):  # fmt: skip
        for a in (6.0, 20.0, 60.0):
            seeds = 5 if text == ITEMS else 20  # four chains of components against 300 of items
            found = [_covered(text, a, seed, known=known) for seed in range(seeds)]
            chosen = np.median([one[0] for one in found])
            for n, horizon in enumerate(HORIZONS):
                rates, counts = np.mean([one[1][n] for one in found], axis=0)
                shown.append([name, f"{a:g}", f"{chosen:.1f}", f"{horizon}", float(rates), float(counts)])
    show("Coverage of 90 % intervals", ["model", "a", "chosen", "horizon", "rates", "counts (PIT)"], shown)


def _covered(text: str, a: float, seed: int, *, known: bool) -> tuple[float, list[tuple[float, float]]]:
    """The chosen concentration; rates and counts inside at each horizon."""
    rng, later, several = np.random.default_rng([seed, int(a)]), PERIODS + max(HORIZONS), text == MONTHLY
    if several:
        U, P, T = rng.gamma(0.7, 2.0, (60, 4)), rng.gamma(0.7, 2.0, (40, 4)), drawn(a, 4, later, rng).T
        rates = np.einsum("ur,pr,mr->upm", U, P, T)
        options = {"rank": 4, "max_iter": 300} | ({"fixed": {"U": U, "P": P}} if known else {})
    else:
        rates, options = SCALE * drawn(a, 300, later, rng), {}
    counts = rng.poisson(rates)
    fit = _fit(text, plait.Relation(counts[..., :PERIODS], likelihood="poisson"), **options)
    ahead = with_later_periods(fit, fit.model.equation("n"), "month", max(HORIZONS))
    rows, found = rng.integers(0, 60, 500) if several else np.arange(300), []
    other = rng.integers(0, 40, 500)
    for horizon in HORIZONS:
        # Draws from the posterior: products of Gamma distributions have no quantiles in closed form.
        own = {name: _draws(ahead.factors[name], rng) for name in fit.model.factors}
        if several:
            theta = np.einsum("dnr,dnr,dr->dn", own["U"][:, rows], own["P"][:, other], own["T"][:, horizon - 1])
            truth, x = (array[rows, other, PERIODS - 1 + horizon] for array in (rates, counts))
        else:
            theta = own["b"][:, :, horizon - 1]
            truth, x = (array[:, PERIODS - 1 + horizon] for array in (rates, counts))
        low, high = np.quantile(theta, [0.05, 0.95], axis=0)
        below, at = poisson.cdf(x - 1, theta).mean(axis=0), poisson.pmf(x, theta).mean(axis=0)
        u = below + rng.random(len(x)) * at
        found.append((float(((truth >= low) & (truth <= high)).mean()), float(((u > 0.05) & (u < 0.95)).mean())))
    chain = cast("plait.GammaChain", fit.prior["T" if several else "b"])
    return float(chain.concentration), found


def _draws(posterior: object, rng: np.random.Generator, count: int = 400) -> np.ndarray:
    own = cast("plait.Posterior", posterior)
    if np.isinf(own.concentration).all():  # known
        return np.broadcast_to(own.mean, (count, *own.mean.shape))
    return rng.gamma(own.concentration, own.scale, (count, *own.mean.shape))


def sweeps(nonzeros: int = 1_000_000, side: int = 1000) -> None:
    """Sweeps with chains ÷ sweeps of the same model without; processor seconds."""
    rng = np.random.default_rng(0)
    cells = np.unique(np.stack([rng.integers(0, n, nonzeros) for n in (side, side, 100)], axis=1), axis=0)
    table = pl.DataFrame(cells, schema=list("ijk")).with_columns(value=pl.Series(rng.integers(1, 4, len(cells))))
    shown = []
    for term in ("A[i,r] B[j,r] T[k,r]", "A[i,r] B[j,r] b[i,k]", "A[i,k,r] B[j,r]"):
        runs = [sweep_of(f"X[i,j,k] = {term}{ordered}", table) for ordered in ("", "; k: ordered")]
        plain, chained = in_turn(runs)
        shown.append([term, plain, chained, chained / plain])
    show(f"A sweep over {len(cells):,} links, k of 100 periods", ["equation", "plain", "chains", "ratio"], shown)
