"""Data of which something comes late, for the parts of fold-ins and updates."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import polars as pl

import plait
from lab.harness import sources
from lab.harness.results import Figures
from lab.harness.running import Done, Row
from lab.harness.sources import SHARED

Table = pl.DataFrame


@dataclass(frozen=True)
class Late:
    """A relation by name: its model, its links, how values are made, and the index whose entities may come late."""

    name: str
    text: str
    read: Callable[[], Table]
    likelihood: str
    index: str
    rank: int

    @cached_property
    def links(self) -> Table:
        return self.read()

    @property
    def indices(self) -> list[str]:
        return [column for column in self.links.columns if column != "value"]


MATRIX = "x[user, item] = U[user, r] V[item, r]"
CP = "x[user, item, tag] = U[user, r] V[item, r] W[tag, r]"
TUCKER = "x[user, tag, item] = U[user, p] G[p, tag, q] V[item, q]"
LASTFM = {"sourceNodeId": "user", "targetNodeId": "item", "tagID": "tag", "weight": "value"}


def cases() -> Iterator[Late]:
    """Real data that are at hand, and drawn ones; read when asked for."""
    if not sources.absent("lastfm"):
        yield Late("Last.fm, who plays", MATRIX, _who_plays, "bernoulli", "user", 20)
        yield Late("Last.fm, plays", MATRIX, _plays, "negbin", "user", 20)
        yield Late("Last.fm, tags", CP, _tags, "poisson", "user", 20)
        yield Late("Last.fm, tagged artists", CP, _tags, "poisson", "item", 20)
    if not sources.absent("uclaf"):
        yield Late("UCLAF", CP, _uclaf, "bernoulli", "user", 5)
    if not sources.absent("umls"):
        yield Late("UMLS", TUCKER, _umls, "bernoulli", "user", 10)
    yield Late("drawn, 2,000 × 1,000", MATRIX, partial(drawn, (2000, 1000), 0.3), "poisson", "user", 10)
    yield Late("drawn, 300 × 200 × 20", CP, partial(drawn, (300, 200, 20), 0.3), "poisson", "user", 10)


def rows_of(part: str, chosen: Sequence[Late], measure: Callable[[Late], Figures]) -> Iterator[Row]:
    """A row for each of some data."""
    for case in chosen:
        yield Row({"part": part, "data": case.name}, partial(_quietly, measure, case))


def _quietly(measure: Callable[[Late], Figures], case: Late, done: Done) -> Figures:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        return measure(case)


def _lastfm(name: str) -> Table:
    return pl.read_parquet(SHARED / "lastfm" / f"{name}.parquet").rename(LASTFM, strict=False)


def _who_plays() -> Table:
    return _lastfm("user_listen_artist_rels").select("user", "item").unique().sort("user", "item")


def _plays() -> Table:
    plays = _lastfm("user_listen_artist_rels").select("user", "item", "value")
    return plays.unique(["user", "item"], keep="first", maintain_order=True)


def _tags() -> Table:
    return _lastfm("user_tag_artist_rels").select("user", "item", "tag").unique(maintain_order=True)


def _uclaf() -> Table:
    return pl.DataFrame(np.argwhere(sources.uclaf()[0] > 0), schema=["user", "item", "tag"])


def _umls() -> Table:
    cells = np.concatenate(list(sources.triples("umls").parts.values()))
    return pl.DataFrame(cells, schema=["user", "tag", "item"]).unique(maintain_order=True)


def drawn(sizes: tuple[int, ...], shape: float, links: int = 60_000, rank: int = 10) -> Table:
    """Counts of a model whose factors are Gamma numbers."""
    rng = np.random.default_rng(0)
    factors = [rng.gamma(shape, 1.0, (size, rank)) for size in sizes]
    letters = "abc"[: len(sizes)]
    rate = np.einsum(",".join(f"{i}r" for i in letters) + f"->{letters}", *factors)
    counts = rng.poisson(rate * links / rate.sum())
    cells = np.nonzero(counts)
    return pl.DataFrame(dict(zip(("user", "item", "tag"), cells))).with_columns(value=pl.Series(counts[cells]))
