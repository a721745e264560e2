"""Rules of knowledge graphs: one fit with components, neighbours and rules, on test links (decision 38).

WN18RR, UMLS and Kinships with their official tests, and a drawn graph of the size of FB15k-237.
"""

import resource
import time
import warnings
from collections.abc import Iterator

import numpy as np
import polars as pl

import plait
from lab.harness import sources
from lab.harness.table import show

MODEL = "facts[h, p, t] = A[h, a] G[a, p, b] A[t, b]\nt: h"
GRAPHS = {"UMLS": "umls", "Kinships": "kinships", "WN18RR": "wn18rr", "drawn": ""}
WAYS: dict[str, dict[str, object]] = {
    "neighbours": {"evidence": "neighbours"},
    "rules": {"evidence": "rules"},
    "both": {"evidence": ("neighbours", "rules")},
}
RANK = 16
DRAWN_LINKS = 292_000  # of the drawn graph, with those that are held out
TESTED = 2_500  # links of the drawn graph that are ranked


def compare(data: str | None = None) -> None:
    """Filtered MRR and hits@k of heads and tails; processor seconds of the fit and of its evaluation."""
    columns = ["data", "fit", "MRR", "hits@1", "hits@10", "fit, s", "evaluation, s", "GB"]
    show("Rules: test links", columns, [row for name in GRAPHS if data in (None, name) for row in _rows(name)])


def _rows(name: str) -> Iterator[list[object]]:
    shape, parts = drawn(0) if name == "drawn" else _official(GRAPHS[name])
    for way, options in WAYS.items():
        yield [name, way, *_judged(shape, parts, options)]


def _official(folder: str) -> tuple[tuple[int, int, int], dict[str, np.ndarray]]:
    found = sources.triples(folder)
    return found.shape, found.parts


def _judged(shape: tuple[int, int, int], parts: dict[str, np.ndarray], options: dict[str, object]) -> list[float]:
    train, valid, test = (
        pl.DataFrame(parts[part], schema=["h", "p", "t"]).unique(maintain_order=True).filter(pl.col("h") != pl.col("t"))
        for part in sources.TRIPLES
    )
    test = test.join(train, on=["h", "p", "t"], how="anti")
    began = time.process_time()
    relation = plait.Relation(train, unseen="zero", likelihood="poisson")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        fit = plait.fit(
            MODEL, {"facts": relation}, entities={"h": range(shape[0]), "p": range(shape[1])}, rank=RANK, seed=0,
            progress=False, **options,
        )  # fmt: skip
        fitted = time.process_time()
        metrics = plait.evaluate(fit, "facts", test, target=["h", "t"], negatives=0, known=valid)
    ended = time.process_time()
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [*(metrics[name] for name in ("mrr", "hits_at_1", "hits_at_10")), fitted - began, ended - fitted, gigabytes]


def drawn(seed: int) -> tuple[tuple[int, int, int], dict[str, np.ndarray]]:
    """15,000 entities of 20 types, 237 relations, 272,000 training triples, with the hubs of FB15k-237.

    A relation joins two types. Some are drawn: entities of one community prefer each other, and a few tails of each
    relation have most of its links. Others are inverses or compositions of them: a part of the implied triples is
    there, and some that are not implied.
    """
    rng = np.random.default_rng(seed)
    n_entities, n_relations, n_types, n_groups = 15_000, 237, 12, 20
    kind = rng.choice(n_types, n_entities, p=rng.dirichlet(np.full(n_types, 2.0)))
    group = rng.integers(0, n_groups, n_entities)
    members = [np.flatnonzero(kind == k) for k in range(n_types)]
    popular = rng.pareto(0.9, n_entities) + 0.1
    links: list[np.ndarray] = []
    types: list[tuple[int, int]] = []
    sizes = np.exp(rng.normal(6.0, 1.4, n_relations)).clip(40, 15_000)
    sizes *= 1.05 * DRAWN_LINKS / sizes.sum()
    for number in range(n_relations):
        size = int(sizes[number])
        roll = rng.random()
        pairs = np.zeros((0, 2), np.int64)
        if number >= 80 and roll < 0.15:  # an inverse, or a copy
            other = int(rng.integers(len(links)))
            turned = rng.random() < 0.7
            pairs = links[other][:, ::-1] if turned else links[other]
            types.append(types[other][::-1] if turned else types[other])
        elif number >= 80 and roll < 0.6:  # a composition
            one = int(rng.integers(len(links)))
            fitting = [k for k, own in enumerate(types) if own[0] == types[one][1]]
            other = int(rng.choice(fitting)) if fitting else one
            pairs = _composed(links[one], links[other], 40 * size, rng) if fitting else links[one]
            types.append((types[one][0], types[other][1]))
        else:
            own = rng.choice(n_types, 2)
            own = tuple(int(k) if len(members[k]) else int(kind[0]) for k in own)
            types.append(own)
        implied = pairs[rng.permutation(len(pairs))[: int(0.8 * size)]]
        extra = _drawn_pairs(members[types[-1][0]], members[types[-1][1]], group, popular, size - len(implied), rng)
        links.append(np.unique(np.concatenate([implied, extra]), axis=0))
    cells = np.concatenate([np.insert(own, 1, number, axis=1) for number, own in enumerate(links)])
    cells = cells[cells[:, 0] != cells[:, 2]]
    cells = cells[rng.permutation(len(cells))[:DRAWN_LINKS]]
    valid, test, train = np.split(cells, [17_500, 20_000])
    return (n_entities, n_relations, n_entities), {"train": train, "valid": valid, "test": test[:TESTED]}


def _composed(first: np.ndarray, second: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Some pairs (n, 2) that are joined by a link of each."""
    second = second[np.argsort(second[:, 0], kind="stable")]
    starts = first[rng.integers(len(first), size=count)]
    lo, hi = (np.searchsorted(second[:, 0], starts[:, 1], side) for side in ("left", "right"))
    there = hi > lo
    ends = second[(lo + rng.random(count) * (hi - lo)).astype(np.int64)[there], 1]
    return np.unique(np.stack([starts[there, 0], ends], axis=1), axis=0)


def _drawn_pairs(
    heads: np.ndarray, tails: np.ndarray, group: np.ndarray, popular: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Distinct pairs (count, 2), or fewer: popular entities more often, and two in three within a community."""
    found = np.zeros((0, 2), np.int64)
    for _ in range(6):
        h, t = (
            rng.choice(nodes, 30 * count, p=_shares(popular[nodes] ** power))
            for nodes, power in ((heads, 0.3), (tails, 0.8))
        )
        kept = (group[h] == group[t]) | (rng.random(len(h)) < 0.03)
        found = np.unique(np.concatenate([found, np.stack([h, t], axis=1)[kept][:count]]), axis=0)
        if len(found) >= count:
            return found[rng.permutation(len(found))[:count]]
    return found


def _shares(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum()
