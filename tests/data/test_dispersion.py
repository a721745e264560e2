"""Counts that no Poisson rate explains: the test, and the warning of `fit`, `bind`, `pack` and the command line."""

import math

import numpy as np
import polars as pl
import pytest

import plait
from plait.data import dispersion
from plait.data.observation.links import LinkArrays
from plait.data.observation.weights import along
from tests.support.caught_warnings import bound_to, caught, fitted, one

MATRIX = "X[i, j] = A[i, r] B[j, r]"
OVER = plait.errors.OverdispersionWarning
RNG = np.random.default_rng(0)
BURSTS = np.where(RNG.random((120, 100)) < 0.05, np.floor(RNG.lognormal(4.0, 2.5, (120, 100))), 0.0)
CUBE = np.stack([BURSTS**2, BURSTS[::-1]], axis=2)
FAVOURITES = np.where(RNG.integers(0, 5, (300, 1)) == np.arange(5), RNG.lognormal(5.0, 1.0, (300, 1)), 0.5)
GROUPS = np.arange(120)[:, None] % 20 == np.arange(100) % 20


def draw(concentration, *sizes, rate=5.0, rank=8):
    """Poisson counts of a CP model whose factors have few large entries."""
    rng = np.random.default_rng(1)
    factors = [rng.gamma(concentration, 1.0, (size, rank)) for size in sizes]
    letters = "ijk"[: len(sizes)]
    return rng.poisson(rate * np.einsum(",".join(f"{one}r" for one in letters) + f"->{letters}", *factors))


def poisson(data, **options):
    return plait.Relation(data, likelihood="poisson", **options)


def as_table(X):
    cells = np.argwhere(X > 0)
    return pl.DataFrame({"i": cells[:, 0], "j": cells[:, 1], "value": X[X > 0]})


def oracle(X, groups=64):
    """The excess of a matrix with NaN for missing cells, one cell after the other: nats a link."""
    total, mean, lift = [], np.nanmean(X), min(groups, *X.shape)
    for i, j in np.argwhere(X > 0):
        x, most = X[i, j], max(lift * np.nanmean(X[i]) * np.nanmean(X[:, j]) / mean, 1.0)
        total.append(x * math.log(x / most) - (x - most) if x > most else 0.0)
    return np.mean(total)


@pytest.mark.filterwarnings("ignore::plait.errors.OverdispersionWarning")
@pytest.mark.parametrize("undirected", [False, True])
def test_the_excess_is_that_of_a_dense_computation(undirected):
    X = np.where(np.random.default_rng(2).random((30, 30)) < 0.1, BURSTS[:30, :30] + BURSTS[30:60, 30:60], 0.0)
    X[4:8, :9] = np.nan
    X[0, 1] = 50000.0
    text = MATRIX
    if undirected:
        text, X = "X[i, j] = A[i, r] A[j, r]; j: i", np.triu(X, 1) + np.triu(X, 1).T
        np.fill_diagonal(X, np.nan)
    relation = plait.Model(text).bind({"X": X}).relations["X"]
    links = LinkArrays(relation.cells, relation.values, relation.cell_weights)
    exposures = [along(relation.weights, (index,)) for index in relation.indices]
    marginals = dispersion._marginals(relation.links)
    found = dispersion.excess(links, relation.shape, relation.groups, exposures, marginals)
    assert found == pytest.approx(oracle(X), rel=1e-9)
    assert found > 1


WARNS = {
    "an array": bound_to(MATRIX, X=poisson(BURSTS)),
    "a fit": fitted(MATRIX, {"X": poisson(BURSTS)}, rank=2),
    "a table": bound_to(MATRIX, X=poisson(as_table(BURSTS))),
    "a weight": bound_to(MATRIX, X=poisson(as_table(BURSTS), weight=0.01)),
    "one index more": bound_to("X[i, j, k] = A[i, r] B[j, r] C[k, r]", X=poisson(CUBE)),
}
SILENT = {
    "rates of few entities": bound_to(MATRIX, X=poisson(draw(0.1, 120, 100))),
    "larger rates": bound_to(MATRIX, X=poisson(draw(0.1, 120, 100, rate=500.0))),
    "three indices": bound_to("X[i, j, k] = A[i, r] B[j, r] C[k, r]", X=poisson(draw(0.1, 40, 30, 10, rate=50.0))),
    "separate groups": bound_to(MATRIX, X=poisson(np.random.default_rng(3).poisson(np.where(GROUPS, 30.0, 0.01)))),
    "few columns": bound_to(
        MATRIX, X=poisson(np.random.default_rng(3).poisson(RNG.lognormal(3.0, 1.5, (200, 1)) * [[1, 2]]))
    ),
    "one favourite each": bound_to(MATRIX, X=poisson(np.random.default_rng(3).poisson(FAVOURITES))),
    "ratings": bound_to(MATRIX, X=poisson(as_table(GROUPS * np.arange(1.0, 101)), observed="listed")),
    "negative binomial": bound_to(MATRIX, X=plait.Relation(as_table(BURSTS), likelihood="negbin")),
    "an exposure": bound_to("X[i, j] = V[i, j] A[i, r] B[j, r]", X=poisson(BURSTS)),
    "one index": bound_to("X[i] = A[i]", X=poisson(BURSTS.max(axis=1))),
    "few links": bound_to(MATRIX, X=poisson(np.array([[1.0, 0.0, 2.0], [0.0, 30.0, 0.0]]))),
}


@pytest.mark.parametrize("name", WARNS)
def test_counts_that_poisson_cannot_explain_give_one_warning(name):
    one(caught(WARNS[name]), OVER, "X: ", "largest", '`likelihood="negbin"`')


@pytest.mark.parametrize("name", SILENT)
def test_counts_that_poisson_can_explain_are_silent(name):
    assert caught(SILENT[name]) == []


def test_amounts_are_sent_to_tweedie():
    one(caught(bound_to(MATRIX, X=poisson(BURSTS * 1.01))), OVER, '`likelihood="tweedie"`')


def test_pack_warns_of_the_same_counts(tmp_path):
    one(
        caught(lambda: plait.pack(MATRIX, {"X": poisson(as_table(BURSTS))}, tmp_path / "a", progress=False)),
        OVER,
        "negbin",
    )
    few = poisson(as_table(draw(0.1, 120, 100)))
    assert caught(lambda: plait.pack(MATRIX, {"X": few}, tmp_path / "b", progress=False)) == []
