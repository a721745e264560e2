"""Cells -> mean and variance of the rate, exact for every equation; in pieces, so memory stays flat."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.fitted import Fitted
from plait.predict.kernels import multiply_means, multiply_moments
from plait.predict.operands import Operand, exposure, operands
from plait.predict.pieces import in_pieces

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Part = Callable[[int, int], tuple[Array, Array]]  # cells lo … hi − 1 -> mean and variance of one group of factors

ROOM = 1 << 15  # doubles of a scratch array of a thread: stays in the cache
WIDE = 1 << 19  # doubles of the widest intermediate of a general equation


def mean_rate(fit: Fitted, relation: str, rows: Rows) -> Array:
    """V · Xhat_E at cells given by row numbers; rows (n, order) -> (n,). −1 takes the prior.

    Of an ensemble: the mean over its members.
    """
    return average(_moments(member, relation, rows, variance=False)[0] for member in fit.members)


def moments(fit: Fitted, relation: str, rows: Rows) -> tuple[Array, Array]:
    """Mean and variance of the rate V · Xhat at cells given by row numbers; rows (n, order) -> (n,), (n,).

    var = V² Σ_{∅≠T⊆factors} Σ_{latent(T)} Π_{α∈T} Var_α · (Σ_{other latent} Π_{α∉T} E_α)². Groups of factors without a
    common latent index are independent: Var XY = Var X (E[Y]² + Var Y) + E[X]² Var Y. No term is ever subtracted.

    Of an ensemble: those of the mixture of its members.
    """
    return pooled(_moments(member, relation, rows, variance=True) for member in fit.members)


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
    size = len(fit.labels[index])
    parts = operands(fit, relation, rows, running=index)
    running = any(index in operand.latent for operand in parts)  # else only an exposure has it, or nothing
    rate = Contraction(parts, ("mean",) * len(parts), (index,) if running else ())(0, len(rows))
    rate = rate if running else rate[:, None]
    if fit.exposures.of(relation, 0) is not None:
        every = np.repeat(rows, size, axis=0)
        every[:, fit.model.equation(relation).indices.index(index)] = np.tile(np.arange(size), len(rows))
        V = exposure(fit, relation, every)
        assert V is not None
        rate = rate * V.reshape(len(rows), size)
    return np.array(np.broadcast_to(rate, (len(rows), size)))


def _moments(fit: Fitted, relation: str, rows: Rows, variance: bool) -> tuple[Array, Array]:
    mean, var = np.ones(len(rows)), np.zeros(len(rows))
    for group in groups(operands(fit, relation, rows)):
        part, piece = _part(group, variance)

        def work(lo: int, hi: int, part: Part = part) -> None:
            m, v = part(lo, hi)
            # The same recursion as inside a product of factors: groups are independent. Points have no variance, and
            # the rates of an EM fit may be too large to be squared.
            if v.any() or var[lo:hi].any():
                var[lo:hi] = var[lo:hi] * (m * m + v) + mean[lo:hi] ** 2 * v
            mean[lo:hi] *= m

        in_pieces(work, len(rows), piece)
    V = exposure(fit, relation, rows)
    if V is not None:
        mean *= V
        var *= V * V
    return mean, var


def groups(parts: Sequence[Operand]) -> list[list[Operand]]:
    """Factors that latent indices connect, after those that only one factor has were summed out."""
    count: dict[str, int] = {}
    for operand in parts:
        for index in operand.latent:
            count[index] = count.get(index, 0) + 1
    found: list[list[Operand]] = []
    for operand in parts:
        for index in operand.latent:
            operand = operand.summed_over(index) if count[index] == 1 else operand
        joined = [group for group in found if any(set(operand.latent) & set(o.latent) for o in group)]
        found = [group for group in found if group not in joined]
        found.append([o for group in joined for o in group] + [operand])
    return found


def _part(group: list[Operand], variance: bool) -> tuple[Part, int]:
    """How the moments of a group are computed, and for how many cells at a time."""
    latent = group[0].latent
    sizes = {index: size for o in group for index, size in zip(o.latent, o.mean.shape[1:])}
    width = math.prod(sizes.values())
    if all(set(operand.latent) == set(latent) for operand in group):
        return _alike([operand.ordered(latent) for operand in group], variance), ROOM // width
    return _general(group, variance), WIDE // width


def _alike(group: Sequence[Operand], variance: bool) -> Part:
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


def _general(group: Sequence[Operand], variance: bool) -> Part:
    """Any factors: the mean by one contraction, the variance by one for every set T of uncertain factors."""
    whole = Contraction(group, ("mean",) * len(group), ())
    uncertain = [operand for operand in group if operand.random] if variance else []
    sets = [T for count in range(1, len(uncertain) + 1) for T in combinations(uncertain, count)]
    terms = [_Term.of(group, T) for T in sets]

    def part(lo: int, hi: int) -> tuple[Array, Array]:
        total = np.zeros(hi - lo)
        for term in terms:
            total += term(lo, hi)
        return whole(lo, hi), total

    return part


@dataclass(frozen=True, eq=False)
class _Term:
    """Σ_{latent(T)} Π_{α∈T} Var_α · (Σ_{other latent} Π_{α∉T} E_α)² for one T."""

    inner: "Contraction | None"
    outer: "Contraction"

    @classmethod
    def of(cls, group: Sequence[Operand], T: Sequence[Operand]) -> "_Term":
        others = [operand for operand in group if operand not in T]
        inside = {index for operand in T for index in operand.latent}
        shared = tuple(dict.fromkeys(index for o in others for index in o.latent if index in inside))
        inner = Contraction(others, ("mean",) * len(others), shared) if others else None
        return cls(inner, Contraction(T, ("variance",) * len(T), (), shared if others else None))

    def __call__(self, lo: int, hi: int) -> Array:
        return self.outer(lo, hi, None if self.inner is None else self.inner(lo, hi) ** 2)


@dataclass(frozen=True, eq=False)
class Contraction:
    """Σ over latent indices of a product of tables, cell by cell: kept indices remain as axes, (n, *kept).

    what: "mean" or "variance" of each operand. extra: latent indices of one more array (n, *extra) given at the call.
    """

    operands: Sequence[Operand]
    what: Sequence[str]
    kept: tuple[str, ...]
    extra: tuple[str, ...] | None = None
    paths: dict[int, Any] = field(default_factory=dict)  # the order of pairwise products, found once for a piece's size

    def __call__(self, lo: int, hi: int, more: Array | None = None) -> Array:
        """At cells lo … hi − 1."""
        import opt_einsum

        symbols: dict[str, str] = {}
        arrays: list[Array] = [np.ones(hi - lo)]  # so that the cell is there even if no table depends on it
        terms = ["z"]
        for operand, what in zip(self.operands, self.what):
            table = getattr(operand, what)
            arrays.append(table[0] if operand.alone else table[operand.at[lo:hi]])
            terms.append(("" if operand.alone else "z") + _letters(operand.latent, symbols))
        if more is not None:
            arrays.append(more)
            terms.append("z" + _letters(self.extra or (), symbols))
        text = f"{','.join(terms)}->z{_letters(self.kept, symbols)}"
        if hi - lo not in self.paths:
            self.paths[hi - lo] = opt_einsum.contract_path(text, *arrays)[0]
        return np.asarray(opt_einsum.contract(text, *arrays, optimize=self.paths[hi - lo]))


def _letters(indices: Sequence[str], symbols: dict[str, str]) -> str:
    """A letter for every index, the same one each time."""
    return "".join(symbols.setdefault(index, "abcdefghijklmnopqrstuvwxy"[len(symbols)]) for index in indices)
