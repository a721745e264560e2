"""Graphs of NetworkX as relations."""

import datetime
import itertools
import subprocess
import sys

import networkx as nx
import numpy as np
import polars as pl
import pytest

import plait
from plait import Model, Relation
from tests.support.data_errors import assert_mentions, error_text

FRIENDS = Model("friends[user, friend] = U[user, r] F[friend, r]\nfriend: user")
LIKES = Model("likes[user, item] = U[user, r] I[item, r]")


def bound(graph, model=FRIENDS, **options):
    (name,) = model.relations
    return model.bind({name: Relation(graph, **options)}).relations[name]


def links(graph, model=FRIENDS, **options):
    """The links by the names of their ends."""
    (name,) = model.relations
    data = model.bind({name: Relation(graph, **options)})
    relation = data.relations[name]
    ends = [
        [data.entities[index][int(row)] for row in relation.cells[:, k]] for k, index in enumerate(relation.indices)
    ]
    return dict(zip(zip(*ends), relation.values.tolist()))


def sided(edges, first=(), second=()):
    graph = nx.Graph()
    graph.add_nodes_from(first, bipartite=0)
    graph.add_nodes_from(second, bipartite=1)
    graph.add_edges_from(edges)
    return graph


def weighted(*edges, kind=nx.Graph, attribute="weight"):
    graph = kind()
    graph.add_weighted_edges_from(edges, weight=attribute)
    return graph


# links ----------------------------------------------------------------------------------------------------------------


def both_ways(links):
    return links | {(b, a): value for (a, b), value in links.items()}


EDGES = [("a", "b"), ("c", "b")]
WEIGHTED = weighted(("a", "b", 2.5), ("b", "c", 1), kind=nx.DiGraph)
nx.set_edge_attributes(WEIGHTED, 7, "plays")
PARALLEL = [("a", "b", 1), ("b", "a", 2), ("a", "b", 4)]
SIDES = sided([("u1", "i1"), ("i2", "u2")], ["u2", "u1", "u3"], ["i1", "i2"])
HIDDEN = {"hidden": pl.DataFrame({"who": ["a"], "friend": ["b"]}), "columns": {"user": "who"}}
DAYS = [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]

# graph, options, links
LINKS = {
    "undirected": (nx.Graph(EDGES), {}, both_ways({("a", "b"): 1, ("c", "b"): 1})),
    "directed": (nx.DiGraph(EDGES), {}, {("a", "b"): 1, ("c", "b"): 1}),
    "weights": (WEIGHTED, {}, {("a", "b"): 2.5, ("b", "c"): 1}),
    "another attribute": (WEIGHTED, {"value": "plays"}, {("a", "b"): 7, ("b", "c"): 7}),
    "parallel": (weighted(*PARALLEL, kind=nx.MultiGraph), {"duplicates": "sum"}, both_ways({("a", "b"): 7})),
    "parallel, directed": (
        weighted(*PARALLEL, kind=nx.MultiDiGraph),
        {"duplicates": "sum"},
        {("a", "b"): 5, ("b", "a"): 2},
    ),
    "two axes": (SIDES, {"model": LIKES}, {("u1", "i1"): 1, ("u2", "i2"): 1}),
    "two axes, other order": (
        SIDES,
        {"model": LIKES, "indices": ("item", "user"), "likelihood": "bernoulli"},
        {("i1", "u1"): 1, ("i2", "u2"): 1},
    ),
    "other order": (nx.DiGraph([("a", "b")]), {"indices": ("friend", "user")}, {("b", "a"): 1}),
    "a hidden link": (nx.Graph(EDGES), HIDDEN, {("b", "a"): 1, ("b", "c"): 1, ("c", "b"): 1}),
    "dates": (nx.Graph([DAYS]), {}, both_ways({tuple(DAYS): 1})),
    "integers of two types": (nx.Graph([(np.int64(3), 4)]), {}, both_ways({(3, 4): 1})),
}


@pytest.mark.parametrize("name", LINKS)
def test_links_of_a_graph(name):
    graph, options, expected = LINKS[name]
    assert links(graph, **options) == expected


def test_a_graph_fits_like_the_table_of_its_links():
    graph = nx.karate_club_graph()
    both = [*graph.edges(data="weight"), *((b, a, w) for a, b, w in graph.edges(data="weight"))]
    table = pl.DataFrame(both, ["user", "friend", "value"], orient="row")
    fits = [
        plait.fit(FRIENDS, {"friends": data}, rank=2, max_iter=5, seed=0) for data in (graph, Relation(graph), table)
    ]
    assert fits[0].objective == fits[1].objective == fits[2].objective
    assert str(fits[0].entities["user"]) == str(fits[2].entities["user"])


def test_isolated_nodes_are_entities():
    graph = nx.Graph([(0, 1)])
    graph.add_node(5)
    relation = bound(graph)
    assert (relation.shape, relation.observed_cells, relation.n_unseen) == ((3, 3), 6, {"user": 0, "friend": 0})
    relation = bound(graph, observed="listed")
    assert (relation.shape, relation.observed_cells) == ((3, 3), 2)
    assert bound(nx.empty_graph(4)).observed_zeros == 12
    relation = bound(SIDES, LIKES)
    assert (relation.shape, relation.observed_cells) == ((3, 2), 6)


