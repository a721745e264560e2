"""Mean and variance of the rate at cells, exact for every equation, in chunks.

The variance of a sum of terms is the sum of theirs and of twice the covariance of any two with common factor rows.
Within a term, groups of factors without a common latent index are independent. Nothing is subtracted.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

import numpy as np

from plait._typing import Array, Rows
from plait.analysis.predict.kernels import multiply_means, multiply_moments
from plait.analysis.predict.operands import RateTerm, RowTable, apart, coupled, terms
from plait.data.sparse.parallel import in_pieces
from plait.model import network
from plait.model.network import CELLS, RowBlock
from plait.storage.fitted import Fitted

Item = TypeVar("Item")
Part = Callable[[int, int], tuple[Array, Array]]  # cells lo … hi − 1 -> mean and variance of one group of factors

SCRATCH_DOUBLES = 1 << 15  # per thread: stays in the cache
MIN_GROUP_CELLS = 8  # cells of one core on average, from which on a product of matrices for each core pays
MAX_INTERMEDIATE_DOUBLES = 1 << 19  # of a general equation


def mean_rate(fit: Fitted, relation: str, rows: Rows) -> Array:
    """Σ_t V_t · Xhat_E of the terms t at cells, (n, order) → (n,); −1 takes the prior. Averaged over the members of an
    ensemble.
    """
    return average(sum_moments(terms(member, relation, rows), variance=False)[0] for member in fit.members)


def moments(fit: Fitted, relation: str, rows: Rows) -> tuple[Array, Array]:
    """Mean and variance of the rate Σ_t V_t · Xhat_t at cells, (n, order) → (n,), (n,); for an ensemble, of the
    mixture.
    """
    return pooled(_moments(member, relation, rows) for member in fit.members)


def grouped_moments(fit: Fitted, relation: str, rows: Rows) -> tuple[Array, Array]:
    """The same as `moments` of one member up to rounding, by products of matrices where many cells share a core.

    Cells are sorted by the row of the widest factor with several latent indices, P[a, relation, b] for instance.
    """

    def ask(rows: Rows) -> tuple[Array, Array]:
        parts = terms(fit, relation, rows)
        cores = [o for term in parts if not term.is_product for o in term.operands if len(o.latent) > 1 and not o.alone]
        if not cores or not len(rows):
            return sum_moments(parts, variance=True)
        at = max(cores, key=lambda operand: operand.width).at
        order = np.argsort(at, kind="stable")
        starts = np.flatnonzero(np.diff(at[order], prepend=-1))
        if len(starts) * MIN_GROUP_CELLS > len(rows):
            return sum_moments(parts, variance=True)
        result = np.empty((2, len(rows)))
        for run in np.split(order, starts[1:]):
            result[:, run] = sum_moments([term.at_cells(run).without_repeats() for term in parts], variance=True)
        return result[0], result[1]

    mean, variance = apart(fit, relation, rows, ask)
    return mean, variance


def average(arrays: Iterable[Array]) -> Array:
    """Mean of arrays of one shape, exact where they are equal."""
    average: Array | None = None
    for count, array in enumerate(arrays, 1):
        average = array if average is None else average + (array - average) / count
    assert average is not None
    return average


def pooled(moments: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Mean and variance of an equally weighted mixture."""
    means, variances = zip(*moments)
    mean = average(means)
    if len(means) == 1:
        return mean, variances[0]
    with np.errstate(over="ignore"):  # differences of EM points may overflow when squared
        return mean, average(variances) + np.sum([(each - mean) ** 2 for each in means], axis=0) / len(means)


def rates_along(fit: Fitted, relation: str, rows: Rows, index: str) -> Array:
    """Mean rate with one index running over all its entities; rows (n, order) → (n, n_entities).

    The row numbers of that index are ignored. The whole result is in memory, so n must be small. Averaged over the
    members of an ensemble.
    """
    return average(_rates_along(member, relation, rows, index) for member in fit.members)


