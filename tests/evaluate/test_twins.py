"""Twins: links elsewhere, or mirror images, that give hidden links away are found, reported and hidden."""

import warnings

import numpy as np
import polars as pl
import pytest

import plait
from plait import demo
from plait.errors import SettingError

TAGS = pl.DataFrame(
    {
        "user": ["ann", "ann", "bob", "bob", "cid"],
        "artist": ["abba", "abba", "abba", "cher", "dion"],
        "tag": ["pop", "old", "pop", "pop", "sad"],
    }
)
PLAYS = pl.DataFrame({"user": ["ann", "bob", "bob", "cid"], "artist": ["abba", "cher", "dion", "abba"]})
MODEL = "tags[user, artist, tag] = U[user, r] A[artist, r] T[tag, r]; plays[user, artist] = U[user, r] A[artist, r]"

NATIONS = "nations[head, relation, tail] = H[head, r] P[relation, r] T[tail, r]; tail: head"


def split(data, relation=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.LeakWarning)
        return plait.hide(data, relation, **{"fraction": 0.4, "by": "links", "seed": 0, **options})


def brute_force(hidden, others, shared):
    """Pairs that agree: hidden rows with a twin, and twins."""
    keys = {tuple(row[a] for a, _ in shared) for row in hidden.iter_rows(named=True)}
    twins = {tuple(row.items()) for row in others.iter_rows(named=True) if tuple(row[b] for _, b in shared) in keys}
    known = {tuple(row[b] for _, b in shared) for row in others.iter_rows(named=True)}
    links = [row for row in hidden.iter_rows(named=True) if tuple(row[a] for a, _ in shared) in known]
    return len(links), len(twins)


@pytest.mark.parametrize("model", [None, MODEL, plait.Model(MODEL)], ids=["names", "text", "model"])
@pytest.mark.parametrize("seed", range(5))
def test_links_of_a_coupled_relation_that_agree_on_all_shared_indices_are_twins(model, seed):
    found = split({"tags": TAGS, "plays": PLAYS}, "tags", model=model, seed=seed)
    expected = brute_force(found.test, PLAYS, [("user", "user"), ("artist", "artist")])
    rows = found.twins.rows()
    assert [row[2:4] for row in rows] == ([expected] if expected[0] else [])
    assert all(row[:2] == ("plays", "user, artist") and row[5] is False for row in rows)


def test_a_leak_is_reported_with_counts_an_example_and_a_cure():
    with pytest.warns(plait.LeakWarning) as caught:
        found = plait.hide({"tags": TAGS, "plays": PLAYS}, "plays", fraction=0.5, by="links", seed=25)
    assert found.test.rows() == [("ann", "abba", 1.0), ("bob", "cher", 1.0)]
    assert [str(w.message) for w in caught] == [
        "2 of 2 hidden links of plays have a twin in tags, which agrees on user, artist: 3 links such as "
        "tags[user='ann', artist='abba', tag='old'].\n"
        'Hide them too with `twins="hide"`, or give `twins="ignore"` if they may be known.'
    ]
    assert caught[0].filename == __file__
    assert "twins  3 in tags agree on user, artist with 2 hidden links; known to a fit" in str(found)


def test_one_shared_index_is_no_twin():
    friends = pl.DataFrame({"user": ["ann", "bob"], "group": ["g", "h"]})
    found = plait.hide({"plays": PLAYS, "friends": friends}, "plays", fraction=0.5, by="links", seed=0)
    assert len(found.twins) == 0


@pytest.mark.parametrize("seed", range(5))
def test_hidden_twins_are_missing_in_the_coupled_relation_and_nothing_else_is(seed):
    found = split({"tags": TAGS, "plays": PLAYS}, "tags", twins="hide", seed=seed)
    data = plait.Model(MODEL).bind(found.train)
    plays = data.relations["plays"]
    hidden = {(row["user"], row["artist"]) for row in found.test.iter_rows(named=True)}
    users, artists = data.labels["user"], data.labels["artist"]
    for u, user in enumerate(users):
        for a, artist in enumerate(artists):
            weight = plays.weights.at(np.array([[u, a]]))[0]
            assert weight == (0.0 if (user, artist) in hidden else 1.0)
    assert found.twins["hidden"].all()
    after = split(found.train, "tags", seed=seed)
    assert isinstance(after.train["plays"], plait.Relation)


