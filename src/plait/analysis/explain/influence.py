"""Influence of a known link on a cell: the relative decrease of its mean if the link were an observed zero (its
responsibility).

The zero removes the counts n_l s_l (`supporting_links`) from the rows that the link shares with the cell. Each such row
then moves to a new fixed point, as its other links redistribute their counts, and under Bernoulli lose some, since E[n]
falls with the rate. With η_m = d log n_m / d log λ_m (Poisson: 0), the row, a fixed point of C = A + Σ_m n_m s_m with L
= exp ψ(C) D, changes to first order by

    d log L = −(K + Q_l)⁻¹ n_l s_l,    K = diag(1/ψ′(C)) − Σ_m Q_m,    Q_m = n_m (diag s_m − (1 − η_m) s_m s_mᵀ)

D stays, as zeros are exposed like links, and + Q_l removes the reaction of the link itself. In a sum s_m adds up to
less than 1, the rest being counts of other terms. With d log E = d log L / (C ψ′(C)),

    responsibility = − Σ over the rows of the cell, Σ over components: share · d log E

EM and MAP have C in place of 1/ψ′(C). K⁻¹ serves all links; Q_l is approximated by the rank-one matrix (Q_l x)(Q_l x)ᵀ
/ xᵀQ_l x with x = K⁻¹ n_l s_l. The rows of other entities stay fixed; `counterfactual` refits everything. Making a link
missing instead has less effect, since a zero is evidence, too.

A single fit is an ensemble of one. The mean of an ensemble is Σ_m mean_m / M, so the components and responsibilities of
a member count with weight_m = mean_m / Σ mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from plait import special
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

MIN_EIGENVALUE = 0.1  # of K relative to 1/ψ′(C): directions that converge more slowly are cut here
MAX_ENTRIES = 2000  # of a row whose K is inverted; larger rows are taken as fixed
MAX_PRODUCT = 1 << 17  # multiplications of a product of matrices: OpenBLAS takes several threads from 2¹⁸ on


@dataclass(frozen=True, eq=False)
class Answer:
    """Response of the cell's row of a factor to counts removed from it.

    Coordinates are scaled so that diag(1/ψ′(C)) is the identity and nothing overflows: `scale` (n_entries,) 1/√ψ′(C);
    `pull` (n_entries,) the derivative of the log mean by d log L; `inverse` (n_entries, n_entries) K⁻¹, None for a row
    taken as fixed; `at_once` (n_entries,): share/C.
    """

    at_once: Array
    scale: Array
    pull: Array
    inverse: Array | None

    def fall(self, links: LinkGroup) -> Array:
        """Relative decrease of the mean with each link, (n_links,)."""
        n = links.counts[:, None]
        if self.inverse is None:
            return np.asarray(n * links.shares @ self.at_once)
        s = _divided(links.shares, self.scale)
        moved = _product(n * s, self.inverse)
        own = n * (_divided(s, self.scale) * moved - s * ((1.0 - links.follow) * (s * moved).sum(axis=1))[:, None])
        back = _product(own, self.inverse)
        first, second = (moved * own).sum(axis=1), (back * own).sum(axis=1)
        part = np.divide(first, first + second, out=np.zeros(len(first)), where=first > 0)
        return np.asarray(moved @ self.pull - part * (back @ self.pull))


def _product(rows: Array, matrix: Array) -> Array:
    """rows (n, k) times a matrix (k, m), in blocks of rows. Threads of BLAS spin while they wait: for many rows of few
    columns, two threads on busy processors take 20 times the time of one.
    """
    step = max(1, MAX_PRODUCT // max(1, matrix.size))
    return np.concatenate([rows[at : at + step] @ matrix for at in range(0, max(len(rows), 1), step)])


def _gram(rows: Array, weights: Array) -> Array:
    """Σ_n w_n r_n r_nᵀ of rows (n, k), in blocks."""
    gram = np.zeros((rows.shape[1], rows.shape[1]))
    step = max(1, MAX_PRODUCT // max(1, gram.size))
    for at in range(0, len(rows), step):
        some = rows[at : at + step]
        gram += (some.T * weights[at : at + step]) @ some
    return gram


def _divided(array: Array, scale: Array) -> Array:
    """The array over the scale of every entry; 0 where that is 0."""
    return np.divide(array, scale, out=np.zeros(array.shape), where=scale > 0)


def answers(fit: Fitted, groups: Sequence[Touching]) -> dict[Key, Answer]:
    """Responses of the cell's rows."""
    rows = {group.row.key: group.row for group in groups}
    return {key: _answer(fit, row, [g for g in groups if g.row.key == key]) for key, row in rows.items()}


