"""How much each relation contributes to each component: the counts of its known links that the component explains.

Which components are one and the same: those of latent indices that stand at one place of a factor.

In X = A[i, r] B[j, r]; Y = A[i, r] C[k, r] both relations have the components of r, for A is in both. In a sum
A[i, r] B[j, r] + C[i, r] D[j, r] the terms have nothing in common but the name of an index: two families. In RESCAL,
A[h, p] G[p, q] A[t, q], the indices p and q are one, the components of A.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Flags, Rows
from plait.analysis.explain.component_terms import latent_sizes, log_rates, name_terms, share, terms_at
from plait.analysis.explain.supporting_links import RARE, expected_counts
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
    """The uses of one set of components; slots: where factors have them."""

    uses: tuple[Use, ...]
    slots: frozenset[Slot]

    def share(self, shares: Mapping[Use, float], relation: str) -> float | None:
        """A component's share of a relation, from those by use; an index that is there twice in a term counts once.

        None where the relation has no such component.
        """
        own = [use for use in self.uses if use[0] == relation]
        return sum(shares[use] / self.often(use) for use in own) if own else None

    def often(self, use: Use) -> int:
        """How many indices of the use's term are of this family."""
        return sum(other[:2] == use[:2] for other in self.uses)


def families(model: Model) -> list[Family]:
    """All sets of components of a model, in the order of their first use."""
    slots: dict[Use, set[Slot]] = {}
    for equation in model.equations:
        for number, term in enumerate(equation.terms):
            for use in term.occurrences:
                for place, index in enumerate(use.indices):
                    if index not in equation.indices:
                        slots.setdefault((equation.relation, number, index), set()).add((use.factor, place))
    uses = list(slots)
    found = groups([tuple(slots[use]) for use in uses])
    return [
        Family(tuple(uses[n] for n in own), frozenset().union(*(slots[uses[n]] for n in own))) for own in sorted(found)
    ]


Key = tuple[int, str | None]  # a term, and a latent index of it: None where it has none
Sums = dict[Key, tuple[Array, Array]]

ALONE = 0.95  # part of a component's evidence from which on one relation feeds it alone


def coupling(fit: Fitted) -> "pl.DataFrame":
    """A row for every relation, term and value of the term's latent indices; in a sum, one for a term without any.

    counts: Σ M E[n] p over the known links, with p = V Π L / λ_L summed over all other latent indices; E[n] is x, or
    λ/(1 − e^−λ) under Bernoulli. share: of the relation's counts. sd: of the counts as q(S) has them, for which each
    of a link's n counts belongs to the component with probability p: √Σ M (E[n] p (1 − p) + Var[n] p²). term: null in
    an equation that has only one.

    part: share over the sum of the component's shares of all relations that have it (`families`), so that a large
    relation does not drown a small one: the rows of a component add up to 1, or to 0 if it explains nothing. kind:
    "private" if one relation has at least 0.95 of it, else "shared". Both are null for a term without latent indices.
    """
    found = fit._cached_answers.get("coupling")
    if found is None:
        found = fit._cached_answers["coupling"] = _table(fit)
    return found.clone()


def _table(fit: Fitted) -> "pl.DataFrame":
    import polars as pl

    types = {"component": pl.Int64, "relation": pl.String, "counts": pl.Float64, "share": pl.Float64, "sd": pl.Float64}
    types |= {"index": pl.String, "term": pl.String, "part": pl.Float64, "kind": pl.String}
    sums = {equation.relation: _sums(fit, equation) for equation in fit.model.equations}
    parts = _parts(fit, {name: _shares(*own) for name, own in sums.items()})
    rows: list[tuple[Any, ...]] = []
    for equation in fit.model.equations:
        names, (total, found) = name_terms(equation), sums[equation.relation]
        for (number, index), (counts, variances) in found.items():
            for value, (count, variance) in enumerate(zip(counts.tolist(), variances.tolist())):
                component = None if index is None else value
                own = (count, count / (total or 1.0), variance**0.5, index, names[number] or None)
                rows.append(
                    (component, equation.relation, *own, *_part(parts, equation.relation, number, index, value))
                )
    return pl.DataFrame(rows, schema=types, orient="row")