def test_all_tags_of_a_hidden_pair_are_hidden_where_the_pair_is():
    found = split({"tags": TAGS, "plays": PLAYS}, "plays", twins="hide", fraction=0.5, seed=25)
    links, zeros = (found.test.filter(pl.col("value") == value) for value in (1.0, 0.0))
    assert links.rows() == [("ann", "abba", 1.0), ("bob", "cher", 1.0)]
    assert len(zeros) == 2  # as many, or the gaps would tell
    tags = plait.Model(MODEL).bind(found.train).relations["tags"]
    hidden = {(user, artist) for user, artist, _ in found.test.rows()}
    assert len(tags.values) == sum((user, artist) not in hidden for user, artist, _ in TAGS.rows())
    assert tags.missing_cells == 4 * 3


@pytest.mark.parametrize("by", ["cells", ("pair", "i", "k"), ("pair", "j", "k")], ids=str)
def test_whether_a_twin_is_hidden_does_not_depend_on_whether_the_hidden_cell_is_a_link(by):
    rng = np.random.default_rng(2)
    X, Y = (rng.random((8, 7, 3)) < 0.2).astype(float), (rng.random((8, 7)) < 0.5).astype(float)
    model = "X[i, j, k] = A[i, r] B[j, r] C[k, r]; Y[i, j] = A[i, r] B[j, r]"
    found = split({"X": X, "Y": Y}, "X", model=model, by=by, fraction=0.15, twins="hide")
    touched = np.zeros(Y.shape, bool)
    touched[found.test["i"], found.test["j"]] = True
    bound = plait.Model(model).bind(found.train).relations["Y"]
    M = bound.weights.at(np.argwhere(np.ones(Y.shape))).reshape(Y.shape)
    np.testing.assert_array_equal(M, ~touched)
    assert 0 < touched.mean() < 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("by", ["cells", ("pair", "i", "k")], ids=str)
def test_hidden_twins_leave_no_trace_in_links_without_structure(by):
    """A factor of the pair itself would learn from a gap in Y what X hides there; AUC was .55 and .58."""
    model = "X[i, j, k] = H[i, j, r] C[k, r]; Y[i, j] = H[i, j, r] d[r]"
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, Y = (rng.random((20, 20, 4)) < 0.05).astype(float), (rng.random((20, 20)) < 0.2).astype(float)
        train, test = split({"X": X, "Y": Y}, "X", model=model, by=by, fraction=0.2, twins="hide", seed=seed)
        fit = plait.fit(model, train, rank=1, sweeps=15, seed=0)
        found.append(plait.evaluate(fit, "X", test)["roc_auc"])
    assert abs(np.mean(found) - 0.5) < 3 * np.std(found, ddof=1) / np.sqrt(len(found))


@pytest.mark.parametrize("by", ["cells", ("index", "tag")], ids=str)
def test_a_coupled_relation_of_which_nothing_would_be_left_is_refused_with_a_cure(by):
    with pytest.raises(SettingError) as caught:
        split({"tags": TAGS, "plays": PLAYS}, "tags", by=by, fraction=0.7, twins="hide")
    assert caught.value.message.startswith(
        '`twins="hide"` would hide all 4 links of plays: each agrees on user, artist '
    )
    assert "`by=('pair', 'user', 'artist')`" in caught.value.hint


@pytest.mark.parametrize("fraction", [0.2, 0.6])
def test_thinned_links_and_their_mirror_images_are_zeros_like_all_others(fraction):
    # A hidden link whose mirror image is hidden too reached the join twice.
    X = mirrored()
    table = pl.DataFrame(dict(zip(("head", "relation", "tail"), np.nonzero(X))))
    labels = {"head": range(8), "relation": range(3)}
    relation = plait.Relation(table, universe="model")
    found = split(
        {"nations": relation}, model=NATIONS, by="thin", fraction=fraction, twins="hide", labels=labels
    )  # fmt: skip
    hidden = np.zeros(X.shape, bool)
    hidden[tuple(found.test[i].to_numpy() for i in ("head", "relation", "tail"))] = True
    bound = plait.Model(NATIONS).bind(found.train, labels=labels).relations["nations"]
    known = X & ~hidden & ~hidden.transpose(2, 1, 0)
    np.testing.assert_array_equal(bound.cells, np.argwhere(known))
    M = bound.weights.at(np.argwhere(np.ones(X.shape))).reshape(X.shape)
    np.testing.assert_allclose(M, np.where(known, 1.0, 1 - fraction))


