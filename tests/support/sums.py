"""Equations that are sums of products, with given factors of their own terms, and fits of them."""

import zlib

import numpy as np
import polars as pl

import plait
from plait.data.binding.given import bind_exposures
from plait.executors import Reference
from tests.support.models import RANKS, SIZES

SUMS: dict[str, str] = {
    "pairwise": "X[i,j,k] = A[i,r] B[j,r] + C[i,s] D[k,s] + F[j,p] H[k,p]",
    "broadcast": "X[i,j,k] = A[i,r] C[k,r] + a[i] + b[j] c[k]",
    "shared": "X[i,j,k] = A[i,r] B[j,r] + A[i,r] C[k,r] + w[]",
    "same_latent": "X[i,j] = A[i,r] B[j,r] + C[i,r] D[j,r]",
    "background": "X[i,j,k] = A[i,r] B[j,r] C[k,r] + a[i] b[j] c[k]",
    "tucker": "X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r] + a[i] b[k] d[j]",
    "two_visible": "X[i,j,k] = H[i,k,r] B[j,r] + A[i,s] D[j,s]",
    "no_index": "X[] = c[] + v[r] w[r]",
    "evidence": "X[i,j] = A[i,r] B[j,r] + w[] N[i,j]",
    "given": "X[i,j] = A[i,r] B[j,r] + N[i,j]",
    "exposed": "X[i,j,k] = V[i,j] A[i,r] B[j,r] C[k,r] + w[] N[j,k] + b[i] c[j]",
    "all_exposed": "X[i,j,k] = V[i,j] A[i,r] B[j,r] W[k] + w[] N[j,k]",
    "distributed": "X[i,j,k] = V[i,j] (A[i,r] C[k,r] + c[] b[j])",
    "coupled": "X[i,j] = A[i,r] B[j,r] + a[i] b[j]; Y[i,k] = A[i,r] C[k,r] + a[i] c[k]",
    "friends": "X[user,friend] = U[user,r] U[friend,r] + a[user]; friend: user",
    "undirected": "X[user,friend] = U[user,r] U[friend,r] + a[user] a[friend]; friend: user",
    "rescal": "X[user,k,friend] = A[user,p] G[k,p,q] A[friend,q] + b[k] U[user,r] U[friend,r]; friend: user",
}
GIVEN = ("V", "W", "N")  # in these equations always given


def given_factors(model, rng, default=0.0):
    """Given factors that list some cells and have a default elsewhere; a vector where they have one index."""
    found = {}
    for name in GIVEN:
        if name in model.factors:
            indices = model.factor(name).indices
            shape = [SIZES[index] for index in indices]
            listed = np.argwhere(rng.random(shape) < 0.4)
            values = rng.choice([0.5, 1.0, 3.0], len(listed))
            table = pl.DataFrame({**{i: listed[:, n] for n, i in enumerate(indices)}, "value": values})
            found[name] = plait.Exposure(table, default=default) if len(indices) > 1 else rng.gamma(2.0, 1.0, shape)
    return found


def draw(name, likelihood="poisson", default=0.0):
    """A model, data for it and its given factors; there is no link where every term has exposure 0."""
    model = plait.Model(SUMS[name])
    rng = np.random.default_rng(zlib.crc32(f"{name} {likelihood}".encode()))
    fixed = given_factors(model, rng, default)
    counts = {e.relation: rng.poisson(0.7, [SIZES[index] for index in e.indices]) for e in model.equations}
    for equation in model.equations:
        if equation.exchanged:
            X = np.triu(counts[equation.relation], 1)
            counts[equation.relation] = X + X.T
    exposures = bind_exposures(model.bind(counts), fixed)
    data = {}
    for equation in model.equations:
        X = counts[equation.relation]
        cells = np.argwhere(np.ones(X.shape))
        V = [exposures.at(equation.relation, number, cells) for number in range(len(equation.terms))]
        X = np.where(sum(1.0 if one is None else one.reshape(X.shape) for one in V) > 0, X, 0.0)
        for i, j in equation.doubled:
            rows = np.indices(X.shape)
            X = np.where(rows[equation.indices.index(i)] == rows[equation.indices.index(j)], 0.0, X)
        X = np.minimum(X, 1.0) if likelihood == "bernoulli" else X
        data[equation.relation] = plait.Relation(X, likelihood=likelihood)
    return model, data, fixed


def sum_fit(name, method="vb", likelihood="poisson", default=0.0, **settings):
    """A short fit of an equation of `SUMS`."""
    model, data, fixed = draw(name, likelihood, default)
    rank = {index: RANKS[index] for index in model.ranks} or None
    settings = {"max_iter": 3, "seed": 0, "executor": Reference(), "tol": 0.0} | settings
    return plait.fit(model, data, rank=rank, fixed=fixed, method=method, **settings)
