"""Links of a graph, as NetworkX's own link prediction gives them."""

import datetime
from itertools import combinations, permutations

import numpy as np
import polars as pl
import pytest

import plait
from plait.networkx import predict_links

nx = pytest.importorskip("networkx", reason="networkx is optional")

KARATE = nx.Graph(nx.karate_club_graph().edges)


def community(seed=0, size=12, inside=0.7, outside=0.05):
    return nx.planted_partition_graph(2, size, inside, outside, seed=seed)


def one_way(nodes=60, edges=200):
    """A graph without circles, in which by chance some pairs would be linked both ways."""
    pairs = list(combinations(range(nodes), 2))
    chosen = np.random.default_rng(0).choice(len(pairs), edges, replace=False)
    G = nx.DiGraph([pairs[n] for n in chosen])
    G.add_nodes_from(range(nodes))
    return G


def as_dict(links):
    links = list(links)
    found = {(u, v): p for u, v, p in links}
    assert len(found) == len(links)
    return found


@pytest.fixture(scope="module")
def karate():
    return as_dict(predict_links(KARATE, rank=3, seed=0))


@pytest.fixture
def two_fits(tuning):
    """Where it does not matter how many fits answer."""
    tuning(networkx_restarts=2)


def test_every_pair_without_an_edge_has_a_probability(karate):
    assert {frozenset(pair) for pair in karate} == {frozenset(pair) for pair in nx.non_edges(KARATE)}
    assert all(type(p) is float and 0 < p < 1 for p in karate.values())


def test_probabilities_are_those_of_five_fits(karate):
    order = list(KARATE.nodes)  # the random start goes by the place of a node
    by_place = nx.relabel_nodes(KARATE, {node: place for place, node in enumerate(order)})
    relation = plait.Relation(by_place, likelihood="bernoulli")
    fit = plait.fit("met[a,b] = U[a,r] U[b,r]; b: a", {"met": relation}, rank=3, seed=0, restarts=5)
    pairs = list(karate)[:50]
    cells = {"a": [order.index(u) for u, _ in pairs], "b": [order.index(v) for _, v in pairs]}
    np.testing.assert_allclose([karate[pair] for pair in pairs], fit.predict("met", cells)["probability"], rtol=1e-9)


def test_k_best_links(karate):
    best = list(predict_links(KARATE, k=7, rank=3, seed=0))
    wanted = sorted(karate.values(), reverse=True)[:7]
    np.testing.assert_allclose([p for *_, p in best], wanted, rtol=1e-9)
    for u, v, p in best:
        assert p == pytest.approx(karate.get((u, v), karate.get((v, u))), rel=1e-9)
    assert list(predict_links(KARATE, k=0, rank=3, seed=0)) == []
    assert len(list(predict_links(nx.path_graph(4), k=100, rank=1, seed=0))) == 3


def test_links_within_a_community_are_more_probable(two_fits):
    inside, outside = [], []
    for u, v, p in predict_links(community(), rank=2, seed=0):
        (inside if (u < 12) == (v < 12) else outside).append(p)
    assert min(np.mean(inside), np.median(inside)) > 4 * np.mean(outside)
    assert all(p > 0.9 for *_, p in predict_links(nx.complete_graph(6), [(0, 1), (4, 2)], rank=1, seed=0))
    empty = as_dict(predict_links(nx.empty_graph(5), rank=1, seed=0))
    assert len(empty) == 10
    assert max(empty.values()) < 0.05


def test_a_directed_graph_has_both_directions_of_every_pair(two_fits):
    G = one_way()
    table = pl.DataFrame(list(G.edges), schema=["a", "b"], orient="row")
    with pytest.warns(plait.errors.AsymmetricLinksWarning):
        plait.fit("X[a,b] = S[a,r] T[b,r]; b: a", {"X": table}, rank=1, seed=0, max_iter=1)
    found = as_dict(predict_links(G, rank=1, seed=0))  # without a warning
    assert set(found) == set(nx.non_edges(G))
    assert found[0, 59] > 3 * found[59, 0]  # no edge leaves 59, and none leads to 0


def test_weights_and_parallel_edges_are_ignored(karate):
    weighted = nx.Graph(KARATE)
    nx.set_edge_attributes(weighted, {edge: -2.5 * n for n, edge in enumerate(weighted.edges)}, "weight")
    assert as_dict(predict_links(weighted, rank=3, seed=0)) == karate
    multiple = nx.MultiGraph(KARATE)
    multiple.add_edges_from(list(KARATE.edges)[:20])
    multiple.add_edge(0, 0)
    assert as_dict(predict_links(multiple, rank=3, seed=0)) == karate


