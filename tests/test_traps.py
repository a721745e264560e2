"""Every silent trap warns once, by a class of its own, with a cure; what comes near one does not."""

import warnings

import numpy as np
import polars as pl
import pytest

import plait
from plait.model.lone_latent import model_traps
from tests.caught import bound_to, caught, fitted, one
from tests.models import MODELS

MATRIX = "X[i, j] = A[i, r] B[j, r]"


COUNTS = np.random.default_rng(0).poisson(2.0, (8, 6)).astype(float)


# --- the model


@pytest.mark.parametrize(
    "text",
    [
        "X[i, j] = U[i, r] P[j]",
        "X[i, j] = U[i, r] P[j]; Y[i, k] = U[i, r] Q[k]",
        "X[i, j, k] = U[i, r] P[j] Q[k, s] w[s]",
    ],
)
def test_a_factor_without_its_latent_index_is_named(text):
    shapes = {"X": (8, 6, 4) if "k]" in text.split("=")[0] else (8, 6), "Y": (8, 4)}
    data = {name: np.ones(shapes[name]) for name in plait.Model(text).relations}
    rank = dict.fromkeys(plait.Model(text).latent, 2)
    one(caught(fitted(text, data, rank=rank)), plait.LoneLatentWarning, "r stands in U[i, r] only", "P[j, r]?")


def test_a_factor_that_stands_twice_is_woven_with_itself():
    text = "X[user, place, friend] = P[place] U[user, r] U[friend, r]; friend: user"
    assert list(model_traps(plait.Model(text), ())) == []


def test_no_equation_of_the_tests_has_a_lone_latent_index():
    assert [name for name, text in MODELS.items() if list(model_traps(plait.Model(text), ()))] == []


def test_a_given_factor_beside_a_lone_latent_index_is_no_trap():
    fixed = {"v": np.ones(6)}
    assert caught(fitted("X[i, j] = U[i, r] v[j]", {"X": COUNTS}, rank=2, fixed=fixed)) == []


@pytest.mark.parametrize(
    "text", ["X[i, j] = V[i, j] A[i, r] B[j, r]", "X[i, j] = A[i, r] B[j, r] + w[] V[i, j]", "X[i, j] = a[i] V[i, j]"]
)
def test_a_factor_of_visible_indices_that_multiplies_unknown_ones_is_perhaps_forgotten(text):
    rank = 2 if "r]" in text else None
    found = caught(fitted(text, {"X": COUNTS}, rank=rank))
    one(found, plait.ForgottenFactorWarning, "V[i, j] has visible indices only", "`fixed={'V': …}`", "V[i, j, z]")
    assert caught(fitted(text, {"X": COUNTS}, rank=rank, fixed={"V": np.ones((8, 6))})) == []


@pytest.mark.parametrize(
    "text",
    [
        "X[i, j] = M[i, j] + A[i, r] B[j, r]",  # a memory of its own
        "X[i, j] = M[i, j, z] A[i, r] B[j, r]",
        "X[i, j] = E[i] M[i, j] + A[i, r] B[j, r]",  # a memory under an exposure
        "X[i, j] = a[i] b[j]",
    ],
)
def test_other_factors_of_visible_indices_are_meant(text):
    assert list(model_traps(plait.Model(text), ("E",))) == []


# --- names

COUPLED = "visits[user, place] = U[user, r] P[place, r]; kinds[place, kind] = P[place, r] K[kind, r]"


def coupled(places, others):
    visits = pl.DataFrame({"user": ["ann", "bob", "ann"], "place": places})
    return bound_to(COUPLED, visits=visits, kinds=pl.DataFrame({"place": others, "kind": ["food", "green", "food"]}))


def test_coupled_tables_without_a_common_name_are_told():
    found = caught(coupled(["roof", "park", "gym"], ["bar", "mill", "dock"]))
    one(found, plait.NoCommonNamesWarning, "axis place", "visits has no name in common with kinds", "'bar'", "Spell")


def test_other_case_is_two_traps_each_told_once():
    found = caught(coupled(["Cafe", "Park", "Gym"], ["cafe", "park", "gym"]))
    assert {category for category, _ in found} == {plait.NoCommonNamesWarning, plait.SpellingWarning}
    assert len(found) == 2


def test_one_common_name_is_enough():
    assert caught(coupled(["roof", "park", "gym"], ["bar", "park", "dock"])) == []


