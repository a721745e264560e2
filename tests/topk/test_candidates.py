"""Which cells `fit.top` proposes: none that a rule closes, all that are unknown or were hidden for a test."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plait
from plait.executors import Reference
from tests.support.every_cell import check
from tests.support.manifests import seal
from tests.support.problems import as_counts
from tests.support.searching import check_per

FRIENDS = "X[user, friend] = U[user, r] F[friend, r]; friend: user"
NATIONS = "X[head, kind, tail] = H[head, r] K[kind, r] T[tail, r]; tail: head"
PLAIN = "X[i, j, k] = A[i, r] B[j, r] C[k, r]"


def fitted(text, relation, **options):
    settings = {"rank": 2, "max_iter": 3, "seed": 0, "executor": Reference()} | options
    return plait.fit(text, {"X": as_counts(relation)}, **settings)


def links(shape, seed=0, share=0.3):
    return (np.random.default_rng(seed).random(shape) < share).astype(float)


def proposed(fit, shape, **options):
    """The cells that may be proposed, known links among them, as a dense mask."""
    table = fit.top("X", 10**6, include_known=True, **options)
    mask = np.zeros(shape, bool)
    mask[tuple(table[index].to_numpy() for index in fit.model.equation("X").indices)] = True
    return mask


def table_of(mask, indices):
    return pl.DataFrame(dict(zip(indices, np.nonzero(mask))))


def spread(mask, over, indices, shape):
    """A mask over some of the indices as one over all of them."""
    return np.broadcast_to(mask.reshape([n if i in over else 1 for i, n in zip(indices, shape)]), shape)


# --- which cells are structural zeros


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::plait.errors.NoLinksWarning")  # all links may be structural zeros
@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_only_missing_pairs_and_slices_are_closed(seed):
    rng, indices, shape = np.random.default_rng(seed), ("i", "j", "k"), (5, 4, 3)
    zeros, tables = np.zeros(shape, bool), {"missing": [], "hidden": []}
    for option in tables:
        for over in (("i",), ("k",), ("i", "j"), ("j", "k"), indices):
            if rng.random() < 0.5:
                mask = rng.random([shape[indices.index(i)] for i in over]) < 0.25
                tables[option].append(table_of(mask, over))
                if option == "missing" and len(over) < 3:
                    zeros |= spread(mask, over, indices, shape)
    fit = fitted(PLAIN, plait.Relation(links(shape, seed), **tables))
    check(fit, "X", 60, {}, known=True, zeros=zeros)
    for fixed in ({"i": 1}, {"k": 2}, {"i": 0, "j": 3}, {"i": 1, "j": 2, "k": 0}):
        check(fit, "X", 4, fixed, zeros=zeros)


@pytest.mark.filterwarnings("ignore::plait.PlaitWarning")  # a few links that are all there is
@pytest.mark.parametrize("kind", ["pairs", "cells", "nan", "nearly all", "none listed", "nothing said", "said"])
def test_self_links_are_closed_if_few_are_observed(kind):
    X, n = links((12, 12)), np.arange(12)
    X[n, n] = 0
    diagonal, table = np.eye(12, dtype=bool), pl.DataFrame({"user": n, "friend": n})
    relation = {
        "pairs": plait.Relation(X, missing=table),
        "cells": plait.Relation(table_of(X > 0, ("user", "friend")), missing=table, unseen="zero"),
        "nan": plait.Relation(np.where(diagonal, np.nan, X)),
        "nearly all": plait.Relation(X, missing=table[1:], self_links="observed"),
        "nothing said": plait.Relation(X),
        "said": plait.Relation(np.where(diagonal, 1.0, X), self_links="missing"),
        "none listed": plait.Relation(table_of(X > 0, ("user", "friend")), observed="listed"),
    }[kind]
    zeros = diagonal.copy()
    zeros[0, 0] = kind != "nearly all"  # that one is an observed 0
    fit = fitted(FRIENDS, relation, entities={"user": n})
    check(fit, "X", 200, {}, known=True, zeros=zeros)
    check(fit, "X", 5, {"user": 3}, zeros=zeros)


def test_self_links_of_every_kind_are_closed():
    X, n = links((6, 2, 6)), np.arange(6)
    X[n, :, n] = np.nan
    check(fitted(NATIONS, X), "X", 72, {}, known=True, zeros=np.isnan(X))


@pytest.mark.parametrize("all_cells", [0, 2**20])
def test_slices_without_self_links_are_closed(tuning, tmp_path, all_cells):
    tuning(all_cells=all_cells)
    X, n = np.zeros((9, 4, 9)), np.arange(9)
    pairs = np.argwhere(~np.eye(9, dtype=bool))
    for kind, count in enumerate((20, 30, 19, 21)):
        some = pairs[np.random.default_rng(kind).permutation(len(pairs))[:count]]
        X[some[:, 0], kind, some[:, 1]] = 1
    X[4, 1, 4] = 1  # the second kind has a self-link, the third too few links
    zeros = np.zeros(X.shape, bool)
    zeros[n, 0, n] = zeros[n, 3, n] = True
    fit = fitted(NATIONS, X)
    check(fit, "X", 324, {}, known=True, zeros=zeros)
    check(fit, "X", 9, {"head": 4, "kind": 0}, zeros=zeros)
    for per in (("head",), ("kind",), ("head", "tail"), ("kind", "tail")):
        check_per(fit, "X", 5, per, zeros=zeros)
    with pytest.warns(plait.errors.NoCandidatesWarning, match="excluded by structural zeros over head, tail"):
        assert not len(fit.top("X", given={"head": 2, "kind": 0, "tail": 2}))
    assert len(fit.predict("X", {"head": [2], "kind": [0], "tail": [2]})) == 1
    fit.save(tmp_path / "run")
    np.testing.assert_array_equal(proposed(plait.load(tmp_path / "run"), X.shape), ~zeros)
    assert proposed(fitted(NATIONS, plait.Relation(X, self_links="observed")), X.shape).all()


def test_self_links_of_clean_slices_are_neither_ranked_nor_drawn():
    cells = [(a, kind, b) for kind in (0, 1) for a in range(6) for b in range(6) if a != b and (a + b) % 5]
    table = pl.DataFrame([*cells, (0, 1, 0)], schema=["head", "kind", "tail"], orient="row")
    best = np.eye(6) * 9 + np.arange(1, 7) / 10  # self-links above all, then the larger tail
    given = {"H": np.eye(6), "K": np.ones((2, 6)), "T": best.T.copy()}
    fit = plait.fit(NATIONS, {"X": table}, rank=6, fixed=given, seed=0)
    for kind, rank in ((0, 1), (1, 2)):
        test = pl.DataFrame({"head": [1], "kind": [kind], "tail": [4]})
        assert plait.evaluate(fit, "X", test, target="tail", negatives=0)["mean_rank"] == rank


def test_single_missing_cells_are_proposed():
    X = links((12, 12))
    X[[0, 1, 4], [0, 1, 7]] = np.nan
    assert proposed(fitted(FRIENDS, X), X.shape).all()


def test_entities_of_other_relations_are_proposed():
    text = "X[user, place] = U[user, r] P[place, r]; Y[user, group] = U[user, r] G[group, r]"
    data = {
        "X": pl.DataFrame({"user": ["a", "b"], "place": ["p", "q"]}),
        "Y": pl.DataFrame({"user": ["a", "c"], "group": ["g", "h"]}),
    }
    fit = plait.fit(text, data, rank=1, max_iter=2, seed=0, executor=Reference())
    assert "c" in fit.top("X", 10)["user"].to_list()


# --- what was hidden for a test


@pytest.mark.parametrize(
    "by", ["cells", "links", "thinned_links", ("index", "head"), ("pair", "head", "tail")], ids=str
)
def test_hidden_cells_are_proposed_but_closed_ones_are_not(by):
    shape, n = (6, 2, 6), np.arange(6)
    X = links(shape)
    X[n, :, n] = 0
    missing = [pl.DataFrame({"head": n, "tail": n}), pl.DataFrame({"head": [1], "kind": [0]})]
    data = {"X": plait.Relation(X, missing=missing)}
    split = plait.train_test_split(data, "X", fraction=0.3, by=by, seed=0, model=NATIONS, leakage="remove")
    zeros = np.zeros(shape, bool)
    zeros[n, :, n] = zeros[1, 0] = True
    found = proposed(fitted(NATIONS, split.train["X"]), shape)
    np.testing.assert_array_equal(found, ~zeros)
    assert found[tuple(split.test[i].to_numpy() for i in ("head", "kind", "tail"))].all()


def test_observed_self_links_are_proposed_also_if_hidden():
    X = links((8, 8))
    assert proposed(fitted(FRIENDS, X), X.shape).all()
    train, _ = plait.train_test_split(
        {"X": X}, fraction=0.4, by=("index", "user"), seed=0, model=FRIENDS, leakage="ignore"
    )
    assert proposed(fitted(FRIENDS, train["X"]), X.shape).all()


# --- runs on disk


def test_a_loaded_run_closes_the_same_cells(tmp_path):
    X, n = links((8, 8)), np.arange(8)
    fit = fitted(FRIENDS, plait.Relation(X, missing=pl.DataFrame({"user": n, "friend": n})))
    fit.save(tmp_path)
    assert plait.load(tmp_path).top("X", 70, include_known=True).equals(fit.top("X", 70, include_known=True))
    np.testing.assert_array_equal(proposed(plait.load(tmp_path), X.shape), ~np.eye(8, dtype=bool))
    fitted(FRIENDS, plait.Relation(X, hidden=pl.DataFrame({"user": n, "friend": n}))).save(tmp_path, replace=True)
    assert proposed(plait.load(tmp_path), X.shape).all()  # the same weights by another rule: nothing old is kept
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    del manifest["relations"]  # as in an earlier version
    (tmp_path / "manifest.json").write_text(seal(manifest))
    assert proposed(plait.load(tmp_path), X.shape).all()


# --- saying why, and at what cost


def test_a_warning_names_the_rules_if_nothing_is_left():
    X, n = links((6, 2, 6)), np.arange(6)
    missing = [pl.DataFrame({"head": n, "tail": n}), pl.DataFrame({"kind": [1], "tail": [5]})]
    fit = fitted(NATIONS, plait.Relation(X, missing=missing))
    with pytest.warns(
        plait.errors.NoCandidatesWarning, match=r"X: .* structural zeros over head, tail, or are known links\.\n"
    ) as caught:
        assert len(fit.top("X", given={"head": 2, "tail": 2})) == 0
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(plait.errors.NoCandidatesWarning, match="head, tail and structural zeros over kind, tail.\n"):
        fit.top("X", given={"head": 5, "kind": 1, "tail": 5}, include_known=True)
    assert len(fit.top("X", 0, given={"head": 2, "tail": 2})) == 0
