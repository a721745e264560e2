"""Two coupled tables with unusual names, and the charts of a fit."""

import numpy as np
import polars as pl

from plait.plotting import pictures as of

MODEL = "X[i,j] = A[i,r] B[j,r]\nY[i,k] = A[i,r] C[k,r]"
HOSTILE = "</script><img src=x onerror=alert(1)>"
LONG = ("long " * 2000).strip()
NAMES = [HOSTILE, LONG, "#101112", '"#101112"', "a & b", "שלום", "🦉", "", *(f"i{n}" for n in range(12))]


def tables(seed=0):
    """Two groups of entities, twenty by fifteen by four."""
    rng = np.random.default_rng(seed)
    group = np.arange(20) % 2
    X = rng.poisson(np.where(group[:, None] == np.arange(15) % 2, 1.5, 0.1))
    Y = rng.poisson(np.where(group[:, None] == np.arange(4) % 2, 2.0, 0.2))
    return {
        "X": pl.DataFrame([(NAMES[i], f"j{j}", int(X[i, j])) for i, j in zip(*X.nonzero())],
                          schema=["i", "j", "value"], orient="row"),
        "Y": pl.DataFrame([(NAMES[i], f"k{k}", int(Y[i, k])) for i, k in zip(*Y.nonzero())],
                          schema=["i", "k", "value"], orient="row"),
    }  # fmt: skip


CHARTS = {
    "objective": lambda fit, metrics: fit.plot.objective(),
    "components": lambda fit, metrics: fit.plot.components(),
    "component": lambda fit, metrics: fit.plot.components(1, top=20),
    "coupling": lambda fit, metrics: fit.plot.coupling(),
    "entity": lambda fit, metrics: fit.plot.entity("i", HOSTILE),
    "neighbourhood": lambda fit, metrics: fit.plot.neighbourhood("i", HOSTILE, k=20),
    "map": lambda fit, metrics: fit.plot.map("i", HOSTILE),
    "calibration": lambda fit, metrics: metrics.plot.calibration(),
    "roc": lambda fit, metrics: metrics.plot.roc(),
    "precision_recall": lambda fit, metrics: metrics.plot.precision_recall({"same": metrics, HOSTILE: metrics}),
}


def pictures(fit, metrics):
    """All pictures that documents have, by name."""
    return {
        "objective": of.objective(fit),
        "components": of.components(fit),
        "component": of.components(fit, 1, top=20),
        "coupling": of.coupling(fit),
        "entity": of.entity(fit, "i", HOSTILE),
        "neighbourhood": of.neighbourhood(fit, "i", HOSTILE, 20),
        "map": of.entity_map(fit, "i", HOSTILE),
        "calibration": of.calibration(metrics),
        "roc": of.roc(metrics),
        "precision_recall": of.precision_recall(metrics),
    }


def values(chart, *fields):
    """The rows of every data set of a chart, or some fields of those that have them all."""
    found = []
    if isinstance(chart, dict):
        for key, inner in chart.items():
            if key == "values" and isinstance(inner, list) and inner and isinstance(inner[0], dict):
                found += inner
            else:
                found += [row for rows in inner.values() for row in rows] if key == "datasets" else values(inner)
    elif isinstance(chart, list):
        found = [row for inner in chart for row in values(inner)]
    if not fields:
        return found
    return [tuple(row[name] for name in fields) for row in found if all(name in row for name in fields)]