Parts = dict[Use, tuple[Array, Flags]]


def _shares(total: float, found: Sums) -> Sums:
    """The same sums as shares of the relation's counts."""
    return {key: (counts / (total or 1.0), variances) for key, (counts, variances) in found.items()}


def _parts(fit: Fitted, shares: dict[str, Sums]) -> Parts:
    """By use, the part of every component that comes from there, and whether one relation alone feeds it."""
    found: Parts = {}
    for family in families(fit.model):
        own = {use: shares[use[0]][use[1], use[2]][0] / family.often(use) for use in family.uses}
        everything = sum(own.values(), np.zeros(1))
        each = {use: np.divide(s, everything, out=np.zeros(len(s)), where=everything > 0) for use, s in own.items()}
        alone = _largest(family, each) >= ALONE
        found |= {use: (part, alone) for use, part in each.items()}
    return found


def _largest(family: Family, parts: dict[Use, Array]) -> Array:
    """What the relation that feeds a component most has of it, (values,)."""
    relations = dict.fromkeys(use[0] for use in family.uses)
    each = [np.sum([part for use, part in parts.items() if use[0] == name], axis=0) for name in relations]
    return np.asarray(np.max(each, axis=0))


def _part(parts: Parts, relation: str, number: int, index: str | None, value: int) -> tuple[float | None, str | None]:
    if index is None:
        return None, None
    part, alone = parts[relation, number, index]
    return float(part[value]), "private" if alone[value] else "shared"


def _sums(fit: Fitted, equation: Equation) -> tuple[float, Sums]:
    """All counts of an equation; by term and latent index, the counts of each value and their variances."""
    found, total = _nothing(fit, equation), 0.0
    for cells, values, weights in known_pieces(fit, equation, max((len(c) for c, _ in found.values()), default=1)):
        logs, shares = _shared(fit, equation, cells, list(found))
        mean, follow = expected_counts(fit, equation.relation, values, logs)
        total += float(weights @ mean)
        for p, (counts, variances) in zip(shares, found.values()):
            counts += (weights * mean) @ p
            variances += (weights * mean) @ (p * np.clip(1.0 - p, 0.0, None) + follow[:, None] * p * p)
    return total, found


def _shared(fit: Fitted, equation: Equation, cells: Rows, keys: Sequence[Key]) -> tuple[Array, list[Array]]:
    """log λ_L of cells, (n,), and by term and latent index p, (n, values): logarithms only where numbers underflow."""
    terms = terms_at(fit, equation, cells, "exp_mean_log", logs=False)
    rate = sum((contract(blocks, (CELLS,)) for blocks in terms), np.zeros(len(cells)))
    shares = [contract(terms[number], _kept(index)).reshape(len(cells), -1) for number, index in keys]
    rare = ~((rate > RARE) & (rate < np.inf))
    shares = [np.divide(own, rate[:, None], out=np.zeros(own.shape), where=~rare[:, None]) for own in shares]
    logs = np.log(rate, out=np.zeros(len(rate)), where=~rare)
    if rare.any():
        terms = terms_at(fit, equation, cells[rare], "exp_mean_log")
        logs[rare] = log_rates(terms)
        for (number, index), own in zip(keys, shares):
            parts = log_contract(terms[number], _kept(index)).reshape(int(rare.sum()), -1)
            own[rare] = share(parts, logs[rare, None])
    return logs, shares


def _kept(index: str | None) -> tuple[str, ...]:
    return (CELLS,) if index is None else (CELLS, index)


def _nothing(fit: Fitted, equation: Equation) -> Sums:
    """No counts yet, by term and latent index (None: a term of a sum that has none)."""
    found: Sums = {}
    for number, sizes in enumerate(latent_sizes(fit, equation)):
        for index, size in sizes.items():
            found[number, index] = np.zeros(size), np.zeros(size)
        if not sizes and len(equation.terms) > 1:
            found[number, None] = np.zeros(1), np.zeros(1)
    return found


def known_pieces(fit: Fitted, equation: Equation, rank: int) -> Iterator[tuple[NDArray[np.int64], Array, Array]]:
    """Cells, values and weights of a relation's known links."""
    return fit.known[equation.relation].pieces(max(TUNING.coupling_chunk // rank, 1))
