"""Real data sets raise no warning; nor does the demo (test_demo.py)."""

from pathlib import Path

import polars as pl
import pytest

import plait
from tests.support.caught_warnings import bound_to, caught, fitted, one

SHARED = Path(__file__).parents[2] / "shared" / "data"
GRAPH = "X[a, b] = A[a, r] B[b, r]; b: a"


def triples(name):
    columns = ["head", "relation", "tail"]
    read = {"separator": "\t", "has_header": False, "new_columns": columns, "infer_schema": False}
    parts = [pl.read_csv(SHARED / name / f"{part}.txt", **read) for part in ("train", "valid", "test")]
    links = plait.Relation(pl.concat(parts).unique(), likelihood="bernoulli")
    return "X[head, relation, tail] = H[head, r] R[relation, r] T[tail, r]; tail: head", {"X": links}


def lastfm():
    tags = pl.read_parquet(SHARED / "lastfm" / "user_tag_artist_rels.parquet")
    plays = pl.read_parquet(SHARED / "lastfm" / "user_listen_artist_rels.parquet")
    pairs = pl.read_parquet(SHARED / "lastfm" / "user_friend_df_directed.parquet")
    pairs = pairs.select(user=pairs.columns[0], friend=pairs.columns[1])
    text = """
        tags[user, artist, tag] = U[user, r] A[artist, r] T[tag, r]
        plays[user, artist] = U[user, r] A[artist, r] d[r]
        friends[user, friend] = U[user, r] F[friend, r]
        friend: user
    """
    listened = plays.select(user="sourceNodeId", artist="targetNodeId", value="weight")
    both = pl.concat([pairs, pairs.select(user="friend", friend="user")]).unique()
    tagged = tags.select(user="sourceNodeId", artist="targetNodeId", tag="tagID").unique()
    return text, {"tags": tagged, "plays": plait.Relation(listened, likelihood="negbin"), "friends": both}


def air(name):
    table = pl.read_csv(SHARED / "graphs" / f"{name}.tsv", separator="\t")
    return GRAPH, {"X": pl.concat([table, table.select(a="b", b="a")])}


def uclaf():
    text = "X[i, j, k] = A[i, r] B[j, r] C[k, r]; Y[i, j] = A[i, r] B[j, r] d[r]; Z[j, m] = B[j, r] D[m, r]"
    names = {"X": "UserLocAct", "Y": "UserLoc", "Z": "LocFea"}
    return text, {x: plait.read(SHARED / "uclaf" / "aaai10.uclaf.data.mat", name=name) for x, name in names.items()}


DATA = {
    **{name: (lambda name=name: triples(name)) for name in ("nations", "kinships", "umls")},
    **{name: (lambda name=name: air(name)) for name in ("usair", "celegans")},
    "lastfm": lastfm,
    "uclaf": uclaf,
}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real data sets are not here")
@pytest.mark.parametrize("name", DATA)
def test_real_data_raise_no_warning(name):
    text, data = DATA[name]()
    sweeps = 2 if name == "lastfm" else 200
    assert caught(fitted(text, data, rank=5, max_iter=sweeps)) == []


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real data sets are not here")
@pytest.mark.parametrize("name", ["usair", "celegans"])
def test_real_graphs_as_they_are_listed_are_read_one_way(name):
    table = pl.read_csv(SHARED / "graphs" / f"{name}.tsv", separator="\t")
    one(caught(bound_to(GRAPH, X=table)), plait.errors.AsymmetricLinksWarning, f"none of {len(table):,} links")