def responsibilities(fit: Fitted, group: Touching, answer: Answer) -> Array:
    """Responsibility of each link of the group through its row, (n_links,)."""
    parts = [answer.fall(piece) for piece in pieces(fit, group)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _answer(fit: Fitted, row: Row, groups: Sequence[Touching]) -> Answer:
    C = row.concentration.ravel()
    at_once = _divided(row.shares.ravel(), C)
    with np.errstate(divide="ignore"):
        scale = np.sqrt(1.0 / special.polygamma(1, C) if fit.method == "vb" else C)
    if C.size > MAX_ENTRIES:
        return Answer(at_once, scale, at_once * scale, None)
    if not groups[0].inverses:
        groups[0].inverses[:] = [_inverse(fit, scale, groups)]
    return Answer(at_once, scale, at_once * scale, groups[0].inverses[0])


def _inverse(fit: Fitted, scale: Array, groups: Sequence[Touching]) -> Array:
    """K⁻¹ in the coordinates of an `Answer`: (1 − Σ_m Q_m)⁻¹."""
    K = np.eye(len(scale))
    for group in groups:
        for piece in pieces(fit, group):
            s = _divided(piece.shares, scale)
            K += _gram(s, piece.counts * (1.0 - piece.follow))
            K[np.diag_indices_from(K)] -= piece.counts @ _divided(s, scale)
    values, vectors = np.linalg.eigh(K)
    return np.asarray((vectors / np.maximum(values, MIN_EIGENVALUE)) @ vectors.T)


@dataclass(frozen=True, eq=False)
class MemberView:
    """One member: its components of the cell, the known links of its rows, and its weight."""

    fit: Fitted
    components: Components
    groups: Sequence[Touching]
    weight: float

    @cached_property
    def _answers(self) -> dict[Key, Answer]:
        return answers(self.fit, self.groups)

    def sources(self, key: Key) -> tuple[float, float]:
        """Shares of data and of the prior in the cell's use of a row."""
        return sources(next(group.row for group in self.groups if group.row.key == key))

    def strengths(self, relation: str, numbers: Rows) -> Array:
        """Responsibilities of links of a relation, by sorted numbers, in this member, (n,)."""
        strength = np.zeros(len(numbers))
        for group in self.groups:
            if group.relation == relation:
                own = responsibilities(self.fit, group, self._answers[group.row.key])
                strength[np.searchsorted(numbers, group.numbers)] += own
        return np.minimum(strength, 1.0)  # the first order may exceed 1


def views_of(fit: Fitted, equation: Equation, cell: Rows, kind: Kind, most: int) -> list[MemberView]:
    """Views of a cell by all members, with at most `most` components each."""
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
    """Weights of the members at cells, (n_members, n): what each adds to the mean; equal where that is 0."""
    if len(fit.members) == 1:
        return np.ones((1, len(cells)))
    logs = np.stack([log_rates(terms_at(member, equation, cells, "mean")) for member in fit.members])
    peak = logs.max(axis=0)
    weights = np.exp(np.where(np.isneginf(peak), 0.0, logs - np.where(np.isneginf(peak), 0.0, peak)))
    return np.asarray(weights / weights.sum(axis=0))


class Placed(NamedTuple):
    """A component: number of its view, its term, values of the term's latent indices, its share of the whole."""

    view: MemberView
    term: int
    setting: Mapping[str, int]
    share: float


def joined_shares(views: Sequence[MemberView], equation: Equation, most: int) -> tuple[list[Placed], float]:
    """Components of all views, largest share first, and the share of those that are not listed."""
    placed = []
    for number, view in enumerate(views):
        own = {free_name("member", equation): number} if len(views) > 1 else {}
        components = view.components
        for term, values, share in zip(components.terms[0], components.settings[0], components.shares[0]):
            setting = {index: int(value) for index, value in zip(components.latent, values) if value >= 0}
            placed.append(Placed(view, int(term), own | setting, float(view.weight * share)))
    placed.sort(key=lambda one: -one.share)
    cut = sum(one.share for one in placed[most:])
    return placed[:most], cut + sum(view.weight * float(view.components.remainder[0]) for view in views)
