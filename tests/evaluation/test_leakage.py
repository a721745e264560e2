"""Leaks: links elsewhere, or mirror images, that give hidden links away are found, reported and removed."""

import warnings

import numpy as np
import polars as pl
import pytest

import plait
from plait.errors import ParameterError
from tests.support.evaluating import check_refused

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
        warnings.simplefilter("ignore", plait.errors.LeakWarning)
        return plait.train_test_split(data, relation, **{"fraction": 0.4, "by": "links", "seed": 0, **options})


def hidden_mask(found, shape):
    """Which cells of nations are in the test."""
    hidden = np.zeros(shape, bool)
    hidden[tuple(found.test[i].to_numpy() for i in ("head", "relation", "tail"))] = True
    return hidden


def weights(found, model, name, entities=None):
    """A relation of the training data, and the weights of all its cells."""
    bound = plait.Model(model).bind(found.train, entities=entities).relations[name]
    return bound, bound.weights.at(np.argwhere(np.ones(bound.shape))).reshape(bound.shape)


def brute_force(hidden, others, shared):
    """Pairs that agree: hidden rows with a leak, and leaks."""
    keys = {tuple(row[a] for a, _ in shared) for row in hidden.iter_rows(named=True)}
    leaks = {tuple(row.items()) for row in others.iter_rows(named=True) if tuple(row[b] for _, b in shared) in keys}
    known = {tuple(row[b] for _, b in shared) for row in others.iter_rows(named=True)}
    links = [row for row in hidden.iter_rows(named=True) if tuple(row[a] for a, _ in shared) in known]
    return len(links), len(leaks)


@pytest.mark.parametrize("model", [None, MODEL, plait.Model(MODEL)], ids=["names", "text", "model"])
@pytest.mark.parametrize("seed", range(5))
def test_coupled_links_that_agree_on_all_shared_indices_are_leaks(model, seed):
    found = split({"tags": TAGS, "plays": PLAYS}, "tags", model=model, seed=seed)
    expected = brute_force(found.test, PLAYS, [("user", "user"), ("artist", "artist")])
    rows = found.leaks.rows()
    assert [row[2:4] for row in rows] == ([expected] if expected[0] else [])
    assert all(row[:2] == ("plays", "user, artist") and row[5] is False for row in rows)


def test_a_leak_is_reported_with_counts_an_example_and_a_hint():
    with pytest.warns(plait.errors.LeakWarning) as caught:
        found = plait.train_test_split({"tags": TAGS, "plays": PLAYS}, "plays", fraction=0.5, by="links", seed=25)
    (warning,) = caught
    for words in (
        "2 of 2 held-out links of plays",
        "such as tags[user='ann', artist='abba'",
        '`leakage="remove"`',
    ):
        assert words in str(warning.message)
    assert warning.filename == __file__
    assert "leaks  3 in tags match 2 held-out links on user, artist; in the training data" in str(found)
    ignored = plait.train_test_split(
        {"tags": TAGS, "plays": PLAYS}, "plays", fraction=0.5, by="links", seed=25, leakage="ignore"
    )
    assert ignored.leaks is None
    assert "leaks" not in str(ignored)
    assert ignored.train["tags"] is TAGS


def test_one_shared_index_is_no_leak():
    friends = pl.DataFrame({"user": ["ann", "bob"], "group": ["g", "h"]})
    found = plait.train_test_split({"plays": PLAYS, "friends": friends}, "plays", fraction=0.5, by="links", seed=0)
    assert len(found.leaks) == 0


@pytest.mark.parametrize("seed", range(5))
def test_removed_leaks_are_missing_in_the_coupled_relation_and_nothing_else_is(seed):
    found = split({"tags": TAGS, "plays": PLAYS}, "tags", leakage="remove", seed=seed)
    data = plait.Model(MODEL).bind(found.train)
    plays = data.relations["plays"]
    hidden = {(row["user"], row["artist"]) for row in found.test.iter_rows(named=True)}
    users, artists = data.entities["user"], data.entities["artist"]
    for u, user in enumerate(users):
        for a, artist in enumerate(artists):
            weight = plays.weights.at(np.array([[u, a]]))[0]
            assert weight == (0.0 if (user, artist) in hidden else 1.0)
    assert found.leaks["removed"].all()
    after = split(found.train, "tags", seed=seed)
    assert isinstance(after.train["plays"], plait.Relation)


def test_all_tags_of_a_hidden_pair_are_hidden_where_the_pair_is():
    found = split({"tags": TAGS, "plays": PLAYS}, "plays", leakage="remove", fraction=0.5, seed=25)
    links, zeros = (found.test.filter(pl.col("value") == value) for value in (1.0, 0.0))
    assert links.rows() == [("ann", "abba", 1.0), ("bob", "cher", 1.0)]
    assert len(zeros) == 2  # as many, or the gaps would tell
    tags = plait.Model(MODEL).bind(found.train).relations["tags"]
    hidden = {(user, artist) for user, artist, _ in found.test.rows()}
    assert len(tags.values) == sum((user, artist) not in hidden for user, artist, _ in TAGS.rows())
    assert tags.missing_cells == 4 * 3


