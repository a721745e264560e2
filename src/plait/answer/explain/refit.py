"""How much smaller the mean of a cell is when everything is fitted again without a known link.

The fit goes on from where it stands, its priors held, until the mean of the cell stands still: once with its own data,
and once for each link with data in which that link alone differs (`changing`). A fit keeps its known links but not what
else was observed, so it is given its data again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from plait.answer.explain.changing import Change, changed
from plait.answer.explain.latent import operands, rows_at
from plait.data.binding.bind import bind
from plait.data.binding.resample import reweighed
from plait.data.bound import Data
from plait.data.cells.trees import Forest
from plait.errors import SettingError
from plait.execute import Threads
from plait.infer.loop import Settings, run
from plait.infer.parts import go_on, parts_of
from plait.infer.problem import Method
from plait.infer.start import begin_vb
from plait.infer.state import Kept, Record, State
from plait.infer.stop import Reason, Stop
from plait.model.network import contract
from plait.run.fingerprint import fingerprint
from plait.run.record import Fitted
from plait.types import Rows

Without = Literal["zero", "missing"]

EVERY = 10  # sweeps between two looks at the mean
STILL = 1e-7  # of the mean: a change below this in `EVERY` sweeps is none
MOST = 2000  # sweeps


def as_without(exact: Any, data: Any) -> Without | None:
    """The argument `exact` in its full form."""
    if not any(exact is word for word in (False, True)) and exact not in ("zero", "missing"):
        raise SettingError.must_be("exact", 'False, True, "zero" or "missing"', exact)
    if exact is False:
        if data is not None:
            raise SettingError(
                "`data` is given, but only `exact=True` fits again.",
                hint="Leave it out, or say `exact=True`.",
            )
        return None
    if data is None:
        raise SettingError(
            "exact fits again, and a fit does not keep all of its data.",
            location="explain",
            hint="Hand them over once more, `data=data`.",
        )
    return "zero" if exact is True else cast(Without, exact)


class OtherDataError(SettingError):
    """The data handed over are not those of the fit."""


def same_data(fit: Fitted, data: Mapping[str, Any] | Data) -> Data:
    """The data of a fit, bound as they were; others are refused."""
    if not isinstance(data, Data):
        data = bind(fit.model, data, {axis: fit.labels[axis].names.to_list() for axis in fit.model.axes})
    found = fit.settings.get("weights", {})
    data = data.weighing({name: found.get(name, 1.0) for name in data.open_weights})
    given = {name: kept.parameters for name, kept in fit.state.factors.items() if name not in fit.state.divergences}
    if fingerprint(data, fit.exposures, cast(Any, given)) != fit.fingerprint:
        raise OtherDataError(
            "data differ from those of the fit, so that fitting again would compare two things at once.",
            location="explain",
            hint="Hand over what was given to plait.fit, with the same relations, weights and missing cells.",
        )
    return data


def losses(
    fit: Fitted, data: Data, relation: str, cell: Rows, links: Sequence[tuple[str, int]], without: Without
) -> list[float]:
    """By what fraction the mean of a cell falls without each link, a relation and its number among the known ones."""
    if not links:
        return []
    value = 0.0 if without == "zero" else None

    def mean(change: Change | None) -> float:
        return mean_of(fit, settle_all(fit, data, relation, cell, change), relation, cell)

    before = mean(None)
    known = data.relations
    return [1.0 - mean(Change(name, known[name].cells[number], value)) / before for name, number in links]


def settle_all(
    fit: Fitted, data: Data, relation: str, cell: Rows, change: Change | None, told: Callable[[int], None] | None = None
) -> list[State]:
    """Where each member of a fit settles with its data, in which one cell may be changed. told: hears of sweeps."""
    executor, found = Threads(fit.settings.get("threads")), list[State]()
    for member in fit.members:
        own = _seen(fit, member, data)
        own = own if change is None else changed(own, change)
        found.append(_settle(member, own, relation, cell, executor, told or (lambda sweep: None)))
    return found


def mean_of(fit: Fitted, states: Sequence[State], relation: str, cell: Rows) -> float:
    """The mean of a cell in states of a fit's members: their average."""
    means = [_mean(member, relation, cell, state) for member, state in zip(fit.members, states)]
    return sum(means) / len(means)


def _seen(fit: Fitted, member: Fitted, data: Data) -> Data:
    """The data as a member of a fit saw them."""
    return reweighed(data, member.seed) if fit.settings.get("bootstrap") and member.seed != fit.seed else data


def _settle(
    fit: Fitted, data: Data, relation: str, cell: Rows, executor: Threads, told: Callable[[int], None]
) -> State:
    """Where the fit goes on to with these data, until the mean of a cell stands still."""
    free = tuple(name for name in fit.model.factors if name in fit.state.divergences)
    parts = parts_of(data, fit.exposures)
    problem = go_on(parts, fit.state, cast(Method, fit.method), free, executor, Forest())
    if fit.history[-1].warm_up:
        problem = begin_vb(problem, np.dtype(fit.settings["dtype"]))
    means: list[float] = []

    def keep(look: Callable[[], State]) -> None:
        state = look()
        told(state.history[-1].sweep)
        if state.history[-1].sweep % EVERY == 0:
            means.append(_mean(fit, relation, cell, state))

    def watch(record: Record) -> Stop | None:
        if record.sweep % EVERY or len(means) < 2:
            return None
        still = abs(means[-1] - means[-2]) <= STILL * means[-1]
        return Stop(Reason.CONVERGED, "converged: the mean stands still.") if still else None

    return run(problem, Settings(MOST, 0.0, {}), watch, keep).state


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


def _written(kept: Kept) -> NDArray[np.float64]:
    if kept.concentration is None or kept.scale is None:
        assert kept.mean is not None
        return kept.layout.written(kept.mean)
    return kept.layout.written(kept.concentration * kept.scale)
