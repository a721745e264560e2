"""Declaring labels changes no fit: an entity without data only adds predictions."""

import numpy as np
import polars as pl
import pytest

import plait

# A factor's visible index first, last, two of them, and an axis that a second relation has too.
MODELS = {
    "matrix": "X[u,p] = U[u,r] P[p,r]",
    "mixed_order": "X[u,p] = U[r,u] P[p,r] b[u]",
    "two_visible": "X[u,p,t] = H[u,t,r] P[p,r]",
    "coupled": "X[u,p] = U[u,r] P[p,r]\nY[v,u] = U[u,r] V[v,r]\nv: u",
}
SIZES = {"u": 14, "p": 11, "t": 4, "v": 14}
TYINGS = [None, "factor", "component", "entity", "rank-one", ("r",)]


def tables(text, seed=0):
    """Every entity of an axis occurs; names sort among the declared ones, before and after."""
    rng = np.random.default_rng(seed)
    data = {}
    for relation, indices in ((e.relation, e.indices) for e in plait.Model(text).equations):
        X = rng.poisson(0.6, [SIZES[i] for i in indices])
        X[(np.arange(len(X)), *(np.arange(len(X)) % n for n in X.shape[1:]))] += 1
        at = np.nonzero(X)
        named = {i: [f"n{row:02d}" for row in rows] for i, rows in zip(indices, at)}
        data[relation] = plait.Relation(pl.DataFrame({**named, "value": X[at].astype(float)}))
    return data


def declared(text, order):
    """Fifty further names for every axis: after those seen, or all names in an order of the user's."""
    rng = np.random.default_rng(7)
    labels = {}
    for axis in plait.Model(text).axes:
        seen = [f"n{row:02d}" for row in range(SIZES[axis])]
        more = [f"{letter}{n:02d}" for letter in "az" for n in range(25)]
        labels[axis] = more if order == "more" else rng.permutation(seen + more).tolist()
    return labels


def by_name(fit, array, indices):
    """Rows of a factor in the order of the names that were seen."""
    for axis, index in enumerate(indices):
        if index in fit.entities and array.shape[axis] > 1:
            rows = [row for row, name in enumerate(fit.entities[index]) if name.startswith("n")]
            rows.sort(key=list(fit.entities[index]).__getitem__)
            array = np.take(array, rows, axis=axis)
    return array


def assert_the_same_by_name(fit, other):
    if fit.method != "map":  # the log joint has the density of every factor's every row
        here, there = ([r.objective for r in f.history if r.sweep] for f in (fit, other))  # at 0 they have no prior yet
        assert there == pytest.approx(here, rel=1e-9)
    words = [("factors", n, word) for n in fit.factors for word in ("mean", "sd", "exp_mean_log")]
    for of, name, word in words + [("prior", n, word) for n in fit.prior for word in ("concentration", "mean")]:
        indices = fit.factors[name].indices
        here, there = (by_name(f, getattr(getattr(f, of)[name], word), indices) for f in (fit, other))
        np.testing.assert_allclose(there, here, rtol=1e-6, err_msg=f"{of} {name} {word}")


@pytest.mark.quick(name=["matrix"])
@pytest.mark.parametrize("order", ["more", "all"])
@pytest.mark.parametrize("adapt_prior", TYINGS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_declared_labels_change_no_fit_under_any_tying(name, adapt_prior, order):
    text = MODELS[name]
    data, common = tables(text), {"rank": 3, "seed": 4, "max_iter": 40, "tol": 0.0, "threads": 1}
    if isinstance(adapt_prior, tuple):
        adapt_prior = {f: adapt_prior for f in plait.Model(text).factors if "r" in plait.Model(text).factor(f).indices}
    plain = plait.fit(text, data, adapt_prior=adapt_prior, **common)
    more = plait.fit(text, data, adapt_prior=adapt_prior, entities=declared(text, order), **common)
    assert_the_same_by_name(plain, more)


@pytest.mark.parametrize("options", [{"method": "em"}, {"method": "map", "prior": plait.Gamma(1.5, 1.0)},
                                     {"adapt_prior": "component", "prune": True}, {"accelerate": True}],
                         ids=str)  # fmt: skip
def test_declared_labels_change_no_fit_by_other_methods(options):
    text = MODELS["matrix"]
    data, common = tables(text), {"rank": 5, "seed": 4, "max_iter": 60, "tol": 0.0, "threads": 1}
    plain = plait.fit(text, data, **options, **common)
    assert_the_same_by_name(plain, plait.fit(text, data, entities=declared(text, "more"), **options, **common))


def test_names_declared_beyond_those_seen_come_after_them():
    fit = plait.fit(MODELS["matrix"], tables(MODELS["matrix"]), rank=2, entities={"u": ["b", "n03", "a"]}, max_iter=1)
    assert list(fit.entities["u"]) == [f"n{row:02d}" for row in range(14)] + ["b", "a"]


def test_observed_zeros_are_data():
    """Under unseen="zero" a declared entity is a row of zeros, and priors learn from it."""
    text, data = MODELS["matrix"], tables(MODELS["matrix"])
    zeros = {"X": plait.Relation(data["X"].data, unseen="zero")}
    common = {"rank": 3, "seed": 4, "max_iter": 40, "tol": 0.0, "entities": {"u": [f"z{n}" for n in range(40)]}}
    without, with_zeros = (plait.fit(text, d, **common) for d in (data, zeros))
    assert with_zeros.prior["U"].mean.item() < 0.7 * without.prior["U"].mean.item()
