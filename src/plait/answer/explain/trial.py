"""What would be predicted, were one cell of the data another: a fit goes on with its data, and with changed ones.

Both go on from where the fit stands, its priors held, until the mean of the cell stands still (`refit`); what is before
is not quite what the fit predicts, if that has not converged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plait.answer.explain.changing import Change, check_value
from plait.answer.explain.refit import mean_of, same_data, settle_all
from plait.answer.predict.lookup import row_of
from plait.answer.predict.prediction import columns
from plait.infer.state import State
from plait.run.record import Fitted, Member
from plait.types import Rows

Told = Callable[[str, int], None]  # "before" or "after", and the sweep


@dataclass(frozen=True)
class Trial:
    """Predictions of a cell before and after a change, as `Fit.predict` has them.

    loss: the fraction by which the mean (of 0/1 links: the rate) is smaller; below 0 where it is larger.
    """

    before: Mapping[str, float]
    after: Mapping[str, float]
    loss: float


def try_change(
    fit: Fitted, data: Any, relation: str, cell: Mapping[str, Any], changing: str, link: Mapping[str, Any],
    value: float | None, *, told: Told | None = None,
) -> Trial:  # fmt: skip
    """What is predicted of a cell, were another one (`link` of the relation `changing`) 0, missing or a link.

    data: what was given to `plait.fit`. cell, link: a name for each index. value: 0 for an observed zero, None for a
    missing cell. told hears of every sweep; what it raises ends the trial. Nothing is stored.
    """
    at, change = row_of(fit, relation, cell), Change(changing, row_of(fit, changing, link), value)
    if value:
        check_value(fit.likelihood[changing], value, changing)
    data, told = same_data(fit, data), told or (lambda phase, sweep: None)
    before = settle_all(fit, data, relation, at, None, lambda sweep: told("before", sweep))
    after = settle_all(fit, data, relation, at, change, lambda sweep: told("after", sweep))
    means = [mean_of(fit, states, relation, at) for states in (before, after)]
    loss = 1.0 - means[1] / means[0] if means[0] > 0 else 0.0
    return Trial(_predicted(fit, before, relation, at), _predicted(fit, after, relation, at), loss)


def _predicted(fit: Fitted, states: Sequence[State], relation: str, cell: Rows) -> dict[str, float]:
    """The prediction of a fit that stands where its members have settled."""
    members = [Member(member.seed, state, member.stop) for member, state in zip(fit.members, states)]
    settled = type(fit).of(fit.origin, members, fit.stop)
    found = columns(settled, relation, np.asarray(cell)[None, :])
    return {name: float(column[0]) for name, column in found.items()}