def test_self_loops_are_ignored(two_fits):
    for kind in (nx.Graph, nx.DiGraph):
        plain = kind(community())
        looped = kind(plain)
        looped.add_edges_from((node, node) for node in list(plain)[:5])
        assert as_dict(predict_links(looped, rank=2, seed=0)) == as_dict(predict_links(plain, rank=2, seed=0))
        assert list(predict_links(looped, [(0, 0), (9, 9)], rank=2, seed=0)) == [(0, 0, 0.0), (9, 9, 0.0)]
        assert all(u != v for u, v, _ in predict_links(looped, k=30, rank=2, seed=0))


def test_sides_of_a_bipartite_graph(two_fits):
    G = nx.davis_southern_women_graph()
    women = {node for node, side in G.nodes(data="bipartite") if side == 0}
    found = as_dict(predict_links(G, rank=2, seed=0))
    assert set(found) == {(u, v) for u in women for v in set(G) - women if not G.has_edge(u, v)}
    (u, v), p = next(iter(found.items()))
    one, other = sorted(women)[:2]
    asked = list(predict_links(G, [(v, u), (one, other)], rank=2, seed=0))
    assert asked == [(v, u, pytest.approx(p, rel=1e-12)), (one, other, 0.0)]
    assert {pair[:2] for pair in predict_links(G, k=5, rank=2, seed=0)} <= set(found)


@pytest.mark.parametrize(
    "sides", [{}, {0: 0}, {0: 0, 1: 1, 2: 0, 3: "left"}, {0: 0, 1: 0, 2: 1, 3: 1}, dict.fromkeys(range(4), 0)]
)
def test_wrong_sides_are_ignored(sides, two_fits):
    G = nx.path_graph(4)
    nx.set_node_attributes(G, sides, "bipartite")
    assert {frozenset(pair) for pair in as_dict(predict_links(G, rank=1, seed=0))} == {
        frozenset(pair) for pair in nx.non_edges(G)
    }


def test_nodes_of_any_kind(karate):
    kinds = [str, lambda n: (n, "x"), lambda n: frozenset({n}), lambda n: n + 0.5, lambda n: n]
    names = {node: kinds[node % 5](node) for node in KARATE} | {7: datetime.date(2024, 1, 1)}
    found = as_dict(predict_links(nx.relabel_nodes(KARATE, names), rank=3, seed=0))
    assert found == {(names[u], names[v]): p for (u, v), p in karate.items()}


def test_small_graphs(two_fits):
    for G in (nx.Graph(), nx.DiGraph(), nx.empty_graph(1), nx.complete_graph(4), nx.complete_graph(3, nx.DiGraph)):
        assert list(predict_links(G)) == list(predict_links(G, k=3)) == list(predict_links(G, [])) == []
    assert list(as_dict(predict_links(nx.path_graph(3), seed=0))) == [(0, 2)]
    assert {(u, v) for u, v, _ in predict_links(nx.path_graph(2, nx.DiGraph), seed=0)} == {(1, 0)}


def test_pairs_are_computed_in_chunks_and_returned_as_given(tuning, karate):
    tuning(networkx_pairs=40)
    links = predict_links(KARATE, rank=3, seed=0)
    u, v, p = next(links)
    assert p == pytest.approx(karate[u, v], rel=1e-12)
    assert dict(karate) == pytest.approx({(u, v): p} | as_dict(links), rel=1e-12)
    pairs = [(33, 0), (0, 33), (0, 1), (5, 20), *permutations(range(9), 2)]
    found = list(predict_links(KARATE, iter(pairs), rank=3, seed=0))
    assert [(u, v) for u, v, _ in found] == pairs
    assert found[0][2] == found[1][2] == pytest.approx(karate.get((0, 33), karate.get((33, 0))), rel=1e-12)
    best = sorted(found[:4], key=lambda link: -link[2])[:2]
    assert list(predict_links(KARATE, pairs[:4], k=2, rank=3, seed=0)) == best


def test_wrong_arguments_are_named():
    for pair in [(0, 99), ("x", 1), ([1], 0)]:
        with pytest.raises(nx.NodeNotFound, match=r"Node .* not in G\."):
            predict_links(KARATE, [(0, 1), pair])
    with pytest.raises(plait.errors.DataError, match="expected a graph of NetworkX, got list"):
        predict_links([(0, 1)])
    for k in (-1, 2.5, True, "3"):
        with pytest.raises(plait.errors.ParameterError, match="`k` must be an integer of at least 0, got"):
            predict_links(KARATE, k=k)
    with pytest.raises(plait.errors.ParameterError, match="rank"):
        predict_links(KARATE, rank=0)
