"""Old counts that follow the rates: under most likelihoods E[n | x, λ] of an old link grows with λ.

The counts that a posterior holds are those of the rates that it had. New links raise the rates of old ones, too, and
these then stand for more events: a link that was all but certain, λ = 3, has 3.2 of them, at λ = 4 it has 4.1. How many
more is told by some of the known links, evenly chosen; every row has as many more, so that few of them suffice:

    N_old(now) = N_old · (Σ counts of the chosen links at the newest L) / (the same at the L that N_old was made with).

Under Poisson the events of a link are its value, and nothing follows (docs/decisions/0028-new-data.md).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from plait.data.binding.known import Known
from plait.data.observing.link_store import LinkArrays
from plait.fold.learning import is_settled
from plait.infer.problem import Problem
from plait.model.model import Model
from plait.types import Array

CHOSEN = 10_000  # links: a thousand told as much (docs/decisions/0028-new-data.md)


def choose_known(model: Model, name: str, known: Known, settled: Mapping[str, int]) -> list[tuple[LinkArrays, float]]:
    """Some of the known links that factors have learnt, and how many each stands for."""
    return known.links.sample(CHOSEN, is_settled(model, name, settled))


class OldCounts:
    """The old counts of all factors, by what chosen links say of them.

    chosen: a problem of these links at the factors that are updated, before any update; each: how many links a chosen
    one stands for, by relation.
    """

    def __init__(self, counts: Mapping[str, Array], chosen: Problem, each: Sequence[float]) -> None:
        self.counts, self.chosen, self.each = counts, chosen, each
        self.before = {name: self._total(name) for name in counts}

    def now(self, name: str) -> Array:
        """The old counts of a factor at the newest L."""
        if not self.before[name]:
            return self.counts[name]
        held = max(float(self.counts[name].sum()), self.before[name])  # with those of relations that do not follow
        return self.counts[name] * (1.0 + (self._total(name) - self.before[name]) / held)

    def _total(self, name: str) -> float:
        """Σ of a factor's counts over all links that the chosen ones stand for."""
        problem, total = self.chosen, 0.0
        for relation, each in zip(problem.relations, self.each):
            if name in relation.names:
                counted = problem.count_one(relation, problem.free, bound=False)
                gradient, geomean = counted.gradients[name], problem.factors[name].geomean
                own = np.einsum("ij,ij->", gradient, geomean, dtype=np.float64)
                total += each * (float(own) + float(np.sum(counted.extras.get(name, 0.0))))
        return total
