"""Horn rules of a knowledge graph, mined from its triples: p(h, t) ← q(h, a), r(a, t).

Bodies are paths of up to three links from h to t, each in either direction, with distinct entities, so that the triple
of the head never stands in its own body. Bodies are found on sampled triples (as AnyBURL does, Meilicke et al. 2019),
and counted by products of sparse matrices (docs/math.md, section 17).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from plait._typing import Array, Rows
from plait.data.sparse.keys import columns_of, pack

MAX_LENGTH = 3  # links of a body: longer paths join nearly everything
SAMPLED_TRIPLES = 400  # of a relation, on which bodies are found
SAMPLED_LINKS = 40  # of an entity that are followed while bodies are found
SAMPLED_HEADS = 4_000  # on which the confidence of bodies with many paths is estimated
EXACT_PATHS = 5_000_000  # of a body up to which all of its heads are counted
CHUNK_PATHS = 20_000_000  # of a product of matrices at a time: some 300 MB
MAX_PATHS = 400_000_000  # of a body: one with more says nothing and costs seconds
MAX_BODIES = 300  # of one length tried for a relation, those that join most sampled triples
PRIOR_PAIRS = 5  # added to the pairs that a body joins, as AnyBURL does: few pairs prove little
MIN_SUPPORT = 2  # triples, below which a rule is an accident
WALKS = ("", "from h", "from t")  # the values of a rule: whether there is a path, and two probabilities of walks
NAMES = "habt"  # of the entities along a path


class HornRule(NamedTuple):
    """A rule: the relation of its head, the links of its body as (relation, whether forward), and its frequencies."""

    head: int
    body: tuple[tuple[int, bool], ...]
    support: int
    confidence: float

    def words(self, relations: Sequence[Any]) -> str:
        """The rule as text, ``p(h, t) ← q(h, a), r(a, t)``."""
        path = [*NAMES[: len(self.body)], "t"]
        body = [
            f"{relations[relation]}({start}, {end})" if forward else f"{relations[relation]}({end}, {start})"
            for (relation, forward), start, end in zip(self.body, path, path[1:])
        ]
        return f"{relations[self.head]}(h, t) ← {', '.join(body)}"


@dataclass(frozen=True, eq=False)
class TripleGraph:
    """Triples (n, 3) as head, relation and tail: a matrix for each relation, in both directions.

    A link has a number: its relation, plus `n_relations` where it is followed backwards.
    """

    triples: Rows
    n_entities: int
    n_relations: int

    @cached_property
    def links(self) -> list[Any]:
        """csr array (n_entities, n_entities) of ones for every link number, without loops."""
        from scipy.sparse import csr_array

        h, p, t = self.triples[self.triples[:, 0] != self.triples[:, 2]].T
        order = np.argsort(p, kind="stable")
        h, t, starts = h[order], t[order], np.searchsorted(p[order], np.arange(self.n_relations + 1))
        shape, found = (self.n_entities, self.n_entities), []
        for lo, hi in pairwise(starts):
            found.append(csr_array((np.ones(hi - lo, np.float32), (h[lo:hi], t[lo:hi])), shape=shape))
        return [*found, *(each.T.tocsr() for each in found)]

    @cached_property
    def steps(self) -> list[Any]:
        """The same with rows that add up to 1: where a random walk goes next."""
        from scipy.sparse import diags_array

        return [(diags_array(1.0 / np.maximum(A.sum(axis=1), 1.0)) @ A).tocsr().astype(np.float32) for A in self.links]

    @cached_property
    def around(self) -> tuple[Rows, Rows, Rows]:
        """All links by entity, in random order: starts (n_entities + 1,), link numbers, and other ends."""
        h, p, t = self.triples[self.triples[:, 0] != self.triples[:, 2]].T
        nodes, ends = np.concatenate([h, t]), np.concatenate([t, h])
        numbers = np.concatenate([p, p + self.n_relations])
        order = np.random.default_rng(0).permutation(len(nodes))
        order = order[np.argsort(nodes[order], kind="stable")]
        starts = np.searchsorted(nodes[order], np.arange(self.n_entities + 1))
        return starts, numbers[order], ends[order]

    def back(self, link: Any) -> Any:
        """Link numbers in the other direction."""
        return (link + self.n_relations) % (2 * self.n_relations)

    def paths(self, body: Sequence[int]) -> Array:
        """Number of paths from every entity along a body, loops included, (n_entities,)."""
        count = np.ones(self.n_entities)
        for link in reversed(body):
            count = self.links[link] @ count
        return count


def _follow(graph: TripleGraph, nodes: Rows, cap: int) -> tuple[Rows, Rows, Rows]:
    """Up to `cap` links of each node: the position of the node, link numbers, and other ends."""
    starts, numbers, ends = graph.around
    counts = np.minimum(starts[nodes + 1] - starts[nodes], cap)
    which = np.repeat(np.arange(len(nodes)), counts)
    at = starts[nodes][which] + np.arange(len(which)) - (np.cumsum(counts) - counts)[which]
    return which, numbers[at], ends[at]


def _joined(left: Rows, right: Rows) -> tuple[Rows, Rows]:
    """Positions of all pairs of equal keys."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    lo, hi = np.searchsorted(ordered, left, "left"), np.searchsorted(ordered, left, "right")
    counts = hi - lo
    which = np.repeat(np.arange(len(left)), counts)
    return which, order[lo[which] + np.arange(len(which)) - (np.cumsum(counts) - counts)[which]]


