"""plait.evidence.paths against the enumeration of all simple paths; hidden links do not enter."""

from math import prod

import networkx as nx
import numpy as np
import polars as pl
import pytest
from scipy.sparse import coo_array

import plait
from plait import Exposure, Model, Relation
from plait.data.binding.given import bind_exposure
from plait.errors import DataError
from tests.support.data_errors import assert_mentions, error_text

FRIENDS = Model("friends[user, friend] = U[user, r] F[friend, r]\nfriend: user")
LIKES = Model("likes[user, item] = U[user, r] I[item, r]")


def enumerated(graph, length, pairs=None):
    """Σ over simple paths of the product of 1/degree of all nodes within, by pair; only pairs that have a path."""
    found = {}
    for a, b in pairs or [(a, b) for a in graph for b in graph if a != b]:
        ways = [way for way in nx.all_simple_paths(graph, a, b, cutoff=length) if len(way) == length + 1]
        if ways:
            found[a, b] = sum(1 / prod(graph.degree(node) for node in way[1:-1]) for way in ways)
    return found


def as_dict(table):
    assert table.columns[-1] == "value"
    found = {(a, b): value for a, b, value in table.rows()}
    assert len(found) == len(table)
    return found


def assert_same(table, expected):
    found = as_dict(table)
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[pair] for pair in expected], list(expected.values()), rtol=1e-12)


def table_of(graph, names=("user", "friend")):
    return pl.DataFrame(list(graph.edges()), list(names), orient="row")


GRAPHS = {
    "random": nx.gnp_random_graph(14, 0.25, seed=1),
    "dense": nx.gnp_random_graph(9, 0.7, seed=2),
    "complete": nx.complete_graph(5),
    "cycle": nx.cycle_graph(4),
    "triangle": nx.complete_graph(3),
    "path": nx.path_graph(5),
    "hub": nx.wheel_graph(9),
    "karate": nx.karate_club_graph(),
    "one link": nx.path_graph(2),
}
SIDED = nx.bipartite.random_graph(8, 7, 0.4, seed=3)


# the sums -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_sums_equal_the_enumeration_of_simple_paths(name, length):
    graph = GRAPHS[name]
    assert_same(plait.evidence.paths(graph, length, model=FRIENDS), enumerated(graph, length))


def test_paths_of_length_2_are_resource_allocation():
    graph = GRAPHS["karate"]
    every = [(a, b) for a in graph for b in graph if a != b]
    expected = {(a, b): value for a, b, value in nx.resource_allocation_index(graph, every) if value}
    assert_same(plait.evidence.paths(graph, model=FRIENDS), expected)


def test_paths_of_length_3_between_two_axes_equal_the_enumeration():
    users = [node for node, side in SIDED.nodes(data="bipartite") if side == 0]
    items = [node for node in SIDED if node not in users]
    expected = enumerated(SIDED, 3, [(user, item) for user in users for item in items])
    assert_same(plait.evidence.paths(SIDED, length=3, model=LIKES), expected)


def test_two_axes_of_the_same_names_are_kept_apart():
    likes = pl.DataFrame({"user": [0, 0, 1], "item": [0, 1, 1]})
    assert as_dict(plait.evidence.paths(likes, 3, model=LIKES)) == {(1, 0): 0.25}


@pytest.mark.parametrize("length", [2, 3])
def test_the_value_of_a_pair_does_not_depend_on_its_own_link(length):
    graph = GRAPHS["random"]
    known = as_dict(plait.evidence.paths(graph, length, model=FRIENDS))
    for a, b in graph.edges():
        without = graph.copy()
        without.remove_edge(a, b)
        unknown = as_dict(plait.evidence.paths(without, length, model=FRIENDS))
        assert known.get((a, b), 0) == pytest.approx(unknown.get((a, b), 0), rel=1e-12)
        assert ((a, b) in known) == ((a, b) in unknown)


@pytest.mark.parametrize("length", [2, 3])
def test_both_directions_have_bitwise_equal_values(length):
    found = as_dict(plait.evidence.paths(nx.gnp_random_graph(40, 0.3, seed=5), length, model=FRIENDS))
    assert all(found[b, a] == value > 0 for (a, b), value in found.items())
    assert all(a != b for a, b in found)


def test_small_chunks_give_the_same_table(tuning):
    whole = [plait.evidence.paths(GRAPHS["karate"], length, model=FRIENDS) for length in (2, 3)]
    tuning(path_sums=1)
    for length, table in zip((2, 3), whole):
        assert plait.evidence.paths(GRAPHS["karate"], length, model=FRIENDS).equals(table)


# links ------------------------------------------------------------------------------------------------------------


def test_every_kind_of_relation_gives_the_same_table():
    graph = GRAPHS["random"]
    links = nx.to_numpy_array(graph)
    table, names = table_of(graph), ("user", "friend")
    expected = plait.evidence.paths(graph, 3, model=FRIENDS)
    for given in (
        table,
        table.to_pandas(),
        Relation(table.rename({"user": "from"}), columns={"user": "from"}),
        Relation(graph, indices=names),
        Relation(links, indices=names),
        Relation(np.triu(links), indices=names),
        Relation(coo_array(links), indices=names),
    ):
        assert pl.DataFrame(plait.evidence.paths(given, 3)).equals(expected), type(given)
    for given in (table, links, graph):
        assert plait.evidence.paths(given, 3, model=str(FRIENDS)).equals(expected)


