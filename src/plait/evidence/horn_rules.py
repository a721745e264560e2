"""Horn rules of a knowledge graph, mined from its triples: p(h, t) ← q(h, a), r(a, t).

Bodies are paths of up to three links from h to t, each in either direction, with distinct entities, so that the triple
of the head never stands in its own body. Bodies are found on sampled triples (as AnyBURL does, Meilicke et al. 2019),
and counted by following their paths (docs/math.md, section 17).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from plait._typing import AnyArray, Array, Rows
from plait.data.sparse.keys import columns_of, pack
from plait.jit import exact_kernel

MAX_LENGTH = 3  # links of a body: longer paths join nearly everything
SAMPLED_TRIPLES = 400  # of a relation, on which bodies are found
SAMPLED_LINKS = 40  # of an entity that are followed while bodies are found
PATHS_OF_MINING = 6_000_000_000  # of all bodies, followed to count them: some 100 seconds
MIN_PATHS, EXACT_PATHS = 100_000, 5_000_000  # of one body: beyond its share of them, some heads are counted
MIN_HEADS = 100  # that are counted of each body
MAX_PATHS = 100_000_000  # of a body: one with more joins nearly everything and costs seconds
CHUNK_PAIRS = 20_000_000  # that a body may join in one call: 20 bytes each
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
        """csr array (n_entities, n_entities) of ones for every link number, without loops, ends in order."""
        from scipy.sparse import csr_array

        h, p, t = self.triples[self.triples[:, 0] != self.triples[:, 2]].T
        order = np.lexsort((t, h, p))
        h, t, starts = h[order].astype(np.int32), t[order].astype(np.int32), np.searchsorted(p[order], self._numbers)
        shape, links = (self.n_entities, self.n_entities), []
        for lo, hi in pairwise(starts):
            links.append(csr_array((np.ones(hi - lo, np.float32), (h[lo:hi], t[lo:hi])), shape=shape))
        links += [each.T.tocsr() for each in links]
        for each in links:
            each.sort_indices()
        return links

    @property
    def _numbers(self) -> Rows:
        return np.arange(self.n_relations + 1)

    @cached_property
    def shares(self) -> list[Array]:
        """One over the number of links of each entity (n_entities,), for every link number: a step of a random walk."""
        return [1.0 / np.maximum(np.diff(A.indptr), 1) for A in self.links]

    @cached_property
    def leaving(self) -> tuple[Rows, Rows, Rows]:
        """Triples without loops by head: starts (n_entities + 1,), relations, and tails."""
        h, p, t = self.triples[self.triples[:, 0] != self.triples[:, 2]].T
        order = np.argsort(h, kind="stable")
        return np.searchsorted(h[order], np.arange(self.n_entities + 1)), p[order], t[order]

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
        """Number of paths from every entity along a body and its beginnings, loops included, (n_entities,)."""
        count = np.ones(self.n_entities)
        for number, link in enumerate(reversed(body)):
            count = self.links[link] @ (count + (number > 0))
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
    bodies: list[tuple[int, ...]] = []
    w, a, z = _follow(graph, h, SAMPLED_LINKS)
    outside = z != t[w]
    w, a, z = w[outside], a[outside], z[outside]
    last, c, y = _follow(graph, t, SAMPLED_LINKS)
    outside = y != h[last]
    last, c, y = last[outside], graph.back(c[outside]), y[outside]
    ends = last * graph.n_entities + y
    if max_length >= 2:
        one, other = _joined(w * graph.n_entities + z, ends)
        bodies += _frequent(w[one], np.stack([a[one], c[other]]), n_links)
    if max_length >= 3:
        first, b, x = _follow(graph, z, SAMPLED_LINKS)
        outside = (x != h[w[first]]) & (x != t[w[first]])
        first, b, x = first[outside], b[outside], x[outside]
        one, other = _joined(w[first] * graph.n_entities + x, ends)
        first = first[one]
        bodies += _frequent(w[first], np.stack([a[first], b[one], c[other]]), n_links)
    return bodies


def _frequent(triple: Rows, bodies: Rows, n_links: int) -> list[tuple[int, ...]]:
    """Bodies (length, n) that join at least `MIN_SUPPORT` different triples, most first."""
    shape = (n_links,) * len(bodies)
    codes = np.ravel_multi_index(tuple(bodies), shape)
    distinct = np.unique(codes * (int(triple.max(initial=0)) + 1) + triple) // (int(triple.max(initial=0)) + 1)
    codes, counts = np.unique(distinct, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:MAX_BODIES]
    order = order[counts[order] >= MIN_SUPPORT]
    return [tuple(int(link) for link in body) for body in zip(*np.unravel_index(codes[order], shape))]


@exact_kernel
def follow_body(
    rows: Rows,
    length: int,
    starts: tuple[AnyArray, ...],
    ends: tuple[AnyArray, ...],
    out: tuple[Array, ...],
    back: tuple[Array, ...],
    leaving: tuple[Rows, ...],
    support: Rows,
    heads: AnyArray,
    tails: AnyArray,
    values: AnyArray,
) -> int:
    """Number of pairs that a body joins, from some heads, by paths of distinct entities.

    Adds the links of every relation among them to `support` (n_relations,). Where the arrays have room, writes heads,
    tails and values (n, 3): number of paths, and probabilities of walks from h and from t.
    starts, ends: links of each step; out, back: shares of each step, in its direction and the other one.
    """
    n, last = len(starts[0]) - 1, length - 1
    middle, walked = np.zeros((n, 3)), np.zeros((n, 3))
    seen = np.zeros(n, np.bool_)
    middles, reached = np.empty(n, np.int64), np.empty(n, np.int64)
    pairs = 0
    for h in rows:
        n_middles = n_reached = 0
        if length == 1:
            middles[0], n_middles = h, 1
            middle[h] = 1.0
        for i in range(starts[0][h], starts[0][h + 1] if length > 1 else starts[0][h]):
            x = ends[0][i]
            if length == 2:
                middles[n_middles] = x
                n_middles += 1
                middle[x, 0], middle[x, 1], middle[x, 2] = 1.0, out[0][h], back[0][x]
                continue
            for j in range(starts[1][x], starts[1][x + 1]):
                y = ends[1][j]
                if y == h:
                    continue
                if middle[y, 0] == 0.0:
                    middles[n_middles] = y
                    n_middles += 1
                forward, backward = out[0][h] * out[1][x], back[0][x] * back[1][y]
                middle[y, 0] += 1.0
                middle[y, 1] += forward
                middle[y, 2] += backward
                lo, hi = starts[2][y], starts[2][y + 1]
                while lo < hi:  # without the path h, x, y, x
                    at = (lo + hi) // 2
                    if ends[2][at] < x:
                        lo = at + 1
                    else:
                        hi = at
                if lo < starts[2][y + 1] and ends[2][lo] == x:
                    walked[x, 0] -= 1.0
                    walked[x, 1] -= forward * out[2][y]
                    walked[x, 2] -= backward * back[2][x]
        for m in range(n_middles):
            y = middles[m]
            for j in range(starts[last][y], starts[last][y + 1]):
                t = ends[last][j]
                if t == h:
                    continue
                if not seen[t]:
                    seen[t] = True
                    reached[n_reached] = t
                    n_reached += 1
                walked[t, 0] += middle[y, 0]
                walked[t, 1] += middle[y, 1] * out[last][y]
                walked[t, 2] += middle[y, 2] * back[last][t]
            middle[y] = 0.0
        for i in range(leaving[0][h], leaving[0][h + 1]):
            if walked[leaving[2][i], 0] > 0.5:
                support[leaving[1][i]] += 1
        for m in range(n_reached):
            t = reached[m]
            if walked[t, 0] > 0.5:
                if pairs < len(tails):
                    heads[pairs], tails[pairs] = h, t
                    values[pairs, 0], values[pairs, 1], values[pairs, 2] = walked[t, 0], walked[t, 1], walked[t, 2]
                pairs += 1
            walked[t] = 0.0
            seen[t] = False
    return pairs


def _followed(
    graph: TripleGraph, body: Sequence[int], rows: Rows, capacity: int = 0
) -> tuple[int, Rows, list[AnyArray]]:
    """Number of pairs of a body from some heads, support by relation, and up to `capacity` heads, tails and values."""
    support = np.zeros(graph.n_relations, np.int64)
    written = [np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty((capacity, len(WALKS)), np.float32)]
    steps = [body[min(place, len(body) - 1)] for place in range(MAX_LENGTH)]
    pairs = follow_body(
        rows, len(body), tuple(graph.links[link].indptr for link in steps),
        tuple(graph.links[link].indices for link in steps), tuple(graph.shares[link] for link in steps),
        tuple(graph.shares[graph.back(link)] for link in steps), graph.leaving, support, *written,
    )  # fmt: skip
    return pairs, support, [each[:pairs] for each in written]


def mine(graph: TripleGraph, max_length: int, min_confidence: float, max_rules: int, seed: int) -> list[HornRule]:
    """Rules of all relations by relation, the most confident first: at most `max_rules` for each."""
    rng = np.random.default_rng(seed)
    wanted: dict[tuple[int, ...], None] = {}
    for head in range(graph.n_relations):
        own = graph.triples[(graph.triples[:, 1] == head) & (graph.triples[:, 0] != graph.triples[:, 2])]
        if len(own) > SAMPLED_TRIPLES:
            own = own[np.sort(rng.choice(len(own), SAMPLED_TRIPLES, replace=False))]
        if len(own) >= MIN_SUPPORT:
            wanted |= dict.fromkeys(find_bodies(graph, own, max_length))
    order = rng.permutation(graph.n_entities)
    most = int(np.clip(PATHS_OF_MINING // max(len(wanted), 1), MIN_PATHS, EXACT_PATHS))
    by_head: dict[int, list[HornRule]] = {}
    least = np.full(graph.n_relations, min_confidence)  # by head, of the rules that may be among the best

    def keep(rule: HornRule) -> None:
        if rule.support >= MIN_SUPPORT and rule.confidence >= least[rule.head]:
            own = by_head.setdefault(rule.head, [])
            own.append(rule)
            if len(own) >= 2 * max_rules:
                own[:] = _best(own, max_rules)
                least[rule.head] = own[-1].confidence

    for rule in _short_rules(graph):
        keep(rule)
    for body in wanted:
        for rule in _counted(graph, body, order, most, least):
            keep(rule)
    return [rule for head in sorted(by_head) for rule in _best(by_head[head], max_rules)]


def _best(rules: list[HornRule], count: int) -> list[HornRule]:
    return sorted(rules, key=lambda rule: (-rule.confidence, -rule.support, rule.body))[:count]


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


def _counted(graph: TripleGraph, body: tuple[int, ...], order: Rows, most: int, least: Array) -> Iterator[HornRule]:
    """A body as rules of all relations with at least their confidence `least`.

    Counted on the first heads of `order` where it has more than `most` paths.
    """
    paths = graph.paths(body)
    total = float(paths.sum())
    if total > MAX_PATHS:
        return
    rows = order[paths[order] > 0]
    if total > most:
        rows = rows[: max(int(len(rows) * most / total), MIN_HEADS)]
    scale = total / max(float(paths[rows].sum()), 1.0)
    pairs, support, _ = _followed(graph, body, np.sort(rows))
    links = tuple((int(link % graph.n_relations), bool(link < graph.n_relations)) for link in body)
    for head in np.flatnonzero((support > 0) & (support / (pairs + PRIOR_PAIRS) >= least)).tolist():
        count = float(support[head])
        yield HornRule(head, links, round(count * scale), count / (pairs + PRIOR_PAIRS))


def _rule(graph: TripleGraph, head: int, body: Sequence[int], support: float, pairs: float) -> HornRule:
    links = tuple((int(link % graph.n_relations), bool(link < graph.n_relations)) for link in body)
    return HornRule(int(head), links, round(support), support / (pairs + PRIOR_PAIRS))


def numbers_of(graph: TripleGraph, rule: HornRule) -> tuple[int, ...]:
    """The body of a rule as link numbers."""
    return tuple(relation if forward else relation + graph.n_relations for relation, forward in rule.body)


def values_of(graph: TripleGraph, rule: HornRule, capacity: int) -> tuple[Rows, Rows, Array]:
    """Heads (n,), tails (n,) and values (n, 3) of a rule: 1, and the probabilities of walks from h and from t.

    Nothing where it joins more than `capacity` pairs.

    A walk from h does not go along the triple of the head, which is one of the links of its first entity where the
    body begins with the relation of the head.
    """
    body = numbers_of(graph, rule)
    most = np.minimum(graph.paths(body), graph.n_entities)
    parts: list[list[AnyArray]] = []
    for rows in _chunks(most):
        pairs, _, written = _followed(graph, body, rows, int(most[rows].sum()))
        parts.append([each.copy() for each in written])
        capacity -= pairs
        if capacity < 0:
            parts.clear()
            break
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3), np.float32)
    h, t, values = (np.concatenate(each) for each in zip(*parts))
    h, t = h.astype(np.int64), t.astype(np.int64)
    values[:, 0] = 1.0
    _leave_own_out(graph, rule, body, h, t, values)
    return h, t, np.clip(values, 0.0, 1.0)


def _chunks(most: Array) -> Iterator[Rows]:
    """Heads in chunks that join at most `CHUNK_PAIRS` pairs, where a head alone joins fewer."""
    rows = np.flatnonzero(most)
    bounds = np.unique(np.floor(np.cumsum(most[rows]) / CHUNK_PAIRS), return_index=True)[1]
    yield from (part for part in np.split(rows, bounds[1:]) if len(part))


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


def _leave_own_out(graph: TripleGraph, rule: HornRule, body: Sequence[int], h: Rows, t: Rows, values: Array) -> None:
    """Raise probabilities of walks at known triples of the head, where the first step could go along the triple."""
    own = graph.links[rule.head]
    for column, link, nodes, degrees in (
        (1, body[0], h, np.diff(own.indptr)),
        (2, body[-1], t, np.bincount(own.indices, minlength=graph.n_entities)),
    ):
        if link == rule.head:
            heads = np.repeat(np.arange(graph.n_entities), np.diff(own.indptr))
            known = np.flatnonzero(np.isin(h * graph.n_entities + t, heads * graph.n_entities + own.indices))
            degree = degrees[nodes[known]]
            values[known, column] *= degree / np.maximum(degree - 1, 1)
