"""Warnings of suspicious data and models: one class each, with a hint; similar data without the problem are silent."""

import warnings

import numpy as np
import polars as pl
import pytest

import plait
from plait.checks import check_model
from tests.support.caught_warnings import bound_to, caught, fitted, one
from tests.support.models import MODELS

MATRIX = "X[i, j] = A[i, r] B[j, r]"
GRAPH = "X[a, b] = A[a, r] B[b, r]; b: a"
COUPLED = "visits[user, place] = U[user, r] P[place, r]; kinds[place, kind] = P[place, r] K[kind, r]"
COUNTS = np.random.default_rng(0).poisson(2.0, (8, 6)).astype(float)
V = np.ones((8, 6))
USERS = [f"u{n}" for n in range(50)]


def model(text, **arguments):
    """A fit of this model; its index r has rank 2."""
    parsed = plait.Model(text)
    sizes = {"i": 8, "j": 6, "k": 4, "user": 5, "friend": 5, "place": 4}
    data = {e.relation: np.ones([sizes[index] for index in e.indices]) for e in parsed.equations}
    rank = dict.fromkeys(parsed.latent, 2) or None
    return fitted(text, data, rank=rank, **arguments)


def coupled(places, others):
    visits = pl.DataFrame({"user": ["ann", "bob", "ann"], "place": places})
    return bound_to(COUPLED, visits=visits, kinds=pl.DataFrame({"place": others, "kind": ["food", "green", "food"]}))