def find_bodies(graph: TripleGraph, triples: Rows, max_length: int) -> list[tuple[int, ...]]:
    """Bodies of length 2 and more that join many of some triples of one relation, most first by length."""
    h, t, n_links = triples[:, 0], triples[:, 2], 2 * graph.n_relations
    found: list[tuple[int, ...]] = []
    w, a, z = _follow(graph, h, SAMPLED_LINKS)
    outside = z != t[w]
    w, a, z = w[outside], a[outside], z[outside]
    last, c, y = _follow(graph, t, SAMPLED_LINKS)
    outside = y != h[last]
    last, c, y = last[outside], graph.back(c[outside]), y[outside]
    ends = last * graph.n_entities + y
    if max_length >= 2:
        one, other = _joined(w * graph.n_entities + z, ends)
        found += _frequent(w[one], np.stack([a[one], c[other]]), n_links)
    if max_length >= 3:
        first, b, x = _follow(graph, z, SAMPLED_LINKS)
        outside = (x != h[w[first]]) & (x != t[w[first]])
        first, b, x = first[outside], b[outside], x[outside]
        one, other = _joined(w[first] * graph.n_entities + x, ends)
        first = first[one]
        found += _frequent(w[first], np.stack([a[first], b[one], c[other]]), n_links)
    return found


def _frequent(triple: Rows, bodies: Rows, n_links: int) -> list[tuple[int, ...]]:
    """Bodies (length, n) that join at least `MIN_SUPPORT` different triples, most first."""
    shape = (n_links,) * len(bodies)
    codes = np.ravel_multi_index(tuple(bodies), shape)
    distinct = np.unique(codes * (int(triple.max(initial=0)) + 1) + triple) // (int(triple.max(initial=0)) + 1)
    codes, counts = np.unique(distinct, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:MAX_BODIES]
    order = order[counts[order] >= MIN_SUPPORT]
    return [tuple(int(link) for link in body) for body in zip(*np.unravel_index(codes[order], shape))]


def joined_pairs(graph: TripleGraph, body: Sequence[int], rows: Rows, matrices: Any = None) -> Any:
    """Paths with distinct entities along a body from some heads: their numbers as a csr array (n_rows, n_entities).

    `matrices`: other values of the links than 1; what is subtracted leaves rounding errors then.
    """
    use = graph.links if matrices is None else matrices
    A = [use[link] for link in body]
    found = A[0][rows]
    for step in A[1:]:
        found = found @ step
    if len(body) == 3:  # without those that pass h or t on their way
        returns = _diagonal(A[0], A[1])[rows]
        found = found - _scaled(A[2][rows], returns) - (A[0][rows] * _diagonal(A[1], A[2])[None, :]).tocsr()
        found = found + (A[0][rows] * A[1].T.tocsr()[rows] * A[2][rows]).tocsr()
    found = found.tocsr()
    _clear_loops(found, rows)
    found.data[found.data < 0.5 if matrices is None else found.data <= 0.0] = 0.0
    found.eliminate_zeros()
    found.sort_indices()
    return found


def _diagonal(A: Any, B: Any) -> Array:
    """Diagonal of a product, (n,)."""
    return np.asarray((A * B.T.tocsr()).sum(axis=1))