def test_entities_that_are_no_nodes_are_missing_in_the_graph():
    model = Model("friends[user, friend] = U[user, r] F[friend, r]\nvisits[user] = U[user, r]\nfriend: user")
    graph = nx.Graph([("a", "b")])
    graph.add_node("c")
    data = model.bind({"friends": graph, "visits": pl.DataFrame({"user": ["c", "z"]})})
    assert list(data.entities["user"]) == ["a", "b", "c", "z"]
    assert data.relations["friends"].observed_cells == 6


def test_the_sum_of_parallel_edges_does_not_depend_on_their_order():
    weights = (0.1, 0.2, 0.3, 1e16)
    graphs = (weighted(*(("a", "b", w) for w in some), kind=nx.MultiGraph) for some in itertools.permutations(weights))
    assert len({links(graph, duplicates="sum")["a", "b"] for graph in graphs}) == 1


def test_a_self_loop_is_a_self_link_listed_once():
    graph = nx.Graph([("a", "b"), ("a", "a")])
    assert links(graph) == {("a", "a"): 1, ("a", "b"): 1, ("b", "a"): 1}
    assert bound(graph).self_links == "observed"
    assert bound(graph, self_links="missing").observed_cells == 2
    assert bound(nx.Graph([("a", "b")])).self_links == "missing"


def test_a_hidden_link_leaves_its_node_observed():
    graph = nx.path_graph(6)
    train, test = plait.train_test_split(
        {"friends": graph}, model=FRIENDS, fraction=0.4, by="links", seed=0, leakage="ignore"
    )
    relation = FRIENDS.bind(train).relations["friends"]
    assert relation.shape == (6, 6)
    assert relation.observed_cells == 30 - len(test) == 26


def test_print_shows_nodes_and_edges():
    graph = nx.path_graph(1200, create_using=nx.DiGraph)
    assert str(Relation(graph)).startswith("Relation: directed graph of 1,200 nodes, 1,199 edges\n")


def test_networkx_is_never_imported():
    code = """
import sys
import plait
sys.modules["networkx"] = None

class View(list):
    def __call__(self, data=None):
        return [(*one, None) if data else one for one in self]

class Graph:
    adj = {}
    nodes = ["a", "b"]
    edges = View([("a", "b")])
    is_directed = is_multigraph = lambda self: False

model = plait.Model("friends[user, friend] = U[user, r] F[friend, r]\\nfriend: user")
print(len(model.bind({"friends": Graph()}).relations["friends"].links))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "2\n"


# errors -------------------------------------------------------------------------------------------------------------

LOOSE = nx.Graph([("a", "b")])
PARTLY = weighted(("a", "b", 2))
PARTLY.add_edge("a", "c")

# graph, options, words of the error
MISTAKES = {
    "no nodes": (nx.Graph(), {}, ["friends", "no nodes"]),
    "one node": (nx.empty_graph(1), {}, ["friends", "one node"]),
    "nodes of several kinds": (
        nx.Graph([(1, "a"), ((1, 2), "a")]),
        {},
        ["int (1), str ('a'), tuple ((1, 2))", "networkx.relabel_nodes(graph, str)"],
    ),
    "nodes that are tuples": (nx.grid_2d_graph(1, 2), {}, ["tuple ((0, 0))"]),
    "weight 0": (weighted(("a", "b", 0)), {}, ["'a'–'b' has weight 0"]),
    "negative": (weighted(("a", "b", 1), ("b", "c", -2.5)), {}, ["'b'–'c' has weight -2.5"]),
    "no number": (weighted(("a", "b", "much")), {}, ["'a'–'b'", "'much'", "str"]),
    "weights of some": (PARTLY, {}, ["'a'–'c' has no weight", "1 of 2 edges", "`value`"]),
    "no such attribute": (LOOSE, {"value": "plays"}, ["'a'–'b' has no plays", "0 of 1 edges"]),
    "counts under bernoulli": (
        weighted(("a", "b", 3)),
        {"likelihood": "bernoulli"},
        ["'a'–'b' has weight 3", "bernoulli"],
    ),
    "parallel edges": (nx.MultiGraph([("b", "a"), ("a", "b")]), {}, ["'b'–'a'", '`duplicates="sum"`']),
    "no sides": (LOOSE, {"model": LIKES}, ["likes", "user and item", "node 'a'", "'bipartite'", "item: user"]),
    "one side": (sided([], ["u1", "u2"]), {"model": LIKES}, ["'bipartite' = 0", "no item"]),
    "an edge within a side": (
        sided([("u1", "u2")], ["u1", "u2"], ["i"]),
        {"model": LIKES},
        ["'u1'–'u2'", "'bipartite' is 0"],
    ),
    "three indices": (
        LOOSE,
        {"model": Model("X[i, j, k] = A[i, r] B[j, r] C[k, r]")},
        ["X: ", "the relation has 3", "i, j, k"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_bad_graph_is_refused(name):
    graph, options, words = MISTAKES[name]
    assert_mentions(error_text(bound, graph, **options), *words)


def test_a_graph_has_no_columns_and_no_names_of_its_ends():
    assert_mentions(error_text(Relation, LOOSE, columns={"user": "name"}), "`columns`", "graph has no columns")
    assert_mentions(error_text(plait.train_test_split, LOOSE, fraction=0.5), "`model`", '`indices=("user", "place")`')
