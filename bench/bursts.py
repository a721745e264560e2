"""Counts with a heavy tail: Last.fm plays under each likelihood, a fifth of the links hidden; and what a sweep costs."""

import time

import numpy as np
import polars as pl

import plait
from bench import data, measure
from bench.sources import SHARED
from plait.evaluation import metrics
from plait.predict.chance import columns

TEXT = "plays[user, artist] = U[user, r] A[artist, r]"
RANK, ZEROS = 20, 200_000


def compare() -> None:
    """Held-out log-likelihood of the counts and of [x > 0], and its AUC; then seconds a sweep."""
    table = pl.read_parquet(SHARED / "lastfm" / "user_listen_artist_rels.parquet").select(
        user="sourceNodeId", artist="targetNodeId", value="weight"
    )
    rows = [_judged(table, likelihood) for likelihood in ("poisson", "bernoulli", "negbin")]
    title = f"Last.fm plays, rank {RANK}, a fifth of the links hidden: nats a hidden link, zeros included"
    measure.show(title, ["likelihood", "counts", "x > 0", "AUC of x > 0", "seconds"], rows, measure.machine())
    _compare_speed()


def _judged(table: pl.DataFrame, likelihood: str) -> list[str]:
    """One likelihood; zeros stand for a fifth of all, which were hidden with the links."""
    seen = table.with_columns(value=pl.lit(1)) if likelihood == "bernoulli" else table
    split = plait.hide(
        {"plays": plait.Relation(seen, likelihood=likelihood)}, "plays", fraction=0.2, seed=0, model=TEXT
    )
    begin = time.perf_counter()
    fit = plait.fit(TEXT, split.train, rank=RANK, seed=0)
    seconds = time.perf_counter() - begin
    hidden = split.test.filter(pl.col("value") > 0).select("user", "artist").join(table, ["user", "artist"], "left")
    links = np.stack([fit.labels[index].encode(hidden[index], unknown="mark") for index in ("user", "artist")], axis=1)
    known = (links >= 0).all(axis=1)
    links, x = links[known], hidden["value"].to_numpy().astype(float)[known]
    zeros, each = _zeros(fit, table)
    rows, values = np.concatenate([links, zeros]), np.concatenate([x, np.zeros(len(zeros))])
    weights = np.repeat([1.0, each], [len(links), len(zeros)])
    found = columns(fit, "plays", rows, ("rate", "variance", "probability"))
    law = (found["rate"], found["variance"], found["probability"])
    own, state = fit.likelihood["plays"], fit.learnt["plays"]
    counts = "" if own.binary else f"{weights @ metrics.log_probability(values, *law, own, state) / len(links):,.2f}"
    some = weights @ metrics.log_probability((values > 0) * 1.0, *law, plait.likelihood.Bernoulli(), {}) / len(links)
    auc = metrics.roc_auc(values > 0, found["rate"])
    return [own.describe(state), counts, f"{some:.3f}", f"{auc:.4f}", f"{seconds:.1f}"]


def _zeros(fit: plait.Fit, table: pl.DataFrame) -> tuple[np.ndarray, float]:
    """Cells that nobody listened to, drawn, and how many hidden ones each stands for."""
    rng, shape = np.random.default_rng(0), fit.known["plays"].shape
    drawn = np.stack([rng.integers(0, size, ZEROS) for size in shape], axis=1)
    listed = [fit.labels[index].encode(table[index], unknown="mark") for index in ("user", "artist")]
    keys = np.unique(listed[0] * shape[1] + listed[1])
    drawn = drawn[~np.isin(drawn[:, 0] * shape[1] + drawn[:, 1], keys)]
    return drawn, 0.2 * (shape[0] * shape[1] - len(table)) / len(drawn)


def _compare_speed(nonzeros: int = 1_000_000, side: int = 500) -> None:
    """CP-3 of rank 20, counts and amounts over the same cells."""
    case, rows, seconds = data.cp3(nonzeros, side, 20), [], {}
    cells = case.relations["X"]
    table = {axis: cells.index[:, n] for n, axis in enumerate(cells.axes)}
    rng = np.random.default_rng(0)
    for likelihood in ("poisson", "bernoulli", "negbin", "amounts"):
        values = {"bernoulli": np.ones(nonzeros), "amounts": rng.gamma(2.0, 3.0, nonzeros)}.get(likelihood)
        values = rng.geometric(0.3, nonzeros).astype(float) if values is None else values
        relation = plait.Relation({**table, "value": values}, likelihood=likelihood)
        names = {axis: range(side) for axis in cells.axes}
        fit = plait.fit(
            "X[i,j,k] = A[i,r] B[j,r] C[k,r]", {"X": relation}, rank=20, sweeps=20, tol=0.0, seed=0, start="random",
            labels=names, adapt=None,
        )  # fmt: skip
        seconds[likelihood] = float(np.median([record.seconds for record in fit.history[2:]]))
        rows.append([likelihood, f"{1e3 * seconds[likelihood]:.1f}", f"{seconds[likelihood] / seconds['poisson']:.2f}"])
    measure.show(f"CP-3, {nonzeros:,} nonzeros, rank 20", ["likelihood", "ms a sweep", "× Poisson"], rows,
                 measure.machine())  # fmt: skip