def labelled(names):
    table = pl.DataFrame({"i": names, "j": ["x", "y"] * (len(names) // 2)})
    return bound_to(MATRIX, X=table)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["ann", "bob", "Bob", "cem"], ("1 of 4 names differ", "'Bob' and 'bob'")),
        (["New York", "Rome", "NEW YORK", "Oslo"], ("'NEW YORK' and 'New York'",)),
        (["new york", "rome", "new  york", "oslo"], ("'new  york' and 'new york'",)),
        (["aB3x", "cD4y", "Ef5  z", "Ef5 z"], ("'Ef5  z' and 'Ef5 z'",)),
        (["ann", " bob", "cem", "dee"], ("1 of 4 names begin or end with a blank", "' bob'", "`strip=True`")),
        (["ann", "bob\t", "cem", "dee "], ("2 of 4 names begin or end",)),
        (["İzmir", "Ankara", "ANKARA", "Bursa"], ("'ANKARA' and 'Ankara'",)),
    ],
)
def test_names_that_a_person_would_read_as_one_are_told(names, words):
    one(caught(labelled(names)), plait.SpellingWarning, "axis i", *words)


@pytest.mark.parametrize(
    "names",
    [
        ["ann", "bob", "bobby", "cem"],
        ["a", "A", "b", "B"],  # symbols
        ["aB3x", "Ab3X", "cD4y", "Ef5z"],  # codes
        ["New York", "Rome", "Newyork", "Oslo"],
        [1, 2, 3, 4],
    ],
)
def test_names_that_differ_otherwise_are_no_trap(names):
    assert caught(labelled(names)) == []


# --- axes, zeros, directions


def events(times):
    rng = np.random.default_rng(1)
    table = pl.DataFrame({"user": rng.integers(0, 20, len(times)), "time": times})
    return bound_to("X[user, time] = U[user, r] T[time, r]", X=plait.Relation(table, duplicates="sum"))


def test_an_axis_with_as_many_entities_as_rows_is_told():
    found = caught(events(np.arange(600) * 60))
    one(found, plait.EventAxisWarning, "X, index time", "600 entities in 600 rows", "weekdays")


