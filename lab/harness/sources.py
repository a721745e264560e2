"""Readers of the shared data: links as row numbers (n, order), and how many entities each axis has."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from scipy.io import loadmat

from lab.harness.packages import ROOT

SHARED = ROOT.parent / "shared" / "data"
Cells = np.ndarray
TRIPLES = ("train", "valid", "test")


def absent(folder: str) -> str:
    """Why the data of a folder cannot be had; nothing if they can, or if none are needed."""
    there = not folder or (SHARED / folder).is_dir()
    return "" if there else f"the data are not at hand (shared/data/{folder})"


@dataclass(frozen=True)
class Triples:
    """A knowledge graph in its official parts: head, relation, tail."""

    shape: tuple[int, int, int]
    parts: dict[str, Cells]


def triples(name: str) -> Triples:
    """Nations, Kinships, UMLS or WN18RR; heads and tails are numbered alike."""
    parts = {part: _triples_of(SHARED / name, part) for part in TRIPLES}
    everything = pl.concat(parts.values())
    entities = pl.concat([everything["h"], everything["t"]]).unique().sort()
    places = {"h": entities, "p": everything["p"].unique().sort(), "t": entities}
    cells = {
        part: np.stack([places[i].search_sorted(table[i]).to_numpy() for i in "hpt"], axis=1).astype(np.int64)
        for part, table in parts.items()
    }
    return Triples((len(entities), len(places["p"]), len(entities)), cells)


def _triples_of(folder: Path, part: str) -> pl.DataFrame:
    columns = ["h", "p", "t"]
    if (file := folder / f"{part}.parquet").exists():
        return pl.read_parquet(file).rename(dict(zip(("head", "relation", "tail"), columns)))
    return pl.read_csv(folder / f"{part}.txt", separator="\t", has_header=False, new_columns=columns)


def graph(name: str) -> tuple[int, Cells]:
    """USAir or Celegans: how many nodes, and each edge once."""
    edges = pl.read_csv(SHARED / "graphs" / f"{name}.tsv", separator="\t")
    nodes = pl.concat([edges["a"], edges["b"]]).unique().sort()
    pairs = np.stack([nodes.search_sorted(edges[i]).to_numpy() for i in "ab"], axis=1)
    return len(nodes), pairs.astype(np.int64)


def uclaf() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Acts (user, place, activity) of the users who have any, visits and features of places, all as 0/1."""
    raw = loadmat(SHARED / "uclaf" / "aaai10.uclaf.data.mat")
    counts, visits, features = (np.asarray(raw[name], float) for name in ("UserLocAct", "UserLoc", "LocFea"))
    rows = counts.sum(axis=(1, 2)) > 0
    acts, visits, features = ((array > 0).astype(float) for array in (counts[rows], visits[rows], features))
    return acts, visits, features


def tags() -> tuple[tuple[int, int, int], Cells]:
    """Last.fm: user, artist, tag."""
    table = pl.read_parquet(SHARED / "lastfm" / "user_tag_artist_rels.parquet")
    return _numbered(table.select("sourceNodeId", "targetNodeId", "tagID"))  # type: ignore[return-value]


def plays() -> tuple[tuple[int, int], Cells]:
    """Last.fm: user, artist, as 0/1."""
    table = pl.read_parquet(SHARED / "lastfm" / "user_listen_artist_rels.parquet")
    return _numbered(table.select("sourceNodeId", "targetNodeId"))  # type: ignore[return-value]


def gowalla() -> tuple[tuple[int, int], dict[str, Cells]]:
    """Who checked in where, in the official parts; users and items are numbered already."""
    parts = {
        part: pl.read_parquet(SHARED / "gowalla" / f"{part}.parquet").select("user", "item").to_numpy().astype(np.int64)
        for part in TRIPLES
    }
    users, items = np.max([part.max(axis=0) for part in parts.values()], axis=0) + 1
    return (int(users), int(items)), parts


def _numbered(table: pl.DataFrame) -> tuple[tuple[int, ...], Cells]:
    """Every row once, sorted, by row numbers; and the number of names in each column."""
    table = table.unique()
    names = [column.unique().sort() for column in table]
    numbers = [pl.Series(str(k), own.search_sorted(column)) for k, (own, column) in enumerate(zip(names, table))]
    cells = pl.DataFrame(numbers)
    return tuple(map(len, names)), cells.sort(cells.columns).to_numpy().astype(np.int64)
