"""Automatic likelihood: chosen from values, with a test for overdispersed counts on the popularity model.

Popularity predicts the rate of a cell: the mean rate times an effect of each entity. R latent groups may raise it by R
for each index but the one with most entities. What values of links have above that, in nats per link, is the excess:
about 0 for Poisson counts, hundreds for play counts.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from plait._typing import AnyArray, Array
from plait.data.observation.links import LinkArrays, Links
from plait.data.observation.symmetry import Groups
from plait.data.observation.weights import Weights, along
from plait.data.sparse.csf import as_tree
from plait.data.sparse.parallel import CHUNK_ROWS
from plait.data.sparse.sorting import is_uniform
from plait.model.model import Equation

if TYPE_CHECKING:
    from plait.likelihood import Likelihood

SAMPLE_LINKS = 10_000  # links whose rates are predicted: some MB of memory, which `plait.pack` has
MIN_LINKS = 30  # links below which chance decides
MAX_GROUPS = 64  # groups whose rates are still taken for Poisson: the lift over popularity that they give
MIN_EXCESS_NATS = 0.5  # per link: simulated Poisson data have 0.25 at most; above, negbin gains nats per held-out link
MAX_POISSON_VALUE = 2.0  # values that cannot reach the smallest excess: 2 log 2 − 1 is 0.39


def choose_likelihood(links: Links, weights: Weights, groups: Groups, equation: Equation) -> "tuple[Likelihood, str]":
    """Likelihood of links in memory, and the reason; M and exchangeable positions as in `BoundRelation`."""
    values = links.stored[:1] if is_uniform(links.stored) else links.stored
    whole = values.dtype.kind in "iu" or bool((values == np.floor(values)).all())
    most = float(values.max()) if len(values) else 0.0
    return likelihood_of(most, whole, equation, lambda: is_overdispersed(links, weights, groups))


def likelihood_of(
    most: float, whole: bool, equation: Equation, is_uneven: Callable[[], bool]
) -> "tuple[Likelihood, str]":
    """The same from the largest value, whether all are whole, and the test of counts."""
    from plait.likelihood import as_likelihood  # imports numba, which the data layer avoids

    if most == 0:
        return as_likelihood("poisson"), "no links"
    if not whole:
        return as_likelihood("tweedie"), "values that are not whole"
    if most == 1:
        return as_likelihood("bernoulli"), "all values are 0 or 1"
    if not has_pair_factor(equation) and is_uneven():
        return as_likelihood("negbin"), "counts that are larger or more uneven than Poisson counts"
    return as_likelihood("poisson"), "counts"


def has_pair_factor(equation: Equation) -> bool:
    """Whether a factor has several visible indices: a number for each pair, or an exposure, explains any count."""
    return any(sum(i in equation.indices for i in one.indices) > 1 for one in equation.occurrences)


def is_overdispersed(links: Links, weights: Weights, groups: Groups) -> bool:
    """Whether links in memory have counts that a Poisson likelihood cannot explain, at any usual rank."""
    if len(links) < MIN_LINKS or float(links.stored.max()) <= MAX_POISSON_VALUE:
        return False
    at = np.arange(0, len(links), max(1, -(-len(links) // SAMPLE_LINKS)))
    sample = LinkArrays(as_tree(links.fibres).cells(at), links.stored[at].astype(np.float64), links.weights[at])
    exposures = [along(weights, (index,)) for index in weights.indices]
    return excess(sample, weights.shape, groups, exposures, _marginals(links)) >= MIN_EXCESS_NATS


def excess(
    sample: LinkArrays, shape: Sequence[int], groups: Groups, exposures: Sequence[Array], marginals: Sequence[Array]
) -> float:
    """Σ x log(x/μ) − (x − μ) over sampled links with x > μ, in nats a link; μ is the largest rate that groups allow.

    `exposures`, `marginals`: ΣM and ΣMX of every row, by index; ΣM over all orientations of undirected cells.
    """
    base = writings(groups) * float(marginals[0].sum()) / float(exposures[0].sum())
    rate = np.full(len(sample.values), base)
    for place, exposure in enumerate(exposures):
        rows = sample.cells[:, place].astype(np.int64)
        expected, total = exposure[rows] * base, written(groups, marginals, place)[rows]
        rate *= np.divide(total, expected, out=np.full(len(rows), np.inf), where=expected > 0)
    lift = math.prod(min(MAX_GROUPS, size) for size in sorted(shape)[:-1])
    x, most = sample.values, np.maximum(rate * lift, 1.0)
    above = x > most  # never, where weights so small that they cancel leave no exposure
    return float(np.sum(x[above] * np.log(x[above] / most[above]) - (x[above] - most[above]))) / len(x)


def writings(groups: Groups) -> int:
    """Number of orientations of a cell."""
    return math.prod(math.factorial(len(group)) for group in groups)


def written(groups: Groups, sums: Sequence[Array], place: int) -> Array:
    """Sums of every row at one place, over all orientations; `sums`: by place, over canonical orientations."""
    group = next((group for group in groups if place in group), (place,))
    return np.asarray(writings(groups) * sum(sums[other] for other in group) / len(group))


def _marginals(links: Links) -> list[Array]:
    """ΣMX of every row, by index: sums of fibres, from the last level to the first."""
    fibres = links.fibres
    scale = float(links.weights[0]) if is_uniform(links.weights) else None
    sums: AnyArray = links.stored if scale is not None else links.stored * links.weights
    marginals: list[Array] = []
    for level in range(len(fibres.rows) - 1, -1, -1):
        size, total = fibres.sizes[level], np.zeros(fibres.sizes[level])
        step = max(CHUNK_ROWS, size)
        for lo in range(0, len(sums), step):
            total += np.bincount(fibres.rows[level][lo : lo + step], sums[lo : lo + step], size)
        marginals.insert(0, total if scale is None else total * scale)
        if level:
            begin = fibres.starts[level - 1][:-1].astype(np.int64)
            sums = np.add.reduceat(sums, begin, dtype=np.float64)
    return marginals
