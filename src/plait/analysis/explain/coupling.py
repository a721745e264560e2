"""Coupling: the share of each relation in each component, by the expected counts of its known links.

Latent indices at one position of a factor have the same components. In X = A[i, r] B[j, r]; Y = A[i, r] C[k, r] both
relations have the components of r, since A is in both. In a sum A[i, r] B[j, r] + C[i, r] D[j, r] the terms share only
the name of an index: two families of components. In RESCAL, A[h, p] G[p, q] A[t, q], the indices p and q are one
family, the components of A.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Flags, Rows
from plait.analysis.explain.component_terms import latent_sizes, log_rates, name_terms, share, terms_at
from plait.analysis.explain.supporting_links import MIN_RATE, expected_counts
from plait.model import Equation, Model
from plait.model.network import CELLS, contract, groups, log_contract
from plait.storage.fitted import Fitted
from plait.tuning import TUNING

if TYPE_CHECKING:
    import polars as pl

Use = tuple[str, int, str]  # a relation, the number of a term, a latent index there
Slot = tuple[str, int]  # a factor, and a place among its indices


@dataclass(frozen=True)
class Family:
    """Occurrences of one set of components; `slots`: their positions in factors."""

    uses: tuple[Use, ...]
    slots: frozenset[Slot]

    @property
    def terms(self) -> dict[tuple[str, int], tuple[str, ...]]:
        """By relation and term, the latent indices there: several where a factor stands twice."""
        terms: dict[tuple[str, int], tuple[str, ...]] = {}
        for relation, number, index in self.uses:
            terms[relation, number] = (*terms.get((relation, number), ()), index)
        return terms


def families(model: Model) -> list[Family]:
    """All sets of components of a model, in the order of their first occurrence."""
    slots: dict[Use, set[Slot]] = {}
    for equation in model.equations:
        for number, term in enumerate(equation.terms):
            for use in term.occurrences:
                for place, index in enumerate(use.indices):
                    if index not in equation.indices:
                        slots.setdefault((equation.relation, number, index), set()).add((use.factor, place))
    uses = list(slots)
    families = groups([tuple(slots[use]) for use in uses])
    return [
        Family(tuple(uses[n] for n in own), frozenset().union(*(slots[uses[n]] for n in own)))
        for own in sorted(families)
    ]


def first_index(model: Model, index: str) -> str:
    """The latent index under which a component is listed: of A[h, p] G[p, q] A[t, q], q has the components of p."""
    together = [indices for family in families(model) for indices in family.terms.values()]
    return next((indices[0] for indices in together if index in indices), index)


Key = tuple[int, tuple[str, ...]]  # a term, and its latent indices of one family: none where it has no latent index
Sums = dict[Key, tuple[Array, Array]]

MIN_PRIVATE_PART = 0.95  # of a component's shares, for one relation to own it


def coupling(fit: Fitted) -> "pl.DataFrame":
    """One row per relation, term and value of the term's latent indices; in a sum, also one for a term without any.

    counts: Σ M E[n] p over the known links, with p = V Π L / λ_L summed over all other latent indices; E[n] is x, or
    λ/(1 − e^−λ) under Bernoulli. Where a factor stands twice in a term, A[h, p] G[p, q] A[t, q], its components are the
    values of both p and q, counted by half each (docs/math.md, section 9). share: of the relation's counts. sd: of the
    counts under q(S), where each of a link's n counts belongs to the component with probability p: √Σ M (E[n] p (1 − p)
    + Var[n] p²). index: the first one of the family. term: null in an equation with a single term.

    part: share over the sum of the component's shares in all relations that have it (`families`), so relations of
    different sizes compare; the rows of a component add up to 1, or to 0 without counts. kind: "private" if one
    relation has at least 0.95 of it, else "shared". Both are null for a term without latent indices.
    """
    cached = fit._cached_answers.get("coupling")
    if cached is None:
        cached = fit._cached_answers["coupling"] = _table(fit)
    return cached.clone()


def _table(fit: Fitted) -> "pl.DataFrame":
    import polars as pl

    types = {"component": pl.Int64, "relation": pl.String, "counts": pl.Float64, "share": pl.Float64, "sd": pl.Float64}
    types |= {"index": pl.String, "term": pl.String, "part": pl.Float64, "kind": pl.String}
    sums = {equation.relation: _sums(fit, equation) for equation in fit.model.equations}
    parts = _parts(fit, {name: _shares(*own) for name, own in sums.items()})
    rows: list[tuple[Any, ...]] = []
    for equation in fit.model.equations:
        names, (total, own_sums) = name_terms(equation), sums[equation.relation]
        for (number, indices), (counts, variances) in own_sums.items():
            index = indices[0] if indices else None
            for value, (count, variance) in enumerate(zip(counts.tolist(), variances.tolist())):
                component = None if index is None else value
                own = (count, count / (total or 1.0), variance**0.5, index, names[number] or None)
                rows.append(
                    (
                        component,
                        equation.relation,
                        *own,
                        *_share_and_kind(parts, (equation.relation, number, indices), value),
                    )
                )
    return pl.DataFrame(rows, schema=types, orient="row")


TermIndices = tuple[str, int, tuple[str, ...]]  # a relation, the number of a term, its indices of one family
Parts = dict[TermIndices, tuple[Array, Flags]]


def _shares(total: float, sums: Sums) -> Sums:
    """Sums as shares of the relation's counts."""
    return {key: (counts / (total or 1.0), variances) for key, (counts, variances) in sums.items()}


