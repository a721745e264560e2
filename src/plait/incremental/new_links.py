"""New links of known entities: changes of known links and of M, and old counts rescaled to the new rates.

Under most likelihoods E[n | x, λ] of an old link grows with λ. A posterior holds counts at its old rates; new links
raise the rates of old ones, which then represent more events: a nearly certain link with λ = 3 has 3.2 events, at λ = 4
it has 4.1. The ratio is estimated from an even sample of the known links and applied to every row (decision 28):

    N_old(now) = N_old · (Σ counts of the sample at the newest L) / (the same at the L of N_old).

Under Poisson the events of a link are its value, and nothing changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.data.binding.known import Known
from plait.data.observation.links import Keep, LinkArrays, summed
from plait.data.observation.observed import Box, Rule, observe
from plait.data.observation.symmetry import in_all_ways
from plait.data.observation.weights import Weights
from plait.data.sparse.csf_index import CSFIndex
from plait.errors import DataError, TableLocation
from plait.incremental.extend import extend_known
from plait.incremental.new_cells import NewCells
from plait.incremental.new_rows import Extension, Fresh
from plait.inference.problem import Problem
from plait.likelihood import Likelihood
from plait.model.model import Model
from plait.storage.fitted import Fitted
from plait.tuning import TUNING


def learn_rows(
    fit: Fitted, name: str, growth: Extension, fresh: Fresh | None, blocks: list[NewCells], n_learnt: Mapping[str, int]
) -> tuple[Known, LinkArrays]:
    """The relation with new rows, and its links that factors have not learnt.

    `n_learnt`: number of entities per axis from which factors have learnt; links of others are included.
    """
    model, known = fit.model, fit.known[name]
    larger = extend_known(model, name, known, growth, fresh, blocks)
    shape = larger.shape
    inside = _inside(growth, fresh, known.rule) if fresh is not None else None
    new = np.zeros(0, bool)
    if inside is not None and fresh is not None:
        new = ~known.contain(inside.cells)
        refuse_again(fit.likelihood[name], fresh, inside, new)
        M = _observed(larger, known, model, name, growth, fresh, inside, new)
        links = larger.links.plus(inside.take(inside.values > 0))
        larger = replace(larger, links=links, boxes=(Box((0,) * len(shape), M),))
    learnt = among_learnt(model, name, n_learnt)
    parts = [
        LinkArrays.none(len(shape))
        if larger.links.here is None
        else larger.links.here.read(lambda cells: ~learnt(cells))
    ]
    if inside is not None:
        early = (inside.values > 0) & learnt(inside.cells)
        parts.append(inside.take(early))
    return larger, summed(parts, shape)


def among_learnt(model: Model, name: str, n_learnt: Mapping[str, int]) -> Keep:
    """Filter of cells all of whose entities factors have learnt from."""
    counts = np.array([n_learnt[model.axis(index)] for index in model.equation(name).indices], np.int64)
    return lambda cells: np.asarray((cells < counts).all(axis=1))


def _inside(growth: Extension, fresh: Fresh, rule: Rule | None) -> LinkArrays:
    """Listed cells of old entities."""
    entries = fresh.entries
    old = np.array([growth.old[index] for index, _ in entries.labels], np.int64)
    mine = (entries.coords < old).all(axis=1) if len(old) else np.ones(len(entries), bool)
    weight = 1.0 if rule is None else rule.weight
    values = np.asarray(entries.values[mine], np.float64)
    return LinkArrays(entries.coords[mine], values, np.asarray(fresh.weights[mine], np.float64) * weight)


def refuse_again(likelihood: Likelihood, fresh: Fresh, inside: LinkArrays, new: NDArray[np.bool_]) -> None:
    """Refuse another value of a known link where values do not add up."""
    again = ~new & (inside.values > 0)
    if likelihood.name == "poisson" or not again.any():
        return
    cell = inside.cells[int(np.argmax(again))]
    entry = int(np.argmax((fresh.entries.coords == cell).all(axis=1)))
    raise DataError(
        f"{fresh.entries.named(entry) or 'the cell'} is already a known link, and values of the likelihood "
        f"{likelihood} cannot be added.",
        location=TableLocation(fresh.relation, rows=(fresh.entries.row(entry),)),
        hint="Remove known links, or fit again with the new value.",
    )


def _observed(
    larger: Known, known: Known, model: Model, name: str, growth: Extension, fresh: Fresh, inside: LinkArrays,
    new: NDArray[np.bool_],
) -> Weights:  # fmt: skip
    """M with new cells: an observed zero becomes a link, a missing cell is observed."""
    indices, shape, M = model.equation(name).indices, larger.shape, larger.observed
    M = M + _widened(known, indices, growth, fresh, shape)
    cells, weights = inside.cells[new], inside.weights[new]
    change = weights - M.at(cells)
    moved = np.flatnonzero(change)
    if not len(moved):
        return M
    fibres = CSFIndex.of(indices, shape, np.ascontiguousarray(cells[moved]))
    return M + Weights.from_sorted(indices, shape, *in_all_ways(fibres, change[moved], known.groups))


def _widened(
    known: Known, indices: tuple[str, ...], growth: Extension, fresh: Fresh, shape: tuple[int, ...]
) -> Weights:
    """Cells that M gains by entities that are new to the relation, though not to the fit: observed zeros."""
    rule, nothing = known.rule, Weights.constant(indices, shape, 0.0)
    if rule is None or not rule.seen or rule.unlisted == 0:
        return nothing
    named = {index: fresh.mentioned[index][fresh.mentioned[index] < growth.old[index]] for index in rule.seen}
    if all(rule.seen[index][rows].all() for index, rows in named.items()):
        return nothing
    parts = []
    for more in (True, False):
        seen = {}
        for index in indices:
            vector = np.zeros(len(growth.entities[index]), bool)
            vector[: growth.old[index]] = rule.seen.get(index, True)
            if more and index in named:
                vector[named[index]] = True
            seen[index] = vector
        none = CSFIndex.of(indices, shape, np.zeros((0, len(indices)), np.uint32))
        parts.append(observe(indices, shape, none, np.zeros(0), rule.unlisted, seen, rule.hidden, rule.weight).weights)
    return parts[0] - parts[1]


def choose_known(model: Model, name: str, known: Known, n_learnt: Mapping[str, int]) -> list[tuple[LinkArrays, float]]:
    """A sample of the known links that factors have learnt, and the number that each represents."""
    return known.links.sample(TUNING.update_sample_links, among_learnt(model, name, n_learnt))


class OldCounts:
    """Old counts of all factors, rescaled by a sample of links.

    `chosen`: problem of the sample, before any update; `each`: number of links that one of the sample represents, by
    relation.
    """

    def __init__(self, counts: Mapping[str, Array], chosen: Problem, each: Sequence[float]) -> None:
        self.counts, self.chosen, self.each = counts, chosen, each
        self.before = {name: self._total(name) for name in counts}

    def now(self, name: str) -> Array:
        """Old counts of a factor at the newest L."""
        if not self.before[name]:
            return self.counts[name]
        held = max(float(self.counts[name].sum()), self.before[name])  # includes relations with fixed counts
        return self.counts[name] * (1.0 + (self._total(name) - self.before[name]) / held)

    def _total(self, name: str) -> float:
        """Σ of a factor's counts over all links that the sample represents."""
        problem, total = self.chosen, 0.0
        for relation, each in zip(problem.relations, self.each):
            if name in relation.names:
                counted = problem.relation_counts(relation, problem.free, bound=False)
                gradient, exp_mean_log = counted.gradients[name], problem.factors[name].exp_mean_log
                own = np.einsum("ij,ij->", gradient, exp_mean_log, dtype=np.float64)
                total += each * (float(own) + float(np.sum(counted.underflow.get(name, 0.0))))
        return total
