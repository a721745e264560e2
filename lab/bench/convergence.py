"""Default fits, accelerated ones, and fits of 1,000 sweeps: whether they converge, and what it gains (decision 46)."""

import time
import warnings
from typing import Any

import numpy as np

import plait
from lab.bench.calibrated import links_of
from lab.harness.table import show

NAMES = ("Nations", "Kinships", "USAir", "Celegans", "UCLAF", "drawn")
WAYS: dict[str, dict[str, Any]] = {"default": {}, "accelerate": {"accelerate": True}, "1,000": {"max_iter": 1000}}
RANK, TEST, SEEDS = 20, 0.2, range(2)


def compare() -> None:
    """One row per data set and way: means of two splits. Objectives are relative to that of the default."""
    rows = [row for name in NAMES for row in _rows(name)]
    columns = ["data", "fit", "sweeps", "converged", "objective", "AP", "processor s"]
    show(f"rank {RANK}, means of {len(SEEDS)} splits, a fifth of the cells hidden", columns, rows)


def _rows(name: str) -> list[list[str]]:
    figures = np.array([[_figures(name, seed, options) for seed in SEEDS] for options in WAYS.values()])
    objectives = figures[:, :, 2]
    gains = ((objectives - objectives[0]) / np.abs(objectives[0])).mean(axis=1)
    return [
        [name, way, f"{own[0]:.0f}", f"{own[1] * len(SEEDS):.0f} of {len(SEEDS)}", f"{gain:+.5f}", f"{own[3]:.3f}",
         f"{own[4]:.1f}"]
        for way, own, gain in zip(WAYS, figures.mean(axis=1), gains)
    ]  # fmt: skip


def _figures(name: str, seed: int, options: dict[str, Any]) -> tuple[float, ...]:
    model, table, labels = links_of(name, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        data = {"X": plait.Relation(table, unseen="zero")}
        train, test = plait.train_test_split(
            data, "X", fraction=TEST, seed=seed, model=model, leakage="ignore", entities=labels
        )
        begin = time.process_time()
        fit = plait.fit(model, train, rank=RANK, entities=labels, seed=seed, progress=False, **options)
        seconds = time.process_time() - begin
        precision = plait.evaluate(fit, "X", test)["average_precision"]
    return fit.history[-1].sweep, float(fit.converged), fit.objective, precision, seconds
