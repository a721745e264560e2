"""Graphs of NetworkX are relations: the same as the table of their links, with every node an entity."""

import datetime
import itertools
import subprocess
import sys

import networkx as nx
import numpy as np
import polars as pl
import pytest

import plait
from plait import DataError, Model, Relation

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
    ends = [[data.labels[index][int(row)] for row in relation.cells[:, k]] for k, index in enumerate(relation.indices)]
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


# what is read -------------------------------------------------------------------------------------------------------


def test_an_edge_without_direction_is_a_link_both_ways_and_one_with_a_direction_is_not():
    edges = [("a", "b"), ("c", "b")]
    assert links(nx.Graph(edges)) == {("a", "b"): 1, ("b", "a"): 1, ("b", "c"): 1, ("c", "b"): 1}
    assert links(nx.DiGraph(edges)) == {("a", "b"): 1, ("c", "b"): 1}


def test_a_graph_is_bound_and_fitted_like_the_table_of_its_links():
    graph = nx.karate_club_graph()
    both = [*graph.edges(data="weight"), *((b, a, w) for a, b, w in graph.edges(data="weight"))]
    table = pl.DataFrame(both, ["user", "friend", "value"], orient="row")
    fits = [plait.fit(FRIENDS, {"friends": data}, rank=2, sweeps=5, seed=0) for data in (graph, Relation(graph), table)]
    assert fits[0].bound == fits[1].bound == fits[2].bound
    assert str(fits[0].labels["user"]) == str(fits[2].labels["user"])


def test_weights_are_values_and_another_attribute_is_taken_where_it_is_named():
    graph = weighted(("a", "b", 2.5), ("b", "c", 1), kind=nx.DiGraph)
    nx.set_edge_attributes(graph, 7, "plays")
    assert links(graph) == {("a", "b"): 2.5, ("b", "c"): 1}
    assert links(graph, value="plays") == {("a", "b"): 7, ("b", "c"): 7}


def test_nodes_without_an_edge_are_entities_that_are_observed_to_have_no_link():
    graph = nx.Graph([(0, 1)])
    graph.add_node(5)
    relation = bound(graph)
    assert (relation.shape, relation.observed_cells, relation.unseen) == ((3, 3), 6, {"user": 0, "friend": 0})
    assert bound(nx.empty_graph(4)).observed_zeros == 12


def test_nodes_without_an_edge_are_entities_where_only_listed_cells_are_observed_too():
    graph = nx.Graph([(0, 1)])
    graph.add_node(5)
    relation = bound(graph, observed="listed")
    assert (relation.shape, relation.observed_cells) == ((3, 3), 2)


def test_entities_of_other_relations_that_are_no_nodes_are_missing_in_the_graph():
    model = Model("friends[user, friend] = U[user, r] F[friend, r]\nvisits[user] = U[user, r]\nfriend: user")
    graph = nx.Graph([("a", "b")])
    graph.add_node("c")
    data = model.bind({"friends": graph, "visits": pl.DataFrame({"user": ["c", "z"]})})
    assert list(data.labels["user"]) == ["a", "b", "c", "z"]
    assert data.relations["friends"].observed_cells == 6


def test_parallel_edges_are_duplicates_whichever_way_they_are_written():
    graph = weighted(("a", "b", 1), ("b", "a", 2), ("b", "c", 4), kind=nx.MultiGraph)
    assert links(graph, duplicates="sum") == {("a", "b"): 3, ("b", "a"): 3, ("b", "c"): 4, ("c", "b"): 4}
    directed = weighted(("a", "b", 1), ("b", "a", 2), ("a", "b", 4), kind=nx.MultiDiGraph)
    assert links(directed, duplicates="sum") == {("a", "b"): 5, ("b", "a"): 2}


def test_the_sum_of_parallel_edges_does_not_depend_on_their_order():
    weights = (0.1, 0.2, 0.3, 1e16)
    graphs = (weighted(*(("a", "b", w) for w in some), kind=nx.MultiGraph) for some in itertools.permutations(weights))
    assert len({links(graph, duplicates="sum")["a", "b"] for graph in graphs}) == 1


def test_a_self_loop_is_a_self_link_listed_once():
    graph = nx.Graph([("a", "b"), ("a", "a")])
    assert links(graph) == {("a", "a"): 1, ("a", "b"): 1, ("b", "a"): 1}
    assert bound(graph).diagonal == "observed"
    assert bound(graph, diagonal="missing").observed_cells == 2
    assert bound(nx.Graph([("a", "b")])).diagonal == "missing"


def test_a_graph_of_two_axes_leads_from_side_0_to_side_1_however_its_edges_are_written():
    graph = sided([("u1", "i1"), ("i2", "u2")], ["u2", "u1", "u3"], ["i1", "i2"])
    assert links(graph, LIKES) == {("u1", "i1"): 1, ("u2", "i2"): 1}
    relation = bound(graph, LIKES)
    assert (relation.shape, relation.observed_cells) == ((3, 2), 6)
    assert links(graph, LIKES, indices=("item", "user"), likelihood="bernoulli") == {("i1", "u1"): 1, ("i2", "u2"): 1}


def test_indices_say_which_end_is_which():
    graph = nx.DiGraph([("a", "b")])
    assert links(graph, indices=("friend", "user")) == {("b", "a"): 1}


def test_options_about_cells_hold_for_graphs():
    hidden = pl.DataFrame({"who": ["a"], "friend": ["b"]})
    graph = nx.Graph([("a", "b"), ("b", "c")])
    assert set(links(graph, hidden=hidden, columns={"user": "who"})) == {("b", "a"), ("b", "c"), ("c", "b")}


