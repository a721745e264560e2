"""What `fit.top` may propose: nothing that a rule closes, everything that is only unknown or was hidden for a test."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plait
from plait.data.observing.closed import Closed
from plait.execute import Reference
from tests.sealed import seal
from tests.search.every_cell import check
from tests.search.test_search import made, watched

FRIENDS = "X[user, friend] = U[user, r] F[friend, r]; friend: user"
NATIONS = "X[head, kind, tail] = H[head, r] K[kind, r] T[tail, r]; tail: head"
PLAIN = "X[i, j, k] = A[i, r] B[j, r] C[k, r]"


def fitted(text, relation, **options):
    settings = {"rank": 2, "sweeps": 3, "seed": 0, "executor": Reference()} | options
    return plait.fit(text, {"X": relation}, **settings)


def links(shape, seed=0, share=0.3):
    return (np.random.default_rng(seed).random(shape) < share).astype(float)


def proposed(fit, shape, **options):
    """The cells that may be proposed, known links among them, as a dense mask."""
    table = fit.top("X", 10**6, known=True, **options)
    mask = np.zeros(shape, bool)
    mask[tuple(table[index].to_numpy() for index in fit.model.equation("X").indices)] = True
    return mask


def table_of(mask, indices):
    return pl.DataFrame(dict(zip(indices, np.nonzero(mask))))


def spread(mask, over, indices, shape):
    """A mask over some of the indices as one over all of them."""
    return np.broadcast_to(mask.reshape([n if i in over else 1 for i, n in zip(indices, shape)]), shape)


# --- which cells are closed


@pytest.mark.filterwarnings("ignore::plait.NoLinksWarning")  # all links may be closed
@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_pairs_and_slices_that_are_missing_are_closed_and_all_else_is_not(seed):
    rng, indices, shape = np.random.default_rng(seed), ("i", "j", "k"), (5, 4, 3)
    closed, tables = np.zeros(shape, bool), {"missing": [], "hidden": []}
    for option in tables:
        for over in (("i",), ("k",), ("i", "j"), ("j", "k"), indices):
            if rng.random() < 0.5:
                mask = rng.random([shape[indices.index(i)] for i in over]) < 0.25
                tables[option].append(table_of(mask, over))
                if option == "missing" and len(over) < 3:
                    closed |= spread(mask, over, indices, shape)
    fit = fitted(PLAIN, plait.Relation(links(shape, seed), **tables))
    check(fit, "X", 60, {}, known=True, closed=closed)
    for fixed in ({"i": 1}, {"k": 2}, {"i": 0, "j": 3}, {"i": 1, "j": 2, "k": 0}):
        check(fit, "X", 4, fixed, closed=closed)


@pytest.mark.filterwarnings("ignore::plait.PlaitWarning")  # a few links that are all there is
@pytest.mark.parametrize("kind", ["pairs", "cells", "nan", "nearly all", "none listed", "nothing said", "said"])
def test_self_links_are_closed_where_hardly_any_is_observed(kind):
    X, n = links((12, 12)), np.arange(12)
    X[n, n] = 0
    diagonal, table = np.eye(12, dtype=bool), pl.DataFrame({"user": n, "friend": n})
    relation = {
        "pairs": plait.Relation(X, missing=table),
        "cells": plait.Relation(table_of(X > 0, ("user", "friend")), missing=table, universe="model"),
        "nan": plait.Relation(np.where(diagonal, np.nan, X)),
        "nearly all": plait.Relation(X, missing=table[1:], diagonal="observed"),
        "nothing said": plait.Relation(X),
        "said": plait.Relation(np.where(diagonal, 1.0, X), diagonal="missing"),
        "none listed": plait.Relation(table_of(X > 0, ("user", "friend")), observed="listed"),
    }[kind]
    closed = diagonal.copy()
    closed[0, 0] = kind != "nearly all"  # that one is an observed 0
    fit = fitted(FRIENDS, relation, labels={"user": n})
    check(fit, "X", 200, {}, known=True, closed=closed)
    check(fit, "X", 5, {"user": 3}, closed=closed)


def test_every_kind_of_a_self_link_is_closed_where_cells_of_all_kinds_are_missing():
    X, n = links((6, 2, 6)), np.arange(6)
    X[n, :, n] = np.nan
    closed = np.isnan(X)
    check(fitted(NATIONS, X), "X", 72, {}, known=True, closed=closed)


def test_single_missing_cells_and_some_of_a_diagonal_may_be_proposed():
    X = links((12, 12))
    X[[0, 1, 4], [0, 1, 7]] = np.nan
    assert proposed(fitted(FRIENDS, X), X.shape).all()


def test_an_observed_diagonal_may_be_proposed():
    assert proposed(fitted(FRIENDS, links((6, 6))), (6, 6)).all()


def test_entities_that_only_other_relations_know_may_be_proposed():
    text = "X[user, place] = U[user, r] P[place, r]; Y[user, group] = U[user, r] G[group, r]"
    data = {
        "X": pl.DataFrame({"user": ["a", "b"], "place": ["p", "q"]}),
        "Y": pl.DataFrame({"user": ["a", "c"], "group": ["g", "h"]}),
    }
    fit = plait.fit(text, data, rank=1, sweeps=2, seed=0, executor=Reference())
    assert "c" in fit.top("X", 10)["user"].to_list()


# --- what was hidden for a test


@pytest.mark.parametrize("by", ["cells", "links", "thin", ("index", "head"), ("pair", "head", "tail")], ids=str)
def test_what_hide_puts_aside_may_be_proposed_and_what_was_closed_before_may_not(by):
    shape, n = (6, 2, 6), np.arange(6)
    X = links(shape)
    X[n, :, n] = 0
    missing = [pl.DataFrame({"head": n, "tail": n}), pl.DataFrame({"head": [1], "kind": [0]})]
    data = {"X": plait.Relation(X, missing=missing)}
    split = plait.hide(data, "X", fraction=0.3, by=by, seed=0, model=NATIONS, twins="hide")
    closed = np.zeros(shape, bool)
    closed[n, :, n] = closed[1, 0] = True
    found = proposed(fitted(NATIONS, split.train["X"]), shape)
    np.testing.assert_array_equal(found, ~closed)
    assert found[tuple(split.test[i].to_numpy() for i in ("head", "kind", "tail"))].all()


def test_hidden_self_links_may_be_proposed_where_self_links_are_observed():
    X = links((8, 8))
    train, _ = plait.hide({"X": X}, fraction=0.4, by=("index", "user"), seed=0, model=FRIENDS, twins="ignore")
    assert proposed(fitted(FRIENDS, train["X"]), X.shape).all()


# --- runs on disk


def test_a_loaded_run_closes_the_same_cells_and_one_of_an_earlier_version_none(tmp_path):
    X, n = links((8, 8)), np.arange(8)
    fit = fitted(FRIENDS, plait.Relation(X, missing=pl.DataFrame({"user": n, "friend": n})))
    fit.save(tmp_path)
    assert plait.load(tmp_path).top("X", 70, known=True).equals(fit.top("X", 70, known=True))
    np.testing.assert_array_equal(proposed(plait.load(tmp_path), X.shape), ~np.eye(8, dtype=bool))
    fitted(FRIENDS, plait.Relation(X, hidden=pl.DataFrame({"user": n, "friend": n}))).save(tmp_path, replace=True)
    assert proposed(plait.load(tmp_path), X.shape).all()  # the same weights by another rule: nothing old is kept
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    del manifest["relations"]
    (tmp_path / "manifest.json").write_text(seal(manifest))
    assert proposed(plait.load(tmp_path), X.shape).all()


# --- saying why, and at what cost


def test_nothing_left_is_explained_by_the_rules_that_close_it():
    X, n = links((6, 2, 6)), np.arange(6)
    missing = [pl.DataFrame({"head": n, "tail": n}), pl.DataFrame({"kind": [1], "tail": [5]})]
    fit = fitted(NATIONS, plait.Relation(X, missing=missing))
    with pytest.warns(plait.ClosedWarning) as caught:
        assert len(fit.top("X", given={"head": 2, "tail": 2})) == 0
    assert [str(w.message) for w in caught] == [
        "X: nothing can be proposed: all cells asked for are closed by a rule about head, tail, or known already.\n"
        "Ask for others. What is unknown rather than impossible belongs into `hidden` of its relation."
    ]
    assert caught[0].filename == __file__
    with pytest.warns(plait.ClosedWarning, match="a rule about head, tail and a rule about kind, tail.\n"):
        fit.top("X", given={"head": 5, "kind": 1, "tail": 5}, known=True)
    assert len(fit.top("X", 0, given={"head": 2, "tail": 2})) == 0


def with_closed(means, tables):
    fit = made(means)
    known = fit.known["X"]
    indices = fit.model.equation("X").indices
    return replace(fit, known={"X": replace(known, closed=Closed(indices, known.shape, tables))})


def test_the_best_cells_are_found_beside_a_closed_diagonal_without_a_look_at_most_cells():
    # Rows of one component each, alike on both axes: every self-link is more probable than any other link.
    rng = np.random.default_rng(0)
    own = 5 * np.eye(40)[np.arange(2000) % 40] * rng.uniform(0.99, 1.0, (2000, 1)) + rng.gamma(0.3, 0.01, (2000, 40))
    kinds = rng.gamma(0.3, size=(50, 40))
    diagonal = np.stack([np.arange(2000)] * 2, axis=1)
    fit = with_closed([own, kinds, own], {("i", "k"): diagonal})
    with watched() as seen:
        table = fit.top("X", 10)
    assert (table["i"] != table["k"]).all()
    assert seen.cells < 4e6  # of 2e8
    best = -np.inf
    for kind in np.argsort(-kinds.max(axis=1))[:3]:
        rates = (own * kinds[kind]) @ own.T
        np.fill_diagonal(rates, -np.inf)
        best = max(best, rates.max())
    assert table["mean"][0] == pytest.approx(best, rel=1e-9)


def test_closed_slices_never_enter_the_search():
    rng = np.random.default_rng(0)
    means = [rng.gamma(0.3, size=(n, 4)) for n in (3000, 3000)]
    means[0][:2900] *= 1e6  # all that is closed is more probable than anything open
    fit = with_closed(means, {("i",): np.arange(2900)[:, None]})
    with watched() as seen:
        table = fit.top("X", 5)
    assert table["i"].min() >= 2900
    assert seen.cells < 100_000  # of 9e6
    np.testing.assert_allclose(
        table["mean"], np.sort((means[0][2900:] @ means[1].T).ravel())[::-1][:5], rtol=1e-9
    )  # fmt: skip


def test_an_exposure_that_is_mostly_0_is_not_swept_for_more_cells_than_it_opens():
    V = plait.Exposure(pl.DataFrame({"i": [1, 2], "j": [3, 4], "value": [1.0, 2.0]}), default=0.0)
    X = pl.DataFrame({"i": [1], "j": [3]})
    labels = {"i": range(2000), "j": range(3000)}
    fit = plait.fit(
        "X[i, j] = A[i, r] B[j, r] V[i, j]", {"X": X}, rank=2, sweeps=2, seed=0, labels=labels, fixed={"V": V}
    )  # fmt: skip
    with watched() as seen:
        assert fit.top("X", 10).select("i", "j").rows() == [(2, 4)]
    assert seen.cells <= 512  # one box: the entries of the table
