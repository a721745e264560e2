"""The ways of observing a relation, each as data for Plait and, independently, as a dense weight M for the oracle."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl

import plait
from tests.support.oracle import spread

Dense = np.ndarray
Observed = tuple[plait.Relation, Dense]


def _table(indices: tuple[str, ...], mask: Dense, **columns: Dense) -> pl.DataFrame:
    at = np.nonzero(mask) if mask.ndim else ()
    return pl.DataFrame({**dict(zip(indices, at)), **{name: np.atleast_1d(c[mask]) for name, c in columns.items()}})


def everything(indices: tuple[str, ...], X: Dense, likelihood: str, rng: np.random.Generator) -> Observed:
    table = _table(indices, X > 0, value=X)
    return plait.Relation(table, unseen="zero", likelihood=likelihood), np.ones(X.shape)


def listed(indices: tuple[str, ...], X: Dense, likelihood: str, rng: np.random.Generator) -> Observed:
    mask = rng.random(X.shape) < 0.6
    relation = plait.Relation(_table(indices, mask, value=X), observed="listed", likelihood=likelihood)
    return relation, mask.astype(float)


def missing_cells(indices: tuple[str, ...], X: Dense, likelihood: str, rng: np.random.Generator) -> Observed:
    hidden = rng.random(X.shape) < 0.2
    relation = plait.Relation(
        _table(indices, X > 0, value=X), missing=_table(indices, hidden), unseen="zero", likelihood=likelihood
    )
    return relation, (~hidden).astype(float)


def pairs(indices: tuple[str, ...], X: Dense, likelihood: str, rng: np.random.Generator) -> Observed:
    """Two overlapping kinds of pairs where there are three indices, else one kind."""
    M, tables = np.ones(X.shape), []
    for two in ((0, X.ndim - 1), (0, 1)) if X.ndim > 2 else ((0, X.ndim - 1),):
        axes = sorted(set(two))
        hidden = rng.random([X.shape[n] for n in axes]) < 0.2
        tables.append(_table(tuple(indices[n] for n in axes), hidden))
        M = M * (1.0 - hidden.reshape([X.shape[n] if n in axes else 1 for n in range(X.ndim)]))
    relation = plait.Relation(_table(indices, X > 0, value=X), missing=tables, unseen="zero", likelihood=likelihood)
    return relation, M


def slices(indices: tuple[str, ...], X: Dense, likelihood: str, rng: np.random.Generator) -> Observed:
    hidden = np.arange(X.shape[-1]) % 3 == 1
    relation = plait.Relation(
        _table(indices, X > 0, value=X), missing=_table(indices[-1:], hidden), unseen="zero", likelihood=likelihood
    )
    return relation, np.broadcast_to(1.0 - hidden, X.shape)


def weighted_zeros(indices: tuple[str, ...], X: Dense, likelihood: str, rng: np.random.Generator) -> Observed:
    table = _table(indices, X > 0, value=X)
    return plait.Relation(table, observed=0.3, unseen="zero", likelihood=likelihood), np.where(X > 0, 1.0, 0.3)


def weighted_cells(indices: tuple[str, ...], X: Dense, likelihood: str, rng: np.random.Generator) -> Observed:
    weights = rng.uniform(0.2, 1.5, X.shape)
    table = _table(indices, X > 0, value=X, w=weights)
    relation = plait.Relation(table, weight="w", unseen="zero", likelihood=likelihood)
    return relation, np.where(X > 0, weights, 1.0)


WAYS: dict[str, Callable[..., Observed]] = {
    "all": everything,
    "listed": listed,
    "missing_cells": missing_cells,
    "pairs": pairs,
    "slices": slices,
    "weighted_zeros": weighted_zeros,
    "weighted_cells": weighted_cells,
}


def observe(way: str, indices: tuple[str, ...], X: Dense, likelihood: str, rng: np.random.Generator) -> Observed:
    """A relation without an index has one cell: there is nothing to hide, and it is handed over as an array."""
    if X.ndim == 0:
        return plait.Relation(X, likelihood=likelihood), np.ones(())
    return WAYS[way](indices, X, likelihood, rng)


def off_diagonal(
    way: str, indices: tuple[str, ...], X: Dense, likelihood: str, rng: np.random.Generator, pair: tuple[str, str]
) -> Observed:
    """A relation two of whose indices are one axis, without the cells at which they are equal."""
    same = np.broadcast_to(spread(np.eye(X.shape[indices.index(pair[0])]), pair, indices) > 0, X.shape)
    relation, M = observe(way, indices, np.where(same, 0.0, X), likelihood, rng)
    diagonal = _table(pair, np.eye(X.shape[indices.index(pair[0])], dtype=bool))
    known = relation.missing if isinstance(relation.missing, list) else [relation.missing]
    missing = [diagonal, *(table for table in known if table is not None)]
    return replace(relation, missing=missing), np.where(same, 0.0, M)


def undirected(
    way: str, indices: tuple[str, ...], X: Dense, likelihood: str, rng: np.random.Generator, pair: tuple[str, str]
) -> Observed:
    """Pairs without a direction, each listed once; the oracle has its cell where the first row is the smaller one.

    Seen in two ways: everything, or with some pairs hidden.
    """
    size = X.shape[indices.index(pair[0])]
    hidden = np.triu(rng.random((size, size)) < (0.0 if way == "all" else 0.25), 1)
    hidden = hidden | hidden.T | np.eye(size, dtype=bool)
    once = np.triu(np.ones((size, size), dtype=bool), 1)
    listed, M = (np.broadcast_to(spread(mask, pair, indices), X.shape) for mask in (once, once & ~hidden))
    links = _table(indices, (X > 0) & (listed > 0), value=X)
    return plait.Relation(links, missing=_table(pair, hidden), unseen="zero", likelihood=likelihood), M
