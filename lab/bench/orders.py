"""Which order of update is faster to a given bound: the figures behind docs/decisions/0003-update-order.md."""

import numpy as np
import polars as pl

import plait
from lab.harness.sources import SHARED
from lab.harness.table import show


def problems() -> dict[str, tuple[str, dict[str, object], int]]:
    """Model, data and rank: real triples where they are at hand, and synthetic tensors."""
    text = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
    rng = np.random.default_rng(0)
    Z = [rng.gamma(0.5, 1.0, (n, 6)) for n in (60, 70, 50)]
    dense = rng.poisson(np.einsum("ir,jr,kr->ijk", *Z)).astype(float)
    hidden = np.where(rng.random(dense.shape) < 0.8, np.nan, dense)
    found: dict[str, tuple[str, dict[str, object], int]] = {
        "synthetic 60×70×50": (text, {"X": dense}, 8),
        "the same, 80 % missing": (text, {"X": hidden}, 8),
        "Tucker 60×70×50": ("X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]", {"X": dense}, 4),
    }
    for name in ("kinships", "umls"):
        path = SHARED / name / "train.txt"
        if path.exists():
            table = pl.read_csv(path, separator="\t", has_header=False, new_columns=["i", "j", "k"])
            found[name] = (text, {"X": table}, 20)
    tags = SHARED / "lastfm" / "user_tag_artist_rels.parquet"
    if tags.exists():
        columns = {"sourceNodeId": "i", "targetNodeId": "j", "tagID": "k"}
        found["LastFM tags"] = (text, {"X": pl.read_parquet(tags).select(*columns).rename(columns)}, 10)
    rng, side = np.random.default_rng(1), 300
    Z = [rng.gamma(0.5, 1.0, (side, 5)) for _ in range(3)]
    cells = np.unique(rng.integers(0, side, (1_000_000, 3)), axis=0)
    values = rng.poisson(np.prod([z[cells[:, n]] for n, z in enumerate(Z)], axis=0).sum(axis=1))
    table = pl.DataFrame({"i": cells[:, 0], "j": cells[:, 1], "k": cells[:, 2], "value": values})
    found["300³, 1 million listed"] = (text, {"X": plait.Relation(table, observed="listed")}, 5)
    return found


def seconds_to(fit: plait.Fit, goal: float) -> tuple[int, float] | None:
    """Sweeps and seconds until the bound passed the goal; None if it never did."""
    total = 0.0
    for record in fit.history:
        total += record.seconds if record.sweep else 0.0
        if record.bound >= goal and not record.warm_up:
            return record.sweep, total
    return None


def compare() -> None:
    """Sweeps and seconds to within 1e-3 of the lower of the two final bounds, median over seeds."""
    rows, ratios = [], []
    for name, (text, data, rank) in problems().items():
        model = plait.Model(text)
        bound = model.bind(data)
        wins, figures = 0, {"one-pass": [], "per-factor": []}
        for seed in range(5):
            fits = {o: plait.fit(model, bound, rank=rank, seed=seed, order=o, sweeps=150, tol=0.0) for o in figures}
            goal = min(fit.bound for fit in fits.values())
            goal -= 1e-3 * abs(goal)
            reached = {order: seconds_to(fit, goal) for order, fit in fits.items()}
            for order, pair in reached.items():
                figures[order].append(pair)
            wins += reached["one-pass"][1] < reached["per-factor"][1]
        cells = [
            f"{np.median([s for s, _ in pairs]):.0f} sweeps, {np.median([t for _, t in pairs]) * 1e3:.0f} ms"
            for pairs in figures.values()
        ]
        ratio = np.median([slow[1] / fast[1] for fast, slow in zip(*figures.values())])
        ratios.append(ratio)
        rows.append([name, *cells, f"{wins} of 5", float(ratio)])
    note = f"geometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.2f}."
    columns = ["data", *figures, "one-pass faster", "seconds per-factor ÷ one-pass"]
    show("To within 1e-3 of the lower of the two final bounds", columns, rows, note)
