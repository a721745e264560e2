"""Link prediction for NetworkX graphs: `plait.networkx.predict_links`."""

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
    """Predict links of a graph, in the interface of NetworkX.

    Parameters
    ----------
    G : networkx.Graph
        Any graph. An edge is a link, whatever its weight; parallel edges are one link.
    ebunch : iterable of pairs of nodes, default None
        Pairs to predict; by default all pairs without an edge.
    k : int or None, default None
        Return only the k most probable pairs, best first.
    rank : int or None, default None
        Number of components. ``None`` chooses the number that predicts best.
    seed : int or None, default None
        Random seed.

    Returns
    -------
    iterator of (node, node, float)
        Pairs ``(u, v, p)`` with the probability p of a link.

    Raises
    ------
    networkx.NodeNotFound
        If a node of ``ebunch`` is not in the graph.
    plait.errors.DataError
        If ``G`` is not a graph.

    Notes
    -----
    The model is fitted five times when the function is called, and p is that of the mixture.
    It is ``U[node, r] U[other, r]`` for an undirected graph, ``S[source, r] T[target, r]`` for
    a directed one, and ``F[first, r] S[second, r]`` for an undirected graph whose nodes all
    have the attribute ``bipartite``, 0 or 1.

    Pairs without an edge are observed zeros. Self-loops are ignored: p is 0 for a node with
    itself and for two nodes on one side of a bipartite graph.

    Examples
    --------
    >>> import networkx
    >>> from plait.networkx import predict_links
    >>> G = networkx.karate_club_graph()
    >>> u, v, p = next(predict_links(G, k=1, rank=2, seed=0))
    >>> 0 < p < 1
    True
    """
    if not is_graph(G):
        raise DataError(
            f"expected a graph of NetworkX, got {type(G).__name__}.",
            hint="Create one from pairs with networkx.Graph(edges).",
        )
    most = _checked_count(k)
    pairs = None if ebunch is None else _checked_pairs(G, ebunch)
    links = _GraphLinks.of(G)
    if not (links.open_pairs() if pairs is None else pairs):
        return iter(())
    fit = links.fit(rank, seed)
    if pairs is not None:
        scored = links.of_pairs(fit, pairs)
        return scored if most is None else iter(sorted(scored, key=lambda link: -link[2])[:most])
    return links.everywhere(fit) if most is None else links.best(fit, most)


def _checked_count(k: Any) -> int | None:
    whole = isinstance(k, (int, np.integer)) and not isinstance(k, bool)
    if k is not None and (not whole or k < 0):
        raise ParameterError.must_be("k", "an integer of at least 0", k)
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