def test_a_hidden_link_leaves_its_node_observed():
    graph = nx.path_graph(6)
    train, test = plait.hide({"friends": graph}, model=FRIENDS, fraction=0.4, by="links", seed=0, twins="ignore")
    relation = FRIENDS.bind(train).relations["friends"]
    assert relation.shape == (6, 6)
    assert relation.observed_cells == 30 - len(test) == 26


@pytest.mark.parametrize(
    "nodes", [(1, 2), ("x", "y"), (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)), (np.int64(3), 4)]
)
def test_nodes_of_one_kind_are_labels(nodes):
    assert set(links(nx.Graph([nodes]))) == {nodes, nodes[::-1]}


def test_what_was_understood_is_printed():
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


# what is refused ----------------------------------------------------------------------------------------------------

LOOSE = nx.Graph([("a", "b")])
PARTLY = weighted(("a", "b", 2))
PARTLY.add_edge("a", "c")

MISTAKES = {
    "no nodes": (lambda: bound(nx.Graph()), "friends: the graph has no nodes.\nA link is between two; add all nodes."),
    "one node": (
        lambda: bound(nx.empty_graph(1)),
        "friends: the graph has one node.\nA link is between two; add all nodes.",
    ),
    "nodes of several kinds": (
        lambda: bound(nx.Graph([(1, "a"), ((1, 2), "a")])),
        "friends: the nodes are int (1), str ('a'), tuple ((1, 2)).\n"
        "Nodes are all integers, all strings, or all dates or times: networkx.relabel_nodes(graph, str) makes them "
        "strings.",
    ),
    "nodes that are tuples": (
        lambda: bound(nx.grid_2d_graph(1, 2)),
        "friends: the nodes are tuple ((0, 0)).\n"
        "Nodes are all integers, all strings, or all dates or times: networkx.relabel_nodes(graph, str) makes them "
        "strings.",
    ),
    "weight 0": (
        lambda: bound(weighted(("a", "b", 0))),
        "friends: edge 'a'–'b' has weight 0.\nAn edge is a link, of a finite value over 0; remove it, or give a table, "
        "where a row of 0 is an observed 0.",
    ),
    "negative": (
        lambda: bound(weighted(("a", "b", 1), ("b", "c", -2.5))),
        "friends: edge 'b'–'c' has weight -2.5.\nAn edge is a link, of a finite value over 0; remove it, or give a "
        "table, where a row of 0 is an observed 0.",
    ),
    "no number": (
        lambda: bound(weighted(("a", "b", "much"))),
        "friends: edge 'a'–'b' has weight 'much', which is str.\nGive a number.",
    ),
    "weights of some": (
        lambda: bound(PARTLY),
        "friends: edge 'a'–'c' has no weight, which 1 of 2 edges have.\n"
        "Give it to all edges, or name another attribute with `value`.",
    ),
    "no such attribute": (
        lambda: bound(LOOSE, value="plays"),
        "friends: edge 'a'–'b' has no plays, which 0 of 1 edges have.\n"
        "Give it to all edges, or name another attribute with `value`.",
    ),
    "weights of links": (
        lambda: bound(weighted(("a", "b", 3)), likelihood="bernoulli"),
        "friends: edge 'a'–'b' has weight 3, but the likelihood is bernoulli.\n"
        "Links are 0 or 1. Use `likelihood=\"poisson\"` for counts. networkx.set_edge_attributes(graph, 1, 'weight') "
        "makes links of them.",
    ),
    "parallel edges": (
        lambda: bound(nx.MultiGraph([("b", "a"), ("a", "b")])),
        "friends: there are several edges 'b'–'a'.\nRemove all but one, or add them up with `duplicates=\"sum\"`.",
    ),
    "no sides": (
        lambda: bound(LOOSE, LIKES),
        "likes: user and item are different axes, but node 'a' has no node attribute 'bipartite'.\n"
        "Set it to 0 for user and 1 for item; or declare one axis in the model (item: user).",
    ),
    "one side": (
        lambda: bound(sided([], ["u1", "u2"]), LIKES),
        "likes: all nodes have the node attribute 'bipartite' = 0, so there is no item.\n"
        "Set it to 0 for user and 1 for item.",
    ),
    "an edge within a side": (
        lambda: bound(sided([("u1", "u2")], ["u1", "u2"], ["i"]), LIKES),
        "likes: edge 'u1'–'u2' joins two nodes whose attribute 'bipartite' is 0.\n"
        "An edge leads from one side to the other; remove it, or mend the attribute.",
    ),
    "three indices": (
        lambda: bound(LOOSE, Model("X[i, j, k] = A[i, r] B[j, r] C[k, r]")),
        "X: a graph has two ends, but 3 indices are wanted: i, j, k.\nGive a table with a column for each index.",
    ),
    "columns": (
        lambda: Relation(LOOSE, columns={"user": "name"}),
        "`columns` is {'user': 'name'}, but a graph has no columns.\nGive a table, or omit it.",
    ),
    "names without a model": (
        lambda: plait.hide(LOOSE, fraction=0.5),
        'data: the ends of a graph have no names.\nGive `model`, or `indices=("user", "place")`.',
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_place_and_a_cure(name):
    mistake, message = MISTAKES[name]
    with pytest.raises(DataError) as caught:
        mistake()
    assert str(caught.value) == message