def _scaled(A: Any, rows: Array) -> Any:
    from scipy.sparse import diags_array

    return (diags_array(rows) @ A).tocsr()


def _clear_loops(A: Any, rows: Rows) -> None:
    """Set entries from a head to itself to 0."""
    A.data[np.repeat(rows, np.diff(A.indptr)) == A.indices] = 0.0


def mine(graph: TripleGraph, max_length: int, min_confidence: float, max_rules: int, seed: int) -> list[HornRule]:
    """Rules of all relations by relation, the most confident first: at most `max_rules` for each."""
    rng = np.random.default_rng(seed)
    wanted: dict[tuple[int, ...], list[int]] = {}
    for head in range(graph.n_relations):
        own = graph.triples[(graph.triples[:, 1] == head) & (graph.triples[:, 0] != graph.triples[:, 2])]
        if len(own) > SAMPLED_TRIPLES:
            own = own[np.sort(rng.choice(len(own), SAMPLED_TRIPLES, replace=False))]
        if len(own) >= MIN_SUPPORT:
            for body in find_bodies(graph, own, max_length):
                wanted.setdefault(body, []).append(head)
    found = _short_rules(graph)
    heads = np.sort(rng.choice(graph.n_entities, min(SAMPLED_HEADS, graph.n_entities), replace=False))
    for body, relations in wanted.items():
        found += _counted(graph, body, relations, heads)
    by_head: dict[int, list[HornRule]] = {}
    for rule in found:
        if rule.support >= MIN_SUPPORT and rule.confidence >= min_confidence:
            by_head.setdefault(rule.head, []).append(rule)
    return [
        rule
        for head in sorted(by_head)
        for rule in sorted(by_head[head], key=lambda rule: (-rule.confidence, -rule.support, rule.body))[:max_rules]
    ]


def _short_rules(graph: TripleGraph) -> list[HornRule]:
    """Rules with one link, counted exactly: relations of the same pairs, or of the pairs turned round."""
    from scipy.sparse import csr_array

    distinct = graph.triples[graph.triples[:, 0] != graph.triples[:, 2]]
    pairs = np.concatenate([distinct[:, [0, 2]], distinct[:, [2, 0]]])
    shape = (graph.n_entities, graph.n_entities)
    _, which = np.unique(pack(columns_of(pairs), shape, len(pairs)), return_inverse=True)
    numbers = np.concatenate([distinct[:, 1], distinct[:, 1] + graph.n_relations])
    has = csr_array(
        (np.ones(len(which)), (which.reshape(-1), numbers)), shape=(which.max(initial=0) + 1, 2 * graph.n_relations)
    )
    common = (has[:, : graph.n_relations].T @ has).tocoo()
    sizes: Array = has.sum(axis=0)
    return [
        _rule(graph, head, (link,), float(count), float(sizes[link]))
        for head, link, count in zip(*common.coords, common.data)
        if head != link
    ]


def _counted(graph: TripleGraph, body: tuple[int, ...], relations: Sequence[int], heads: Rows) -> Iterator[HornRule]:
    """A body as rules of some relations; on sampled heads where it has many paths."""
    paths = graph.paths(body)
    total = float(paths.sum())
    if total > MAX_PATHS:
        return
    rows = np.arange(graph.n_entities) if total <= EXACT_PATHS else heads
    rows = rows[paths[rows] > 0]
    scale = total / max(float(paths[rows].sum()), 1.0)
    pairs, support = 0, np.zeros(len(relations))
    for chunk in path_chunks(paths, rows):
        joined = joined_pairs(graph, body, chunk)
        joined.data[:] = 1.0
        pairs += joined.nnz
        support += [(joined * graph.links[head][chunk]).sum() for head in relations]
    for head, count in zip(relations, support):
        if pairs and count:
            yield _rule(graph, head, body, float(count) * max(scale, 1.0), pairs * max(scale, 1.0))


def path_chunks(paths: Array, rows: Rows) -> Iterator[Rows]:
    """Rows in chunks of at most `CHUNK_PATHS` paths."""
    bounds = np.unique(np.floor(np.cumsum(paths[rows]) / CHUNK_PATHS), return_index=True)[1]
    yield from (part for part in np.split(rows, bounds[1:]) if len(part))


