"""Link prediction for choosing defaults: real and simulated data, and how well a fit finds hidden links."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

import plait
from lab.harness import sources
from lab.harness.sources import SHARED

CP = "X[h,p,t] = H[h,r] P[p,r] T[t,r]"
TUCKER = "X[h,p,t] = H[h,a] P[p,c] T[t,b] G[a,c,b]"
TUCKER2 = "X[h,p,t] = H[h,a] P[a,p,b] T[t,b]"
GRAPH = "X[a,b] = A[a,r] B[b,r]\nb: a"
COUPLED = f"{CP}\nvisits[h,v] = H[h,r] V[v,r]\nfeatures[p,f] = P[p,r] F[f,r]"
TEN = 10  # non-links that a test has for each link

Cells = sources.Cells


@dataclass(frozen=True)
class Case:
    """A model, its data and its rank; hidden links, ten times as many other cells; all links, where ranks are asked."""

    name: str
    text: str
    data: dict[str, Any]
    rank: int
    links: Cells
    others: Cells
    known: np.ndarray | None

    def judge(self, rates: Callable[[Cells], np.ndarray]) -> tuple[float, float, float]:
        """Mean log-likelihood of the test, average precision, filtered MRR of the last index (NaN: not asked)."""
        chance = [np.clip(-np.expm1(-rates(cells)), 1e-12, 1 - 1e-12) for cells in (self.links, self.others)]
        likelihood = float(np.concatenate([np.log(chance[0]), np.log1p(-chance[1])]).mean())
        return likelihood, _precision(*chance), self._reciprocal(rates, chance[0])

    def _reciprocal(self, rates: Callable[[Cells], np.ndarray], own: np.ndarray) -> float:
        if self.known is None:
            return float("nan")
        found = []
        for link, chance in zip(self.links, own):
            rivals = np.flatnonzero(~self.known[tuple(link[:-1])])
            cells = np.concatenate([np.tile(link[:-1], (len(rivals), 1)), rivals[:, None]], axis=1)
            scores = -np.expm1(-rates(cells))
            found.append(1.0 / (1.0 + np.sum(scores > chance) + np.sum(scores == chance) / 2))
        return float(np.mean(found))


def _precision(links: np.ndarray, others: np.ndarray) -> float:
    from sklearn.metrics import average_precision_score

    truth = np.repeat([1, 0], [len(links), len(others)])
    return float(average_precision_score(truth, np.concatenate([links, others])))


def rates_of(fit: plait.Fit, relation: str = "X") -> Callable[[Cells], np.ndarray]:
    """The expected rate of any cells under a fit."""
    equation = fit.model.equation(relation)
    latent = {index: chr(ord("a") + n) for n, index in enumerate(equation.latent)}

    def rates(cells: Cells) -> np.ndarray:
        inputs, arrays = [], []
        for occurrence in equation.occurrences:
            visible = [i for i in occurrence.indices if i not in latent]
            array = np.moveaxis(
                fit.factors[occurrence.factor].mean, [occurrence.indices.index(i) for i in visible], range(len(visible))
            )
            arrays.append(array[tuple(cells[:, equation.indices.index(i)] for i in visible)])
            inputs.append(("z" if visible else "") + "".join(latent[i] for i in occurrence.indices if i in latent))
        return np.einsum(",".join(inputs) + "->z", *arrays, optimize=True)

    return rates


def averaged(fits: Sequence[plait.Fit]) -> Callable[[Cells], np.ndarray]:
    """The mean rate of several fits."""
    members = [rates_of(fit) for fit in fits]
    return lambda cells: np.mean([rates(cells) for rates in members], axis=0)


def mixed(fits: Sequence[plait.Fit]) -> Callable[[Cells], np.ndarray]:
    """The rate whose chance of a link is the mean chance of several fits."""
    members = [rates_of(fit) for fit in fits]
    return lambda cells: (
        -np.log1p(-np.clip(np.mean([-np.expm1(-rates(cells)) for rates in members], axis=0), 0, 1 - 1e-15))
    )


# --- data


def cases() -> Iterator[Case]:
    """All cases whose data are at hand."""
    yield from _drawn()
    if not SHARED.exists():
        return
    for name, plans in {
        "nations": [(CP, 20, "bernoulli"), (TUCKER2, 8, "bernoulli"), (TUCKER, 6, "poisson")],
        "kinships": [(TUCKER2, 20, "bernoulli"), (CP, 40, "poisson")],
        "umls": [(TUCKER2, 20, "bernoulli"), (CP, 60, "poisson")],
    }.items():
        X, known, links = _triples(name)
        for text, rank, likelihood in plans:
            yield _case(name, text, {"X": plait.Relation(X, likelihood=likelihood)}, rank, links, known)
    for name in ("usair", "celegans"):
        X, known, links = _graph(name)
        for rank, likelihood in ((10, "bernoulli"), (30, "poisson")):
            yield _case(name, GRAPH, {"X": plait.Relation(X, likelihood=likelihood)}, rank, links, known)
    yield from _uclaf()
    yield _lastfm()


WORDS = {CP: "CP", TUCKER: "Tucker", TUCKER2: "Tucker-2", GRAPH: "matrix", COUPLED: "coupled CP"}


def _case(name: str, text: str, data: dict[str, Any], rank: int, links: Cells, known: np.ndarray) -> Case:
    likelihood = data["X"].likelihood.capitalize()
    rng = np.random.default_rng(0)
    others = np.argwhere(~known)
    others = others[rng.choice(len(others), min(TEN * len(links), len(others)), replace=False)]
    return Case(f"{name}, {WORDS[text]} {rank}, {likelihood}", text, data, rank, links, others, known)


def _drawn() -> Iterator[Case]:
    """Counts from a model of rank 8, a fifth of the cells hidden."""
    rng = np.random.default_rng(0)
    factors = [rng.gamma(0.3, 1.0, (size, 8)) for size in (80, 60, 20)]
    X = rng.poisson(0.3 * np.einsum("ir,jr,kr->ijk", *factors)).astype(float)
    hidden = rng.random(X.shape) < 0.2
    data = {"X": plait.Relation(np.where(hidden, np.nan, X))}
    yield _case("drawn", CP, data, 10, np.argwhere(hidden & (X > 0)), ~hidden | (X > 0))


def _triples(name: str) -> tuple[np.ndarray, np.ndarray, Cells]:
    """Training triples as 0/1, all triples, and the official validation triples: no default may see the test."""
    found = sources.triples(name)
    X = np.zeros(found.shape)
    X[tuple(found.parts["train"].T)] = 1.0
    known = X > 0
    for part in ("valid", "test"):
        known[tuple(found.parts[part].T)] = True
    return X, known, found.parts["valid"]


def _graph(name: str) -> tuple[np.ndarray, np.ndarray, Cells]:
    """Both directions of nine tenths of the edges as 0/1, diagonal missing; all edges; the others, both ways."""
    nodes, pairs = sources.graph(name)
    pairs = np.random.default_rng(0).permutation(pairs)
    hidden, kept = np.split(pairs, [len(pairs) // 10])
    X = np.zeros((nodes, nodes))
    X[tuple(kept.T)] = X[tuple(kept.T[::-1])] = 1.0
    known = X > 0
    known[tuple(hidden.T)] = known[tuple(hidden.T[::-1])] = True
    np.fill_diagonal(X, np.nan)
    np.fill_diagonal(known, True)
    return X, known, np.concatenate([hidden, hidden[:, ::-1]])


def _uclaf() -> Iterator[Case]:
    """Single and coupled, four fifths of the cells hidden, as the paper has it."""
    X, visits, features = sources.uclaf()
    hidden = np.random.default_rng(0).random(X.shape) < 0.8
    links, known = np.argwhere(hidden & (X > 0)), ~hidden | (X > 0)
    seen = np.where(hidden, np.nan, X)
    for text, rank, likelihood in ((CP, 5, "bernoulli"), (CP, 20, "poisson"), (COUPLED, 5, "bernoulli")):
        data = {"X": plait.Relation(seen, likelihood=likelihood)}
        if text is COUPLED:
            side_tables = {"visits": visits, "features": features}
            data |= {name: plait.Relation(array, likelihood=likelihood) for name, array in side_tables.items()}
        yield _case("UCLAF", text, data, rank, links, known)


def _lastfm() -> Case:
    """Tags, 60 % of the links hidden by thinning; too large for ranks."""
    shape, cells = sources.tags()
    table = pl.DataFrame(cells, schema=list("hpt"))
    train, test = plait.train_test_split({"X": table}, "X", fraction=0.6, by="thinned_links", seed=0)
    links = test.select("h", "p", "t").to_numpy().astype(np.int64)
    others = np.stack([np.random.default_rng(n).integers(0, size, TEN * len(links)) for n, size in enumerate(shape)], 1)
    return Case("Last.fm tags, CP 10, Poisson", CP, train, 10, links, others, None)
