"""`fit.top` on a relation of the size of Digg, 9583 × 44005 × 241800: seconds, with some indices given and with none;
and for each of 942 users of 1682 films, as a recommender asks (MovieLens 100k).

Posteriors are drawn, not fitted: only their shape matters to the search. "sparse" rows have concentration 0.1 to 0.5
and activities that differ, as fits of sparse data have; "flat" rows have concentration 10 and equal activity, so that
nearly all cells are nearly alike, which is as unfriendly as a posterior gets.
"""

from dataclasses import replace

import numpy as np

import plait
from lab.bench import measure
from lab.harness.table import show
from plait.data.binding.known import Known
from plait.data.encoding.names import Labels
from plait.data.observation.links import LinksInMemory
from plait.result import Fit
from plait.storage.fitted import Posterior

SIZES = {"user": 9583, "story": 44005, "comment": 241_800}
RANK = 20
LINKS = 151_779

FILMS = {"user": 942, "film": 1682}  # of MovieLens 100k, and as many ratings
RATINGS = 100_000

CASES = {
    "one user given": {"user": 17},
    "one user, one story given": {"user": 17, "story": 4711},
    "one comment given": {"comment": 17},
    "nothing given": {},
}


def synthetic(kind: str, likelihood: str = "poisson", seed: int = 0) -> Fit:
    """A fit of Digg's shape whose posteriors are drawn: `kind` is "sparse" or "flat"."""
    rng = np.random.default_rng(seed)
    tiny = {"X": plait.Relation(np.ones((2, 2, 2)), likelihood=likelihood)}
    fit = plait.fit("X[user, story, comment] = U[user, r] S[story, r] C[comment, r]", tiny, rank=2, max_iter=1, seed=0)
    factors = {}
    # Rates of up to thousands under Poisson, of up to a few under Bernoulli, where more would all be certain links.
    scale = 0.1 if likelihood == "poisson" else 0.01
    for (index, size), name in zip(SIZES.items(), fit.factors):
        concentration = np.full((size, RANK), 10.0)
        activity = np.ones((size, 1))
        if kind == "sparse":
            concentration[:] = rng.uniform(0.1, 0.5, (1, RANK))
            activity = rng.lognormal(0.0, 1.0, (size, 1))
        factors[name] = drawn((index, "r"), rng.gamma(concentration) + 1e-3, scale * activity)
    cells = np.unique(np.stack([rng.integers(size, size=LINKS) for size in SIZES.values()], axis=1), axis=0)
    shape, ones = tuple(SIZES.values()), np.ones(len(cells))
    known = Known(shape, LinksInMemory.of(tuple(SIZES), shape, cells, ones, ones))
    labels = {index: Labels.count(index, size) for index, size in SIZES.items()}
    return replace(fit, rank={"r": RANK}, factors=factors, entities=labels, known={"X": known})


def films(likelihood: str, rank: int, seed: int = 0) -> Fit:
    """A fit of the size of MovieLens 100k: users and films of unequal activity, drawn from a model of rank 20."""
    rng = np.random.default_rng(seed)
    rows = [rng.gamma(0.3, 1.0, (size, 20)) * rng.lognormal(0.0, 1.1, (size, 1)) for size in FILMS.values()]
    rates = rows[0] @ rows[1].T
    scale = RATINGS / rates.sum()
    for _ in range(50):
        scale *= RATINGS / -np.expm1(-scale * rates).sum()
    X = (rng.random(rates.shape) < -np.expm1(-scale * rates)).astype(float)
    model = "X[user, film] = U[user, r] F[film, r]"
    return plait.fit(model, {"X": plait.Relation(X, likelihood=likelihood)}, rank=rank, max_iter=50, seed=seed)


def drawn(indices: tuple[str, ...], concentration: np.ndarray, scale: np.ndarray) -> Posterior:
    """A posterior of these concentrations and scales."""
    mean = concentration * scale
    return Posterior(indices, concentration, np.broadcast_to(scale, mean.shape), mean, mean)


def compare() -> None:
    """Seconds of a call for every case, kernels compiled."""
    rows = []
    for kind in ("sparse", "flat"):
        for likelihood in ("poisson", "bernoulli"):
            fit = synthetic(kind, likelihood)
            fit.top("X", 10, given={"user": 0, "story": 0})
            for name, given in CASES.items():
                cells = np.prod([float(size) for index, size in SIZES.items() if index not in given])
                many = None if kind == "flat" and not given else time_of(fit, given, 1000)  # minutes
                rows.append([f"{kind}, {likelihood}", name, f"{cells:.0e}", time_of(fit, given, 10), many])
    columns = ["posterior", "case", "cells", "k = 10", "k = 1000"]
    show("The most probable links of 9583 × 44005 × 241800, R = 20: seconds", columns, rows)
    each()


def each() -> None:
    """Seconds for the k best films of each user in one call, and by a call a user."""
    rows = []
    for likelihood in ("poisson", "bernoulli"):
        for rank in (20, 60):
            fit = films(likelihood, rank)
            fit.top("X", 10, per="user", given={"user": [0, 1]})
            ways = {
                "10": lambda fit=fit: fit.top("X", 10, per="user"),
                "100": lambda fit=fit: fit.top("X", 100, per="user"),
                "loop": lambda fit=fit: [fit.top("X", 10, given={"user": user}) for user in range(FILMS["user"])],
            }
            found = measure.interleave(ways, repeats=1, warm=0)
            rows.append([likelihood, rank, *(found[way].median for way in ways)])
    columns = ["likelihood", "R", "k = 10", "k = 100", "k = 10, a call a user"]
    show("The most probable links for each of 942 users, 1682 films: seconds", columns, rows)


def time_of(fit: Fit, given: dict[str, int], k: int) -> float:
    return measure.interleave({"top": lambda: fit.top("X", k, given=given)}, repeats=1, warm=0)["top"].median
