"""What must not matter: values of hidden cells, the order of rows, names, threads, who adds up the sums."""

import re

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.infer_laws import BOTH_LIKELIHOODS
from tests.support.models import EXPOSED, MODELS
from tests.support.problems import bits, make, starts
from tests.support.tuning import SMALL_LEAVES
from tests.support.ways_of_observing import WAYS

# Of a few listed cells all may be links.
pytestmark = pytest.mark.filterwarnings("ignore::plait.errors.NoZerosWarning")

CP3 = MODELS["cp3"]
NAMED = {"vb": {"adapt_prior": "component"}, "em": {}, "map": {"prior": plait.Gamma(1.5, 1.0)}}


def counts(seed, shape=(7, 5, 4)):
    return np.random.default_rng(seed).poisson(1.5, shape).astype(float)


def table(X, mask, indices="ijk"):
    return pl.DataFrame(dict(zip(indices, np.nonzero(mask))) | {"value": X[mask]})


def hidden_by_cells(X, hidden, likelihood="poisson"):
    return plait.Relation(table(X, X >= 0), missing=table(X, hidden).drop("value"), likelihood=likelihood)


def hidden_by_pairs_and_slices(X, hidden):
    pairs, slices = hidden.all(axis=2), hidden.all(axis=(0, 1))
    missing = [table(pairs, pairs, "ij").drop("value"), pl.DataFrame({"k": np.flatnonzero(slices)})]
    return plait.Relation(table(X, X >= 0), missing=missing, unseen="zero")


def listed_and_hidden(X, hidden):
    return plait.Relation(table(X, X >= 0), missing=table(X, hidden).drop("value"), observed="listed")


def weight_zero(X, hidden):
    return plait.Relation(table(X, X >= 0).with_columns(w=1.0 - hidden.ravel()), weight="w")


def sparse_zeros(X, hidden):
    return plait.Relation(table(X, X > 0), missing=table(X, hidden).drop("value"), observed=0.3, unseen="zero")


HIDDEN = (hidden_by_cells, hidden_by_pairs_and_slices, listed_and_hidden, weight_zero, sparse_zeros)


# --- hidden cells


@pytest.mark.parametrize("method", NAMED)
@pytest.mark.parametrize("way", HIDDEN, ids=lambda way: way.__name__)
def test_values_of_hidden_cells_never_influence_a_fit(way, method):
    X = counts(0)
    hidden = np.random.default_rng(1).random(X.shape) < 0.2
    hidden[:, :, 1] = hidden[2, 3] = True
    if way is hidden_by_pairs_and_slices:
        hidden = np.broadcast_to(hidden.all(axis=2, keepdims=True) | hidden.all(axis=(0, 1)), X.shape)
    fits = []
    for lies in (X, np.where(hidden, 1000.0, X), np.where(hidden, 0.0, X)):
        data = {"X": way(lies, hidden)}
        labels = {"i": range(7), "j": range(5), "k": range(4)}
        fits.append(plait.fit(CP3, data, rank=3, method=method, entities=labels, seed=0, max_iter=15, **NAMED[method]))
    assert bits(fits[1]) == bits(fits[0])
    assert bits(fits[2]) == bits(fits[0])


def test_hidden_cells_of_a_binary_relation_may_hold_links_or_not():
    X = (counts(2) > 1).astype(float)
    hidden = np.random.default_rng(3).random(X.shape) < 0.3
    data = (hidden_by_cells(lies, hidden, "bernoulli") for lies in (X, np.where(hidden, 1 - X, X)))
    first, second = (plait.fit(CP3, {"X": relation}, rank=2, seed=0, max_iter=15) for relation in data)
    assert bits(first) == bits(second)


# --- order and names


@pytest.mark.quick(name=["cp3", "coupled_paper"])
@pytest.mark.parametrize("name", ["cp3", "tucker_mixed_order", "two_visible", "bias", "coupled_paper"])
@BOTH_LIKELIHOODS
def test_permuting_rows_permutes_the_posterior(name, likelihood):
    case = make(name, likelihood=likelihood)
    rng = np.random.default_rng(0)
    orders = {index: rng.permutation(size) for index, size in case.data.sizes.items()}

    def permuted(array, indices):
        for axis, index in enumerate(indices):
            array = np.take(array, orders[index], axis=axis) if index in orders else array
        return array

    state = case.start(1)
    moved = {n: tuple(permuted(a, case.model.factor(n).indices) for a in state[n]) for n in state}
    hidden = {n: np.where(rng.random(X.shape) < 0.1, np.nan, X) for n, X in case.problem.X.items()}
    fits = []
    for init, data in (
        (state, hidden),
        (moved, {name: permuted(X, case.model.equation(name).indices) for name, X in hidden.items()}),
    ):
        bound = {n: plait.Relation(X, likelihood=likelihood) for n, X in data.items()}
        fits.append(
            plait.fit(case.model, bound, rank=case.rank, adapt_prior=None, init=starts(init), max_iter=12, tol=0.0)
        )
    assert fits[1].objective == pytest.approx(fits[0].objective, rel=1e-11)
    for factor in case.model.factors:
        there = permuted(fits[0].factors[factor].mean, case.model.factor(factor).indices)
        np.testing.assert_allclose(fits[1].factors[factor].mean, there, rtol=1e-9, err_msg=factor)


