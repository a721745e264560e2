"""How much smaller the mean of a cell would be, were a known link an observed zero: its responsibility.

The zero takes the counts n_l s_l (`supporting_links`) out of the rows it shares with the cell. Each such row
settles anew: its other links share their counts in other ways, and under Bernoulli they also have fewer, for E[n] falls
with the rate. With η_m = d log n_m / d log λ_m (Poisson: 0) the row, a fixed point of C = A + Σ_m n_m s_m with
L = exp ψ(C) D, answers to first order with

    d log L = −(K + Q_l)⁻¹ n_l s_l,    K = diag(1/ψ′(C)) − Σ_m Q_m,    Q_m = n_m (diag s_m − (1 − η_m) s_m s_mᵀ)

where D stays, for zeros are exposed as links are, and + Q_l says that the link itself does not follow: it is gone. In
a sum s_m adds up to less than 1, for the counts that other terms have. The mean falls by a fraction, and d log E =
d log L / (C ψ′(C)):

    responsibility = − Σ over the rows of the cell, Σ over components: share · d log E

EM and MAP have C in place of 1/ψ′(C). K⁻¹ serves all links; of Q_l only what it does to x = K⁻¹ n_l s_l is taken, the
rank-one matrix (Q_l x)(Q_l x)ᵀ / xᵀQ_l x. The rows of other entities are held: `counterfactual` fits everything
again. A link that is not observed at all (missing) is another question: a zero is evidence, too, and takes more away.

A cell as each member of an ensemble sees it, and what they say together: a single fit is an ensemble of one.

The mean of an ensemble is Σ_m mean_m / M: a member's components, and what a link takes away from its mean, count with
weight_m = mean_m / Σ mean. So a share is still a share of the mean that is predicted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import polygamma

from plait._typing import Array, Rows
from plait.analysis.explain.component_terms import Components, Kind, components, free_name, log_rates, terms_at
from plait.analysis.explain.supporting_links import (
    Key,
    LinkGroup,
    Row,
    Touching,
    counted,
    pieces,
    sources,
    touching,
    used_rows,
)
from plait.model import Equation
from plait.storage.fitted import Fitted

SLOWEST = 0.1  # of K relative to 1/ψ′(C): a direction that settles more slowly than this is followed no further
LARGEST = 2000  # entries of a row; one that has more is taken not to settle anew


@dataclass(frozen=True, eq=False)
class Answer:
    """How the cell's row of a factor answers to counts taken out of it.

    Coordinates are those in which diag(1/ψ′(C)) is the identity, so that nothing overflows where an entry of the row is
    next to 0: scale (entries,) 1/√ψ′(C); pull (entries,) the change of the log mean with d log L; inverse (entries,
    entries) K⁻¹. at_once (entries,): share/C, for a row that is taken not to settle anew: its inverse is None.
    """

    at_once: Array
    scale: Array
    pull: Array
    inverse: Array | None

    def fall(self, links: LinkGroup) -> Array:
        """The fraction that the mean loses with each link, (links,)."""
        n = links.counts[:, None]
        if self.inverse is None:
            return np.asarray(n * links.shares @ self.at_once)
        s = _divided(links.shares, self.scale)
        moved = n * s @ self.inverse
        own = n * (_divided(s, self.scale) * moved - s * ((1.0 - links.follow) * (s * moved).sum(axis=1))[:, None])
        back = own @ self.inverse
        first, second = (moved * own).sum(axis=1), (back * own).sum(axis=1)
        part = np.divide(first, first + second, out=np.zeros(len(first)), where=first > 0)
        return np.asarray(moved @ self.pull - part * (back @ self.pull))


def _divided(array: Array, scale: Array) -> Array:
    """The array over the scale of every entry; 0 where that is 0."""
    return np.divide(array, scale, out=np.zeros(array.shape), where=scale > 0)


def answers(fit: Fitted, groups: Sequence[Touching]) -> dict[Key, Answer]:
    """The answers of the cell's rows."""
    rows = {group.row.key: group.row for group in groups}
    return {key: _answer(fit, row, [g for g in groups if g.row.key == key]) for key, row in rows.items()}