@pytest.mark.parametrize("by", ["cells", ("pair", "i", "k"), ("pair", "j", "k")], ids=str)
def test_leaks_of_hidden_zeros_are_removed_as_those_of_links(by):
    rng = np.random.default_rng(2)
    X, Y = (rng.random((8, 7, 3)) < 0.2).astype(float), (rng.random((8, 7)) < 0.5).astype(float)
    model = "X[i, j, k] = A[i, r] B[j, r] C[k, r]; Y[i, j] = A[i, r] B[j, r]"
    found = split({"X": X, "Y": Y}, "X", model=model, by=by, fraction=0.15, leakage="remove")
    touched = np.zeros(Y.shape, bool)
    touched[found.test["i"], found.test["j"]] = True
    np.testing.assert_array_equal(weights(found, model, "Y")[1], ~touched)
    assert 0 < touched.mean() < 1


@pytest.mark.parametrize("by", ["cells", ("index", "tag")], ids=str)
def test_hiding_all_of_a_coupled_relation_is_refused_with_a_hint(by):
    check_refused(
        ParameterError,
        lambda: split({"tags": TAGS, "plays": PLAYS}, "tags", by=by, fraction=0.7, leakage="remove"),
        "all 4 links of plays", "on user, artist", "`by=('pair', 'user', 'artist')`",
    )  # fmt: skip


@pytest.mark.parametrize("fraction", [0.2, 0.6])
def test_thinned_links_and_their_mirror_images_are_zeros_like_all_others(fraction):
    # A hidden link whose mirror image is hidden too reached the join twice.
    X = mirrored()
    table = pl.DataFrame(dict(zip(("head", "relation", "tail"), np.nonzero(X))))
    labels = {"head": range(8), "relation": range(3)}
    relation = plait.Relation(table, unseen="zero")
    found = split(
        {"nations": relation}, model=NATIONS, by="thinned_links", fraction=fraction, leakage="remove", entities=labels
    )  # fmt: skip
    hidden = hidden_mask(found, X.shape)
    bound, M = weights(found, NATIONS, "nations", labels)
    known = X & ~hidden & ~hidden.transpose(2, 1, 0)
    np.testing.assert_array_equal(bound.cells, np.argwhere(known))
    np.testing.assert_allclose(M, np.where(known, 1.0, 1 - fraction))


# --- inside one relation


def mirrored():
    """Eight nations; every link has its mirror image but one in four."""
    rng = np.random.default_rng(0)
    X = rng.random((8, 3, 8)) < 0.2
    X |= X.transpose(2, 1, 0) & (rng.random(X.shape) < 0.75)
    X[np.arange(8), :, np.arange(8)] = False
    return X


def test_mirror_images_are_leaks_where_two_indices_share_an_axis():
    X = mirrored()
    found = split({"nations": X.astype(float)}, model=NATIONS, by="links")
    hidden = hidden_mask(found, X.shape)
    leaks = hidden & (X & ~hidden).transpose(2, 1, 0)
    assert leaks.any()
    assert found.leaks.rows()[0][:4] == (
        "nations", "head = tail, relation = relation, tail = head", leaks.sum(), leaks.sum()
    )  # fmt: skip
    assert len(split({"nations": X.astype(float)}, model=NATIONS.replace("; tail: head", "")).leaks) == 0


@pytest.mark.parametrize("by", ["cells", "links", ("index", "head"), ("pair", "relation", "tail")], ids=str)
def test_mirror_images_of_zeros_and_links_are_hidden(by):
    X = mirrored()
    found = split({"nations": X.astype(float)}, model=NATIONS, by=by, fraction=0.25, leakage="remove")
    hidden = hidden_mask(found, X.shape)
    np.testing.assert_array_equal(weights(found, NATIONS, "nations")[1], ~(hidden | hidden.transpose(2, 1, 0)))


def test_two_relations_over_one_axis_are_matched_both_ways():
    model = "calls[a, b] = U[a, r] V[b, r]; mails[c, d] = U[c, r] V[d, r]; b: a; c: a; d: a"
    calls = pl.DataFrame({"a": [0, 1, 2], "b": [1, 2, 3]})
    mails = pl.DataFrame({"c": [0, 3, 3], "d": [1, 2, 0]})
    found = split({"calls": calls, "mails": mails}, "calls", model=model, fraction=0.6)
    hidden = set(zip(found.test["a"], found.test["b"]))
    straight, crossed = {(0, 1)} & hidden, {(2, 3)} & hidden
    expected = [("mails", "a = c, b = d")] * len(straight) + [("mails", "a = d, b = c")] * len(crossed)
    assert sorted(row[:2] for row in found.leaks.rows()) == sorted(expected)
    everything = [
        split({"calls": calls, "mails": mails}, "calls", model=model, fraction=0.6, seed=seed).leaks["agree_on"]
        for seed in range(6)
    ]
    assert set(pl.concat(everything)) == {"a = c, b = d", "a = d, b = c"}
