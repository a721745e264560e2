"""Graphs of NetworkX as tables of links, by duck typing: NetworkX is never imported.

All nodes are entities: one without an edge is observed to have no link. An undirected edge between nodes of one axis is
a link in both directions; between two axes it points from the side with node attribute ``bipartite`` 0 to the side with
1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Rows
from plait.data.encoding.columns import label_series
from plait.errors import DataError, TableLocation, quoted

if TYPE_CHECKING:
    import polars as pl

    from plait.likelihood import Likelihood


SIDE = "bipartite"  # node attribute of NetworkX for the two sides of a graph
WEIGHT = "weight"  # edge attribute of NetworkX for weights


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph as read: the entities at each end, the links, and their values (n,). Ends on one axis
    share their entities.
    """

    entities: tuple["pl.Series", "pl.Series"]
    links: tuple["pl.Series", "pl.Series"]
    values: Array


def is_graph(data: Any) -> bool:
    """Whether this has the methods of a NetworkX graph."""
    return all(hasattr(data, name) for name in ("adj", "nodes", "edges", "is_directed", "is_multigraph"))


def describe_graph(graph: Any) -> str:
    """Description of a graph, for printing."""
    kind = "directed" if graph.is_directed() else "undirected"
    return f"{kind} graph of {len(graph.nodes):,} nodes, {len(graph.edges):,} edges"


SUM = '`duplicates="sum"`'


def read_graph(
    graph: Any,
    name: str,
    indices: Sequence[str],
    *,
    one_axis: bool,
    value: str | None,
    duplicates: str,
    likelihood: "Likelihood | None",
) -> Graph:
    """Read a graph as the relation `name`.

    `indices`: of the two ends. `one_axis`: whether these are the same entities. `value`: edge attribute of values, by
    default "weight" where edges have it. `duplicates`: treatment of parallel edges. `likelihood`: for checks of values.
    """
    if len(indices) != 2:
        raise DataError(
            f"a graph has two indices, but the relation has {len(indices)}: {', '.join(indices)}.",
            location=TableLocation.of(name),
            hint="Give a table with one column per index.",
        )
    nodes = list(graph.nodes)
    if len(nodes) < 2:
        raise DataError(
            f"the graph has {'one node' if nodes else 'no nodes'}.",
            location=TableLocation.of(name),
            hint="Add at least two nodes.",
        )
    names, ends = _names(nodes, name), _ends(graph, nodes)
    values = _values(graph, name, value, likelihood)
    sides = np.zeros(len(nodes), np.int64) if one_axis else _sides(graph, nodes, name, indices)
    if not one_axis:
        _refuse_inside(ends, sides, nodes, name)
    if not graph.is_directed() or not one_axis:  # both directions are the same edge
        ends = _turned(ends, ends[:, 0] > ends[:, 1] if one_axis else sides[ends[:, 0]] == 1)
    ends, values = _once(ends, values, nodes, name, duplicates)
    if one_axis and not graph.is_directed():
        apart = ends[:, 0] != ends[:, 1]
        ends, values = np.concatenate([ends, ends[apart, ::-1]]), np.concatenate([values, values[apart]])
    here = [names if one_axis else names.filter(sides == side) for side in (0, 1)]
    return Graph((here[0], here[1]), (names.gather(ends[:, 0]), names.gather(ends[:, 1])), values)


def _names(nodes: list[Any], name: str) -> "pl.Series":
    """The nodes as labels."""
    try:
        return label_series(nodes, f"{name}, nodes")
    except DataError:
        kinds = {type(node).__name__: node for node in reversed(nodes)}
        some = ", ".join(f"{kind} ({node!r})" for kind, node in sorted(kinds.items()))
        raise DataError(
            f"the nodes have different types: {some}.",
            location=TableLocation.of(name),
            hint=(
                "Nodes are all integers, all strings, or all dates or times: networkx.relabel_nodes(graph, "
                "str) makes them strings."
            ),
        ) from None


def _ends(graph: Any, nodes: list[Any]) -> Rows:
    """Positions of both ends of all edges among the nodes, (n_edges, 2)."""
    place = {node: k for k, node in enumerate(nodes)}
    flat = (place[end] for edge in graph.edges() for end in edge[:2])
    return np.fromiter(flat, np.int64, 2 * len(graph.edges)).reshape(-1, 2)


