"""Problems whose optimum and held-out links are known well enough to ask how soon a fit comes near."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

import plait
from lab.bench import data, engine
from lab.harness import sources
from lab.harness.sources import SHARED
from plait.evaluation.metrics import roc_auc

CP = "X[i, j, k] = A[i, r] B[j, r] C[k, r]"


@dataclass(frozen=True)
class Problem:
    """auc: of the held-out cells by a fit; None where there are none. prior and so on are Plait's own."""

    model: str
    relations: dict[str, Any]
    rank: int
    entities: dict[str, range] | None = None
    auc: Callable[[plait.Fit], float] | None = None


def uclaf(seed: int) -> Problem:
    """User × place × activity as 0/1; three cells in five are hidden."""
    X = sources.uclaf()[0]
    hidden = np.random.default_rng(seed).random(X.shape) < 0.6

    def auc(fit: plait.Fit) -> float:
        rate = np.einsum("ir,jr,kr->ijk", *(fit.factors[name].mean for name in "ABC"))
        return float(roc_auc(X[hidden] > 0, rate[hidden]))

    return Problem(CP, {"X": np.where(hidden, np.nan, X)}, 5, auc=auc)


def lastfm(seed: int) -> Problem:
    """Who tagged which artist with what; three links in five are hidden."""
    columns = {"sourceNodeId": "i", "targetNodeId": "j", "tagID": "k"}
    table = pl.read_parquet(SHARED / "lastfm" / "user_tag_artist_rels.parquet")
    return _thinned(table.select(*columns).rename(columns), 20, seed)


def kinships(seed: int) -> Problem:
    """Who is what to whom; one link in five is hidden."""
    path = SHARED / "kinships" / "train.txt"
    table = pl.read_csv(path, separator="\t", has_header=False, new_columns=["i", "k", "j"])
    return _thinned(table, 20, seed, 0.2)


def cube(side: int, known: int, seed: int) -> Problem:
    """The paper's cube, as lab.paper.sources.cube draws it but with less memory: rank 5, noise, some cells known."""
    cells = data.cp3(known, side, 5, "listed", seed=seed).relations["X"]
    rng = np.random.default_rng(seed)
    factors = [rng.gamma(2.0, 0.5, (side, 5)) for _ in range(3)]
    clean = np.zeros(known)
    for r in range(5):
        clean += np.prod([factor[cells.index[:, m], r] for m, factor in enumerate(factors)], axis=0)
    clean /= np.sqrt(np.mean(clean**2))
    value = np.maximum(clean + 0.2 * rng.standard_normal(known), 0)
    table = pl.DataFrame({**dict(zip("ijk", cells.index.T)), "value": value})
    return Problem(CP, {"X": plait.Relation(table, observed="listed")}, 5, dict.fromkeys("ijk", range(side)))


def digg(scale: float, seed: int) -> Problem:
    """The three relations of Digg's shape."""
    case = data.digg(20, scale=scale, seed=seed)
    axes = plait.Model(case.model).axes
    return Problem(case.model, engine.relations(case), 20, {axis: range(case.sizes[axis]) for axis in axes})


PROBLEMS: dict[str, Callable[[int], Problem]] = {
    "UCLAF": uclaf,
    "Last.fm": lastfm,
    "Kinships": kinships,
    "500³": lambda seed: cube(500, 1_250_000, seed),
    "1000³": lambda seed: cube(1000, 12_500_000, seed),
    "60³": lambda seed: cube(60, 20_000, seed),
    "Digg-shaped": lambda seed: digg(1.0, seed),
    "Digg-shaped, small": lambda seed: digg(0.01, seed),
}


def absent(name: str) -> str:
    """Why a problem cannot be had; nothing if it can."""
    folder = {"UCLAF": "uclaf", "Last.fm": "lastfm", "Kinships": "kinships"}.get(name)
    return sources.absent(folder or "")


def _thinned(links: pl.DataFrame, rank: int, seed: int, fraction: float = 0.6) -> Problem:
    """Links of a relation, some of them hidden, to be distinguished from non-links."""
    train, test = plait.train_test_split(links, "X", fraction=fraction, by="thinned_links", seed=seed)

    def auc(fit: plait.Fit) -> float:
        return float(plait.evaluate(fit, "X", test, seed=seed)["roc_auc_uniform"])

    return Problem(CP, {"X": train}, rank, auc=auc)
