"""Mistakes of all kinds, each as an error of the library, for `test_dialects`."""

import numpy as np
import polars as pl

import plait

MODEL = "visits[user, place] = U[user, r] P[place, r]"
PAIRS = "visits[user, place] = U[user, r] P[place, r] V[user, place]"
CONFIG = f"""
model = "{PAIRS}"
rank = 2
[relations.visits]
source = "visits.csv"
missing = "gone.csv"
[exposures.V]
source = "been.csv"
"""
VISITS = "user,place,value\nann,cafe,2\nbob,cafe,1\nbob,gym,3\n"


def visits(**changed):
    columns = {"user": ["ann", "bob", "bob"], "place": ["cafe", "cafe", "gym"], "value": [2.0, 1.0, 3.0]}
    return pl.DataFrame(columns | changed)


def fit(model=MODEL, table=None, **settings):
    settings = {"rank": 2, "sweeps": 1, "seed": 0, "progress": False} | settings
    return plait.fit(model, {"visits": visits() if table is None else table}, **settings)


def bind(table, model=MODEL, **labels):
    return plait.Model(model).bind({"visits": table}, labels=labels or None)


def cells(*users):
    return pl.DataFrame({"user": users, "place": ["cafe"] * len(users)})


# Settings: what Python, a config file and `plait fit` say of the same mistake.
SETTINGS = {
    "prune by EM": lambda: fit(method="em", prune=True),
    "floats by EM": lambda: fit(method="em", dtype="float32"),
    "adapt by MAP": lambda: fit(method="map", adapt="factor", prior=plait.Gamma(1.0, 1.0)),
    "a prior without a mode": lambda: fit(method="map", adapt=None),
    "an unknown method": lambda: fit(method="vp"),
    "too few sweeps": lambda: fit(sweeps=-1),
    "the rank of no index": lambda: fit(rank={"q": 2}),
    "the rank of one index": lambda: fit("visits[user, place] = U[user, r] C[r, s] P[place, s]", rank={"r": 2}),
    "bootstrap of one fit": lambda: fit(bootstrap=True),
    "keep of one fit": lambda: fit(keep="best"),
    "the bound by EM": lambda: fit(method="em", rank="bound"),
    "a prior of 0": lambda: plait.Gamma(0.0, 1.0),
    "labels of no axis": lambda: bind(visits(), usr=["zoe"]),
}
# Data: what is in memory for Python is a line of a file for the others.
DATA = {
    "a negative value": lambda: bind(visits(value=[2.0, -1.0, 3.0])),
    "a missing value": lambda: bind(visits(value=[2.0, None, 3.0])),
    "a missing name": lambda: bind(visits(user=["ann", "bob", None])),
    "a cell twice": lambda: bind(visits(place=["cafe", "gym", "gym"])),
    "an unused column": lambda: bind(visits(plays=[1, 1, 1])),
    "a missing column": lambda: bind(visits().rename({"user": "usr"})),
    "a count as a link": lambda: bind(plait.Relation(visits(), likelihood="bernoulli")),
    "a missing table of strangers": lambda: bind(plait.Relation(visits(), missing=cells("zoe"))),
    "an exposure without the others": lambda: fit(PAIRS, fixed={"V": cells("ann").with_columns(value=1.0)}),
}
# Files, and what plait.read refuses of them.
READING = {
    "a quotation mark": ("marks.csv", lambda: plait.read("marks.csv")),
    "names or not": ("words.txt", lambda: plait.read("words.txt")),
    "a word for a number": ("many.csv", lambda: plait.read("many.csv")),
    "an option of another kind": ("visits.csv", lambda: plait.read("visits.csv", query="select 1")),
    "two arrays": ("two.npz", lambda: plait.read("two.npz")),
    "no such file": ("vists.csv", lambda: plait.read("vists.csv")),
    "another database": ("mysql://x", lambda: plait.read("mysql://x")),
}
# Questions to a fit: what `plait predict`, `top` and `evaluate` say of it.
ASKING = {
    "a stranger": ("predict", lambda: fit().predict("visits", cells("ann", "zoe"))),
    "a stranger after EM": ("predict", lambda: fit(method="em").predict("visits", cells("zoe"), unknown="prior")),
    "each of no index": ("top", lambda: fit().top("visits", each="usr")),
    "how many": ("top", lambda: fit().top("visits", k=-1)),
    "a value column that is none": (
        "evaluate",
        lambda: plait.evaluate(fit(), "visits", plait.Relation(visits(), value="plays")),
    ),
    "recall without a ranking": ("evaluate", lambda: plait.evaluate(fit(), "visits", visits(), k=3)),
    "a test of strangers": ("evaluate", lambda: plait.evaluate(fit(), "visits", cells("ann", "zoe"))),
}


def write_files(folder):
    """The files that the mistakes are about."""
    for name, text in {
        "model.toml": CONFIG,
        "visits.csv": VISITS,
        "been.csv": "user,place,value\nann,cafe,1\n",
        "gone.csv": "user,place\nzoe,cafe\n",
        "cells.csv": "user,place\n\nann,cafe\nzoe,cafe\n",
        "marks.csv": 'user,place\n"ann,gym\n',
        "words.txt": "ann,gym\n",
        "many.csv": "user,place,value\nann,cafe,many\n",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    np.savez(folder / "two.npz", X=np.eye(2), Y=np.eye(3))