def _rule(graph: TripleGraph, head: int, body: Sequence[int], support: float, pairs: float) -> HornRule:
    links = tuple((int(link % graph.n_relations), bool(link < graph.n_relations)) for link in body)
    return HornRule(int(head), links, round(support), support / (pairs + PRIOR_PAIRS))


def numbers_of(graph: TripleGraph, rule: HornRule) -> tuple[int, ...]:
    """The body of a rule as link numbers."""
    return tuple(relation if forward else relation + graph.n_relations for relation, forward in rule.body)


def values_of(graph: TripleGraph, rule: HornRule, room: int) -> tuple[Rows, Rows, Array]:
    """Heads (n,), tails (n,) and values (n, 3) of a rule: 1, and the probabilities of walks from h and from t.

    Nothing where it joins more than `room` pairs.

    A walk from h does not go along the triple of the head, which is one of the links of its first entity where the
    body begins with the relation of the head.
    """
    body = numbers_of(graph, rule)
    paths = graph.paths(body)
    back = {link: graph.steps[graph.back(link)].T.tocsr() for link in set(body)}
    parts: list[tuple[Rows, Rows, Array]] = []
    for chunk in path_chunks(paths, np.flatnonzero(paths)):
        joined = joined_pairs(graph, body, chunk)
        h, t = chunk[np.repeat(np.arange(len(chunk)), np.diff(joined.indptr))], joined.indices.astype(np.int64)
        forward = _looked_up(joined, joined_pairs(graph, body, chunk, graph.steps))
        backward = _looked_up(joined, joined_pairs(graph, body, chunk, back))
        parts.append((h, t, np.column_stack([np.ones(len(h)), forward, backward]).astype(np.float32)))
        room -= len(h)
        if room < 0:
            parts.clear()
            break
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3), np.float32)
    h, t, values = (np.concatenate(each) for each in zip(*parts))
    _leave_own_out(graph, rule, body, h, t, values)
    return h, t, np.minimum(values, 1.0)


def grounding(rule: HornRule, triples: Rows, head: int, tail: int) -> Rows:
    """Triples of a body that joins head and tail, in its order, (length, 3), or none; the first one by row numbers."""
    steps = []
    for relation, forward in rule.body:
        own = triples[triples[:, 1] == relation]
        own = own[own[:, 0] != own[:, 2]]
        steps.append(own if forward else own[:, ::-1])  # start, relation, end
    paths = np.array([[head]])
    for number, step in enumerate(steps):
        if number == len(steps) - 1:
            step = step[step[:, 2] == tail]
        else:
            step = step[(step[:, 2] != tail) & (step[:, 2] != head)]
        one, other = _joined(paths[:, -1], step[:, 0])
        paths = np.column_stack([paths[one], step[other, 2]])
        distinct = (paths[:, :-1] != paths[:, -1:]).all(axis=1)
        paths = paths[distinct]
    if not len(paths):
        return np.zeros((0, 3), np.int64)
    path = paths[np.lexsort(paths.T[::-1])[0]]
    return np.array(
        [
            (start, relation, end) if forward else (end, relation, start)
            for (relation, forward), start, end in zip(rule.body, path, path[1:])
        ]
    )


def _looked_up(joined: Any, values: Any) -> Array:
    """Values at the entries of a csr array, 0 where they have none."""
    width = joined.shape[1]
    own = np.repeat(np.arange(joined.shape[0]), np.diff(joined.indptr)) * width + joined.indices
    there = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr)) * width + values.indices
    at = np.minimum(np.searchsorted(there, own), max(len(there) - 1, 0))
    return np.where(there[at] == own, values.data[at], 0.0) if len(there) else np.zeros(len(own))


def _leave_own_out(graph: TripleGraph, rule: HornRule, body: Sequence[int], h: Rows, t: Rows, values: Array) -> None:
    """Raise probabilities of walks at known triples of the head, where the first step could go along the triple."""
    own = graph.links[rule.head]
    for column, link, nodes, degrees in (
        (1, body[0], h, np.diff(own.indptr)),
        (2, body[-1], t, np.bincount(own.indices, minlength=graph.n_entities)),
    ):
        if link == rule.head:
            known = np.flatnonzero(np.asarray(own[h, t]).reshape(-1))
            degree = degrees[nodes[known]]
            values[known, column] *= degree / np.maximum(degree - 1, 1)
