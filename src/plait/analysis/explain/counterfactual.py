"""Counterfactuals: predictions after a refit with one cell of the data changed to an observed zero, a missing cell or a
link.

A refit starts from the fit, with its priors fixed, and sweeps until the mean of the explained cell converges: once with
the fit's own data, and once per change. A fit keeps its known links but not its other observations, so the data are
passed again. If the fit had not converged, the prediction before the change differs slightly from that of the fit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array, Rows
from plait.analysis.explain.component_terms import operands, rows_at
from plait.analysis.predict.lookup import row_of
from plait.analysis.predict.prediction import columns
from plait.data.binding.bind import bind
from plait.data.binding.known import reweighed
from plait.data.bound import BoundRelation, Data
from plait.data.observation.links import LinksInMemory
from plait.data.observation.symmetry import written
from plait.data.observation.weights import Weights
from plait.data.sparse.csf import CSFCache
from plait.errors import DataError, ParameterError
from plait.executors import Threads
from plait.inference.initialisation import begin_vb, go_on, parts_of
from plait.inference.loop import Settings, run
from plait.inference.problem import Method
from plait.inference.state import FactorSnapshot, Reason, Record, State, Stop
from plait.likelihood import Likelihood
from plait.model.network import contract
from plait.storage.fingerprint import fingerprint
from plait.storage.fitted import Fitted, Member


@dataclass(frozen=True, eq=False)
class Change:
    """New value of a cell (order,), given by row numbers in the orientation of known links.

    `value`: 0 for an observed zero (its weight M stays), None for a missing cell (M = 0), any other number for a link.
    A known link keeps its weight; a new one takes the weight of the relation's links.
    """

    relation: str
    cell: Rows
    value: float | None


def changed(data: Data, change: Change) -> Data:
    relation = _changed(data.relations[change.relation], np.asarray(change.cell), change.value)
    return replace(data, relations={**data.relations, change.relation: relation})


def check_value(likelihood: Likelihood, value: float, relation: str) -> None:
    """Refuse a value that no link of the relation can have."""
    if not 0 < value < np.inf or likelihood.bad(np.array([value]))[0]:
        what = "a value greater than 0" if not 0 < value < np.inf else likelihood.wanted
        raise DataError(
            f"{value:g} is not a valid value of a link with the likelihood {likelihood}.",
            location=relation,
            actual=value,
            expected=what,
            hint=f"{likelihood.wanted}; the value of a link is greater than 0.",
        )


def _changed(relation: BoundRelation, cell: Rows, value: float | None) -> BoundRelation:
    cells, at = relation.cells, cell[None, :]
    number = np.flatnonzero((cells == cell).all(axis=1))
    before = float(relation.weights.at(at)[0])
    others, values, own = _without(relation, cells, number)
    if value is None or value == 0:
        after = 0.0 if value is None else before
    else:
        check_value(relation.likelihood, value, relation.name)
        after = float(relation.cell_weights[number[0]]) if len(number) else _weight_of_links(relation)
        others, order = _inserted(others, at)
        values, own = np.append(values, value)[order], np.append(own, after)[order]
    return replace(
        relation,
        links=LinksInMemory.of(relation.indices, relation.shape, others, values, own),
        weights=_weighing(relation, at, before, after),
        observed_cells=relation.observed_cells + int(after > 0) - int(before > 0),
    )


def _without(relation: BoundRelation, cells: AnyArray, number: Rows) -> tuple[AnyArray, Any, Array]:
    """Cells, values and weights of all links but some."""
    weights = np.asarray(relation.cell_weights, np.float64)
    return np.delete(cells, number, axis=0), np.delete(relation.links.stored, number), np.delete(weights, number)


def _inserted(cells: AnyArray, cell: AnyArray) -> tuple[AnyArray, Rows]:
    """Cells with one more in lexicographic order, and the source of each."""
    more = np.concatenate([cells, cell.astype(cells.dtype)])
    order = np.lexsort(more.T[::-1]) if more.shape[1] else np.arange(len(more))
    return more[order], order


def _weight_of_links(relation: BoundRelation) -> float:
    return 1.0 if relation.rule is None else relation.rule.weight


def _weighing(relation: BoundRelation, cell: AnyArray, before: float, after: float) -> Weights:
    """M with another weight of a cell, in all its orientations."""
    if after == before:
        return relation.weights
    cells = written(cell, relation.shape, relation.groups)
    change = np.full(len(cells), after - before)
    return relation.weights + Weights.from_table(relation.indices, relation.shape, relation.indices, cells, change)


Without = Literal["zero", "missing"]

CHECK_SWEEPS = 10  # sweeps between two checks of the mean
TOLERANCE = 1e-7  # relative change of the mean in `CHECK_SWEEPS` sweeps
MAX_SWEEPS = 2000  # of one refit


def as_without(exact: Any, data: Any) -> Without | None:
    """The argument `exact` in its full form."""
    if not any(exact is word for word in (False, True)) and exact not in ("zero", "missing"):
        raise ParameterError.must_be("exact", 'False, True, "zero" or "missing"', exact)
    if exact is False:
        if data is not None:
            raise ParameterError(
                "`data` is used only with `exact=True`.",
                hint="Remove `data`, or add `exact=True`.",
            )
        return None
    if data is None:
        raise ParameterError(
            "`exact` refits the model, but a fit does not store all of its data.",
            location="explain",
            hint="Pass the data of the fit again: `data=data`.",
        )
    return "zero" if exact is True else cast(Without, exact)


class OtherDataError(ParameterError):
    """The data are not those of the fit."""


def same_data(fit: Fitted, data: Mapping[str, Any] | Data) -> Data:
    """Bind the data of a fit as `plait.fit` did; refuse other data."""
    if not isinstance(data, Data):
        data = bind(fit.model, data, {axis: fit.entities[axis].names.to_list() for axis in fit.model.axes})
    weights = fit.settings.get("weights", {})
    data = data.weighing({name: weights.get(name, 1.0) for name in data.open_weights})
    given = {name: kept.parameters for name, kept in fit.state.factors.items() if name not in fit.state.divergences}
    if fingerprint(data, fit.exposures, cast(Any, given)) != fit.fingerprint:
        raise OtherDataError(
            "`data` differs from the data of the fit, so a refit is not comparable.",
            location="explain",
            hint="Pass the data of `plait.fit`, with the same relations, weights and missing cells.",
        )
    return data


def losses(
    fit: Fitted, data: Data, relation: str, cell: Rows, links: Sequence[tuple[str, int]], without: Without
) -> list[float]:
    """Relative decrease of the mean of a cell without each link (relation, and number among the known links)."""
    if not links:
        return []
    value = 0.0 if without == "zero" else None

    def mean(change: Change | None) -> float:
        return mean_of(fit, settle_all(fit, data, relation, cell, change), relation, cell)

    before = mean(None)
    known = data.relations
    return [1.0 - mean(Change(name, known[name].cells[number], value)) / before for name, number in links]


def settle_all(
    fit: Fitted,
    data: Data,
    relation: str,
    cell: Rows,
    change: Change | None,
    on_sweep: Callable[[int], None] | None = None,
) -> list[State]:
    """Converged state of each member with its data, one cell of which may be changed; `on_sweep` gets sweep numbers."""
    executor, states = Threads(fit.settings.get("threads")), list[State]()
    for member in fit.members:
        own = _data_of_member(fit, member, data)
        own = own if change is None else changed(own, change)
        states.append(_settle(member, own, relation, cell, executor, on_sweep or (lambda sweep: None)))
    return states


def mean_of(fit: Fitted, states: Sequence[State], relation: str, cell: Rows) -> float:
    """Mean of a cell, averaged over the states of the members."""
    means = [_mean(member, relation, cell, state) for member, state in zip(fit.members, states)]
    return sum(means) / len(means)


def _data_of_member(fit: Fitted, member: Fitted, data: Data) -> Data:
    """The data of one member, which a bootstrap reweights."""
    return reweighed(data, member.seed) if fit.settings.get("bootstrap") and member.seed != fit.seed else data


def _settle(
    fit: Fitted, data: Data, relation: str, cell: Rows, executor: Threads, on_sweep: Callable[[int], None]
) -> State:
    """State of a refit with these data, when the mean of a cell has converged."""
    free = tuple(name for name in fit.model.factors if name in fit.state.divergences)
    parts = parts_of(data, fit.exposures)
    problem = go_on(parts, fit.state, cast(Method, fit.method), free, executor, CSFCache())
    if fit.history[-1].warm_up:
        problem = begin_vb(problem, np.dtype(fit.settings["dtype"]))
    means: list[float] = []

    def keep(look: Callable[[], State]) -> None:
        state = look()
        on_sweep(state.history[-1].sweep)
        if state.history[-1].sweep % CHECK_SWEEPS == 0:
            means.append(_mean(fit, relation, cell, state))

    def watch(record: Record) -> Stop | None:
        if record.sweep % CHECK_SWEEPS or len(means) < 2:
            return None
        still = abs(means[-1] - means[-2]) <= TOLERANCE * means[-1]
        return Stop(Reason.CONVERGED, "converged: the mean no longer changes.") if still else None

    return run(problem, Settings(MAX_SWEEPS, 0.0, {}), watch, keep).state


def _mean(fit: Fitted, relation: str, cell: Rows, state: State) -> float:
    """Σ_terms V Xhat_E of a cell."""
    equation, total = fit.model.equation(relation), 0.0
    for number, term in enumerate(equation.terms):
        V = fit.exposures.at(relation, number, cell[None, :])
        uses = operands(fit, term)
        own = [(_written(state.factors[o.factor]), fit.factors[o.factor].pairs, o) for o in uses]
        blocks = [rows_at(*each, equation, cell[None, :]) for each in own]
        total += float(contract(blocks, ())) * (1.0 if V is None else float(V[0]))
    return total


def _written(kept: FactorSnapshot) -> NDArray[np.float64]:
    if kept.concentration is None or kept.scale is None:
        assert kept.mean is not None
        return kept.layout.written(kept.mean)
    return kept.layout.written(kept.concentration * kept.scale)


OnTrialSweep = Callable[[str, int], None]  # "before" or "after", and the sweep


@dataclass(frozen=True)
class Counterfactual:
    """Predictions of a cell before and after a change, as in `Fit.predict`.

    `loss`: relative decrease of the mean (for 0/1 links: of the rate); negative for an increase.
    """

    before: Mapping[str, float]
    after: Mapping[str, float]
    loss: float


def try_change(
    fit: Fitted, data: Any, relation: str, cell: Mapping[str, Any], changing: str, link: Mapping[str, Any],
    value: float | None, *, on_sweep: OnTrialSweep | None = None,
) -> Counterfactual:  # fmt: skip
    """Predict a cell before and after a change of another one (`link` of the relation `changing`).

    `data`: as passed to `plait.fit`. `cell`, `link`: a name for each index. `value`: 0 for an observed zero, None for a
    missing cell, else that of a link. `on_sweep` gets every sweep; an exception from it ends the trial. Nothing is
    stored.
    """
    at, change = row_of(fit, relation, cell), Change(changing, row_of(fit, changing, link), value)
    if value:
        check_value(fit.likelihood[changing], value, changing)
    data, report = same_data(fit, data), on_sweep or (lambda phase, sweep: None)
    before = settle_all(fit, data, relation, at, None, lambda sweep: report("before", sweep))
    after = settle_all(fit, data, relation, at, change, lambda sweep: report("after", sweep))
    means = [mean_of(fit, states, relation, at) for states in (before, after)]
    loss = 1.0 - means[1] / means[0] if means[0] > 0 else 0.0
    return Counterfactual(_predicted(fit, before, relation, at), _predicted(fit, after, relation, at), loss)


def _predicted(fit: Fitted, states: Sequence[State], relation: str, cell: Rows) -> dict[str, float]:
    """Prediction of a fit in the states of its members."""
    members = [
        Member(member.seed, state, member.stop, member.given_names) for member, state in zip(fit.members, states)
    ]
    refitted = type(fit)._of(fit._origin, members, fit.stop)
    predicted = columns(refitted, relation, np.asarray(cell)[None, :])
    return {name: float(column[0]) for name, column in predicted.items()}
