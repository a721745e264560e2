"""A relation without a direction: (a, b) and (b, a) are one cell in every question to a fit and in every split."""

import itertools

import numpy as np
import polars as pl
import pytest
import scipy.sparse

import plait
from plait.errors import DataError
from plait.evaluation.measure import popularity
from plait.evaluation.negative_sampling import KnownLinks, corrupted, uniform

MODEL = plait.Model("F[user, friend] = U[user, r] U[friend, r]; friend: user")
MEETINGS = plait.Model("F[user, friend, k] = U[user, r] U[friend, r] K[k, r]; friend: user")
N, K = 14, 3


def drawn(model=MODEL, seed=0):
    """Pairs in any direction, as a table of names that are not in the order of their first occurrence."""
    rng = np.random.default_rng(seed)
    shape = (N, N) if model is MODEL else (N, N, K)
    X = np.triu(rng.random(shape[:2]) < 0.35, 1).reshape((N, N) + (1,) * (len(shape) - 2)) * rng.integers(1, 4, shape)
    cells = np.argwhere(X)
    turn = rng.random(len(cells)) < 0.5
    cells[turn, :2] = cells[turn, 1::-1]
    names = {"user": [f"u{a:02}" for a in cells[:, 0]], "friend": [f"u{b:02}" for b in cells[:, 1]]}
    more = {} if model is MODEL else {"k": cells[:, 2]}
    both = np.sort(cells[:, :2], axis=1)
    at = (both[:, 0], both[:, 1], *cells[:, 2:].T)
    return pl.DataFrame({**names, **more, "value": X[at].astype(float)}).sample(fraction=1.0, shuffle=True, seed=seed)


def swapped(table):
    return table.rename({"user": "friend", "friend": "user"}).select(table.columns)


def pairs(table):
    """The rows as a set of unordered pairs and what else they say; none may be there twice."""
    others = [c for c in table.columns if c == "k"]
    found = [(frozenset(row[:2]), *row[2:]) for row in table.select("user", "friend", *others).iter_rows()]
    assert len(set(found)) == len(found)
    return set(found)


def fitted(model, data, **options):
    return plait.fit(model, {"F": data}, rank=3, max_iter=5, seed=0, **options)


@pytest.fixture(scope="module")
def fit():
    return fitted(MODEL, drawn())


@pytest.fixture(scope="module")
def meetings():
    return fitted(MEETINGS, drawn(MEETINGS))


def rates(fit):
    U = fit.factors["U"].mean
    return (
        np.einsum("ar,br->ab", U, U) if fit.model is MODEL else np.einsum("ar,br,kr->abk", U, U, fit.factors["K"].mean)
    )


def open_pairs(fit, known=False):
    """The cells that may be proposed, in one writing, best first."""
    X = rates(fit)
    linked = {tuple(map(int, cell)) for cell in fit.known["F"].cells}
    cells = [
        cell for cell in itertools.product(*map(range, X.shape)) if cell[0] < cell[1] and (known or cell not in linked)
    ]
    return sorted(cells, key=lambda cell: -X[cell])


def rows(fit, table):
    return [
        tuple(fit.entities[i].encode(table[i])[n] for i in fit.model.equation("F").indices) for n in range(len(table))
    ]


def test_the_direction_of_pairs_and_indices_changes_no_bit_of_a_fit(fit):
    data = drawn()
    turned = plait.Model("F[friend, user] = U[friend, r] U[user, r]; user: friend")
    for model, other in ((MODEL, swapped(data)), (MODEL, pl.concat([data, swapped(data)])), (turned, data)):
        again = fitted(model, other)
        assert again.objective == fit.objective
        np.testing.assert_array_equal(again.factors["U"].mean, fit.factors["U"].mean)


def test_both_directions_have_the_same_prediction_and_explanation(fit):
    cells = drawn().select("user", "friend")
    one, other = fit.predict("F", cells), fit.predict("F", swapped(cells))
    assert one.drop("user", "friend").equals(other.drop("user", "friend"))
    assert other["user"].equals(cells["friend"])
    a, b = cells.row(0)
    one, other = (fit.explain("F", {"user": u, "friend": v}) for u, v in ((a, b), (b, a)))
    assert one.known
    assert str(one) == str(other)


