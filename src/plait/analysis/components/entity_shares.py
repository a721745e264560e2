"""Shares of entities in components: a factor as seen along one of its visible indices.

An entity's row has shape (*latent). Other visible indices of the factor are summed; for a factor over pairs, over the
pairs with rows. Entries of different components are comparable only together with the rest of the model, since scaling
a component up in one factor and down in another changes no prediction. So entries are weighted by the totals of the
other factors of their terms (`rest`), which makes them expected counts if all cells were observed.

The profile of an entity is the share of each component, by which `similar` compares entities:

    share = E·rest / Σ E·rest over components     sd = of that share (`share_sd`)     data as in `components`
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Array, Rows
from plait.analysis.explain.component_terms import log_rates, operands, rows_at, share, split_indices, terms_at
from plait.analysis.explain.coupling import known_pieces
from plait.analysis.explain.supporting_links import expected_counts
from plait.analysis.predict.lookup import row_named
from plait.model import Equation
from plait.model.model import Occurrence
from plait.model.network import CELLS, RowBlock, log_contract
from plait.storage.fitted import Fitted, Posterior, prior_concentration

if TYPE_CHECKING:
    import polars as pl

CHUNK_ROWS = 1 << 16  # bounds the memory of sums of variances


@dataclass(frozen=True, eq=False)
class Holding:
    """One visible index of a factor with latent indices.

    `axis`: its name in tables, which is that of the index where the factor has the axis twice.
    """

    fit: Fitted
    factor: str
    index: str
    axis: str
    latent: tuple[str, ...]

    @cached_property
    def rest(self) -> Array:
        """Weights of the components, (*latent), the largest 1."""
        return rest(self.fit, self.factor)

    @property
    def posterior(self) -> Posterior:
        return self.fit.factors[self.factor]

    @property
    def size(self) -> int:
        """Number of entities."""
        return len(self.fit.entities[self.index])

    @property
    def plain(self) -> bool:
        """Whether an entity's row is a row of the factor."""
        return len(self.fit.model.factor(self.factor).visible) == 1

    def summed(self, array: Array) -> Array:
        """Sum an array of the factor's shape to (n_entities, *latent); a view if plain."""
        pairs, indices = self.posterior.pairs, self.fit.model.factor(self.factor).indices
        if pairs is not None:
            rows, width = array[: len(pairs)].reshape(len(pairs), -1), math.prod(array.shape[1:])
            at = pairs.coords[:, pairs.visible.index(self.index)].astype(np.int64)
            added = np.stack([np.bincount(at, rows[:, n], self.size) for n in range(width)], axis=1)
            return np.asarray(added.reshape(self.size, *array.shape[1:]), np.float64)
        others = tuple(n for n, i in enumerate(indices) if i != self.index and i not in self.latent)
        place = indices.index(self.index)
        moved = np.moveaxis(array.sum(axis=others, keepdims=True), place, 0) if others else np.moveaxis(array, place, 0)
        return moved.reshape(self.size, *self._ranks) if others else moved

    @property
    def _ranks(self) -> tuple[int, ...]:
        return tuple(self.fit.rank[index] for index in self.latent)

    def summed_at(self, array: Array, rows: Rows) -> Array:
        """The same for some entities, (n, *latent)."""
        return self.summed(array)[rows]

    @cached_property
    def unit(self) -> float:
        """A power of two near the largest mean, so that variances in units of its square neither overflow nor
        underflow.
        """
        return math.ldexp(1.0, math.frexp(float(self.posterior.mean.max(initial=0.0)) or 1.0)[1] - 1)

    def variance(self, rows: Rows) -> Array:
        """Posterior variances of some entities, (n, *latent), over unit²; 0 for points."""
        C, D = self.posterior.concentration, self.posterior.scale
        if np.isinf(C.flat[0]):
            return np.zeros((len(rows), *self._ranks))
        if self.plain:
            return np.asarray(self.summed_at(C, rows) * (self.summed_at(D, rows) / self.unit) ** 2, np.float64)
        return self._variances[rows]

    @cached_property
    def variances(self) -> Array:
        """Sum of the variances of all entities, (*latent)."""
        pieces = (np.arange(at, min(at + CHUNK_ROWS, self.size)) for at in range(0, self.size, CHUNK_ROWS))
        return np.asarray(np.sum([self.variance(rows).sum(axis=0) for rows in pieces], axis=0))

    @cached_property
    def _variances(self) -> Array:
        """Variances of all entities, where rows of the factor are summed."""
        return self.summed(self.posterior.concentration * (self.posterior.scale / self.unit) ** 2)

    def from_data(self, rows: Rows) -> Array:
        """Part of the mean that comes from data, (n, *latent): E (C − prior) / C.

        Under MAP C = A − 1 + counts. Under EM and for given factors, all of the mean.
        """
        free = self.factor in self.fit.prior and self.factor in self.fit.state.divergences
        if self.fit.method == "em" or not free:
            return self.summed_at(self.posterior.mean, rows)
        if self.plain and self.fit.method == "vb":
            arrays = (self.posterior.concentration, self.posterior.scale, self._prior)
            C, D, A = (self.summed_at(array, rows) for array in arrays)
            return np.asarray(np.clip(C - A, 0.0, None) * D, np.float64)
        return self._all_profiles[rows]

    @cached_property
    def _all_profiles(self) -> Array:
        """The same for all entities, where rows of the factor are summed or links have to be counted."""
        E, A = self.posterior.mean, self._prior
        if self.fit.method == "vb":
            return self.summed(np.clip(self.posterior.concentration - A, 0.0, None) * self.posterior.scale)
        counts = counted(self.fit, self.factor)
        total = A - 1.0 + counts
        return self.summed(E * np.divide(counts, total, out=np.zeros(E.shape), where=total > 0))

    @property
    def _prior(self) -> Array:
        """A of every entry, in the factor's shape."""
        A, pairs = prior_concentration(self.fit, self.factor), self.posterior.pairs
        return np.broadcast_to(A if pairs is None else pairs.for_rows(A), self.posterior.mean.shape)

    def popularity(self) -> Array:
        """Known counts M·x of each entity in the relations with the factor, (n_entities,)."""
        return self._popularity.copy()

    @cached_property
    def _popularity(self) -> Array:
        total, own = np.zeros(self.size), self.fit.model.factor(self.factor)
        place = own.indices.index(self.index)
        for equation in self.fit.model.equations:
            uses = dict.fromkeys(o.indices[place] for o in equation.occurrences if o.factor == self.factor)
            columns = [equation.indices.index(index) for index in uses]
            for cells, values, weights in known_pieces(self.fit, equation, 1) if columns else ():
                for column in columns:
                    total += np.bincount(cells[:, column], values * weights, self.size)
        return total