def test_coarser_times_are_no_trap_nor_are_few_rows_nor_names_known_elsewhere():
    assert caught(events(np.arange(600) * 60 // 120)) == []
    assert caught(events(np.arange(80))) == []
    home = pl.DataFrame({"user": np.arange(600), "city": np.arange(600) % 7})
    seen = pl.DataFrame({"user": np.arange(600), "place": np.arange(600) % 11})
    text = "home[user, city] = U[user, r] C[city, r]; seen[user, place] = U[user, r] P[place, r]"
    assert caught(bound_to(text, home=home, seen=seen)) == []


def some_cells(value):
    cells = np.random.default_rng(2).permutation(400)[:80]
    return pl.DataFrame({"i": cells // 20, "j": cells % 20, "value": np.broadcast_to(value, 80)})


def test_listed_links_without_a_zero_are_told():
    relation = plait.Relation(some_cells(1), observed="listed")
    one(caught(bound_to(MATRIX, X=relation)), plait.NoZerosWarning, "all 80 listed cells are 1", '`observed="all"`')


@pytest.mark.parametrize(
    "relation",
    [
        plait.Relation(some_cells(1)),
        plait.Relation(some_cells([0] + [1] * 79), observed="listed"),
        plait.Relation(some_cells(1 + np.arange(80) % 5), observed="listed"),  # ratings
        plait.Relation(some_cells(1)[:8], observed="listed"),
    ],
    ids=["all", "a zero", "ratings", "few"],
)
def test_zeros_or_values_that_differ_are_no_trap(relation):
    assert caught(bound_to(MATRIX, X=relation)) == []


GRAPH = "X[a, b] = A[a, r] B[b, r]; b: a"


def graph(count=40, links=150, seed=3):
    """Pairs a < b, each once."""
    pairs = np.argwhere(np.triu(np.ones((count, count)), 1))
    pairs = np.random.default_rng(seed).permutation(pairs)[:links]
    return pl.DataFrame({"a": pairs[:, 0], "b": pairs[:, 1]})


def mirrored(table):
    return table.select(a="b", b="a")


def test_an_edge_list_of_each_pair_once_is_told():
    found = caught(bound_to(GRAPH, X=graph()))
    one(found, plait.OneWayWarning, "none of 150 links between 'a' and 'b'", "both ways")


def test_an_array_of_one_triangle_is_told():
    one(caught(bound_to(GRAPH, X=np.triu(np.ones((12, 12)), 1))), plait.OneWayWarning, "66 links")


@pytest.mark.parametrize(
    "data",
    [
        pl.concat([graph(), mirrored(graph())]),
        pl.concat([graph(), mirrored(graph()).head(1)]),
        plait.Relation(graph(), missing=mirrored(graph())),
        plait.Relation(graph(), observed=0.0),
        graph(links=30),
    ],
    ids=["both ways", "one both ways", "other way missing", "zeros weigh nothing", "few"],
)
def test_links_both_ways_or_not_observed_the_other_way_are_no_trap(data):
    assert caught(bound_to(GRAPH, X=data)) == []


def test_two_axes_have_no_direction():
    assert caught(bound_to("X[a, b] = A[a, r] B[b, r]", X=graph())) == []


# --- fits


@pytest.mark.parametrize("X", [np.zeros((6, 5)), np.full((6, 5), np.nan)])
def test_data_without_a_link_are_told(X):
    one(caught(fitted(MATRIX, {"X": X}, rank=2)), plait.NoLinksWarning, "X: no link is observed")
    X[0, 0] = 1
    assert caught(fitted(MATRIX, {"X": X}, rank=2)) == []


def test_a_rank_that_the_data_cannot_hold_is_told():
    one(caught(fitted(MATRIX, {"X": COUNTS}, rank=30)), plait.RankWarning, "it is 30", "8 × 6", "can hold 6", "smaller")
    assert caught(fitted(MATRIX, {"X": COUNTS}, rank=18)) == []
    assert caught(fitted(MATRIX, {"X": COUNTS}, rank=30, prune=True)) == []


USERS = [f"u{n}" for n in range(50)]


def folded(table, **options):
    """A new item by the users who have it, their factor given."""
    U = np.random.default_rng(4).gamma(0.5, 1.0, (50, 3))
    relation = plait.Relation(table, likelihood="bernoulli", **options)
    fixed = {"fixed": {"U": U}, "labels": {"user": USERS}}
    return fitted("X[user, item] = U[user, r] P[item, r]", {"X": relation}, rank=3, **fixed)


def test_declared_users_of_a_given_factor_that_are_all_missing_are_told():
    found = caught(folded(pl.DataFrame({"user": USERS[:6], "item": ["new"] * 6})))
    one(
        found,
        plait.GivenRowsWarning,
        "44 of 50 rows of the given factor U",
        "6 links and 0 zeros",
        '`universe="model"`',
        "fold-in",
    )


def test_given_rows_that_are_zeros_or_have_listed_zeros_are_no_trap():
    links = pl.DataFrame({"user": USERS[:6], "item": ["new"] * 6})
    assert caught(folded(links, universe="model")) == []
    listed = pl.DataFrame({"user": USERS[:20], "item": ["new"] * 20, "value": [1] * 6 + [0] * 14})
    assert caught(folded(listed)) == []


# --- once, and silenced


def test_several_places_of_one_kind_are_one_warning():
    table = pl.DataFrame({"i": ["ann", "Ann", "bob", "cem"], "j": ["tea", "Tea", "ale", "rum"]})
    one(caught(bound_to(MATRIX, X=table)), plait.SpellingWarning, "axis i", "The same in axis j.")


def test_bound_data_do_not_warn_again_when_they_are_fitted():
    table = pl.DataFrame({"i": ["ann", "Ann", "bob", "cem"], "j": ["tea", "Tea", "ale", "rum"]})
    model = plait.Model(MATRIX)
    assert len(caught(fitted(model, {"X": table}, rank=2))) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = model.bind({"X": table})
    assert caught(fitted(model, data, rank=2)) == []


def test_hiding_leaves_the_warning_to_the_fit():
    table = pl.DataFrame({"i": ["ann", "Ann", "bob", "cem"] * 2, "j": list("aaaabbbb")})
    assert caught(lambda: plait.hide(table, fraction=0.2, seed=0)) == []


def test_one_kind_can_be_silenced_alone():
    data = {"X": np.zeros((8, 6)), "Y": COUNTS}
    text = "X[i, j] = U[i, r] P[j]; Y[i, j] = V[i, s] W[j, s]"
    call = fitted(text, data, rank={"r": 2, "s": 30})
    kinds = {plait.LoneLatentWarning, plait.NoLinksWarning, plait.RankWarning}
    assert {category for category, _ in caught(call)} == kinds
    for kind in kinds:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", kind)
            call()
        assert {one.category for one in found} == kinds - {kind}


def test_every_warning_is_public_and_has_one_base():
    kinds = [getattr(plait, name) for name in plait.__all__ if name.endswith("Warning")]
    assert set(kinds) == {plait.PlaitWarning, *plait.PlaitWarning.__subclasses__()}
    assert issubclass(plait.PlaitWarning, UserWarning)
