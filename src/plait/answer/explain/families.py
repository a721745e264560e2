"""Which components are one and the same: those of latent indices that stand at one place of a factor.

In X = A[i, r] B[j, r]; Y = A[i, r] C[k, r] both relations have the components of r, for A is in both. In a sum
A[i, r] B[j, r] + C[i, r] D[j, r] the terms have nothing in common but the name of an index: two families. In RESCAL,
A[h, p] G[p, q] A[t, q], the indices p and q are one, the components of A.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from plait.model import Model
from plait.model.network import groups

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
