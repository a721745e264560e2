"""A small coupled fit whose names are of every kind, and its report."""

from functools import lru_cache

import polars as pl

import plait

MODEL = """\
visits[user, place] = U[user, r] P[place, r]
friends[user, friend] = U[user, r] F[friend, r]
friend: user
"""
HOSTILE = "</script><img src=x onerror=alert(1)>"
LONG = "x" * 10_000
USERS = (HOSTILE, LONG, "🦊 fox", "שלום עולם", "a/b?c=d%20&e", "blanks inside", "ann", "bob")
PLACES = ("cafe", "gym", "<b>bold</b>", "مقهى", "lake")
DATA = {
    "visits": [(u, p) for u in range(len(USERS)) for p in range(len(PLACES)) if (u * 5 + p * 3) % 7 in (0, u % 2 + 1)],
    "friends": [(u, v) for u in range(len(USERS)) for v in range(len(USERS)) if u != v and (u + 2 * v) % 5 == u % 2],
}


def tables():
    visits = [(USERS[u], PLACES[p], 1 + (u + p) % 3) for u, p in DATA["visits"]]
    visits = pl.DataFrame(visits, ["user", "place", "value"], orient="row")
    friends = [(USERS[u], USERS[v]) for u, v in DATA["friends"]]
    friends = pl.DataFrame(friends, ["user", "friend"], orient="row")
    return {"visits": visits, "friends": plait.Relation(friends, likelihood="bernoulli")}


@lru_cache(maxsize=1)
def split():
    return plait.train_test_split(tables(), "visits", fraction=0.2, by="cells", seed=0, model=MODEL)


@lru_cache(maxsize=1)
def fitted():
    """The fit of what is not hidden, not converged."""
    return plait.fit(MODEL, split().train, rank=2, max_iter=60, seed=0, threads=1, progress=False)


def report(path, **options):
    """The fit's report, with a test."""
    fitted().report(path, test=split().test, relation="visits", **options)
    return path