def _values(graph: Any, name: str, value: str | None, likelihood: "Likelihood | None") -> Array:
    """Values of all edges: of an attribute, or 1."""
    attribute = WEIGHT if value is None else value
    edges = list(graph.edges(data=attribute))
    without = sum(number is None for *_, number in edges)
    if value is None and without == len(edges):
        return np.ones(len(edges))
    values = np.ones(len(edges))
    for k, (first, second, number) in enumerate(edges):
        if number is None:
            raise DataError(
                (
                    f"edge {_edge(first, second)} has no {attribute}, which {len(edges) - without:,} of {len(edges):,} "
                    "edges have."
                ),
                location=TableLocation.of(name),
                hint="Give it to all edges, or choose another attribute with `value`.",
            )
        values[k] = _value(number, attribute, TableLocation(name), _edge(first, second))
        if likelihood is not None and likelihood.bad(values[k : k + 1])[0]:
            raise DataError(
                f"edge {_edge(first, second)} has {attribute} {number}, which is not valid for the "
                f"likelihood {likelihood}.",
                location=TableLocation.of(name),
                hint=(
                    f"{likelihood.wanted}. {likelihood.hint} networkx.set_edge_attributes(graph, 1, {attribute!r}) "
                    "makes links of them."
                ),
            )
    return values


def _value(number: Any, attribute: str, where: TableLocation, edge: str) -> float:
    """Positive value of one edge."""
    if not isinstance(number, (int, float, np.integer, np.floating, np.bool_)):
        raise DataError(
            f"edge {edge} has {attribute} {number!r}, which is {type(number).__name__}.",
            location=where,
            actual=number,
            expected="a number",
            hint="Give a number.",
        )
    if not 0 < float(number) < np.inf:
        raise DataError(
            f"edge {edge} has {attribute} {number}.",
            location=where,
            actual=float(number),
            expected="a finite value greater than 0",
            hint=(
                "The value of an edge is finite and greater than 0. Remove the edge, or give a table, where "
                "a row with 0 is an observed zero."
            ),
        )
    return float(number)


def _sides(graph: Any, nodes: list[Any], name: str, indices: Sequence[str]) -> Rows:
    """0 or 1 for each node."""
    sides = dict(graph.nodes(data=SIDE))
    for node in nodes:
        if sides[node] not in (0, 1):
            first, second = indices
            got = "no node attribute" if sides[node] is None else f"{sides[node]!r} as its node attribute"
            raise DataError(
                f"{first} and {second} are different axes, but node {quoted(node)} has {got} {SIDE!r}.",
                location=TableLocation.of(name),
                hint=(
                    f"Set it to 0 for {first} and 1 for {second}; or declare one axis in the model ({second}: {first})."
                ),
            )
    side_of_node = np.array([int(sides[node]) for node in nodes])
    if side_of_node.min() == side_of_node.max():
        raise DataError(
            f"all nodes have the node attribute {SIDE!r} = {side_of_node[0]}, "
            f"so there is no {indices[1 - side_of_node[0]]}.",
            location=TableLocation.of(name),
            hint=f"Set it to 0 for {indices[0]} and 1 for {indices[1]}.",
        )
    return side_of_node


def _refuse_inside(ends: Rows, sides: Rows, nodes: list[Any], name: str) -> None:
    """Refuse an edge between two nodes of one side."""
    inside = sides[ends[:, 0]] == sides[ends[:, 1]]
    if inside.any():
        first, second = ends[np.argmax(inside)]
        raise DataError(
            f"edge {_edge(nodes[first], nodes[second])} joins two nodes whose attribute {SIDE!r} is {sides[first]}.",
            location=TableLocation.of(name),
            hint="An edge must join the two sides; remove it, or correct the attribute.",
        )


def _turned(ends: Rows, which: NDArray[np.bool_]) -> Rows:
    return np.where(which[:, None], ends[:, ::-1], ends)


def _once(ends: Rows, values: Array, nodes: list[Any], name: str, duplicates: str) -> tuple[Rows, Array]:
    """Distinct pairs of ends; parallel edges are summed, smallest first, so their order does not matter."""
    order = np.lexsort((values, ends[:, 1], ends[:, 0]))
    ends, values = ends[order], values[order]
    new = np.ones(len(ends), bool)
    new[1:] = (ends[1:] != ends[:-1]).any(axis=1)
    if new.all():
        return ends, values
    if duplicates == "error":
        first, second = ends[np.argmin(new)]
        raise DataError(
            f"there are several edges {_edge(nodes[first], nodes[second])}.",
            location=TableLocation.of(name),
            hint=f"Remove all but one, or sum them with {SUM}.",
        )
    return ends[new], np.add.reduceat(values, np.flatnonzero(new))


def _edge(first: Any, second: Any) -> str:
    return f"{quoted(first)}–{quoted(second)}"