def names(*labels):
    return bound_to(MATRIX, X=pl.DataFrame({"i": labels, "j": ["x", "y"] * (len(labels) // 2)}))


def events(times):
    table = pl.DataFrame({"user": np.random.default_rng(1).integers(0, 20, len(times)), "time": times})
    return bound_to("X[user, time] = U[user, r] T[time, r]", X=plait.Relation(table, duplicates="sum"))


def cells(value, count=80, **options):
    drawn = np.random.default_rng(2).permutation(400)[:80]
    table = pl.DataFrame({"i": drawn // 20, "j": drawn % 20, "value": np.broadcast_to(value, 80)})
    return bound_to(MATRIX, X=plait.Relation(table[:count], **options))


def graph(links=150):
    """Pairs a < b, each once."""
    pairs = np.argwhere(np.triu(np.ones((40, 40)), 1))
    pairs = np.random.default_rng(3).permutation(pairs)[:links]
    return pl.DataFrame({"a": pairs[:, 0], "b": pairs[:, 1]})


def links(data, text=GRAPH):
    return bound_to(text, X=data)


MIRRORED = graph().select(a="b", b="a")


def folded(values, **options):
    """A new item of the first users, whose factor is given."""
    U = np.random.default_rng(4).gamma(0.5, 1.0, (50, 3))
    table = pl.DataFrame({"user": USERS[: len(values)], "item": ["new"] * len(values), "value": values})
    data = {"X": plait.Relation(table, likelihood="bernoulli", **options)}
    text = "X[user, item] = U[user, r] P[item, r]"
    return fitted(text, data, rank=3, fixed={"U": U}, entities={"user": USERS})


def matrix(X, rank=2, **options):
    return fitted(MATRIX, {"X": X}, rank=rank, **options)


UNUSED, EXPOSURE = plait.errors.UnusedLatentIndexWarning, plait.errors.MissingExposureWarning
SPELLING, DISJOINT = plait.errors.SpellingWarning, plait.errors.DisjointEntitiesWarning
UNIQUE, COVERAGE = plait.errors.UniqueAxisWarning, plait.errors.FixedFactorCoverageWarning
FIXED = ("V[i, j] has only visible indices", "`fixed={'V': …}`", "V[i, j, z]")

# The call, the class of its only warning, words of the message.
WARNS = [
    (model("X[i, j] = U[i, r] P[j]"), UNUSED, "r occurs in U[i, r] only", "P[j, r]?"),
    (model("X[i, j] = U[i, r] P[j]; Y[i, k] = U[i, r] Q[k]"), UNUSED, "r occurs in U[i, r] only", "P[j, r]?"),
    (model("X[i, j, k] = U[i, r] P[j] Q[k, s] w[s]"), UNUSED, "r occurs in U[i, r] only", "P[j, r]?"),
    (model("X[i, j] = V[i, j] A[i, r] B[j, r]"), EXPOSURE, *FIXED),
    (model("X[i, j] = A[i, r] B[j, r] + w[] V[i, j]"), EXPOSURE, *FIXED),
    (model("X[i, j] = a[i] V[i, j]"), EXPOSURE, *FIXED),
    (coupled(["roof", "park", "gym"], ["bar", "mill", "dock"]), DISJOINT, "axis place", "'bar'"),
    (names("ann", "bob", "Bob", "cem"), SPELLING, "axis i", "1 of 4 names differ", "'Bob' and 'bob'"),
    (names("New York", "Rome", "NEW YORK", "Oslo"), SPELLING, "'NEW YORK' and 'New York'"),
    (names("new york", "rome", "new  york", "oslo"), SPELLING, "'new  york' and 'new york'"),
    (names("aB3x", "cD4y", "Ef5  z", "Ef5 z"), SPELLING, "'Ef5  z' and 'Ef5 z'"),
    (names("ann", " bob", "cem", "dee"), SPELLING, "1 of 4 names begin or end", "' bob'", "`strip=True`"),
    (names("ann", "bob\t", "cem", "dee "), SPELLING, "2 of 4 names begin or end"),
    (names("İzmir", "Ankara", "ANKARA", "Bursa"), SPELLING, "'ANKARA' and 'Ankara'"),
    (events(np.arange(600) * 60), UNIQUE, "X, index time", "600 entities in 600 rows", "weekdays"),
    (cells(1, observed="listed"), plait.errors.NoZerosWarning, "all 80 listed cells are 1", '`observed="all"`'),
    (links(graph()), plait.errors.AsymmetricLinksWarning, "none of 150 links between 'a' and 'b'", "both directions"),
    (links(np.triu(np.ones((12, 12)), 1)), plait.errors.AsymmetricLinksWarning, "66 links"),
    (matrix(np.zeros((6, 5))), plait.errors.NoLinksWarning, "X: no link is observed"),
    (matrix(np.full((6, 5), np.nan)), plait.errors.NoLinksWarning, "X: no link is observed"),
    (matrix(COUNTS, rank=30), plait.errors.RankWarning, "the rank is 30", "8 × 6", "at most 6", "smaller"),
    (folded([1] * 6), COVERAGE, "44 of 50 rows of the fixed factor U", "6 links", '`unseen="zero"`'),
]  # fmt: skip

SILENT = {
    "a factor twice in a term": model("X[user, place, friend] = P[place] U[user, r] U[friend, r]; friend: user"),
    "a given factor next to a lone index": model("X[i, j] = U[i, r] v[j]", fixed={"v": np.ones(6)}),
    "a given factor": model("X[i, j] = V[i, j] A[i, r] B[j, r]", fixed={"V": V}),
    "a given factor of a sum": model("X[i, j] = A[i, r] B[j, r] + w[] V[i, j]", fixed={"V": V}),
    "a given factor without rank": model("X[i, j] = a[i] V[i, j]", fixed={"V": V}),
    "a memory": model("X[i, j] = M[i, j] + A[i, r] B[j, r]"),
    "a gate of pairs that repeat": model("X[i, j, k] = M[i, j] A[i, r] B[j, r] C[k, r]"),
    "a memory under an exposure": model("X[i, j] = E[i] M[i, j] + A[i, r] B[j, r]", fixed={"E": np.ones(8)}),
    "a latent index of its own": model("X[i, j] = M[i, j, z] A[i, r] B[j, r] w[z]"),
    "vectors": model("X[i, j] = a[i] b[j]"),
    "one common name": coupled(["roof", "park", "gym"], ["bar", "park", "dock"]),
    "other names": names("ann", "bob", "bobby", "cem"),
    "symbols": names("a", "A", "b", "B"),
    "codes": names("aB3x", "Ab3X", "cD4y", "Ef5z"),
    "one word or two": names("New York", "Rome", "Newyork", "Oslo"),
    "numbers": names(1, 2, 3, 4),
    "coarse times": events(np.arange(600) * 60 // 120),
    "few rows": events(np.arange(80)),
    "names of another relation": bound_to(
        "home[user, city] = U[user, r] C[city, r]; seen[user, place] = U[user, r] P[place, r]",
        home=pl.DataFrame({"user": np.arange(600), "city": np.arange(600) % 7}),
        seen=pl.DataFrame({"user": np.arange(600), "place": np.arange(600) % 11}),
    ),
    "all cells": cells(1),
    "a zero": cells([0] + [1] * 79, observed="listed"),
    "ratings": cells(1 + np.arange(80) % 5, observed="listed"),
    "few cells": cells(1, 8, observed="listed"),
    "both directions": links(pl.concat([graph(), MIRRORED])),
    "one both ways": links(pl.concat([graph(), MIRRORED.head(1)])),
    "other way missing": links(plait.Relation(graph(), missing=MIRRORED)),
    "zeros without weight": links(plait.Relation(graph(), observed=0.0)),
    "few links": links(graph(30)),
    "two axes": links(graph(), "X[a, b] = A[a, r] B[b, r]"),
    "one link": matrix(np.eye(6)[:, :5]),
    "a lower rank": matrix(COUNTS, rank=18),
    "a pruned rank": matrix(COUNTS, rank=30, prune=True),
    "given rows that are zeros": folded([1] * 6, unseen="zero"),
    "given rows with listed zeros": folded([1] * 6 + [0] * 14),
}


@pytest.mark.parametrize(("call", "kind", "words"), [(call, kind, words) for call, kind, *words in WARNS])
def test_suspicious_data_give_one_warning(call, kind, words):
    one(caught(call), kind, *words)


@pytest.mark.parametrize("name", SILENT)
def test_similar_data_are_silent(name):
    assert caught(SILENT[name]) == []


def test_no_model_of_the_tests_has_an_unused_latent_index():
    assert [name for name, text in MODELS.items() if list(check_model(plait.Model(text), ()))] == []


def test_other_case_gives_two_warnings():
    found = caught(coupled(["Cafe", "Park", "Gym"], ["cafe", "park", "gym"]))
    assert sorted(kind.__name__ for kind, _ in found) == ["DisjointEntitiesWarning", "SpellingWarning"]


def test_two_axes_with_one_problem_give_one_warning():
    table = pl.DataFrame({"i": ["ann", "Ann", "bob", "cem"], "j": ["tea", "Tea", "ale", "rum"]})
    one(caught(bound_to(MATRIX, X=table)), SPELLING, "axis i", "The same in axis j.")
    parsed = plait.Model(MATRIX)
    assert len(caught(fitted(parsed, {"X": table}, rank=2))) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = parsed.bind({"X": table})
    assert caught(fitted(parsed, data, rank=2)) == []
    assert caught(lambda: plait.train_test_split(table, fraction=0.2, seed=0)) == []


def test_one_kind_is_silenced_alone():
    data = {"X": np.zeros((8, 6)), "Y": COUNTS}
    text = "X[i, j] = U[i, r] P[j]; Y[i, j] = V[i, s] W[j, s]"
    call = fitted(text, data, rank={"r": 2, "s": 30})
    kinds = {UNUSED, plait.errors.NoLinksWarning, plait.errors.RankWarning}
    assert {category for category, _ in caught(call)} == kinds
    for kind in kinds:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", kind)
            call()
        assert {one.category for one in found} == kinds - {kind}