def _rates_along(fit: Fitted, relation: str, rows: Rows, index: str) -> Array:
    result: Array | None = None
    for number, term in enumerate(terms(fit, relation, rows, running=index)):
        rate = network.contract([o.block(o.mean, 0, len(rows)) for o in term.operands], (CELLS, index))
        V = fit.exposures.of(relation, number)
        if V is not None:
            rate = rate * V.along_fibres(rows, index)
        result = rate if result is None else result + rate
    assert result is not None
    shape = len(rows), len(fit.entities[index])
    return result if result.shape == shape else np.broadcast_to(result, shape).copy()


def _moments(fit: Fitted, relation: str, rows: Rows) -> tuple[Array, Array]:
    def ask(rows: Rows) -> tuple[Array, Array]:
        return sum_moments(terms(fit, relation, rows), variance=True)

    mean, variance = apart(fit, relation, rows, ask)
    return mean, variance


def sum_moments(parts: Sequence[RateTerm], variance: bool) -> tuple[Array, Array]:
    """Mean and variance of a sum of terms, (n,) each: those of its terms, and 2 Cov of any two."""
    mean, var = np.zeros((2, parts[0].count))
    for term in parts:
        m, v = _product_moments(term, variance)
        mean += m
        var += v
    for group in coupled(parts) if variance else ():
        for first, second in combinations(group, 2):
            if first.sources & second.sources:
                var += 2 * _covariance(first, second)
    return mean, var


def _product_moments(term: RateTerm, variance: bool) -> tuple[Array, Array]:
    """Mean and variance of one term, (n,) each.

    var = V² Σ_{∅≠T⊆factors} Σ_{latent(T)} Π_{α∈T} Var_α · (Σ_{other latent} Π_{α∉T} E_α)², for groups of factors that
    latent indices connect: Var XY = Var X (E[Y]² + Var Y) + E[X]² Var Y.
    """
    mean, var = np.ones(term.count), np.zeros(term.count)
    for group in _connected(term.operands):
        part, piece = _moments_of_group(group, variance)

        def work(lo: int, hi: int, part: Part = part) -> None:
            m, v = part(lo, hi)
            # The recursion of a product of factors, since groups are independent. Points have no variance, and
            # the rates of an EM fit may be too large to be squared.
            if v.any() or var[lo:hi].any():
                var[lo:hi] = var[lo:hi] * (m * m + v) + mean[lo:hi] ** 2 * v
            mean[lo:hi] *= m

        in_pieces(work, term.count, piece)
    if term.exposure is not None:
        mean *= term.exposure
        var *= term.exposure**2
    return mean, var


def _connected(parts: Sequence[RowTable]) -> list[list[RowTable]]:
    """Groups of factors connected by latent indices, after summing out indices of a single factor."""
    count = Counter(index for operand in parts for index in operand.latent)
    left = []
    for operand in parts:
        for index in operand.latent:
            operand = operand.summed_over(index) if count[index] == 1 else operand
        left.append(operand)
    return [[left[n] for n in group] for group in network.groups([operand.latent for operand in left])]


def _moments_of_group(group: list[RowTable], variance: bool) -> tuple[Part, int]:
    """Function for the moments of a group, and its number of cells per chunk."""
    whole = RateTerm(group)
    if whole.is_product:
        return _alike([operand.ordered(group[0].latent) for operand in group], variance), SCRATCH_DOUBLES // whole.width
    return _general(group, variance), MAX_INTERMEDIATE_DOUBLES // whole.width


def _alike(group: Sequence[RowTable], variance: bool) -> Part:
    """Factors with the same latent indices (CP, also one factor or no latent index): Σ_r of products of moments."""
    tables = [(operand.at, *operand.flat()) for operand in group]
    width = tables[0][1].shape[1]
    uncertain = variance and any(operand.random for operand in group)

    def part(lo: int, hi: int) -> tuple[Array, Array]:
        product = np.ones((hi - lo, width))
        if not uncertain:
            for at, mean, _ in tables:
                multiply_means(at[lo:hi], mean, product)
            return product.sum(axis=1), np.zeros(hi - lo)
        spread = np.zeros((hi - lo, width))
        for at, mean, scale in tables:
            multiply_moments(at[lo:hi], mean, scale, product, spread)
        return product.sum(axis=1), spread.sum(axis=1)

    return part


