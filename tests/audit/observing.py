"""Random ways of observing: what Plait is told, and the same as dense X, M and V from the definitions alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

import plait

Indices = tuple[str, ...]
Dense = np.ndarray
FRACTIONS = (0.0, 0.05, 0.3, 0.6, 0.9, 0.98, 1.0)
CELL_WEIGHTS = (0.0, 0.2, 1.0, 1.7, 5.0)


@dataclass(frozen=True)
class Way:
    """How one relation is handed over.

    table: rows, or else an array. zeros: the share of zeros that a table lists. gaps: the share of NaN in an array.
    hidden: tables of missing cells: over which indices, which share of them. own: a column of weights.
    """

    table: bool = True
    observed: str | float = "all"
    zeros: float = 0.0
    gaps: float = 0.0
    hidden: tuple[tuple[Indices, float], ...] = ()
    unseen: str = "missing"
    weight: float = 1.0
    own: bool = False


PLAIN = Way(table=False)


def draw(rng: np.random.Generator, indices: Indices) -> Way:
    """A way of observing a relation over these indices; one of a single cell is an array."""
    if not indices:
        return Way(table=False, weight=float(rng.choice([1.0, 0.3, 2.5])))
    table = rng.random() < 0.6
    observed = [("all", 0.6), ("listed", 0.25), (float(rng.choice([0.0, 0.1, 0.5, 1.0])), 0.15)]
    chosen = observed[rng.choice(3, p=[share for _, share in observed])][0]
    own = table and rng.random() < 0.35
    return Way(
        table,
        chosen,
        float(rng.choice([0.0, 0.3, 1.0])) if table else 0.0,
        0.0 if table else float(rng.choice(FRACTIONS)),
        tuple(_hidden(rng, indices) for _ in range(rng.choice(3, p=[0.5, 0.35, 0.15]))),
        str(rng.choice(["missing", "zero"])),
        1.0 if own else float(rng.choice([1.0, 1.0, 0.3, 2.5, 0.0], p=[0.5, 0.2, 0.15, 0.13, 0.02])),
        own,
    )


def _hidden(rng: np.random.Generator, indices: Indices) -> tuple[Indices, float]:
    """Most often cells, else pairs or slices."""
    count = len(indices) if rng.random() < 0.5 else int(rng.integers(1, len(indices) + 1))
    chosen = sorted(rng.permutation(len(indices))[:count])
    return tuple(indices[n] for n in chosen), float(rng.choice(FRACTIONS))


@dataclass(frozen=True, eq=False)
class Observed:
    """A relation for Plait; X as the oracle sees it, M, and which cells are hidden by NaN or by a table.

    closed: those that a rule hides, a table over some of the indices.
    """

    relation: plait.Relation
    X: Dense
    M: Dense
    hidden: Dense
    closed: Dense


def observe(
    way: Way, indices: Indices, axes: Mapping[str, str], X: Dense, likelihood: str, rng: np.random.Generator
) -> Observed:
    """X seen in this way; axes: of every index, for those that share one share who is seen."""
    hidden, closed, tables = _missing(way, indices, X.shape, rng)
    options = {"missing": tables or None, "unseen": way.unseen, "likelihood": likelihood, "observed": way.observed}
    if not way.table:
        gaps = rng.random(X.shape) < way.gaps
        zero = 1.0 if isinstance(way.observed, str) else way.observed
        M = way.weight * np.where(gaps | hidden, 0.0, np.where(X > 0, 1.0, zero))
        M = _without_diagonal(M, indices, axes, (X > 0) & ~gaps & ~hidden, X > 0)
        relation = plait.Relation(np.where(gaps, np.nan, X), weight=way.weight, **options)
        return Observed(relation, X, M, gaps | hidden, closed)
    listed = (X > 0) | (rng.random(X.shape) < way.zeros)
    own = rng.choice(CELL_WEIGHTS, X.shape)
    columns = dict(zip(indices, np.nonzero(listed))) | {"value": X[listed]} | ({"w": own[listed]} if way.own else {})
    relation = plait.Relation(pl.DataFrame(columns), weight="w" if way.own else way.weight, **options)
    M = _table_weights(way, indices, axes, X, listed, hidden, own)
    counted = (X > 0) & ~hidden & (own > 0 if way.own else True)
    M = _without_diagonal(M, indices, axes, counted, listed)
    return Observed(relation, X, M, hidden, closed)


def _without_diagonal(M: Dense, indices: Indices, axes: Mapping[str, str], links: Dense, listed: Dense) -> Dense:
    """M without the self-links that are not listed, where two indices are one axis and no link is a self-link."""
    if len(indices) != 2 or axes[indices[0]] != axes[indices[1]]:
        return M
    diagonal = np.eye(len(M), dtype=bool)
    return M if (links & diagonal).any() else np.where(diagonal & ~listed, 0.0, M)


def _missing(
    way: Way, indices: Indices, shape: tuple[int, ...], rng: np.random.Generator
) -> tuple[Dense, Dense, list[pl.DataFrame]]:
    """The cells that tables hide, those that do so by a rule, and the tables."""
    hidden, closed, tables = np.zeros(shape, bool), np.zeros(shape, bool), []
    for over, fraction in way.hidden:
        places = [indices.index(index) for index in over]
        part = rng.random([shape[place] for place in places]) < fraction
        tables.append(pl.DataFrame(dict(zip(over, np.nonzero(part)))))
        part = part.reshape([size if place in places else 1 for place, size in enumerate(shape)])
        hidden |= part
        if len(over) < len(indices):
            closed |= part
    return hidden, closed, tables


def _table_weights(
    way: Way, indices: Indices, axes: Mapping[str, str], X: Dense, listed: Dense, hidden: Dense, own: Dense
) -> Dense:
    """M cell by cell: a listed cell has its own weight, another one that of a zero, if its entities are seen here."""
    number = not isinstance(way.observed, str)
    zero = way.observed if number else 1.0
    if not way.own:
        own = np.where(X > 0, 1.0, zero)
    unlisted = np.full(X.shape, 0.0 if way.observed == "listed" else zero)
    if way.unseen == "missing":
        for place, index in enumerate(indices):
            seen = np.zeros(X.shape[place], bool)
            for other, name in enumerate(indices):
                if axes[name] == axes[index]:
                    seen |= (listed & ~hidden).any(axis=tuple(n for n in range(X.ndim) if n != other))
            unlisted = unlisted * seen.reshape([-1 if n == place else 1 for n in range(X.ndim)])
    return way.weight * np.where(hidden, 0.0, np.where(listed, own, unlisted))


# --- values


def values(rng: np.random.Generator, rate: Dense, likelihood: str) -> Dense:
    """Counts drawn from the model or not, few or many, small or large, with rows that are all 0; 0 where the rate is.

    Means from 0.02 to 1e4, single counts up to 1e6.
    """
    mean = float(rng.choice([0.02, 0.3, 2.0, 50.0, 1e4], p=[0.15, 0.35, 0.3, 0.15, 0.05]))
    if rng.random() < 0.6:
        X = np.array(rng.poisson(mean * rate / max(float(rate.mean()), 1e-300)), float)
    else:
        X = np.array(np.ceil(rng.exponential(mean, rate.shape)))
        X[rng.random(rate.shape) >= rng.choice([0.02, 0.1, 0.5])] = 0.0
    if rng.random() < 0.2 and X.size:
        X.flat[rng.integers(X.size)] = 10.0 ** rng.integers(3, 7)
    for axis in range(X.ndim):
        if rng.random() < 0.25:
            np.moveaxis(X, axis, 0)[rng.random(X.shape[axis]) < 0.3] = 0.0
    if rng.random() < 0.04:
        X[...] = 0.0
    X = np.where(rate > 0, X, 0.0)
    return np.where(X > 0, 1.0, 0.0) if likelihood == "bernoulli" else X


# --- exposures


@dataclass(frozen=True)
class Given:
    """An exposure V of the first relation: over which indices, as a table with a default or an array, which values."""

    over: Indices
    table: bool
    default: float
    scale: str  # "plain", "tiny", "zeros" or "wide"


def draw_given(rng: np.random.Generator, over: Indices) -> Given:
    """An exposure over these indices."""
    scale = str(rng.choice(["plain", "tiny", "zeros", "wide"]))
    return Given(
        over, bool(rng.random() < 0.6), float(rng.choice([1.0, 0.01, 0.0, 3.0], p=[0.5, 0.3, 0.1, 0.1])), scale
    )


def expose(given: Given, sizes: Mapping[str, int], rng: np.random.Generator) -> tuple[object, Dense]:
    """V as Plait gets it, and dense."""
    shape = [sizes[index] for index in given.over]
    plain = rng.uniform(0.2, 3.0, shape)
    V = {
        "plain": plain,
        "tiny": np.where(rng.random(shape) < 0.3, 10.0 ** rng.uniform(-13, -9, shape), plain),
        "zeros": np.where(rng.random(shape) < 0.3, 0.0, plain),
        "wide": 10.0 ** rng.uniform(-6, 6, shape),
    }[given.scale]
    if not given.table:
        return V, V
    listed = rng.random(shape) < 0.5
    table = pl.DataFrame(dict(zip(given.over, np.nonzero(listed))) | {"value": V[listed]})
    return plait.Exposure(table, default=given.default), np.where(listed, V, given.default)


def cells_of(shape: tuple[int, ...]) -> Dense:
    """Every cell as row numbers, (n, order)."""
    return np.indices(shape).reshape(len(shape), math.prod(shape)).T
