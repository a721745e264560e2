"""Last.fm: who tagged which artist with what, who played whom, and who is whose friend (HetRec 2011, GroupLens).

The paper's Digg data cannot be had; this is a tensor of the same kind, large and very sparse, with two side relations.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

import plait
from lab.paper.experiment import Lab
from plait.errors import DataError, ParameterError

FOLDER = "lastfm"
STAND_IN = "a stand-in drawn from the model in the shape of Last.fm, not Last.fm"

QUICK_USERS = 150

# The shape of the stand-in: users, artists, tags; then how often a tag, a play, a friend is drawn.
FULL = ((1892, 12_523, 9749), (260_000, 130_000, 16_000))
SMALL = ((150, 500, 300), (8000, 3000, 400))
GROUPS = 15


@dataclass(frozen=True, eq=False)
class LastFM:
    """tags: user, artist, tag; plays: user, artist; friends: user, friend, both directions. source: a few words."""

    tags: pl.DataFrame
    plays: pl.DataFrame
    friends: pl.DataFrame
    source: str


def load(lab: Lab) -> LastFM:
    """The data, or a stand-in where there are none; few users in quick mode."""
    if lab.data is not None and not lab.data.exists():
        raise ParameterError(f"there is no {lab.data}.\nName the folder that has {FOLDER}/, or leave --data out.")
    folder = None if lab.data is None else lab.data / FOLDER
    return _load(folder if folder is not None and folder.is_dir() else None, lab.quick)


@lru_cache(maxsize=1)
def _load(folder: Path | None, quick: bool) -> LastFM:
    if folder is None:
        return drawn(*(SMALL if quick else FULL))
    data = read(folder)
    return of_users(data, data.tags["user"].unique().sort().head(QUICK_USERS)) if quick else data


def read(folder: Path) -> LastFM:
    """The three tables of the data set, as Parquet."""
    return LastFM(
        _table(folder / "user_tag_artist_rels.parquet", user="sourceNodeId", artist="targetNodeId", tag="tagID"),
        _table(folder / "user_listen_artist_rels.parquet", user="sourceNodeId", artist="targetNodeId"),
        _both_ways(_table(folder / "user_friend_df_directed.parquet", user="sourceNodeId", friend="targetNodeId")),
        "Last.fm (HetRec 2011)",
    )


def _table(path: Path, **columns: str) -> pl.DataFrame:
    """Some columns of a file under other names, every row once."""
    table: pl.DataFrame = plait.read(path)
    for column in columns.values():
        if column not in table.columns:
            there = ", ".join(table.columns)
            raise DataError(f"{path}: there is no column {column!r}, only {there}.\nFetch the file again.")
    return table.select(**columns).unique(maintain_order=True)


def of_users(data: LastFM, users: pl.Series) -> LastFM:
    """The part of the data that is about some users."""
    among = [table.filter(pl.col("user").is_in(users.implode())) for table in (data.tags, data.plays, data.friends)]
    return LastFM(among[0], among[1], among[2].filter(pl.col("friend").is_in(users.implode())), data.source)


def drawn(shape: tuple[int, int, int], draws: tuple[int, int, int]) -> LastFM:
    """Links drawn from the coupled model: a group of users, artists and tags is drawn, then one of each out of it."""
    rng = np.random.default_rng(0)
    users, artists, tags = (_groups(rng, size) for size in shape)
    friends = _pairs(rng, {"user": users, "friend": users}, draws[2]).filter(pl.col("user") != pl.col("friend"))
    return LastFM(
        _pairs(rng, {"user": users, "artist": artists, "tag": tags}, draws[0]),
        _pairs(rng, {"user": users, "artist": artists}, draws[1]),
        _both_ways(friends),
        STAND_IN,
    )


def _groups(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """How probable each entity is in each group, (groups, size): few groups each, and very unequal popularity."""
    weight = rng.gamma(0.2, 1.0, (GROUPS, size)) * rng.lognormal(0.0, 1.3, size)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _pairs(rng: np.random.Generator, columns: dict[str, NDArray[np.float64]], draws: int) -> pl.DataFrame:
    """Links, each once: a Poisson tensor is the sum of its components, and these have independent indices."""
    sizes = rng.multinomial(draws, rng.dirichlet(np.full(GROUPS, 3.0)))
    found = {
        name: np.concatenate([rng.choice(p.shape[1], size, p=p[r]) for r, size in enumerate(sizes)])
        for name, p in columns.items()
    }
    return pl.DataFrame(found).unique(maintain_order=True)


def _both_ways(friends: pl.DataFrame) -> pl.DataFrame:
    """A friend is one in both directions."""
    return pl.concat([friends, friends.select(user="friend", friend="user")]).unique(maintain_order=True)
