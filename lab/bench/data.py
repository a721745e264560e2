"""The models that are measured, with random data of the right size and sparsity."""

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import polars as pl

TUCKER = "X[i, j, k] = A[i, p] B[j, q] C[k, r] G[p, q, r]"
DIGG = """
comments[user, story, comment] = U[user, r] S[story, r] C[comment, r]
topics[story, keyword, topic] = S[story, r] K[keyword, r] T[topic, r]
diggs[user, story] = U[user, r] S[story, r]
"""
DIGG_SIZES = {"user": 9583, "story": 44005, "comment": 241800, "keyword": 13714, "topic": 51}
DIGG_LINKS = {"comments": 151_779, "topics": 1_157_529, "diggs": 94_551}


@dataclass(frozen=True)
class Cells:
    """The nonzeros of a relation. index: (n, order) int32, every cell once; x: (n,) float64."""

    axes: tuple[str, ...]
    index: np.ndarray
    x: np.ndarray

    def table(self) -> pl.DataFrame:
        """The same as a table: one column per axis, and `value`."""
        columns = {axis: np.ascontiguousarray(self.index[:, m]) for m, axis in enumerate(self.axes)}
        return pl.DataFrame(columns | {"value": self.x})


@dataclass(frozen=True)
class Case:
    """A model with its data, as any implementation can take it."""

    name: str
    model: str  # the text that plait.Model takes; factors are written visible indices first
    sizes: dict[str, int]  # of every index, visible and latent
    relations: dict[str, Cells]
    observed: str = "all"  # or "listed": only the nonzeros; or "missing": all but the cells of `hidden`
    likelihood: str = "poisson"  # or "bernoulli": then every x is 1
    hidden: dict[str, np.ndarray] = field(default_factory=dict)  # by relation: (cells, order) int32

    @property
    def nonzeros(self) -> int:
        return sum(len(cells.x) for cells in self.relations.values())

    @property
    def rank(self) -> dict[str, int]:
        """The sizes of the latent indices, as plait.fit takes them."""
        visible = {axis for cells in self.relations.values() for axis in cells.axes}
        return {index: size for index, size in self.sizes.items() if index not in visible}

    def but(self, **changes) -> "Case":
        """The same data under another name, `observed`, …"""
        return replace(self, **changes)


def cp(
    nonzeros: int, sides: tuple[int, ...], rank: int, observed: str = "all", likelihood: str = "poisson", seed: int = 0
) -> Case:
    """A CP model of any order whose nonzeros are equally likely cells; "missing" hides a quarter as many others."""
    axes, factors = "ijklmn"[: len(sides)], "ABCDEF"[: len(sides)]
    text = f"X[{', '.join(axes)}] = {' '.join(f'{f}[{i}, r]' for f, i in zip(factors, axes))}"
    cells, hidden = _uniform(nonzeros, sides, seed), {}
    if observed == "missing":
        hidden["X"] = _apart_from(cells.index, max(1, nonzeros // 4), sides, seed + 1)
    if likelihood == "bernoulli":
        cells = replace(cells, x=np.ones(len(cells.x)))
    sizes = dict(zip(axes, sides)) | {"r": rank}
    return Case(f"CP-{len(sides)} R={rank}", text, sizes, {"X": cells}, observed, likelihood, hidden)


def cp3(nonzeros: int, side: int, rank: int, observed: str = "all", likelihood: str = "poisson", seed: int = 0) -> Case:
    """A cube with `nonzeros` cells, all equally likely."""
    return cp(nonzeros, (side,) * 3, rank, observed, likelihood, seed)


def tucker(nonzeros: int, side: int, rank: int = 5, observed: str = "all", seed: int = 0) -> Case:
    """The same cube under a Tucker model with a core of rank × rank × rank."""
    sizes = {"i": side, "j": side, "k": side, "p": rank, "q": rank, "r": rank}
    name = f"Tucker {rank}×{rank}×{rank}"
    return Case(name, TUCKER, sizes, {"X": _uniform(nonzeros, (side,) * 3, seed)}, observed)


def digg(rank: int = 20, observed: str = "all", scale: float = 1.0, seed: int = 0, likelihood: str = "poisson") -> Case:
    """Three coupled relations of binary links with the sizes of the Digg data, or `scale` times them."""
    rng = np.random.default_rng(seed)
    sizes = {axis: max(4, round(scale * size)) for axis, size in DIGG_SIZES.items()}
    popularity = {axis: _heavy_tailed(size, rng) for axis, size in sizes.items()}
    axes = {
        "comments": ("user", "story", "comment"),
        "topics": ("story", "keyword", "topic"),
        "diggs": ("user", "story"),
    }
    relations = {}
    for name, links in DIGG_LINKS.items():
        weights = [popularity[axis] for axis in axes[name]]
        index = _distinct(max(4, round(scale * links)), weights, rng)
        relations[name] = Cells(axes[name], index, np.ones(len(index)))
    return Case(f"coupled (Digg) R={rank}", DIGG, sizes | {"r": rank}, relations, observed, likelihood)


@lru_cache(maxsize=1)  # rows of other ranks follow, on the same cells
def _uniform(nonzeros: int, sides: tuple[int, ...], seed: int) -> Cells:
    rng = np.random.default_rng(seed)
    index = _distinct(nonzeros, [np.ones(side) for side in sides], rng)
    return Cells(tuple("ijklmn"[: len(sides)]), index, rng.poisson(2.0, nonzeros) + 1.0)


def _apart_from(index: np.ndarray, count: int, sides: tuple[int, ...], seed: int) -> np.ndarray:
    """`count` cells, or a few less, that are none of these."""
    drawn = _distinct(count, [np.ones(side) for side in sides], np.random.default_rng(seed))
    taken = np.ravel_multi_index(tuple(index.T), sides)
    return drawn[~np.isin(np.ravel_multi_index(tuple(drawn.T), sides), taken)]


def _heavy_tailed(size: int, rng: np.random.Generator, exponent: float = 0.7) -> np.ndarray:
    """Zipf-like weights in random order: few entities have most links."""
    return rng.permutation(np.arange(1.0, size + 1) ** -exponent)


def _distinct(count: int, weights: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """`count` different cells in random order, each axis drawn by its weights. -> (count, order) int32."""
    shape = tuple(len(w) for w in weights)
    if count > np.prod(shape, dtype=float) / 2:
        raise ValueError(f"{count} different cells of {shape} would take too long to draw")
    cumulated = [np.cumsum(w) / w.sum() for w in weights]
    cells = np.empty(0, np.int64)
    while len(cells) < count:
        more = (count - len(cells)) * 11 // 10 + 10
        # rounding may leave the last step below 1: a draw above it belongs to the last row
        drawn = [np.minimum(np.searchsorted(c, rng.random(more), side="right"), len(c) - 1) for c in cumulated]
        cells = np.union1d(cells, np.ravel_multi_index(drawn, shape))
    cells = rng.permutation(cells)[:count]
    return np.stack(np.unravel_index(cells, shape), axis=1).astype(np.int32)
