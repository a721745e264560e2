"""Cells -> mean and variance of the rate, exact for every equation; in pieces, so memory stays flat.

A rate is a sum of terms: its variance is the sum of theirs and of twice the covariance of any two that share rows of
factors. In a term, groups of factors without a common latent index are independent. No term is ever subtracted.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

import numpy as np

from plait._typing import Array, Rows
from plait.analysis.predict.kernels import multiply_means, multiply_moments
from plait.analysis.predict.operands import RateTerm, RowTable, apart, coupled, exposure, terms
from plait.data.sparse.parallel import in_pieces
from plait.model import network
from plait.model.network import CELLS, RowBlock
from plait.storage.fitted import Fitted

Item = TypeVar("Item")
Part = Callable[[int, int], tuple[Array, Array]]  # cells lo … hi − 1 -> mean and variance of one group of factors

ROOM = 1 << 15  # doubles of a scratch array of a thread: stays in the cache
WIDE = 1 << 19  # doubles of the widest intermediate of a general equation


def mean_rate(fit: Fitted, relation: str, rows: Rows) -> Array:
    """Σ_t V_t · Xhat_E of the terms t at cells given by row numbers; rows (n, order) -> (n,). −1 takes the prior.

    Of an ensemble: the mean over its members.
    """
    return average(sum_moments(terms(member, relation, rows), variance=False)[0] for member in fit.members)


def moments(fit: Fitted, relation: str, rows: Rows) -> tuple[Array, Array]:
    """Mean and variance of the rate Σ_t V_t · Xhat_t at cells given by row numbers; rows (n, order) -> (n,), (n,).

    Of an ensemble: those of the mixture of its members.
    """
    return pooled(_moments(member, relation, rows) for member in fit.members)


def average(arrays: Iterable[Array]) -> Array:
    """The mean of some arrays of one shape, exactly that of each where they are equal."""
    found: Array | None = None
    for count, array in enumerate(arrays, 1):
        found = array if found is None else found + (array - found) / count
    assert found is not None
    return found


def pooled(moments: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Mean and variance of an equally weighted mixture: the mean of variances and the variance of means."""
    means, variances = zip(*moments)
    mean = average(means)
    if len(means) == 1:
        return mean, variances[0]
    with np.errstate(over="ignore"):  # points of EM may be too far apart to be squared
        return mean, average(variances) + np.sum([(each - mean) ** 2 for each in means], axis=0) / len(means)


def rates_along(fit: Fitted, relation: str, rows: Rows, index: str) -> Array:
    """The mean rate with one index running over all its entities; rows (n, order) -> (n, size of the index).

    The row numbers of that index are not looked at. The result is held whole, so the caller keeps n small. Of an
    ensemble: the mean over its members.
    """
    return average(_rates_along(member, relation, rows, index) for member in fit.members)


def _rates_along(fit: Fitted, relation: str, rows: Rows, index: str) -> Array:
    size = len(fit.entities[index])
    every = np.repeat(rows, size, axis=0)
    every[:, fit.model.equation(relation).indices.index(index)] = np.tile(np.arange(size), len(rows))
    result = np.zeros((len(rows), size))
    for number, term in enumerate(terms(fit, relation, rows, running=index)):
        rate = network.contract([o.block(o.mean, 0, len(rows)) for o in term.operands], (CELLS, index))
        V = exposure(fit, relation, number, every)
        result += rate if V is None else rate * V.reshape(result.shape)
    return result


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

    var = V² Σ_{∅≠T⊆factors} Σ_{latent(T)} Π_{α∈T} Var_α · (Σ_{other latent} Π_{α∉T} E_α)², taken for groups of factors
    that latent indices connect: Var XY = Var X (E[Y]² + Var Y) + E[X]² Var Y.
    """
    mean, var = np.ones(term.count), np.zeros(term.count)
    for group in _connected(term.operands):
        part, piece = _part(group, variance)

        def work(lo: int, hi: int, part: Part = part) -> None:
            m, v = part(lo, hi)
            # The same recursion as inside a product of factors: groups are independent. Points have no variance, and
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
    """Factors that latent indices connect, after those that only one factor has were summed out."""
    count = Counter(index for operand in parts for index in operand.latent)
    left = []
    for operand in parts:
        for index in operand.latent:
            operand = operand.summed_over(index) if count[index] == 1 else operand
        left.append(operand)
    return [[left[n] for n in group] for group in network.groups([operand.latent for operand in left])]


def _part(group: list[RowTable], variance: bool) -> tuple[Part, int]:
    """How the moments of a group are computed, and for how many cells at a time."""
    whole = RateTerm(group)
    if whole.is_product:
        return _alike([operand.ordered(group[0].latent) for operand in group], variance), ROOM // whole.width
    return _general(group, variance), WIDE // whole.width


def _alike(group: Sequence[RowTable], variance: bool) -> Part:
    """Factors with the same latent indices (CP, also with one factor or none latent): Σ_r of products of moments."""
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

    def part(lo: int, hi: int) -> tuple[Array, Array]:
        total = np.zeros(hi - lo)
        means = {operand: operand.block(operand.mean, lo, hi) for operand in group}
        for T in _subsets(uncertain):
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
    """Cov of two terms, (n,), over sets T ≠ ∅ of the uncertain rows that both have:

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

    in_pieces(work, first.count, WIDE // max(first.width, second.width))
    return first.exposed(second.exposed(total, 0, len(total)), 0, len(total))


def _united(T: Iterable[tuple[RowTable, RowTable]]) -> dict[Hashable, Hashable]:
    """Names for latent indices, each (side, index), of two terms: one where they stand at one place of a row in T."""
    names: dict[Hashable, Hashable] = {}
    for own, other in T:
        for i, j in zip(own.latent, other.latent):
            one, two = (names.setdefault(label, label) for label in ((0, i), (1, j)))
            names = {label: one if name == two else name for label, name in names.items()}
    return names


def _named(block: RowBlock, names: Mapping[Hashable, Hashable], side: int) -> RowBlock:
    """A block of one of two terms: an index has a name of its own in each, but for those that are one."""
    return RowBlock(tuple(i if i == CELLS else names.get((side, i), (side, i)) for i in block.indices), block.values)