def share_sd(shares: Array, own: Array, whole: Array, total: Array | float) -> Array:
    """Standard deviation of shares of a total, to first order, from the variances of each summand and of their sum.

    It is clipped at √(m (1 − m)) for a mean share m.
    """
    # Divided twice: the square of a small total may be 0.
    variance = own / total / total * (1.0 - 2.0 * shares) + shares**2 * (whole / total / total)
    return np.asarray(np.sqrt(np.clip(np.minimum(variance, shares * (1.0 - shares)), 0.0, None)))


def holdings(fit: Fitted) -> Sequence[Holding]:
    """All visible indices of all factors that have latent ones, in order; cached."""
    cached: Sequence[Holding] | None = fit._cached_answers.get("holdings")
    if cached is None:
        cached = fit._cached_answers["holdings"] = tuple(_holdings(fit))
    return cached


def _holdings(fit: Fitted) -> Iterator[Holding]:
    for name in fit.model.factors:
        if name not in fit.factors:
            continue
        factor = fit.model.factor(name)
        axes = [fit.model.axis(index) for index in factor.visible]
        if factor.latent and factor.visible:
            for index, axis in zip(factor.visible, axes):
                shown = index if axes.count(axis) > 1 else axis
                yield Holding(fit, name, index, shown, factor.latent)


def rest(fit: Fitted, name: str) -> Array:
    """Totals of the other factors for every component of a factor, (*latent), over all its terms; the largest is 1."""
    factor = fit.model.factor(name)
    total = np.full([fit.rank[index] for index in factor.latent], -np.inf)
    for equation in fit.model.equations:
        for term in equation.terms:
            uses = operands(fit, term)
            for n, use in enumerate(uses):
                if use.factor == name:
                    others = [_added(fit, equation, other) for m, other in enumerate(uses) if m != n]
                    here = dict(zip(factor.indices, use.indices))
                    total = np.logaddexp(total, log_contract(others, [here[index] for index in factor.latent]))
    peak = total.max()
    return np.exp(total - peak) if np.isfinite(peak) else np.ones(total.shape)


