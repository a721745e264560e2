"""Data of which some entities come later: a fit of the others, the rows of the late ones, and the dense whole."""

import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

import plait
from tests.support import oracle
from tests.support.models import DOUBLED, MODELS, RANKS, SIZES, SUMS

ALL = MODELS | SUMS | DOUBLED
PRIOR = {"vb": plait.Gamma(0.7, 1.3), "map": plait.Gamma(1.6, 1.3), "em": None}


@dataclass(frozen=True)
class Grown:
    """before, after: the dense problems without and with late entities; data: what is fitted; rows: what comes late."""

    model: plait.Model
    before: oracle.Problem
    after: oracle.Problem
    data: dict[str, Any]
    rows: dict[str, pl.DataFrame]
    entities: dict[str, Any]
    old: dict[str, int]

    def fit(self, method="vb", **settings):
        settings = {"rank": {index: RANKS[index] for index in self.model.ranks} or None, "tol": 0.0} | settings
        settings = {"seed": 0, "max_iter": 15, "threads": 1, "progress": False} | settings
        if method == "vb":
            settings = {"warmup": 0} | settings
        if PRIOR[method] is not None:
            settings = {"prior": PRIOR[method]} | settings
        return plait.fit(self.model, self.data, method=method, entities=self.entities, **settings)

    def new_rows(self, name):
        """Which entries of a factor belong to a late entity, as written."""
        factor = self.model.factor(name)
        flags = np.zeros([1] * len(factor.indices), bool)
        for axis, index in enumerate(factor.indices):
            if index in factor.visible:
                late = np.arange(SIZES[index]) >= self.old[index]
                flags = flags | late.reshape([-1 if n == axis else 1 for n in range(len(factor.indices))])
        return flags


def grow(name, late, way="all", likelihood="poisson", text=None, later=0.0):
    """The named model, some rows of whose axes come late: late is a number by axis; later: a share of all other cells
    that are listed.
    """
    model = plait.Model(text or ALL[name])
    plain = oracle.from_model(model)
    rng = np.random.default_rng(zlib.crc32(f"{name} {way} {likelihood}".encode()))
    drawn = oracle.instance(plain, SIZES | RANKS, rng, likelihood=likelihood, missing=0.0)
    old = {index: SIZES[index] - late.get(model.axis(index), 0) for index in model.visible}
    X, M, data, rows = dict(drawn.X), {}, {}, {}
    X0, M0 = {}, {}
    for equation in model.equations:
        relation = equation.relation
        X[relation] = _with_links(equation, X[relation], old)
        X[relation], M[relation], told = _told(equation, X[relation], way, likelihood, rng, old)
        is_new = [pl.col(index) >= old[index] for index in equation.indices]
        table, options = told
        fresh = pl.any_horizontal(is_new) if is_new else pl.lit(False)
        if later:
            chosen = rng.random(len(table)) < later
            fresh = fresh | pl.lit(pl.Series(chosen))
        X0[relation], M0[relation] = _without(equation, X[relation], M[relation], way, table.filter(fresh))
        data[relation] = plait.Relation(table.filter(~fresh), unseen="zero", likelihood=likelihood, **options)
        if later or any(late.get(model.axis(index)) for index in equation.indices):
            rows[relation] = table.filter(fresh)
    after = replace(drawn, X=X, M=M)
    before = replace(after, X=_cut(plain, X0, old), M=_cut(plain, M0, old))
    labels = {axis: range(old[axis]) for axis in model.axes}
    return Grown(model, before, after, data, rows, labels, old)


def _with_links(equation, X, old):
    """X with a link for every late entity: one that no row names is not there."""
    X = X.copy()
    for axis, index in enumerate(equation.indices):
        for row in range(old[index], X.shape[axis]):
            if not np.take(X, row, axis).any():
                X[tuple(row if n == axis else 0 for n in range(X.ndim))] = 1.0
    return X


def _without(equation, X, M, way, table):
    """X and M before some cells were listed, in all their writings."""
    X, M = X.copy(), M.copy()
    places = [tuple(table[index].to_numpy() for index in equation.indices)]
    for first, second in equation.exchanged:
        swap = {first: second, second: first}
        places.append(tuple(table[swap.get(index, index)].to_numpy() for index in equation.indices))
    for place in places if equation.indices else []:
        M[place] *= {"listed": 0.0, "zeros": 0.3}.get(way, 1.0) if way != "zeros" else np.where(X[place] > 0, 0.3, 1.0)
        X[place] = 0.0
    return X, M


def _cut(plain, arrays, old):
    indices = oracle.relations_of(plain)
    return {name: array[tuple(slice(old[i]) for i in indices[name])] for name, array in arrays.items()}


def _told(equation, X, way, likelihood, rng, old):
    """X and M as they are, and the table of all listed cells with the options of its relation."""
    indices = equation.indices
    M, options = np.ones(X.shape), {}
    listed = X > 0
    if way == "listed":
        listed = listed | (rng.random(X.shape) < 0.3)
        M, options = listed.astype(float), {"observed": "listed"}
    elif way == "zeros":
        M, options = np.where(X > 0, 1.0, 0.3), {"observed": 0.3}
    elif way == "hidden":
        over = indices[: max(1, len(indices) - 1)]
        sizes = [old[index] for index in over]
        hidden = np.zeros(X.shape[: len(over)], bool)
        hidden[tuple(slice(n) for n in sizes)] = rng.random(sizes) < 0.2
        spread = np.broadcast_to(hidden.reshape(hidden.shape + (1,) * (X.ndim - hidden.ndim)), X.shape)
        M, listed = np.where(spread, 0.0, M), listed & ~spread
        options = {"missing": _table(over, hidden)}
    for first, second in equation.exchanged:
        order = list(range(X.ndim))
        i, j = indices.index(first), indices.index(second)
        order[i], order[j] = j, i
        X = np.where(_upper(X.shape, i, j), X, X.transpose(order))
        M = np.where(_upper(X.shape, i, j), M, M.transpose(order))
        listed = np.where(_upper(X.shape, i, j), listed, listed.transpose(order)) & _upper(X.shape, i, j)
        M = M / 2
    for first, second in equation.doubled:
        own = _diagonal(X.shape, indices.index(first), indices.index(second))
        M, listed = np.where(own, 0.0, M), listed & ~own
    table = _table(indices, listed)
    values = np.asarray(X[listed], np.float64)
    if not indices:
        table = pl.DataFrame({"value": [float(X)]})
    return X, M, (table.with_columns(value=pl.Series(values.reshape(-1))), options)


def _table(indices, mask):
    return pl.DataFrame({index: at.astype(np.int64) for index, at in zip(indices, np.nonzero(mask))})


def _upper(shape, i, j):
    rows = np.indices(shape)
    return rows[i] <= rows[j]


def _diagonal(shape, i, j):
    rows = np.indices(shape)
    return rows[i] == rows[j]


def state_of(fit):
    """A fit's factors as the oracle's state."""
    if fit.method == "vb":
        return {name: (f.concentration, f.scale) for name, f in fit.factors.items()}
    return {name: f.mean for name, f in fit.factors.items()}


def under(problem, fit):
    """The problem under the priors of a fit."""
    return replace(problem, prior={name: (p.concentration, p.mean) for name, p in fit.prior.items()})
