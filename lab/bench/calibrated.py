"""Calibration of default fits, before and after `Fit.calibrate`, without and with features, on the data sets of
docs/quality.md: decision 40. `python -m lab.bench calibrated --data USAir` measures one.
"""

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import plait
from lab.harness.table import show
from lab.quality.cells import distinct
from lab.quality.data import SOURCES
from plait.analysis.predict.prediction import neg_log_p_zero
from plait.evaluation.metrics import average_precision, link_ratios

EQUATIONS = {
    "triples": "X[h,p,t] = H[h,a] P[a,p,b] T[t,b]",
    "graph": "X[a,b] = U[a,r] U[b,r]\nb: a",
    "matrix": "X[u,i] = U[u,r] I[i,r]",
    "tensor": "X[i,j,k] = A[i,r] B[j,r] C[k,r]",
}
TEST, VALIDATION = 0.2, 0.15  # of all cells, and of those that are left
MIN_LINKS = 200  # of a bin
NAMES = ("Nations", "Kinships", "UMLS", "USAir", "Celegans", "communities", "UCLAF", "drawn")
SPLITS = range(2)
FITS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("auto", {}),
    "five fits": ("auto", {"restarts": 5}),
    "Poisson, rank 20": ("poisson", {"rank": 20}),
}


class Bins(NamedTuple):
    """Predicted ÷ observed links in bins, which are right; log-likelihood per link, and average precision."""

    ratios: np.ndarray
    right: np.ndarray
    log_likelihood: float
    precision: float


def compare(data: str | None = None) -> None:
    """One row per data set, fit and calibration: bins of all splits."""
    rows = [line for name in ([data] if data else NAMES) for fits in FITS for line in lines(name, fits)]
    title = f"predicted ÷ observed in bins of {MIN_LINKS} links or more, {len(SPLITS)} splits"
    columns = [
        "data",
        "fit",
        "calibration",
        "held-out links",
        "÷",
        "right",
        "log-likelihood per link",
        "AP",
        "used",
        "s",
    ]
    show(title, columns, rows)


def lines(name: str, fits: str) -> list[list[str]]:
    """Rows of the fit as it is, calibrated, and calibrated with counts."""
    found: dict[str, list[Bins]] = {"none": [], "one variable": [], "counts": []}
    seconds, used, links = dict.fromkeys(found, 0.0), dict.fromkeys(found, 0), []
    for split in SPLITS:
        fit, held_out, test = fit_and_rest(name, fits, split)
        found["none"].append(bins(fit, test))
        for kind, features in (("one variable", None), ("counts", "counts")):
            start = time.process_time()
            calibrated = fit.calibrate("X", held_out, features=features)
            seconds[kind] += time.process_time() - start
            found[kind].append(bins(calibrated, test))
            own = calibrated.calibration["X"]
            used[kind] += bool(own.features) if features else not own.is_identity
        links.append(f"{own.links:,}")
    return [
        [
            *((name, fits, kind, " · ".join(links)) if kind == "none" else ("", "", kind, "")), *words(own),
            f"{np.mean([one.log_likelihood for one in own]):.3f}", f"{np.mean([one.precision for one in own]):.3f}",
            *(("", "") if kind == "none" else (f"{used[kind]} of {len(SPLITS)}", f"{seconds[kind] / len(SPLITS):.1f}")),
        ]
        for kind, own in found.items()
    ]  # fmt: skip


def fit_and_rest(name: str, fits: str, split: int) -> tuple[plait.Fit, pl.DataFrame, pl.DataFrame]:
    """A fit, cells held out to calibrate it, and a test."""
    model, table, labels = links_of(name, split)
    likelihood, given = FITS[fits]
    data = {"X": plait.Relation(table, unseen="zero", likelihood=likelihood)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        options = {"seed": split, "model": model, "leakage": "ignore", "entities": labels}
        rest, test = plait.train_test_split(data, "X", fraction=TEST, **options)
        train, held_out = plait.train_test_split(rest, "X", fraction=VALIDATION, **options)
        return plait.fit(model, train, entities=labels, seed=split, progress=False, **given), held_out, test


def links_of(name: str, split: int) -> tuple[plait.Model, pl.DataFrame, dict[str, range]]:
    """All links of a data set, with a model and the entities of every axis."""
    task = SOURCES[name].load(split if SOURCES[name].splits > 1 else 0, False)
    cells = distinct(np.concatenate([task.seen.links, task.test.links]))
    model = plait.Model(EQUATIONS[task.seen.kind])
    if task.seen.kind == "graph":
        cells = cells[cells[:, 0] < cells[:, 1]]
    table = pl.DataFrame(cells, schema=list(model.equation("X").indices))
    return model, table, {i: range(n) for i, n in zip(table.columns, task.seen.shape) if model.axis(i) == i}


def words(found: list[Bins]) -> list[str]:
    """Smallest and largest ratio, and how many bins are right."""
    ratios, right = (np.concatenate(parts) for parts in zip(*((one.ratios, one.right) for one in found)))
    return [f"{ratios.min():.2f}–{ratios.max():.2f}", f"{right.sum()} of {len(right)}"]


def bins(fit: plait.Fit, test: pl.DataFrame) -> Bins:
    """Bins of a test of links and zeros, from the most probable cells on; the last has the rest."""
    rows = np.stack([fit.entities[index].encode(test[index]) for index in test.columns[:-1]], axis=1)
    miss, link = neg_log_p_zero(fit, "X", rows), test["value"].to_numpy() > 0
    ratios, right = link_ratios(link, miss, MIN_LINKS)
    with np.errstate(divide="ignore"):
        log = np.where(link, np.log(-np.expm1(-miss)), -miss)
    return Bins(ratios, right, float(log.sum() / link.sum()), average_precision(link, miss))