def _general(group: Sequence[RowTable], variance: bool) -> Part:
    """Any factors: the mean by one contraction, the variance by two for every set T of uncertain factors."""
    uncertain = [operand for operand in group if operand.random] if variance else []

    # A factor with all latent indices, such as a core: of all T with it the sum is Σ Var Π (E² + Var) of the others.
    every = {index for operand in group for index in operand.latent}
    core = next((operand for operand in uncertain if set(operand.latent) == every), None)
    others_uncertain = [operand for operand in uncertain if operand is not core]

    def part(lo: int, hi: int) -> tuple[Array, Array]:
        total = np.zeros(hi - lo)
        means = {operand: operand.block(operand.mean, lo, hi) for operand in group}
        if core is not None:
            squares = [o.block(o.mean**2 + o.variance, lo, hi) for o in group if o is not core]
            total += network.contract([core.block(core.variance, lo, hi), *squares], (CELLS,))
        for T in _subsets(others_uncertain):
            inside = {CELLS, *(index for operand in T for index in operand.latent)}
            others = [block for operand, block in means.items() if operand not in T]
            kept = tuple(dict.fromkeys(index for block in others for index in block.indices if index in inside))
            inner = RowBlock(kept, network.contract(others, kept) ** 2)
            total += network.contract([inner, *(o.block(o.variance, lo, hi) for o in T)], (CELLS,))
        return np.broadcast_to(network.contract(list(means.values()), (CELLS,)), hi - lo), total

    return part


def _subsets(of: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    """All subsets but the empty one."""
    for count in range(1, len(of) + 1):
        yield from combinations(of, count)


def _covariance(first: RateTerm, second: RateTerm) -> Array:
    """Cov of two terms, (n,), over sets T ≠ ∅ of the uncertain rows in both:

    V V' Σ_T Σ_positions(T) Π_{α∈T} Var_α · (Σ_{other latent} Π_{α∉T} E_α of the one) · (the same of the other).
    """
    total = np.zeros(first.count)
    shared = [(o, p) for o in first.operands for p in second.operands if o.random and o.source == p.source]

    def work(lo: int, hi: int) -> None:
        for T in _subsets(shared):
            names, inside = _united(T), {operand for pair in T for operand in pair}
            blocks = [_named(o.block(o.variance, lo, hi), names, 0) for o, _ in T]
            for side, term in enumerate((first, second)):
                blocks += [_named(o.block(o.mean, lo, hi), names, side) for o in term.operands if o not in inside]
            total[lo:hi] += network.contract(blocks, (CELLS,))

    in_pieces(work, first.count, MAX_INTERMEDIATE_DOUBLES // max(first.width, second.width))
    return first.exposed(second.exposed(total, 0, len(total)), 0, len(total))


def _united(T: Iterable[tuple[RowTable, RowTable]]) -> dict[Hashable, Hashable]:
    """Names for latent indices, each (side, index), of two terms: one name for those at one position of a row in T."""
    names: dict[Hashable, Hashable] = {}
    for own, other in T:
        for i, j in zip(own.latent, other.latent):
            one, two = (names.setdefault(label, label) for label in ((0, i), (1, j)))
            names = {label: one if name == two else name for label, name in names.items()}
    return names


def _named(block: RowBlock, names: Mapping[Hashable, Hashable], side: int) -> RowBlock:
    """A block of one of two terms, with the names of `_united`, and unique names for other indices."""
    return RowBlock(tuple(i if i == CELLS else names.get((side, i), (side, i)) for i in block.indices), block.values)
