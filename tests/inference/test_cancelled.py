"""Exposures that are what is left of a difference: where next to nothing is left, it still has its digits."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.codegen.layout import Layout
from plait.data.sparse.csf import CSFCache
from plait.executors import Threads
from plait.inference.exposure import ExposureSums
from plait.inference.gamma import point
from plait.inference.occurrences import Use
from tests.support import oracle
from tests.support.problems import as_counts
from tests.support.weights import dense_of, random_weights

COUPLED = "X[i,j] = A[i,r] B[j,r]\nY[i,j] = A[i,r] B[j,r] w[r]"


def binary(seed, hidden, shape=(30, 15)):
    rng = np.random.default_rng(seed)
    tables = [(rng.random(shape) < 0.1) * 1.0 for _ in hidden]
    for X, fraction in zip(tables, hidden):
        X[rng.random(shape) < fraction] = np.nan
    return tables


def log_likelihood(text, data, fit):
    """Of a fit's very factors, dense and from scratch."""
    M = {name: (~np.isnan(X)).astype(float) for name, X in data.items()}
    problem = oracle.Problem(oracle.from_text(text), {n: np.nan_to_num(X) for n, X in data.items()}, M=M)
    Z = {name: fit.factors[name].mean for name in fit.factors}
    terms = oracle.cell_terms(problem, oracle.logs_of(problem, Z))
    return sum(float(part.sum()) for part in terms.values()) - oracle.total_rate(problem, Z)


@pytest.mark.quick(seed=[9])
@pytest.mark.parametrize(("rank", "seed"), [(5, 9), *((20, seed) for seed in range(6))])
def test_coupled_em_with_missing_cells_reports_the_likelihood_of_its_state_and_never_falls(rank, seed):
    X, Y = binary(9, (0.7, 0.3))
    data = {"X": X, "Y": Y}
    fit = plait.fit(COUPLED, as_counts(data), rank=rank, seed=seed, method="em", max_iter=200, tol=0.0)
    bounds = np.array([record.objective for record in fit.history])
    assert fit.objective == pytest.approx(log_likelihood(COUPLED, data, fit), rel=1e-9)
    assert np.diff(bounds).min() >= -1e-9 * np.abs(bounds).max()


@pytest.mark.parametrize("hidden", [0.05, 0.3, 0.45])
def test_em_does_not_care_whether_hidden_cells_or_observed_ones_are_listed(hidden):
    (X,) = binary(3, (hidden,))
    common = {"rank": 6, "seed": 1, "method": "em", "max_iter": 150, "tol": 0.0}
    gaps = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, **common)
    rows, columns = np.nonzero(~np.isnan(X))
    table = pl.DataFrame({"i": rows, "j": columns, "value": X[rows, columns]})
    names = {"i": range(30), "j": range(15)}
    listed = plait.fit(
        "X[i,j] = A[i,r] B[j,r]", {"X": plait.Relation(table, observed="listed")}, entities=names, **common
    )
    assert listed.objective == pytest.approx(gaps.objective, rel=1e-9)


MEMBERS = {  # factors over some of the indices of random weights, by their number; r and s are latent
    1: [[("i", "r"), ("", "r")], [("i", "r"), ("i", ""), ("i", "rs")]],
    2: [[("i", "r"), ("j", "r")], [("i", "r"), ("i", ""), ("j", "r"), ("j", "s")], [("i", "r"), ("ij", "")]],
    3: [[("i", "r"), ("jk", "rs"), ("", "s")], [("ij", "r"), ("jk", "r")], [("ij", "r"), ("jk", "s"), ("ik", "")]],
    4: [[("ij", "r"), ("l", "r")], [("ik", "r"), ("jk", "rs"), ("l", "s"), ("k", "")]],  # nothing has k, or three have
}
RANKS = {"r": 3, "s": 2}


def members_of(order, sizes, seed):
    members = []
    for n, (visible, latent) in enumerate(MEMBERS[order][seed % len(MEMBERS[order])]):
        indices = (*visible, *latent)
        shape = tuple(sizes[i] for i in visible) + tuple(RANKS[i] for i in latent)
        layout = Layout(f"F{n}", indices, tuple(visible), tuple(latent), shape)
        members.append(Use.of(layout, indices, layout.name))
    return members


