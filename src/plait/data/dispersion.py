"""Overdispersion of counts: a test on the popularity model, for data that no Poisson rate explains.

Popularity predicts the rate of a cell: the mean rate times an effect of each entity. R latent groups may raise it by R
for each index but the one with most entities. What values of links have above that, in nats per link, is the excess:
about 0 for Poisson counts, hundreds for play counts.
"""

import math
from collections.abc import Sequence

import numpy as np

from plait._typing import AnyArray, Array
from plait.data.bound import BoundRelation
from plait.data.observation.links import LinkArrays
from plait.data.observation.weights import along
from plait.data.sparse.csf import as_tree
from plait.data.sparse.parallel import CHUNK_ROWS
from plait.data.sparse.sorting import is_uniform

SAMPLE_LINKS = 10_000  # links whose rates are predicted: some MB of memory, which `plait.pack` has
MIN_LINKS = 30  # links below which chance decides
MAX_GROUPS = 64  # groups whose rates are still taken for Poisson: the lift over popularity that they give
MIN_EXCESS_NATS = 0.5  # per link: simulated Poisson data have 0.25 at most; above, negbin gains nats per held-out link
MAX_POISSON_VALUE = 2.0  # values that cannot reach the smallest excess: 2 log 2 − 1 is 0.39


def is_overdispersed(relation: BoundRelation) -> bool:
    """Whether a relation in memory has counts that a Poisson likelihood cannot explain, at any usual rank."""
    links = relation.links
    if len(links) < MIN_LINKS or float(links.stored.max()) <= MAX_POISSON_VALUE:
        return False
    at = np.arange(0, len(links), max(1, -(-len(links) // SAMPLE_LINKS)))
    sample = LinkArrays(as_tree(links.fibres).cells(at), links.stored[at].astype(np.float64), links.weights[at])
    return exceeds_poisson(relation, sample, _marginals(relation))


def exceeds_poisson(relation: BoundRelation, sample: LinkArrays, marginals: Sequence[Array]) -> bool:
    """The same from a sample of links, and ΣMX of every row by index; never where M is on disk."""
    if len(relation.links) < MIN_LINKS or not all(term.in_memory for term in relation.weights.terms):
        return False
    return _excess(relation, sample, marginals) >= MIN_EXCESS_NATS


def _excess(relation: BoundRelation, sample: LinkArrays, marginals: Sequence[Array]) -> float:
    """Σ x log(x/μ) − (x − μ) over links with x > μ, in nats a link; μ is the largest rate that groups allow."""
    writings = math.prod(math.factorial(len(group)) for group in relation.groups)
    exposures = [along(relation.weights, (index,)) for index in relation.indices]
    base = writings * float(marginals[0].sum()) / float(exposures[0].sum())
    rate = np.full(len(sample.values), base)
    for place, exposure in enumerate(exposures):
        rows = sample.cells[:, place].astype(np.int64)
        expected, total = exposure[rows] * base, writings * _written(relation, marginals, place)[rows]
        rate *= np.divide(total, expected, out=np.full(len(rows), np.inf), where=expected > 0)
    lift = math.prod(min(MAX_GROUPS, size) for size in sorted(relation.shape)[:-1])
    x, most = sample.values, np.maximum(rate * lift, 1.0)
    above = x > most  # never, where weights so small that they cancel leave no exposure
    return float(np.sum(x[above] * np.log(x[above] / most[above]) - (x[above] - most[above]))) / len(x)


def _written(relation: BoundRelation, marginals: Sequence[Array], place: int) -> Array:
    """ΣMX of every row at one place; where the order of indices says nothing, averaged over their places."""
    group = next((group for group in relation.groups if place in group), (place,))
    return np.asarray(sum(marginals[other] for other in group) / len(group))


def _marginals(relation: BoundRelation) -> list[Array]:
    """ΣMX of every row, by index: sums of fibres, from the last level to the first."""
    links, fibres = relation.links, relation.links.fibres
    scale = float(links.weights[0]) if is_uniform(links.weights) else None
    sums: AnyArray = links.stored if scale is not None else links.stored * links.weights
    found: list[Array] = []
    for level in range(len(fibres.rows) - 1, -1, -1):
        size, total = fibres.sizes[level], np.zeros(fibres.sizes[level])
        step = max(CHUNK_ROWS, size)
        for lo in range(0, len(sums), step):
            total += np.bincount(fibres.rows[level][lo : lo + step], sums[lo : lo + step], size)
        found.insert(0, total if scale is None else total * scale)
        if level:
            begin = fibres.starts[level - 1][:-1].astype(np.int64)
            sums = np.add.reduceat(sums, begin, dtype=np.float64)
    return found
