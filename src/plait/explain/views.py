"""A cell as each member of an ensemble sees it, and what they say together: a single fit is an ensemble of one.

The mean of an ensemble is Σ_m mean_m / M: a member's components, and what a link takes away from its mean, count with
weight_m = mean_m / Σ mean. So a share is still a share of the mean that is predicted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plait.explain.latent import Components, Kind, components, one_cell
from plait.explain.links import Touching, counted, sources, touching, used_rows
from plait.explain.response import Answer, answers, responsibilities
from plait.fitted import Fitted
from plait.model import Equation
from plait.model.network import log_contract

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class View:
    """One member: its components of the cell, the known links that touch its rows, and its weight."""

    fit: Fitted
    found: Components
    groups: Sequence[Touching]
    weight: float

    @cached_property
    def _answers(self) -> dict[str, Answer]:
        return answers(self.fit, self.groups)

    def sources(self, factor: str) -> tuple[float, float]:
        """How much of what the cell uses of its row of a factor comes from data, and how much from the prior."""
        return sources(next(group.row for group in self.groups if group.row.factor == factor))

    def strengths(self, relation: str, numbers: Rows) -> Array:
        """What links of a relation, by their sorted numbers, are responsible for in this member, (n,)."""
        strength = np.zeros(len(numbers))
        for group in self.groups:
            if group.relation == relation:
                own = responsibilities(self.fit, group, self._answers[group.row.factor])
                strength[np.searchsorted(numbers, group.numbers)] += own
        return np.minimum(strength, 1.0)  # first order may promise more than all


def views_of(fit: Fitted, equation: Equation, row: Rows, kind: Kind, most: int) -> list[View]:
    """Every member's view of a cell; of components, `most` at most."""
    logs = np.array([float(log_contract(one_cell(member, equation, row, "mean"), ())) for member in fit.members])
    weights = np.exp(logs - logs.max()) if np.isfinite(logs.max()) else np.ones(len(logs))
    return [
        View(
            member,
            components(one_cell(member, equation, row, kind), equation.latent, most),
            counted(member, touching(member, used_rows(member, equation, row))),
            float(weight),
        )
        for member, weight in zip(fit.members, weights / weights.sum())
    ]


class Placed(NamedTuple):
    """A component: the view it belongs to, the values of the latent indices, and its share of the whole."""

    view: View
    setting: Mapping[str, int]
    share: float


def joined_shares(views: Sequence[View], most: int) -> tuple[list[Placed], float]:
    """The components of all views side by side, largest share first, and the share of those that are not listed."""
    latent = views[0].found.latent
    word = "member_" if "member" in latent else "member"
    placed = []
    for number, view in enumerate(views):
        own = {word: number} if len(views) > 1 else {}
        for values, share in zip(view.found.settings, view.found.shares):
            placed.append(Placed(view, own | dict(zip(latent, map(int, values))), float(view.weight * share)))
    placed.sort(key=lambda one: -one.share)
    cut = sum(one.share for one in placed[most:])
    return placed[:most], cut + sum(view.weight * view.found.remainder for view in views)
