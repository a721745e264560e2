"""Counts with a heavy tail: Last.fm plays under each likelihood, a fifth of the links hidden; what a sweep costs."""

import time

import numpy as np
import polars as pl

import plait
from lab.bench import data
from lab.harness.sources import SHARED
from lab.harness.table import show
from plait.analysis.predict.prediction import columns
from plait.evaluation import metrics

TEXT = "plays[user, artist] = U[user, r] A[artist, r]"
RANK, ZEROS, SEEDS = 20, 200_000, range(3)


def compare() -> None:
    """Held-out log-likelihood of the counts and of [x > 0], and its AUC; then seconds a sweep."""
    table = pl.read_parquet(SHARED / "lastfm" / "user_listen_artist_rels.parquet").select(
        user="sourceNodeId", artist="targetNodeId", value="weight"
    )
    rows = []
    for likelihood in ("poisson", "bernoulli", "negbin"):
        found = np.mean([_judged(table, likelihood, seed) for seed in SEEDS], axis=0)
        shown = [f"{value:,.{digits}f}" for value, digits in zip(found, (2, 3, 4, 1))]
        rows.append([likelihood, *("" if likelihood == "bernoulli" and n == 0 else s for n, s in enumerate(shown))])
    title = f"Last.fm plays, rank {RANK}, a fifth of the links hidden: nats a hidden link, mean of {len(SEEDS)} seeds"
    show(title, ["likelihood", "counts", "x > 0", "AUC of x > 0", "seconds"], rows)
    _compare_speed()


def _judged(table: pl.DataFrame, likelihood: str, seed: int) -> list[float]:
    """One likelihood; zeros weigh four fifths in the fit, and a fifth here."""
    seen = table.with_columns(value=pl.lit(1)) if likelihood == "bernoulli" else table
    relation = plait.Relation(seen, likelihood=likelihood)
    split = plait.train_test_split(
        {"plays": relation}, "plays", fraction=0.2, by="thinned_links", leakage="ignore", seed=seed, model=TEXT
    )
    begin = time.perf_counter()
    fit = plait.fit(TEXT, split.train, rank=RANK, seed=seed)
    seconds = time.perf_counter() - begin
    hidden = split.test.filter(pl.col("value") > 0).select("user", "artist").join(table, ["user", "artist"], "left")
    links = np.stack(
        [fit.entities[index].encode(hidden[index], unknown="mark") for index in ("user", "artist")], axis=1
    )
    known = (links >= 0).all(axis=1)
    links, x = links[known], hidden["value"].to_numpy().astype(float)[known]
    zeros, each = _zeros(fit, table)
    rows, values = np.concatenate([links, zeros]), np.concatenate([x, np.zeros(len(zeros))])
    weights = np.repeat([1.0, each], [len(links), len(zeros)])
    found = columns(fit, "plays", rows, ("rate", "variance", "probability"))
    law = (found["rate"], found["variance"], found["probability"])
    own, state = fit.likelihood["plays"], fit.likelihood_params["plays"]
    links_only = plait.likelihood.Bernoulli()
    counts, some = (
        float(weights @ metrics.log_probability(x, *law, *by)) / len(links)
        for x, by in ((values, (own, state)), ((values > 0) * 1.0, (links_only, {})))
    )
    return [counts, some, metrics.roc_auc(values > 0, found["rate"]), seconds]


def _zeros(fit: plait.Fit, table: pl.DataFrame) -> tuple[np.ndarray, float]:
    """Random cells without plays, and the number of hidden cells that each stands for."""
    rng, shape = np.random.default_rng(0), fit.known["plays"].shape
    drawn = np.stack([rng.integers(0, size, ZEROS) for size in shape], axis=1)
    listed = [fit.entities[index].encode(table[index], unknown="mark") for index in ("user", "artist")]
    keys = np.unique(listed[0] * shape[1] + listed[1])
    drawn = drawn[~np.isin(drawn[:, 0] * shape[1] + drawn[:, 1], keys)]
    return drawn, 0.2 * (shape[0] * shape[1] - len(table)) / len(drawn)


def _compare_speed(nonzeros: int = 1_000_000, side: int = 500) -> None:
    """CP-3 of rank 20, counts and amounts over the same cells."""
    case, rows, seconds = data.cp3(nonzeros, side, 20), [], {}
    cells = case.relations["X"]
    table = cells.table()
    rng = np.random.default_rng(0)
    for likelihood in ("poisson", "bernoulli", "negbin", "tweedie"):
        values = {"bernoulli": np.ones(nonzeros), "tweedie": rng.gamma(2.0, 3.0, nonzeros)}.get(likelihood)
        values = rng.geometric(0.3, nonzeros).astype(float) if values is None else values
        relation = plait.Relation(table.with_columns(value=values), likelihood=likelihood)
        names = {axis: range(side) for axis in cells.axes}
        ends: list[float] = []
        plait.fit(
            "X[i,j,k] = A[i,r] B[j,r] C[k,r]", {"X": relation}, rank=20, max_iter=15, tol=0.0, seed=0, warmup=0,
            entities=names, adapt_prior=None, threads=1,
            progress=lambda record, ends=ends: ends.append(time.process_time()),
        )  # fmt: skip
        seconds[likelihood] = float(np.diff(ends).min())
        rows.append([likelihood, f"{1e3 * seconds[likelihood]:.1f}", f"{seconds[likelihood] / seconds['poisson']:.2f}"])
    show(f"CP-3, {nonzeros:,} nonzeros, rank 20", ["likelihood", "ms a sweep, one thread", "× Poisson"], rows)