def test_values_weights_and_directions_of_links_do_not_matter():
    graph = GRAPHS["random"]
    table = table_of(graph)
    expected = plait.evidence.paths(table)
    counted = table.with_columns(plays=pl.int_range(1, len(table) + 1))
    assert plait.evidence.paths(Relation(counted, value="plays", weight=0.5)).equals(expected)
    turned = table.select(user="friend", friend="user")
    assert plait.evidence.paths(turned).equals(expected)
    assert plait.evidence.paths(pl.concat([table, turned])).equals(expected)


def test_self_links_zeros_and_isolated_nodes_change_nothing():
    table = table_of(GRAPHS["random"]).with_columns(value=1)
    more = pl.DataFrame({"user": [0, 3, 99], "friend": [0, 99, 3], "value": [1, 0, 0]})
    assert plait.evidence.paths(pl.concat([table, more], how="vertical_relaxed")).equals(plait.evidence.paths(table))


@pytest.mark.parametrize("length", [2, 3])
def test_hidden_and_missing_cells_do_not_enter(length):
    table = table_of(GRAPHS["karate"])
    kept, gone = table[:50], table[50:]
    expected = plait.evidence.paths(kept, length)
    for option in ("hidden", "missing"):
        assert plait.evidence.paths(Relation(table, **{option: gone}), length).equals(expected)
    slices = Relation(table, missing=pl.DataFrame({"user": [0]}))
    assert plait.evidence.paths(slices, length).equals(plait.evidence.paths(table.filter(pl.col("user") != 0), length))


def test_links_hidden_by_a_split_do_not_enter():
    train, _ = plait.train_test_split(
        {"friends": GRAPHS["karate"]}, model=FRIENDS, fraction=0.3, by="links", seed=0, leakage="remove"
    )
    known = FRIENDS.bind(train)
    names = [[known.entities["user"][int(row)] for row in column] for column in known.relations["friends"].cells.T]
    assert_same(plait.evidence.paths(train["friends"], 3, model=FRIENDS), enumerated(nx.Graph(zip(*names)), 3))


def test_a_graph_without_paths_gives_an_empty_table_of_the_same_columns():
    table = plait.evidence.paths(pl.DataFrame({"user": ["a", "b"], "friend": ["b", "a"]}))
    assert table.schema == {"user": pl.String, "friend": pl.String, "value": pl.Float64}
    assert len(table) == 0


@pytest.mark.parametrize("length", [2, 3])
def test_paths_are_an_exposure(length):
    graph = GRAPHS["path"]
    data = FRIENDS.bind({"friends": graph})
    exposure = Exposure(plait.evidence.paths(graph, length, model=FRIENDS), default=0)
    given = bind_exposure(exposure, ("user", "friend"), data, "N")
    cells = np.argwhere(np.ones((5, 5)))
    expected = enumerated(graph, length)
    assert given.at(cells).tolist() == pytest.approx([expected.get((a, b), 0) for a, b in cells.tolist()])
    none = Exposure(plait.evidence.paths(GRAPHS["one link"], model=FRIENDS), default=0)
    assert not bind_exposure(none, ("user", "friend"), data, "N").at(cells).any()


# errors -------------------------------------------------------------------------------------------------------------

ITEMS = pl.DataFrame({"user": ["u1", "u2"], "item": ["x", "x"]})
TWO = Model("f[a, b] = A[a, r] B[b, r]\ng[c, d] = C[c, r] D[d, r]")


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (ITEMS, {"length": 4}, ["`length` must be 2 or 3, got 4"]),
        (ITEMS, {"model": LIKES}, ["`length=2` requires one axis", "user and item", "`length=3`"]),
        (ITEMS, {"length": 3}, ["user and item", "`model`"]),
        (Relation(np.ones((2, 3)), indices=("user", "item")), {}, ["user and item", "`model`"]),
        (ITEMS.with_columns(day=1), {}, ["two indices", "3: user, item, day"]),
        (ITEMS, {"model": FRIENDS}, ["item and user", "friends[user, friend]", "`indices`"]),
        (np.ones((2, 2)), {"model": TWO}, ["f[a, b], g[c, d]", "`indices`"]),
        (nx.path_graph(3), {}, ["names", "`model`"]),
    ],
    ids=["length", "two steps between two axes", "unknown axes", "not square", "three indices", "no such relation",
         "several relations", "no names"],
)  # fmt: skip
def test_bad_arguments_are_refused(data, options, words):
    assert_mentions(error_text(plait.evidence.paths, data, **options), *words)


def test_more_pairs_than_memory_holds_are_refused(tuning):
    tuning(memory_bytes=1e4)
    with pytest.raises(DataError, match=r"more than [\d,]+ pairs have paths of length 3.*\n.*use `length=2`"):
        plait.evidence.paths(GRAPHS["karate"], 3, model=FRIENDS)