@pytest.mark.quick(seed=[0, 1])
@pytest.mark.parametrize("seed", range(100))
def test_exposure_equals_the_dense_sum_to_the_last_digits_whatever_is_hidden(seed):
    """Entries of factors differ by up to 100 powers of ten, as EM makes them; each exposure has its own digits."""
    rng = np.random.default_rng(1000 + seed)
    weights = random_weights(rng)
    members = members_of(len(weights.shape), weights.sizes, seed)
    Z = {
        m.name: 10.0 ** rng.choice([0.0, -3.0, -40.0, -100.0], m.layout.sizes) * rng.random(m.layout.sizes)
        for m in members
    }
    factors = {m.name: point(m.layout, m.layout.pack(Z[m.name])) for m in members}
    ranks = {index: RANKS[index] for m in members for index in m.latent}
    exposure = ExposureSums(members, weights, weights.sizes | ranks, Threads(1), CSFCache())
    dense = dense_of(weights)
    for member in members:
        others = [m for m in members if m is not member]
        wanted = np.einsum(
            dense, ["ijklrs".index(i) for i in weights.indices],
            *(part for m in others for part in (Z[m.name], ["ijklrs".index(i) for i in m.indices])),
            ["ijklrs".index(i) for i in member.indices if any(i in o.indices for o in others) or i in weights.indices],
        )  # fmt: skip
        kept = [i in weights.indices or any(i in o.indices for o in others) for i in member.indices]
        wanted = wanted.reshape([n if k else 1 for n, k in zip(member.layout.sizes, kept)])
        stored = np.broadcast_to(exposure(member.name, factors), (member.layout.rows, member.layout.columns))
        found = member.layout.unpack(np.ascontiguousarray(stored))
        np.testing.assert_allclose(found, np.broadcast_to(wanted, found.shape), rtol=1e-7, atol=0.0)


def cancelling_weights(seed=5):
    """A relation with hidden cells and weights above 1 in which one user's cells are hidden or weigh nothing."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(1.0, (12, 9)).astype(float)
    hidden = rng.random(X.shape) < 0.2
    hidden[3, :4] = True
    weights = rng.choice([0.5, 1.0, 2.5], X.shape)
    weights[3] = 0.0
    listed = (X > 0) | (np.arange(12)[:, None] == 3)
    at = np.nonzero(listed & ~hidden)
    table = pl.DataFrame({"user": at[0], "place": at[1], "value": X[at], "w": weights[at]})
    missing = pl.DataFrame(dict(zip(("user", "place"), np.nonzero(hidden))))
    relation = plait.Relation(table, missing=missing, weight="w", unseen="zero")
    M = np.where(hidden, 0.0, np.where(listed, weights, 1.0))
    return relation, M


@pytest.mark.parametrize("adapt_prior", ["factor", "entity", "rank-one"])
def test_a_row_whose_weights_cancel_is_a_row_without_data(adapt_prior):
    relation, M = cancelling_weights()
    assert not M[3].any()
    text, names = "X[user,place] = U[user,r] P[place,r]", {"user": range(12), "place": range(9)}
    fit = plait.fit(
        text, {"X": relation}, rank=3, seed=0, adapt_prior=adapt_prior, entities=names, max_iter=60, tol=0.0
    )
    prior, posterior = fit.prior["U"], fit.factors["U"]
    np.testing.assert_allclose(posterior.mean[3], np.broadcast_to(prior.mean, (12, 3))[3], rtol=1e-12)
    others = np.delete(np.arange(12), 3)
    if adapt_prior == "entity":
        np.testing.assert_allclose(prior.mean[3], prior.mean[others].mean(), rtol=1e-12)
    em = plait.fit(text, {"X": relation}, rank=3, seed=0, method="em", entities=names, max_iter=60, tol=0.0)
    start = plait.fit(text, {"X": relation}, rank=3, seed=0, method="em", entities=names, max_iter=0)
    assert em.factors["U"].mean[3].tolist() == start.factors["U"].mean[3].tolist()


@pytest.mark.parametrize("value", [1e-3, 1e-10, 1e-13, 1e-20])
@pytest.mark.parametrize("way", ["exposure", "weight"])
def test_small_numbers_beside_a_default_keep_their_digits(value, way):
    """One factor a row: the posterior is known in closed form."""
    rng = np.random.default_rng(0)
    small = rng.random((6, 8)) < 0.4
    small[2] = True  # a row in which the default never applies
    V = np.where(small, value * (1.0 + np.arange(8)), 1.0)
    X = np.where(small, 3.0, 1.0)
    cells = dict(zip("ij", np.nonzero(small)))
    if way == "exposure":
        exposure = plait.Exposure(pl.DataFrame({**cells, "value": V[small]}), default=1.0)
        text, data, fixed = "X[i,j] = a[i] V[i,j]", {"X": X}, {"V": exposure}
        counts = X.sum(axis=1)
    else:
        at = np.nonzero(X)
        table = pl.DataFrame({**dict(zip("ij", at)), "value": X[at], "w": V[at]})
        text, data, fixed = "X[i,j] = a[i] e[j]", {"X": plait.Relation(table, weight="w")}, {"e": np.ones(8)}
        counts = (V * X).sum(axis=1)
    prior = plait.Gamma(0.5, 1e12)
    fit = plait.fit(text, data, fixed=fixed, prior=prior, adapt_prior=None, seed=0, max_iter=2)
    np.testing.assert_allclose(fit.factors["a"].concentration, 0.5 + counts, rtol=1e-12)
    np.testing.assert_allclose(1.0 / fit.factors["a"].scale, 0.5 / 1e12 + V.sum(axis=1), rtol=1e-12)