def _parts(fit: Fitted, shares: dict[str, Sums]) -> Parts:
    """Part of every component by term, and whether one relation has nearly all of it."""
    parts: Parts = {}
    for family in families(fit.model):
        own = {(*term, indices): shares[term[0]][term[1], indices][0] for term, indices in family.terms.items()}
        everything = sum(own.values(), np.zeros(1))
        each = {use: np.divide(s, everything, out=np.zeros(len(s)), where=everything > 0) for use, s in own.items()}
        alone = _largest(each) >= MIN_PRIVATE_PART
        parts |= {use: (part, alone) for use, part in each.items()}
    return parts


def _largest(parts: dict[TermIndices, Array]) -> Array:
    """Largest part of a component in one relation, (n_values,)."""
    relations = dict.fromkeys(use[0] for use in parts)
    each = [np.sum([part for use, part in parts.items() if use[0] == name], axis=0) for name in relations]
    return np.asarray(np.max(each, axis=0))


def _share_and_kind(parts: Parts, key: TermIndices, value: int) -> tuple[float | None, str | None]:
    if not key[2]:
        return None, None
    part, alone = parts[key]
    return float(part[value]), "private" if alone[value] else "shared"


def _sums(fit: Fitted, equation: Equation) -> tuple[float, Sums]:
    """All counts of an equation; by term and latent index, the counts of each value and their variances."""
    sums, total = _nothing(fit, equation), 0.0
    sizes = (len(counts) ** min(len(indices), 2) for (_, indices), (counts, _) in sums.items())
    for cells, values, weights in known_pieces(fit, equation, max(sizes, default=1)):
        logs, shares = _shared(fit, equation, cells, list(sums))
        mean, follow = expected_counts(fit, equation.relation, values, logs)
        total += float(weights @ mean)
        for (p, square), (counts, variances) in zip(shares, sums.values()):
            counts += (weights * mean) @ p
            variances += (weights * mean) @ (np.clip(square - p * p, 0.0, None) + follow[:, None] * p * p)
    return total, sums


def _shared(
    fit: Fitted, equation: Equation, cells: Rows, keys: Sequence[Key]
) -> tuple[Array, list[tuple[Array, Array]]]:
    """log λ_L of cells, (n,), and by key p and the mean of its square (`_moments`), each (n, n_values).

    Logarithms are taken only where numbers underflow.
    """
    terms = terms_at(fit, equation, cells, "exp_mean_log", logs=False)
    rate = sum((contract(blocks, (CELLS,)) for blocks in terms), np.zeros(len(cells)))
    underflow = ~((rate > MIN_RATE) & (rate < np.inf))

    def shares(number: int, indices: tuple[str, ...]) -> Array:
        parts = contract(terms[number], (CELLS, *indices))
        shape = (-1, *[1] * (parts.ndim - 1))
        return np.divide(parts, rate.reshape(shape), out=np.zeros(parts.shape), where=~underflow.reshape(shape))

    moments = [_moments(partial(shares, number), indices) for number, indices in keys]
    logs = np.log(rate, out=np.zeros(len(rate)), where=~underflow)
    if underflow.any():
        few = terms_at(fit, equation, cells[underflow], "exp_mean_log")
        logs[underflow] = log_rates(few)

        def underflow_shares(number: int, indices: tuple[str, ...]) -> Array:
            parts = log_contract(few[number], (CELLS, *indices))
            return share(parts, logs[underflow].reshape(-1, *[1] * (parts.ndim - 1)))

        for (number, indices), (p, square) in zip(keys, moments):
            p[underflow], square[underflow] = _moments(partial(underflow_shares, number), indices)
    return logs, moments


def _moments(shares: Callable[[tuple[str, ...]], Array], indices: tuple[str, ...]) -> tuple[Array, Array]:
    """Mean and mean square, (n, n_values), of the part of a count that belongs to each value of some indices.

    shares: the probabilities of the values of some indices, (n, …). A count belongs to a value by 1/m for each of the m
    indices that has it.
    """
    if len(indices) < 2:
        p = shares(indices)
        p = p.reshape(len(p), -1)
        return p, p.copy()
    each = np.sum([shares((index,)) for index in indices], axis=0)
    both = np.sum([np.einsum("nkk->nk", shares(pair)) for pair in combinations(indices, 2)], axis=0)
    return each / len(indices), (each + 2.0 * both) / len(indices) ** 2


def _nothing(fit: Fitted, equation: Equation) -> Sums:
    """Zero counts by term and latent indices (none: a term of a sum without latent indices)."""
    sums: Sums = {}
    of_family = {use: f.terms[use[:2]] for f in families(fit.model) for use in f.uses}
    for number, sizes in enumerate(latent_sizes(fit, equation)):
        for index, size in sizes.items():
            sums.setdefault((number, of_family[equation.relation, number, index]), (np.zeros(size), np.zeros(size)))
        if not sizes and len(equation.terms) > 1:
            sums[number, ()] = np.zeros(1), np.zeros(1)
    return sums


def known_pieces(fit: Fitted, equation: Equation, rank: int) -> Iterator[tuple[NDArray[np.int64], Array, Array]]:
    """Cells, values and weights of a relation's known links, in chunks."""
    return fit.known[equation.relation].pieces(max(TUNING.coupling_chunk // rank, 1))
