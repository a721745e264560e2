"""A cell as each member of an ensemble sees it, and what they say together: a single fit is an ensemble of one.

The mean of an ensemble is Σ_m mean_m / M: a member's components, and what a link takes away from its mean, count with
weight_m = mean_m / Σ mean. So a share is still a share of the mean that is predicted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from plait.answer.explain.bearing import Key, Touching, counted, sources, touching, used_rows
from plait.answer.explain.latent import Components, Kind, components, free_name, log_rates, terms_at
from plait.answer.explain.response import Answer, answers, responsibilities
from plait.model import Equation
from plait.run.record import Fitted
from plait.types import Array, Rows


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