def responsibilities(fit: Fitted, group: Touching, answer: Answer) -> Array:
    """What every link of the group is responsible for through its row: (links,)."""
    parts = [answer.fall(piece) for piece in pieces(fit, group)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _answer(fit: Fitted, row: Row, groups: Sequence[Touching]) -> Answer:
    C = row.concentration.ravel()
    at_once = _divided(row.shares.ravel(), C)
    with np.errstate(divide="ignore"):
        scale = np.sqrt(1.0 / polygamma(1, C) if fit.method == "vb" else C)
    return Answer(at_once, scale, at_once * scale, _inverse(fit, scale, groups) if C.size <= LARGEST else None)


def _inverse(fit: Fitted, scale: Array, groups: Sequence[Touching]) -> Array:
    """K⁻¹ in the coordinates of an `Answer`: (1 − Σ_m Q_m)⁻¹."""
    K = np.eye(len(scale))
    for group in groups:
        for piece in pieces(fit, group):
            s = _divided(piece.shares, scale)
            K += (s.T * (piece.counts * (1.0 - piece.follow))) @ s
            K[np.diag_indices_from(K)] -= piece.counts @ _divided(s, scale)
    values, vectors = np.linalg.eigh(K)
    return np.asarray((vectors / np.maximum(values, SLOWEST)) @ vectors.T)


@dataclass(frozen=True, eq=False)
class MemberView:
    """One member: its components of the cell, the known links that touch its rows, and its weight."""

    fit: Fitted
    found: Components
    groups: Sequence[Touching]
    weight: float

    @cached_property
    def _answers(self) -> dict[Key, Answer]:
        return answers(self.fit, self.groups)

    def sources(self, key: Key) -> tuple[float, float]:
        """How much of what the cell uses of a row comes from data, and how much from the prior."""
        return sources(next(group.row for group in self.groups if group.row.key == key))

    def strengths(self, relation: str, numbers: Rows) -> Array:
        """What links of a relation, by their sorted numbers, are responsible for in this member, (n,)."""
        strength = np.zeros(len(numbers))
        for group in self.groups:
            if group.relation == relation:
                own = responsibilities(self.fit, group, self._answers[group.row.key])
                strength[np.searchsorted(numbers, group.numbers)] += own
        return np.minimum(strength, 1.0)  # first order may promise more than all


def views_of(fit: Fitted, equation: Equation, cell: Rows, kind: Kind, most: int) -> list[MemberView]:
    """Every member's view of a cell; of components, `most` at most."""
    latent = [equation.latent_of(term) for term in equation.terms]
    return [
        MemberView(
            member,
            components(terms_at(member, equation, cell[None, :], kind), latent, most),
            counted(member, touching(member, used_rows(member, equation, cell))),
            float(weight[0]),
        )
        for member, weight in zip(fit.members, weigh(fit, equation, cell[None, :]))
    ]


def weigh(fit: Fitted, equation: Equation, cells: Rows) -> Array:
    """The weight of every member at cells, (members, n): what each adds to the mean; equal where that is 0."""
    if len(fit.members) == 1:
        return np.ones((1, len(cells)))
    logs = np.stack([log_rates(terms_at(member, equation, cells, "mean")) for member in fit.members])
    peak = logs.max(axis=0)
    found = np.exp(np.where(np.isneginf(peak), 0.0, logs - np.where(np.isneginf(peak), 0.0, peak)))
    return np.asarray(found / found.sum(axis=0))


class Placed(NamedTuple):
    """A component: the view it belongs to, its term, values of the term's latent indices, its share of the whole."""

    view: MemberView
    term: int
    setting: Mapping[str, int]
    share: float


def joined_shares(views: Sequence[MemberView], equation: Equation, most: int) -> tuple[list[Placed], float]:
    """The components of all views side by side, largest share first, and the share of those that are not listed."""
    placed = []
    for number, view in enumerate(views):
        own = {free_name("member", equation): number} if len(views) > 1 else {}
        found = view.found
        for term, values, share in zip(found.terms[0], found.settings[0], found.shares[0]):
            setting = {index: int(value) for index, value in zip(found.latent, values) if value >= 0}
            placed.append(Placed(view, int(term), own | setting, float(view.weight * share)))
    placed.sort(key=lambda one: -one.share)
    cut = sum(one.share for one in placed[most:])
    return placed[:most], cut + sum(view.weight * float(view.found.remainder[0]) for view in views)
