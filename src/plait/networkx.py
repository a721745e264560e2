"""Links of a graph of NetworkX, in the manner of its own link prediction: `plait.networkx.predict_links`."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from plait._typing import Array, Rows
from plait.analysis.predict.prediction import score
from plait.data.sources.graphs import SIDE, is_graph
from plait.data.sources.relation import Relation
from plait.errors import AsymmetricLinksWarning, DataError, ParameterError
from plait.fitting.fit import fit as fit_model
from plait.progress import Progress
from plait.tuning import TUNING

if TYPE_CHECKING:
    from plait.result import Fit

UNDIRECTED = "link[node, other] = U[node, r] U[other, r]; other: node"
DIRECTED = "link[source, target] = S[source, r] T[target, r]; target: source"
BIPARTITE = "link[first, second] = F[first, r] S[second, r]"

Link = tuple[Any, Any, float]


def predict_links(
    G: Any, ebunch: Iterable[tuple[Any, Any]] | None = None, *, k: int | None = None,
    rank: int | None = None, seed: int | None = None,
) -> Iterator[Link]:  # fmt: skip
    """The probability p of a link for pairs of nodes: (u, v, p), one after the other.

    G: any graph of NetworkX; nodes are what they like to be. ebunch: pairs of nodes, or None for all that have no edge,
    in the order of nodes. k: only the k most probable, best first; without ebunch they are found without looking at
    all pairs. rank: how many groups; None finds what predicts best. seed: equal seeds give equal numbers.

    The model is fitted when this is called, five times; p is that of their mixture. An undirected graph is
    `U[node, r] U[other, r]`: who is alike is linked. A directed one is `S[source, r] T[target, r]`. An undirected graph
    all of whose nodes have the attribute `bipartite`, 0 or 1, has links between these sides only,
    `F[first, r] S[second, r]`. Each pair without an edge is an observed 0.

    As in NetworkX's own link prediction an edge is a link, whatever its weight, and so are parallel ones; for weights
    as counts see `plait.fit`, which takes graphs. Self loops are left out: of a node with itself, and of two nodes of
    one side, p is 0. A node of ebunch that is not in G is a `networkx.NodeNotFound`.
    """
    if not is_graph(G):
        raise DataError(
            f"wanted a graph of NetworkX, got {type(G).__name__}.",
            hint="networkx.Graph(edges) makes one of pairs.",
        )
    most = _checked_count(k)
    pairs = None if ebunch is None else _checked_pairs(G, ebunch)
    links = _GraphLinks.of(G)
    if not (links.open_pairs() if pairs is None else pairs):
        return iter(())
    fit = links.fit(rank, seed)
    if pairs is not None:
        found = links.of_pairs(fit, pairs)
        return found if most is None else iter(sorted(found, key=lambda link: -link[2])[:most])
    return links.everywhere(fit) if most is None else links.best(fit, most)


def _checked_count(k: Any) -> int | None:
    whole = isinstance(k, (int, np.integer)) and not isinstance(k, bool)
    if k is not None and (not whole or k < 0):
        raise ParameterError.must_be("k", "a whole number, 0 or more", k)
    return None if k is None else int(k)


def _checked_pairs(G: Any, ebunch: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    pairs = [(u, v) for u, v in ebunch]
    for node in (node for pair in pairs for node in pair):
        if node not in G:
            from networkx import NodeNotFound

            raise NodeNotFound(f"Node {node} not in G.")
    return pairs


@dataclass(frozen=True, eq=False)
class _GraphLinks:
    """The links of a graph by numbers: firsts and seconds are the nodes of the rows and columns of `matrix`, whose
    entries are 1; of an undirected graph these are the same, and a link is there once, over the diagonal.
    """

    text: str
    firsts: list[Any]
    seconds: list[Any]
    matrix: Any

    @classmethod
    def of(cls, G: Any) -> "_GraphLinks":
        nodes = list(G.nodes)
        sides = None if G.is_directed() else _sides(G)
        firsts = nodes if sides is None else [node for node in nodes if sides[node] == 0]
        seconds = nodes if sides is None else [node for node in nodes if sides[node] == 1]
        text = DIRECTED if G.is_directed() else UNDIRECTED if sides is None else BIPARTITE
        rows, columns = (dict(zip(own, range(len(own)))) for own in (firsts, seconds))
        edges = [(u, v) if u in rows and v in columns else (v, u) for u, v, *_ in G.edges() if u != v]
        ends = np.array([(rows[u], columns[v]) for u, v in edges], np.int64).reshape(-1, 2)
        if text == UNDIRECTED:
            ends.sort(axis=1)
        ends = np.unique(ends, axis=0)
        matrix = sparse.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), (len(firsts), len(seconds)))
        return cls(text, firsts, seconds, matrix)

    def open_pairs(self) -> int:
        """How many pairs could be linked, and are not."""
        n, m = self.matrix.shape
        cells = {UNDIRECTED: n * (n - 1) // 2, DIRECTED: n * (n - 1), BIPARTITE: n * m}[self.text]
        return int(cells - self.matrix.nnz)

    def fit(self, rank: int | None, seed: int | None) -> "Fit":
        """The model, fitted."""
        apart: dict[str, Any] = {} if self.text == BIPARTITE else {"self_links": "missing"}
        relation = Relation(self.matrix, likelihood="bernoulli", **apart)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AsymmetricLinksWarning)  # whether links have a direction, the graph says
            return fit_model(
                self.text, {"link": relation}, rank=rank, seed=seed, restarts=TUNING.networkx_restarts,
                progress=Progress(bar=False, interrupt="raise"),
            )  # fmt: skip

    def of_pairs(self, fit: "Fit", pairs: list[tuple[Any, Any]]) -> Iterator[Link]:
        """Pairs as they come, block by block."""
        rows, columns = (dict(zip(own, range(len(own)))) for own in (self.firsts, self.seconds))
        for at in range(0, len(pairs), TUNING.networkx_pairs):
            some = pairs[at : at + TUNING.networkx_pairs]
            cells = np.array([_cell(u, v, rows, columns) for u, v in some], np.int64).reshape(-1, 2)
            possible = (cells >= 0).all(axis=1)
            p = np.zeros(len(some))
            p[possible] = _probability(fit, cells[possible])
            yield from ((u, v, float(own)) for (u, v), own in zip(some, p))

    def everywhere(self, fit: "Fit") -> Iterator[Link]:
        """All pairs that could be linked and are not, row by row."""
        for cells in self._open_cells():
            for (row, column), p in zip(cells.tolist(), _probability(fit, cells).tolist()):
                yield self.firsts[row], self.seconds[column], p

    def _open_cells(self) -> Iterator[Rows]:
        """Their numbers (n, 2), some rows of the matrix at a time."""
        n, m = self.matrix.shape
        step = max(1, TUNING.networkx_pairs // m)
        for at in range(0, n, step):
            rows = np.arange(at, min(at + step, n))
            free = self.matrix[rows].toarray() == 0
            if self.text != BIPARTITE:
                free &= rows[:, None] != np.arange(m)
            if self.text == UNDIRECTED:
                free &= rows[:, None] < np.arange(m)
            row, column = np.nonzero(free)
            yield np.stack([rows[row], column], axis=1)

    def best(self, fit: "Fit", k: int) -> Iterator[Link]:
        """The k most probable of them."""
        table: Any = fit.top("link", k, score="probability")
        first, second = fit.model.equation("link").indices
        for row, column, p in zip(*(table[name].to_list() for name in (first, second, "probability"))):
            yield self.firsts[row], self.seconds[column], p


def _sides(G: Any) -> dict[Any, int] | None:
    """The side of each node; None where the graph does not say, or an edge is within one."""
    sides = dict(G.nodes(data=SIDE))
    both = all(side in sides.values() for side in (0, 1)) and all(side in (0, 1) for side in sides.values())
    return sides if both and all(sides[u] != sides[v] for u, v, *_ in G.edges()) else None


def _cell(u: Any, v: Any, rows: dict[Any, int], columns: dict[Any, int]) -> tuple[int, int]:
    """Where a pair is in the matrix; −1 where it cannot be linked."""
    if u == v:
        return -1, -1
    if u in rows and v in columns:
        return rows[u], columns[v]
    return (rows[v], columns[u]) if v in rows and u in columns else (-1, -1)


def _probability(fit: "Fit", cells: Rows) -> Array:
    return score(fit, "link", cells, "probability") if len(cells) else np.zeros(0)