def test_the_demo_can_be_thinned_with_its_mirror_images():
    found = split(demo.data(), "relations", fraction=0.2, by="thin", model=demo.MODEL, twins="hide")
    bound = plait.Model(demo.MODEL).bind(found.train).relations["relations"]
    assert found.test["value"].value_counts().sort("value").rows() == [(0.0, 398), (1.0, 398)]
    assert len(bound.links) < 1992 - 398


def test_ignored_twins_are_not_looked_for():
    found = plait.hide({"tags": TAGS, "plays": PLAYS}, "plays", fraction=0.5, by="links", seed=25, twins="ignore")
    assert found.twins is None
    assert "twins" not in str(found)
    assert found.train["tags"] is TAGS


# --- inside one relation


def mirrored():
    """Eight nations; every link has its mirror image but one in four."""
    rng = np.random.default_rng(0)
    X = rng.random((8, 3, 8)) < 0.2
    X |= X.transpose(2, 1, 0) & (rng.random(X.shape) < 0.75)
    X[np.arange(8), :, np.arange(8)] = False
    return X


def test_the_mirror_image_of_a_link_is_a_twin_where_the_two_indices_share_an_axis():
    X = mirrored()
    found = split({"nations": X.astype(float)}, model=NATIONS, by="links")
    hidden = np.zeros(X.shape, bool)
    hidden[tuple(found.test[i].to_numpy() for i in ("head", "relation", "tail"))] = True
    twins = hidden & (X & ~hidden).transpose(2, 1, 0)
    assert twins.any()
    assert found.twins.rows()[0][:4] == (
        "nations", "head = tail, relation = relation, tail = head", twins.sum(), twins.sum()
    )  # fmt: skip
    assert len(split({"nations": X.astype(float)}, model=NATIONS.replace("; tail: head", "")).twins) == 0


@pytest.mark.parametrize("by", ["cells", "links", ("index", "head"), ("pair", "relation", "tail")], ids=str)
def test_mirror_images_are_hidden_too_of_zeros_as_of_links(by):
    X = mirrored()
    found = split({"nations": X.astype(float)}, model=NATIONS, by=by, fraction=0.25, twins="hide")
    hidden = np.zeros(X.shape, bool)
    hidden[tuple(found.test[i].to_numpy() for i in ("head", "relation", "tail"))] = True
    bound = plait.Model(NATIONS).bind(found.train).relations["nations"]
    M = bound.weights.at(np.argwhere(np.ones(X.shape))).reshape(X.shape)
    np.testing.assert_array_equal(M, ~(hidden | hidden.transpose(2, 1, 0)))


def test_two_relations_over_one_axis_are_matched_both_ways():
    model = "calls[a, b] = U[a, r] V[b, r]; mails[c, d] = U[c, r] V[d, r]; b: a; c: a; d: a"
    calls = pl.DataFrame({"a": [0, 1, 2], "b": [1, 2, 3]})
    mails = pl.DataFrame({"c": [0, 3, 3], "d": [1, 2, 0]})
    found = split({"calls": calls, "mails": mails}, "calls", model=model, fraction=0.6)
    hidden = set(zip(found.test["a"], found.test["b"]))
    straight, crossed = {(0, 1)} & hidden, {(2, 3)} & hidden
    expected = [("mails", "a = c, b = d")] * len(straight) + [("mails", "a = d, b = c")] * len(crossed)
    assert sorted(row[:2] for row in found.twins.rows()) == sorted(expected)
    everything = [
        split({"calls": calls, "mails": mails}, "calls", model=model, fraction=0.6, seed=seed).twins["agree_on"]
        for seed in range(6)
    ]
    assert set(pl.concat(everything)) == {"a = c, b = d", "a = d, b = c"}


def test_a_fit_is_bit_equal_whatever_hidden_values_and_their_mirror_images_are():
    model = "knows[a, b] = U[a, r] V[b, r]; b: a"
    rng = np.random.default_rng(3)
    X = rng.poisson(0.6, (9, 9)).astype(float)
    options = {"model": model, "by": "cells", "fraction": 0.3, "seed": 5, "twins": "hide"}
    train, test = split({"knows": X}, **options)
    hidden = np.zeros(X.shape, bool)
    hidden[test["a"], test["b"]] = True
    changed = np.where(hidden | hidden.T, rng.poisson(5.0, X.shape), X)
    fits = [
        plait.fit(model, data, rank=2, sweeps=3, seed=0) for data in (train, split({"knows": changed}, **options).train)
    ]
    assert fits[0].bound == fits[1].bound
    np.testing.assert_array_equal(fits[0].factors["U"].mean, fits[1].factors["U"].mean)