# Alphabetical order is turned around, so that nothing may be sorted by name.
BACKWARDS = {name: f"{'zyxwvutsrqponmlkjihgfedcba'[n]}_" for n, name in enumerate("abcdefghijklmnopqrstuvwxyz")}


def renamed(text):
    def new(match):
        word = match[0]
        return BACKWARDS.get(word) or f"{BACKWARDS[word[0].lower()]}{word[1:]}{'q' if word[0].isupper() else 'p'}"

    return re.sub(r"[A-Za-z]\w*", new, text)


@pytest.mark.quick(name=["cp3"], way=["all", "pairs"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["cp3", "tucker", "train", "two_visible", "disconnected", "coupled_paper"])
def test_renaming_relations_factors_and_indices_changes_no_bit(name, way):
    found = []
    for text, name_of in ((EXPOSED[name], str), (renamed(EXPOSED[name]), renamed)):
        case = make(name, way, exposed=True)
        relations = {}
        for relation, indices, _ in case.problem.equations:
            X, M = case.problem.X[relation], case.problem.M[relation]
            axes = [name_of(index) for index in indices]
            cells = table(X, (X > 0) & (M > 0), axes).with_columns(w=pl.Series(M[(X > 0) & (M > 0)]))
            missing = table(X, M == 0, axes).drop("value") if way != "slices" else None
            if way == "slices":
                gone = np.flatnonzero((M == 0).all(axis=tuple(range(X.ndim - 1))))
                missing = pl.DataFrame({axes[-1]: gone})
            zeros = 0.3 if way == "weighted_zeros" else "all"
            relations[name_of(relation)] = plait.Relation(cells, missing=missing, observed=zeros, weight="w")
        labels = {name_of(index): range(size) for index, size in case.data.sizes.items()}
        rank = {name_of(index): size for index, size in case.rank.items()}
        fixed = {name_of("V"): case.fixed["V"]}
        fit = plait.fit(text, relations, entities=labels, rank=rank, fixed=fixed, seed=5, max_iter=15)
        found.append(bits(fit))
    assert found[0] == found[1]


@pytest.mark.parametrize("text", ["X[i,j] = A[i,r] B[j,r] b[i] c[j]", "X[k,i,j] = A[i,k,r] B[k,j,r] C[i,j,s]"])
def test_renaming_changes_no_bit_where_several_axes_have_unseen_entities(text):
    found = []
    for name_of in (str, renamed):
        model = plait.Model(name_of(text))
        axes = model.equations[0].indices
        X = counts(8, (6, 5, 4)[: len(axes)])
        labels = {axis: range(size + 2) for axis, size in zip(axes, X.shape)}
        data = {model.relations[0]: table(X, X > 0, axes)}
        found.append(bits(plait.fit(model, data, entities=labels, rank=3, seed=5, max_iter=15)))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["back", "reduced", "group", "mean"])
def test_a_factor_may_have_a_name_of_the_engine(name):
    hidden = pl.DataFrame({"i": [0, 2, 3], "j": [1, 1, 4]})
    data = {"X": plait.Relation(counts(0, (6, 5, 4)), missing=hidden)}
    fits = [
        plait.fit(
            f"X[i,j,k] = {one}[i,k,r] {other}[j,k,r]", data, rank=2, seed=0, max_iter=5, tol=0.0, adapt_prior=None
        )
        for one, other in (("U", "Q"), (name, "Q"), ("U", name))
    ]
    assert fits[0].objective == fits[1].objective == fits[2].objective


# --- who does the work


@pytest.mark.quick(name=["cp3", "tucker", "coupled_paper", "two_visible"])
@pytest.mark.parametrize("method", NAMED)
@pytest.mark.parametrize("name", ["cp3", "tucker", "scalar", "two_visible", "coupled_paper"])
def test_two_threads_give_the_same_bits_as_one(name, method, tuning):
    tuning(**SMALL_LEAVES)
    case = make(name, "missing_cells", "bernoulli" if name == "tucker" else "poisson", exposed=True)
    one, two = (case.fit(method, max_iter=10, threads=threads) for threads in (1, 2))
    assert bits(one) == bits(two)


@pytest.mark.parametrize("name", ["given_in_terms", "symmetric_coupled", "rescal_bias"])
def test_three_threads_give_the_same_bits_of_a_sum_as_one(name, tuning):
    tuning(**SMALL_LEAVES)
    case = make(name, "missing_cells")
    one, three = (case.fit(max_iter=8, threads=threads) for threads in (1, 3))
    assert bits(one) == bits(three)


def test_data_large_enough_to_be_cut_give_the_same_fit_on_any_number_of_threads():
    rng = np.random.default_rng(7)
    cells = np.unique(rng.integers(0, (3000, 40, 30), (9000, 3)), axis=0)
    links = pl.DataFrame(dict(zip("ijk", cells.T)))
    assert len(links) * 8 > 1 << 16  # entries × columns from which threads share them
    fits = [plait.fit(CP3, {"X": links}, rank=4, seed=0, max_iter=8, threads=threads) for threads in (1, 2, 3)]
    assert bits(fits[0]) == bits(fits[1]) == bits(fits[2])
