"""The tasks: links to fit on, links to choose by, links to be tested by. Choosing never sees the last."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from lab.harness import sources
from lab.harness.sources import Cells
from lab.quality.cells import among, both_ways, distinct

TEN = 10  # non-links for each tested link
QUERIES = 2000  # links or lists of a test that are ranked, unless it is an official one
MIN_LINKS = 20  # of a relation without self-links, from which on it has none (decision 17)
VALIDATION = 0.1  # of the links that may be seen, where there is no official part to choose by
QUICK_USERS = 150


@dataclass(frozen=True)
class Seen:
    """What a method may look at. kind: triples, graph, matrix or tensor.

    links (n, order), and of the closed cells (m, order) nothing is known: the diagonal of a graph, cells that are
    hidden, links and zeros alike. All others are zeros, or hidden links that look like zeros.
    """

    kind: str
    shape: tuple[int, ...]
    links: Cells
    closed: Cells


@dataclass(frozen=True)
class Asked:
    """Test cells. links and others (n, order); known: cells that are no rivals in a ranking; axes to rank on.

    lists: the measures of lists, where a query is a whole list, as of a user, and not one link. hits: the k of hits@k.
    loopless: which relations (n_relations,) link no entity to itself, in triples. queries: how many are ranked at most.
    """

    links: Cells
    others: Cells
    known: Cells
    shape: tuple[int, ...]
    axes: dict[int, str]
    lists: tuple[str, ...] = ()
    hits: tuple[int, ...] = ()
    loopless: np.ndarray | None = None
    queries: int = QUERIES


@dataclass(frozen=True)
class Task:
    """One split of one data set. tuning and valid: to choose settings; seen and test: for the figures."""

    tuning: Seen
    valid: Asked
    seen: Seen
    test: Asked


@dataclass(frozen=True)
class Source:
    """A data set. words: what it is; hidden: how the test was held out; splits: how many there are.

    published: figures that others published of the official test, by method. large: has too many cells for an array.
    """

    words: str
    hidden: str
    kind: str
    folder: str
    splits: int
    load: Callable[[int, bool], Task]
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    large: bool = False

    @property
    def absent(self) -> str:
        """Why it cannot be had; nothing if it can."""
        return sources.absent(self.folder)


def triples(name: str, hits: tuple[int, ...] = ()) -> Task:
    """A knowledge graph: fitted on its training triples, chosen by its validation triples, tested by its test."""
    found = sources.triples(name)
    train, valid, test = (distinct(found.parts[part]) for part in sources.TRIPLES)
    valid, test = valid[~among(valid, train, found.shape)], test[~among(test, train, found.shape)]
    seen = Seen("triples", found.shape, train, np.zeros((0, 3), np.int64))
    axes = {2: "tail", 0: "head"}
    tested = ask(test, [train, valid], found.shape, axes, 2)
    tested = replace(tested, hits=hits, loopless=loopless(train, found.shape[1]), queries=len(test))
    return Task(seen, ask(valid, [train], found.shape, axes, 1), seen, tested)


def loopless(triples: Cells, relations: int) -> np.ndarray:
    """Which relations (relations,) have enough links, and none of an entity to itself."""
    links, loops = (
        np.bincount(part[:, 1], minlength=relations) for part in (triples, triples[triples[:, 0] == triples[:, 2]])
    )
    return (links >= MIN_LINKS) & (loops == 0)


def graph(name: str, split: int) -> Task:
    """An undirected graph, a tenth of its edges hidden; an edge is two links."""
    nodes, edges = sources.graph(name)
    return hidden_edges(nodes, edges, split)


def hidden_edges(nodes: int, edges: Cells, split: int) -> Task:
    """A tenth of the edges to be tested by, a tenth of the others to choose by."""
    test, rest = _parted(edges, 0.1, split)
    valid, train = _parted(rest, VALIDATION, split)
    loops = np.repeat(np.arange(nodes)[:, None], 2, axis=1)
    shape, axes = (nodes, nodes), {1: "end"}
    train, valid, test = (both_ways(part) for part in (train, valid, test))
    both = np.concatenate([train, valid])
    return Task(
        Seen("graph", shape, train, loops),
        ask(valid, [train, loops], shape, axes, 1),
        Seen("graph", shape, both, loops),
        ask(test, [both, loops], shape, axes, 2),
    )


def hidden_links(kind: str, shape: tuple[int, ...], links: Cells, split: int, axes: dict[int, str]) -> Task:
    """A fifth of the links to be tested by, a tenth of the others to choose by; all look like zeros."""
    test, rest = _parted(links, 0.2, split)
    valid, train = _parted(rest, VALIDATION, split)
    closed, lists = np.zeros((0, len(shape)), np.int64), LISTS if kind == "matrix" else ()
    return Task(
        Seen(kind, shape, train, closed),
        ask(valid, [train], shape, axes, 1, lists),
        Seen(kind, shape, rest, closed),
        ask(test, [rest], shape, axes, 2, lists),
    )


def plays(split: int, quick: bool) -> Task:
    """Last.fm: who listens to whom."""
    shape, links = sources.plays()
    if quick:
        shape, links = _of_first(shape, links, QUICK_USERS)
    return hidden_links("matrix", shape, links, split, {1: "artist"})


def gowalla(quick: bool) -> Task:
    """Who checked in where: chosen by the validation links, then fitted on them too, as published results are."""
    shape, parts = sources.gowalla()
    if quick:
        sizes = [np.sum(part[:, 0] < QUICK_USERS) for part in parts.values()]
        shape, links = _of_first(shape, np.concatenate(list(parts.values())), QUICK_USERS)
        parts = dict(zip(parts, np.split(links, np.cumsum(sizes)[:-1])))
    train, valid, test = (distinct(part) for part in parts.values())
    both, closed, axes = distinct(np.concatenate([train, valid])), np.zeros((0, 2), np.int64), {1: "item"}
    asked = ask(test, [both], shape, axes, 2, PUBLISHED_LISTS)
    return Task(
        Seen("matrix", shape, train, closed),
        ask(valid, [train], shape, axes, 1, PUBLISHED_LISTS),
        Seen("matrix", shape, both, closed),
        replace(asked, queries=shape[0]),
    )


def tags(split: int, quick: bool) -> Task:
    """Last.fm: who gives which artist which tag."""
    shape, links = sources.tags()
    if quick:
        shape, links = _of_first(shape, links, QUICK_USERS)
    return hidden_links("tensor", shape, links, split, {2: "tag"})


def uclaf(split: int) -> Task:
    """Three cells in five are hidden, links and zeros; of the others, one in five to choose by."""
    return hidden_cells(sources.uclaf()[0] > 0, 0.6, split, {1: "place"})


def hidden_cells(X: np.ndarray, share: float, split: int, axes: dict[int, str]) -> Task:
    """Cells of an array (0/1) are hidden, links and zeros alike; methods that accept missing cells get them."""
    rng = np.random.default_rng(split)
    test = rng.random(X.shape) < share
    valid = ~test & (rng.random(X.shape) < 0.2)

    def seen(hidden: np.ndarray) -> Seen:
        return Seen("tensor", X.shape, np.argwhere(X & ~hidden), np.argwhere(hidden))

    def asked(part: np.ndarray, seed: int) -> Asked:
        return ask(np.argwhere(X & part), [np.argwhere(~part)], X.shape, axes, seed)

    return Task(seen(test | valid), asked(valid, 1), seen(test), asked(test, 2))


def drawn(split: int, quick: bool) -> Task:
    """Counts from a model of rank 8, as 0/1; a fifth of the cells hidden."""
    rng = np.random.default_rng(1000 + split)
    sizes = (30, 25, 10) if quick else (80, 60, 20)
    factors = [rng.gamma(0.3, 1.0, (size, 8)) for size in sizes]
    X = rng.poisson(0.3 * np.einsum("ir,jr,kr->ijk", *factors)) > 0
    return hidden_cells(X, 0.2, split, {2: "k"})


def communities(split: int, quick: bool) -> Task:
    """A graph whose nodes belong to groups, some to several, with unequal degrees; a tenth of its edges hidden."""
    rng = np.random.default_rng(2000 + split)
    nodes, groups = (80, 4) if quick else (400, 12)
    member = rng.gamma(0.15, 1.0, (nodes, groups)) * rng.gamma(2.0, 0.5, (nodes, 1))
    rate = member @ member.T
    rate *= 6 * nodes / rate[np.triu_indices(nodes, 1)].sum()
    edges = np.argwhere(np.triu(rng.random((nodes, nodes)) < -np.expm1(-rate), 1))
    return hidden_edges(nodes, edges, split)


LISTS = ("NDCG@10", "recall@20")
PUBLISHED_LISTS = ("NDCG@20", "full recall@20")
TENTH, FIFTH = "a tenth of the edges", "a fifth of the links"
SOURCES = {
    "Nations": Source(
        "14 countries, 55 relations", "the official test", "triples", "nations", 1, lambda n, q: triples("nations")
    ),
    "Kinships": Source(
        "104 people, 25 kin terms", "the official test", "triples", "kinships", 1, lambda n, q: triples("kinships")
    ),
    "UMLS": Source(
        "135 medical concepts, 46 relations", "the official test", "triples", "umls", 1, lambda n, q: triples("umls")
    ),
    "WN18RR": Source(
        "40,943 senses of words, 11 relations, 93,003 links",
        "the official test",
        "triples",
        "wn18rr",
        1,
        lambda n, q: triples("wn18rr", (1, 10)),
        large=True,
        published={
            "ComplEx-N3": {"MRR": 0.48},
            "RESCAL (LibKGE)": {"MRR": 0.467},
            "AnyBURL": {"hits@1": 0.457, "hits@10": 0.577},
        },
    ),
    "USAir": Source("332 airports, 2126 routes", TENTH, "graph", "graphs", 5, lambda n, q: graph("usair", n)),
    "Celegans": Source("297 neurons, 2148 contacts", TENTH, "graph", "graphs", 5, lambda n, q: graph("celegans", n)),
    "communities": Source("drawn: 400 nodes in 12 overlapping groups", TENTH, "graph", "", 5, communities),
    "Last.fm plays": Source("1892 users, 17,632 artists, 92,834 links", FIFTH, "matrix", "lastfm", 3, plays),
    "Gowalla": Source(
        "29,858 users, 40,981 places, 1,027,370 check-ins",
        "the official test",
        "matrix",
        "gowalla",
        1,
        lambda n, q: gowalla(q),
        large=True,
        published={
            "item-based CF": {"full recall@20": 0.157, "NDCG@20": 0.121},
            "SLIM": {"full recall@20": 0.170, "NDCG@20": 0.138},
            "EASE": {"full recall@20": 0.1765, "NDCG@20": 0.1467},
            "LightGCN": {"full recall@20": 0.182, "NDCG@20": 0.1547},
            "SimpleX": {"full recall@20": 0.187, "NDCG@20": 0.156},
        },
    ),
    "Last.fm tags": Source("1892 users, 12,523 artists, 9749 tags, 186,479 links", FIFTH, "tensor", "lastfm", 3, tags),
    "UCLAF": Source(
        "146 users, 168 places, 5 activities", "three cells in five", "tensor", "uclaf", 3, lambda n, q: uclaf(n)
    ),
    "drawn": Source("80 × 60 × 20 from a CP model of rank 8", "a fifth of the cells", "tensor", "", 3, drawn),
}
QUICK = ("Nations", "communities", "Last.fm plays", "drawn")


def _parted(links: Cells, share: float, seed: int) -> tuple[Cells, Cells]:
    """Some of the links at random, and the others."""
    order = np.random.default_rng(seed).permutation(len(links))
    few, rest = np.split(order, [round(share * len(links))])
    return links[np.sort(few)], links[np.sort(rest)]


def ask(
    links: Cells, known: list[Cells], shape: tuple[int, ...], axes: dict[int, str], seed: int,
    lists: tuple[str, ...] = (),
) -> Asked:  # fmt: skip
    """Links, and ten times as many cells that are neither they nor known (all of them where there are fewer)."""
    every = distinct(np.concatenate([links, *known]))
    return Asked(links, _others(every, shape, TEN * len(links), seed), every, shape, axes, lists)


def _others(known: Cells, shape: tuple[int, ...], count: int, seed: int) -> Cells:
    """Uniform cells, each once, that are not among the known."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    taken = np.ravel_multi_index(tuple(known.T), shape)
    if size < 10_000_000:
        free = np.setdiff1d(np.arange(size), taken)
        picked = rng.choice(free, min(count, len(free)), replace=False)
    else:
        picked = np.setdiff1d(rng.integers(0, size, 2 * count + len(taken)), taken)
        picked = rng.permutation(picked)[:count]
    return np.stack(np.unravel_index(picked, shape), axis=1)


def _of_first(shape: tuple[int, ...], links: Cells, rows: int) -> tuple[tuple[int, ...], Cells]:
    """The links of the first few rows, and only the entities that they have."""
    links = links[links[:, 0] < rows]
    numbered = [np.unique(column, return_inverse=True) for column in links.T]
    return tuple(len(names) for names, _ in numbered), np.stack([place for _, place in numbered], axis=1)
