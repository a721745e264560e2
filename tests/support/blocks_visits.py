"""Tables to pack, ways to observe them, and fits of the same tables in memory and on disk."""

import numpy as np
import polars as pl

import plait

CP3 = "visits[user, act, place] = U[user, r] A[act, r] P[place, r]"
COUPLED = f"{CP3}\ntags[place, tag] = P[place, r] T[tag, r]"
FRIENDS = "friends[user, friend] = U[user, r] U[friend, r]\nfriend: user"
HOW = {"rank": 3, "seed": 5, "max_iter": 6}
WAYS = {
    "counts": {},
    "links": {"likelihood": "bernoulli"},
    "bursts": {"likelihood": "negbin"},
    "tweedie": {"likelihood": "tweedie"},
    "listed": {"observed": "listed"},
    "weighed zeros": {"observed": 0.3},
    "weight": {"weight": 2.5},
    "missing": {"missing": pl.DataFrame({"user": [3, 4], "place": [1, 2]})},
}


def visits(seed=0, count=1500, sizes=(60, 6, 25), value=True):
    rng = np.random.default_rng(seed)
    cells = np.unique(np.stack([(rng.random(count) ** 2 * size).astype(int) for size in sizes], axis=1), axis=0)
    table = pl.DataFrame(dict(zip(("user", "act", "place"), cells.T)))
    return table.with_columns(value=pl.Series(rng.poisson(1.0, len(table)) + 1)) if value else table


def tags(seed=1):
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(0, (25, 9), (90, 2)), axis=0)
    return pl.DataFrame({"place": cells[:, 0], "tag": [f"t{n}" for n in cells[:, 1]]})


def friends():
    """Undirected links."""
    cells = np.unique(np.sort(np.random.default_rng(0).integers(0, 40, (300, 2)), axis=1), axis=0)
    return pl.DataFrame({"user": cells[:, 0], "friend": cells[:, 1]}).filter(pl.col("user") != pl.col("friend"))


def relation(way):
    """Visits, observed in one of `WAYS`."""
    return plait.Relation(visits(value=way != "links"), **WAYS[way])


def fit_both(folder, table, model=CP3, name="visits", *, packed=None, **how):
    """Fits of the same table in memory and from blocks; packed: the model to pack for, if another."""
    plait.pack(packed or model, {name: table}, folder / "v.blocks")
    return tuple(plait.fit(model, data, **HOW | how) for data in ({name: table}, folder / "v.blocks"))
