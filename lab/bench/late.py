"""Data of which something comes late, for the tables of fold-ins and updates."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from lab.harness import sources
from lab.harness.sources import SHARED

Table = pl.DataFrame


@dataclass(frozen=True)
class Late:
    """A relation by name: its model, its links, how values are made, and the index whose entities may come late."""

    name: str
    text: str
    links: Table
    likelihood: str
    index: str
    rank: int

    @property
    def relation(self) -> str:
        return "x"

    @property
    def indices(self) -> list[str]:
        return [column for column in self.links.columns if column != "value"]


def cases() -> Iterator[Late]:
    """Real data that are at hand, and drawn ones."""
    matrix = "x[user, item] = U[user, r] V[item, r]"
    cp = "x[user, item, tag] = U[user, r] V[item, r] W[tag, r]"
    if not sources.absent("lastfm"):
        names = {"sourceNodeId": "user", "targetNodeId": "item", "tagID": "tag", "weight": "value"}
        plays = pl.read_parquet(SHARED / "lastfm" / "user_listen_artist_rels.parquet").rename(names, strict=False)
        yield Late(
            "Last.fm, who plays",
            matrix,
            plays.select("user", "item").unique().sort("user", "item"),
            "bernoulli",
            "user",
            20,
        )
        counts = plays.select("user", "item", "value").unique(["user", "item"], keep="first", maintain_order=True)
        yield Late("Last.fm, plays", matrix, counts, "negbin", "user", 20)
        tags = pl.read_parquet(SHARED / "lastfm" / "user_tag_artist_rels.parquet").rename(names, strict=False)
        yield Late(
            "Last.fm, tags", cp, tags.select("user", "item", "tag").unique(maintain_order=True), "poisson", "user", 20
        )
        yield Late(
            "Last.fm, tagged artists",
            cp,
            tags.select("user", "item", "tag").unique(maintain_order=True),
            "poisson",
            "item",
            20,
        )
    if not sources.absent("uclaf"):
        cells = np.argwhere(sources.uclaf()[0] > 0)
        yield Late("UCLAF", cp, pl.DataFrame(cells, schema=["user", "item", "tag"]), "bernoulli", "user", 5)
    if not sources.absent("umls"):
        kg = sources.triples("umls")
        cells = np.concatenate(list(kg.parts.values()))
        text = "x[user, tag, item] = U[user, p] G[p, tag, q] V[item, q]"
        yield Late(
            "UMLS",
            text,
            pl.DataFrame(cells, schema=["user", "tag", "item"]).unique(maintain_order=True),
            "bernoulli",
            "user",
            10,
        )
    for name, size, shape in (
        ("drawn, 2,000 × 1,000", (2000, 1000), 0.3),
        ("drawn, 300 × 200 × 20", (300, 200, 20), 0.3),
    ):
        yield Late(name, matrix if len(size) == 2 else cp, drawn(size, shape), "poisson", "user", 10)


def drawn(sizes: tuple[int, ...], shape: float, links: int = 60_000, rank: int = 10) -> Table:
    """Counts of a model whose factors are Gamma numbers."""
    rng = np.random.default_rng(0)
    factors = [rng.gamma(shape, 1.0, (size, rank)) for size in sizes]
    letters = "abc"[: len(sizes)]
    rate = np.einsum(",".join(f"{i}r" for i in letters) + f"->{letters}", *factors)
    counts = rng.poisson(rate * links / rate.sum())
    cells = np.nonzero(counts)
    return pl.DataFrame(dict(zip(("user", "item", "tag"), cells))).with_columns(value=pl.Series(counts[cells]))
