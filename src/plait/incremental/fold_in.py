"""Fold-in of new entities: `fit.fold_in`, and transient entities of one query (`new_entities=`), which are not stored.

A query for transient entities only is answered by a fit that has them in place of all other entities of their axis; the
other arrays are shared, not copied.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from plait.data.binding.given import Exposures, term_key
from plait.data.encoding.names import Labels
from plait.data.observation.links import LinksInMemory
from plait.data.observation.structural_zeros import StructuralZeros
from plait.data.titles import extended_titles
from plait.errors import DataError, ParameterError, TableLocation
from plait.executors import Threads
from plait.incremental.extend import extend_known, extend_state, mark_of, public
from plait.incremental.new_cells import NewCells, blocks_of, refuse_exposed
from plait.incremental.new_exposures import restricted
from plait.incremental.new_rows import Extension, Fresh, read, rule_of
from plait.incremental.solve_rows import RowSlice, Solution, solve
from plait.inference.state import FactorSnapshot, Record
from plait.storage.fitted import Fitted, Posterior, posterior_of, prior_of

Fit = TypeVar("Fit", bound=Fitted)

FOLD_IN = "fold-in"


def fold_in(fit: Fit, data: Any, *, iterations: int = 10) -> Fit:
    """The fit with new entities; see `Fit.fold_in`."""
    check(fit, iterations, FOLD_IN)
    for name in fit.known:
        rule_of(fit, name, FOLD_IN)
    growth, fresh = read(fit, data, FOLD_IN)
    refuse_known(fresh, growth)
    if not any(growth.new(axis) for axis in fit.model.axes):
        return fit
    blocks = blocks_of(fit, growth, fresh, FOLD_IN)
    solutions, seconds = solved(fit, growth, blocks, iterations)
    return extend_fit(fit, growth, fresh, blocks, solutions, seconds, iterations)


def check(fit: Fitted, iterations: Any, what: str) -> None:
    """Check `iterations`, and refuse a fit that is still in its warm-up."""
    whole = isinstance(iterations, (int, np.integer)) and not isinstance(iterations, bool)
    if not whole or iterations < 1:
        raise ParameterError.must_be("iterations", "an integer of at least 1", iterations)
    if fit.history[-1].warm_up:
        raise ParameterError(f"{what}: the fit is still in its warm-up.", hint="Continue the fit first.")


def refuse_known(fresh: Mapping[str, Fresh], growth: Extension) -> None:
    """Refuse rows without a new entity, which would change nothing."""
    for name, rows in fresh.items():
        entries = rows.entries
        old = np.array([growth.old[index] for index, _ in entries.labels], entries.coords.dtype)
        known = (entries.coords < old).all(axis=1)
        if known.any():
            entry = int(np.argmax(known))
            raise DataError(
                f"{entries.named(entry) or 'the cell'} has no new entity; each row must contain at least one.",
                location=TableLocation(name, rows=(entries.row(entry),)),
                hint="Remove such rows, or use `update` for links between known entities.",
            )


def solved(
    fit: Fitted, growth: Extension, blocks: Sequence[NewCells], iterations: int, what: str = FOLD_IN
) -> tuple[list[Solution], float]:
    """New rows of all members, and the seconds taken."""
    began, executor = time.perf_counter(), Threads(1)
    states = [solve(member, growth, blocks, iterations, executor, what) for member in fit.members]
    return states, time.perf_counter() - began


def extend_fit(
    fit: Fit, growth: Extension, fresh: Mapping[str, Fresh], blocks: Sequence[NewCells], solutions: Sequence[Solution],
    seconds: float, iterations: int,
) -> Fit:  # fmt: skip
    """The fit and its members with new rows."""
    known = {
        name: extend_known(
            fit.model, name, known, growth, fresh.get(name), [b for b in blocks if b.equation.relation == name]
        )
        for name, known in fit.known.items()
    }
    common: dict[str, Any] = {
        "entities": growth.entities,
        "known": known,
        "exposures": growth.exposures,
        "fingerprint": mark_of(fit, growth, fresh),
        "settings": fit.settings | {"folded": _before(fit, growth)},
        "titles": extended_titles(fit.titles, growth.entities),
    }
    members = []
    for member, solution in zip(fit.members, solutions):
        last = member.state.history[-1]
        bound = last.objective + solution.bound
        record = Record(last.sweep + iterations, bound, float("inf"), seconds, last.rank)
        state = extend_state(member, growth, solution, record)
        factors, priors = public(member, state, growth, solution)
        own: dict[str, Any] = {
            "factors": factors,
            "prior": priors,
            "state": state,
            "objective": bound,
            "history": list(state.history),
        }
        members.append(replace(member, **own, **common))
        changed = {piece.factor for piece in solution.pieces}
        members[-1]._sums.update({key: total for key, total in member._sums.items() if key[0] not in changed})
    return shown(fit, members)


def _before(fit: Fitted, growth: Extension) -> dict[str, int]:
    """Number of entities of each axis from which the other factors were estimated."""
    return dict(fit.settings.get("folded") or {axis: growth.old[axis] for axis in fit.model.axes})


def shown(fit: Fit, members: Sequence[Any]) -> Fit:
    """The fit that shows the same member as before."""
    if not fit.ensemble:
        return cast(Fit, members[0])
    at = next(n for n, member in enumerate(fit.ensemble) if member.state is fit.state)
    own = replace(members[at], seed=fit.seed, stop=fit.stop, ensemble=tuple(members), calibration=fit.calibration)
    return cast(Fit, own)


NEW_ENTITIES = "`new_entities`"
ITERATIONS = 10  # as fold_in does by default


class TransientEntities:
    """New entities of one query; `fit`: that of all others."""

    def __init__(
        self, fit: Fitted, growth: Extension, fresh: Mapping[str, Fresh], blocks: Sequence[NewCells], iterations: int,
        what: str,
    ) -> None:  # fmt: skip
        self.fit, self.growth, self.fresh, self.blocks = fit, growth, fresh, blocks
        self.iterations, self.what = iterations, what
        self.solutions, self.seconds = solved(fit, growth, blocks, iterations, what)

    @classmethod
    def read(cls, fit: Fitted, new: Any, iterations: int = ITERATIONS) -> "TransientEntities":
        """The new entities of some rows."""
        check(fit, iterations, NEW_ENTITIES)
        for name in fit.known:
            rule_of(fit, name, NEW_ENTITIES)
        growth, fresh = read(fit, new, NEW_ENTITIES)
        refuse_known(fresh, growth)
        if not any(growth.new(axis) for axis in fit.model.axes):
            raise DataError("`new_entities` contains no new entity.", hint="Remove it.")
        return cls(fit, growth, fresh, blocks_of(fit, growth, fresh, NEW_ENTITIES), iterations, NEW_ENTITIES)

    def only(self, relation: str, names: Mapping[str, Any]) -> bool:
        """Whether a query about a relation is about new entities only; `names`: of the query by index."""
        indices = self.fit.model.equation(relation).indices
        new = [index for index in indices if self.growth.new(index)]
        if len({self.fit.model.axis(index) for index in new}) < len(new) or not names.keys() >= set(new):
            return False
        try:
            rows = [self.growth.entities[index].encode(names[index], unknown="mark") for index in new]
        except DataError:
            return False
        return all((own >= self.growth.old[index]).all() for index, own in zip(new, rows))

    def added(self) -> Fitted:
        """The fit with new entities after all others."""
        return extend_fit(self.fit, self.growth, self.fresh, self.blocks, self.solutions, self.seconds, self.iterations)

    def alone(self, relation: str) -> Fitted:
        """The fit with new entities in place of others, for queries about one relation."""
        growth, fit = self.growth, self.fit
        equation, known = fit.model.equation(relation), fit.known[relation]
        refuse_exposed(fit, growth, equation, self.what)
        pattern = tuple(bool(growth.new(index)) for index in equation.indices)
        labels = {
            index: Labels(own.axis, own.names[growth.old[index] :]) if growth.new(index) else own
            for index, own in growth.entities.items()
        }
        shape = tuple(len(labels[index]) for index in equation.indices)
        own = [block for block in self.blocks if block.equation is equation and block.pattern == pattern]
        links = own[0].links if own else np.zeros(0, bool)
        cells = own[0].listed[links] if own else np.zeros((0, len(shape)), np.uint32)
        values, weights = (own[0].values[links], own[0].own[links]) if own else (np.zeros(0), np.zeros(0))
        tables = {o: t for o, t in known.structural_zeros.tables.items() if not any(growth.new(index) for index in o)}
        here = replace(
            known, shape=shape, links=LinksInMemory.of(equation.indices, shape, cells, values, weights),
            structural_zeros=StructuralZeros(equation.indices, shape, tables), rule=None, boxes=(),
        )  # fmt: skip
        starts = tuple(growth.old[index] if new else 0 for index, new in zip(equation.indices, pattern))
        terms = {
            term_key(relation, n): V
            for n in range(len(equation.terms))
            if (V := restricted(growth.exposures.of(relation, n), starts, shape)) is not None
        }
        common: dict[str, Any] = {
            "entities": labels,
            "known": fit.known | {relation: here},
            "exposures": Exposures(fit.exposures.names, terms),
        }
        members = [
            replace(member, **_transient_parts(member, growth, solution), **common)
            for member, solution in zip(fit.members, self.solutions)
        ]
        return shown(fit, members)


def _transient_parts(member: Fitted, growth: Extension, solution: Solution) -> dict[str, Any]:
    """Posteriors and priors with new entities in place of others."""
    theirs, priors, log_scales = dict[str, Posterior](), dict(member.prior), member.state.log_scales or {}
    for name in dict.fromkeys(piece.factor for piece in solution.pieces):
        visible = member.model.factor(name).visible
        piece = RowSlice(name, tuple(bool(growth.new(index)) for index in visible))
        kept, scale = FactorSnapshot.of(solution.pieces[piece]), log_scales.get(name, 0.0)
        theirs[name] = posterior_of(kept, scale)
        if piece in solution.priors:
            priors[name] = prior_of(kept.layout, solution.priors[piece], scale)
    return {"factors": member.factors | theirs, "prior": priors}


def with_transient(fit: Fit, relation: str, new: Any, names: Mapping[str, Any]) -> Fit:
    """The fit that answers a query with new entities; `names`: of the query, by index."""
    entities = TransientEntities.read(fit, new)
    # Features of a calibration are about all entities.
    whole = relation in fit.calibration and fit.calibration[relation].features
    return cast(Fit, entities.alone(relation) if entities.only(relation, names) and not whole else entities.added())