def test_a_self_link_is_refused(fit):
    with pytest.raises(DataError, match=r"row 1 .*are both 'u01', but F has no self-links"):
        fit.predict("F", {"user": ["u00", "u01"], "friend": ["u02", "u01"]})
    with pytest.raises(DataError, match="cell: user and friend are both 'u01'"):
        fit.explain("F", {"user": "u01", "friend": "u01"})


@pytest.mark.parametrize("name", ["fit", "meetings"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("k", [1, 10, 1000])
def test_top_has_the_best_pairs_once(name, known, k, request):
    fit = request.getfixturevalue(name)
    found = rows(fit, fit.top("F", k, include_known=known))
    wanted = open_pairs(fit, known)[:k]
    assert len(set(found)) == len(found) == len(wanted)
    assert all(cell[0] < cell[1] for cell in found)
    X = rates(fit)
    np.testing.assert_allclose([X[cell] for cell in found], [X[cell] for cell in wanted])


def test_top_of_a_given_entity(fit):
    X, me = rates(fit), 7
    for index, place in (("user", 0), ("friend", 1)):
        found = rows(fit, fit.top("F", 100, given={index: "u07"}))
        assert {cell[place] for cell in found} == {me}
        wanted = [cell for cell in open_pairs(fit) if me in cell]
        assert {frozenset(cell) for cell in found} == set(map(frozenset, wanted))
        np.testing.assert_allclose([X[cell] for cell in found], [X[cell] for cell in wanted])


def test_top_among_some_entities(fit):
    some = [3, 5, 9]
    found = rows(fit, fit.top("F", 100, given={"user": [f"u{a:02}" for a in some]}))
    wanted = {frozenset(cell) for cell in open_pairs(fit) if set(cell) & set(some)}
    assert {frozenset(cell) for cell in found} == wanted
    assert len(found) == len(wanted)
    assert all(cell[0] in some and (cell[1] not in some or cell[0] < cell[1]) for cell in found)


def test_top_of_each_entity(fit, meetings):
    found = rows(fit, fit.top("F", 100, per="user"))
    assert set(found) == {way for cell in open_pairs(fit) for way in (cell, cell[::-1])}
    assert len(found) == len(set(found))
    assert sorted(rows(meetings, meetings.top("F", 1000, per="k"))) == sorted(open_pairs(meetings))


@pytest.mark.parametrize("each", [None, "user"])
def test_exclude_applies_in_both_directions(fit, each):
    best = fit.top("F", 3)
    for table in (best, swapped(best.select("user", "friend"))):
        left = fit.top("F", 1000, exclude=table.select("user", "friend"), per=each)
        gone = {frozenset(row) for row in best.select("user", "friend").iter_rows()}
        assert not gone & {frozenset(row) for row in left.select("user", "friend").iter_rows()}


def test_known_links_have_both_directions_also_after_loading(fit, tmp_path):
    fit.save(tmp_path / "run")
    loaded = plait.load(tmp_path / "run")
    free = np.array(open_pairs(fit))
    for known in (fit.known["F"], loaded.known["F"]):
        assert known.contain(known.cells[:, ::-1]).all()
        np.testing.assert_array_equal(known.values_at(known.cells[:, ::-1]), known.values)
        assert not known.contain(free[:, ::-1]).any()
        assert not known.values_at(free).any()
    assert loaded.top("F", 20).equals(fit.top("F", 20))


WAYS = {
    "cells": {"fraction": 0.3},
    "links": {"fraction": 0.3},
    "thinned_links": {"fraction": 0.3},
    "entities": {"fraction": 0.3, "by": ("index", "friend")},
    "pairs": {"fraction": 0.3, "by": ("pair", "user", "friend")},
    "last": {"by": ("leave_last_out", "user")},
}


def kinds(table):
    """The same data, one way and both ways, and as arrays."""
    number = {f"u{a:02}": a for a in range(N)}
    X = np.zeros((N, N))
    for a, b, value in table.iter_rows():
        X[number[a], number[b]] = X[number[b], number[a]] = value
    return {"one way": table, "both ways": pl.concat([table, swapped(table)]), "dense": X,
            "sparse": scipy.sparse.coo_array(np.tril(X))}  # fmt: skip


@pytest.mark.parametrize("kind", ["one way", "both ways", "dense", "sparse"])
@pytest.mark.parametrize("way", WAYS)
def test_no_direction_of_a_hidden_pair_is_left(way, kind):
    data = kinds(drawn())[kind]
    options = {"by": way, **WAYS[way]}
    train, test = split = plait.train_test_split({"F": data}, model=MODEL, seed=1, leakage="warn", **options)
    hidden = pairs(test)
    before, after = (MODEL.bind({"F": d}).relations["F"] for d in (data, train["F"]))
    labels = MODEL.bind({"F": data}).entities["user"]
    left = {(frozenset(labels[int(row)] for row in cell),) for cell in after.cells}
    assert not left & hidden
    links = {(frozenset(row[:2]),) for row in test.iter_rows() if row[2] > 0}
    assert len(before.links) - len(after.links) == len(links) == split.links
    assert not len(split.leaks)
    if way in ("links", "thinned_links"):
        assert split.chosen == round(0.3 * len(before.links))
    if way == "cells":
        assert split.candidates == before.observed_cells
        assert after.observed_cells == before.observed_cells - len(hidden)
    if way == "last":
        assert set(np.unique(after.cells)) == set(np.unique(before.cells))


def test_a_split_does_not_depend_on_the_direction_of_pairs():
    splits = [
        plait.train_test_split({"F": kinds(drawn())[k]}, model=MODEL, fraction=0.3, seed=4)
        for k in ("one way", "both ways")
    ]
    assert splits[0].test.equals(splits[1].test)


def test_evaluate_takes_both_directions_for_one_cell():
    train, test = plait.train_test_split({"F": drawn()}, model=MODEL, fraction=0.3, by="cells", seed=0)
    fit = plait.fit(MODEL, train, rank=2, max_iter=3, seed=0)
    wanted = plait.evaluate(fit, "F", test, target=True, k=3)
    for other in (swapped(test), pl.concat([test, swapped(test)])):
        assert dict(plait.evaluate(fit, "F", other, target=True, k=3)) == dict(wanted)


def test_two_values_for_a_pair_are_refused(fit):
    with pytest.raises(DataError, match=r"rows 0 and 1 .*: both rows contain user='u00', friend='u01'"):
        plait.evaluate(fit, "F", {"user": ["u00", "u01"], "friend": ["u01", "u00"], "value": [1, 2]})


@pytest.mark.filterwarnings("ignore::plait.errors.LeakWarning")
def test_rivals_are_no_known_pairs_and_no_self_links(fit):
    X, (a, b) = rates(fit), open_pairs(fit)[5]
    found = plait.evaluate(fit, "F", {"user": [f"u{b:02}"], "friend": [f"u{a:02}"]}, target="friend", negatives=0)
    linked = {frozenset(map(int, cell)) for cell in fit.known["F"].cells}
    rivals = [c for c in range(N) if c not in (a, b) and frozenset((a, c)) not in linked]
    assert found["mean_rank"] == 1 + sum(X[a, c] > X[a, b] for c in rivals)


def test_negatives_are_neither_known_nor_tested(fit):
    tested = np.array(open_pairs(fit)[:5])[:, ::-1]
    links, rng = (
        KnownLinks(fit.known["F"], fit.known["F"].structural_zeros, tested, ["user", "user"]),
        np.random.default_rng(0),
    )
    linked = {frozenset(map(int, cell)) for cell in (*fit.known["F"].cells, *tested)}
    for cells in (uniform(links, 500, rng), corrupted(links, np.repeat(tested, 50, axis=0), 1, rng)[0]):
        assert not linked & {frozenset(map(int, cell)) for cell in cells}
        assert (cells[:, 0] != cells[:, 1]).all()


def test_popularity_counts_the_links_of_both_ends(fit):
    degree = np.bincount(fit.known["F"].cells.ravel().astype(int), minlength=N)
    found = popularity(fit, "F", {"user": ["u03"], "friend": ["u08"]})
    assert found.tolist() == [degree[3] * degree[8]]


@pytest.mark.filterwarnings("ignore::plait.errors.LeakWarning")
def test_a_symmetric_fit_is_compared_with_one_of_two_factors(fit):
    data = drawn()
    other = fitted(
        plait.Model("F[user, friend] = U[user, r] V[friend, r]; friend: user"), pl.concat([data, swapped(data)])
    )
    free = open_pairs(fit)[:6]
    test = {"user": [f"u{a:02}" for a, _ in free], "friend": [f"u{b:02}" for _, b in free]}
    found = plait.compare({"one": fit, "two": other}, "F", test, target="friend")
    assert found.metrics["one"].links == found.metrics["two"].links == 6