def _added(fit: Fitted, equation: Equation, use: Occurrence) -> RowBlock:
    """Logarithm of a factor's mean, summed over entities."""
    posterior = fit.factors[use.factor]
    _, latent = split_indices(use, equation)
    if posterior.pairs is not None:
        total = posterior.mean[: len(posterior.pairs)].sum(axis=0, dtype=np.float64)
    else:
        visible = tuple(n for n, index in enumerate(use.indices) if index not in latent)
        total = posterior.mean.sum(axis=visible, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return RowBlock(latent, np.log(np.asarray(total)))


def counted(fit: Fitted, name: str) -> Array:
    """Expected counts of known links at every entry of a factor, in its shape."""
    totals = np.zeros(fit.factors[name].mean.size)
    for equation in fit.model.equations:
        if name in equation.factors:
            rank = math.prod(fit.rank[index] for index in equation.latent)
            for cells, values, weights in known_pieces(fit, equation, rank):
                terms = terms_at(fit, equation, cells, "exp_mean_log")
                logs = log_rates(terms)
                counts = weights * expected_counts(fit, equation.relation, values, logs)[0]
                for blocks, term in zip(terms, equation.terms):
                    for use in (o for o in operands(fit, term) if o.factor == name):
                        totals += _at_entries(fit, equation, use, cells, blocks, logs, counts)
    return totals.reshape(fit.factors[name].mean.shape)


def _at_entries(
    fit: Fitted,
    equation: Equation,
    use: Occurrence,
    cells: Rows,
    blocks: Sequence[RowBlock],
    logs: Array,
    counts: Array,
) -> Array:
    """Counts that links, with log rates and counts (n,), add to a factor's entries by one occurrence, (n_entries,)."""
    posterior, (_, latent) = fit.factors[use.factor], split_indices(use, equation)
    numbers = np.arange(posterior.mean.size, dtype=np.float64).reshape(posterior.mean.shape)
    at = rows_at(numbers, posterior.pairs, use, equation, cells).values.astype(np.int64).reshape(-1)
    parts = log_contract(blocks, (CELLS, *latent)).reshape(len(cells), -1)
    own = counts[:, None] * share(parts, logs[:, None])
    return np.bincount(at, own.ravel(), numbers.size).astype(np.float64)


def profile(fit: Fitted, axis: str, name: Any) -> "pl.DataFrame":
    """Components of one entity, in every factor that has its axis: factor, axis, index, component, share, sd, data.

    Each latent index of a factor has separate rows, with the others summed out; the shares of each add up to 1, or to 0
    for an entity without mass. An ensemble shows its best member. The table is empty if no factor of the axis has a
    latent index.
    """
    import polars as pl

    labels = fit.entities[axis]
    row = row_named(labels, name, "name")
    types = {"factor": pl.String, "axis": pl.String, "index": pl.String, "component": pl.Int64}
    types |= dict.fromkeys(("share", "sd", "data"), pl.Float64)
    rows = [one for own in holdings(fit) if fit.model.axis(own.index) == labels.axis for one in _rows(own, row)]
    return pl.DataFrame(rows, schema=types, orient="row")


def _rows(own: Holding, row: int) -> list[tuple[Any, ...]]:
    at = np.array([row])
    held = own.summed_at(own.posterior.mean, at)[0].astype(np.float64) * own.rest
    variance = own.variance(at)[0] * own.rest**2
    learnt = own.from_data(at)[0] * own.rest
    total = held.sum() or 1.0
    rows: list[tuple[Any, ...]] = []
    for place, index in enumerate(own.latent):
        mean, spread, data = (_alone(array, place) for array in (held, variance, learnt))
        part = np.clip(np.divide(data, mean, out=np.zeros(len(mean)), where=mean > 0), 0.0, 1.0)
        shares = mean / total
        sd = share_sd(shares, spread, spread.sum(), total / own.unit)
        parts = zip(shares.tolist(), sd.tolist(), part.tolist())
        rows += [(own.factor, own.axis, index, n, *three) for n, three in enumerate(parts)]
    return rows


def _alone(array: Array, place: int) -> Array:
    """Sum out all but one latent index: (*latent) → (n_values,)."""
    return np.asarray(array.sum(axis=tuple(n for n in range(array.ndim) if n != place)))
