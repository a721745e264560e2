"""Fits with known rates, tests of them worked out by hand, and errors with their words."""

import numpy as np
import polars as pl
import pytest

import plait

MODEL = "X[i, j, k] = A[i, r] B[j, r] C[k, r]"
INDICES = ("i", "j", "k")


def fit_counts(likelihood="poisson", method="vb", by="cells"):
    """A fit of what is left of counts drawn from the model, and the hidden part."""
    rng = np.random.default_rng(0)
    A, B, C = (rng.gamma(0.7, 1.0, (n, 2)) for n in (8, 7, 5))
    X = rng.poisson(np.einsum("ir,jr,kr", A, B, C)).astype(float)
    X = np.minimum(X, 1) if likelihood == "bernoulli" else X
    relation = plait.Relation(X, indices=INDICES, likelihood=likelihood)
    train, test = plait.train_test_split(relation, fraction=0.3, by=by, seed=0)
    return plait.fit(MODEL, {"X": train}, rank=2, max_iter=20, seed=0, method=method), test


def fit_rates(S, known, likelihood="poisson", names=None):
    """A fit in which cell (h, t) has exactly the rate S[h, t], and these links are known."""
    heads, tails = S.shape
    labels = {"h": list(range(heads)), "t": names or list(range(tails))}
    table = pl.DataFrame({"h": [h for h, _ in known], "t": [labels["t"][t] for _, t in known]})
    data = {"R": plait.Relation(table, likelihood=likelihood)}
    fixed = {"A": np.eye(heads), "B": S.T.copy()}
    return plait.fit("R[h, t] = A[h, r] B[t, r]", data, rank=heads, fixed=fixed, entities=labels, seed=0)


# Rates of four tails for each of three heads; * a known link, + a test link:
#
#            t0    t1    t2    t3
#     h0     9*    5+    5     1
#     h1     8+    8+    2     8*
#     h2     1     2     3     4+
S = np.array([[9.0, 5, 5, 1], [8, 8, 2, 8], [1, 2, 3, 4]])
KNOWN = [(0, 0), (1, 3)]
TEST = pl.DataFrame({"h": [0, 1, 1, 2], "t": [1, 0, 1, 3]})


def check_refused(error, call, *words):
    """Check that a call is refused by this class of error, with these words in its text."""
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
