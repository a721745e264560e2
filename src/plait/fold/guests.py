"""Guests: entities that a question is asked for, and that no fit stores.

Where only guests are asked for, the fit that answers has them in the place of all others of their kind: their rows are
new, and everything else is what it was, not copied.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from plait.data.binding.given import Exposures, term_key
from plait.data.labels.names import Labels
from plait.data.observing.closed import Closed
from plait.data.observing.link_store import LinksInMemory
from plait.errors import DataError
from plait.fold.blocks import blocks_of, refuse_exposed, restricted
from plait.fold.folding import check, grown, refuse_known, shown, solved
from plait.fold.reading import Growth, read, rule_of
from plait.fold.solving import Piece, Solution
from plait.infer.state import Kept
from plait.run.record import Fitted, Posterior, posterior_of, prior_of

Fit = TypeVar("Fit", bound=Fitted)

WHAT = "`new`"
ITERATIONS = 10  # as fold_in does by default


class Guests:
    """Rows of guests, read and solved; fit: that of all others."""

    def __init__(self, fit: Fitted, new: Any, iterations: int = ITERATIONS) -> None:
        check(fit, iterations, WHAT)
        self.fit, self.iterations = fit, iterations
        for name in fit.known:
            rule_of(fit, name, WHAT)
        self.growth, self.fresh = read(fit, new, WHAT)
        refuse_known(self.fresh, self.growth)
        if not any(self.growth.new(axis) for axis in fit.model.axes):
            raise DataError("`new` names no new entity.", hint="Leave it out.")
        self.blocks = blocks_of(fit, self.growth, self.fresh, WHAT)
        self.solutions, self.seconds = solved(fit, self.growth, self.blocks, iterations, WHAT)

    def only(self, relation: str, names: Mapping[str, Any]) -> bool:
        """Whether a question about a relation is about guests only; names: those asked for by index, where any are."""
        indices = self.fit.model.equation(relation).indices
        new = [index for index in indices if self.growth.new(index)]
        if len({self.fit.model.axis(index) for index in new}) < len(new) or not names.keys() >= set(new):
            return False
        try:
            rows = [self.growth.labels[index].encode(names[index], unknown="mark") for index in new]
        except DataError:
            return False
        return all((own >= self.growth.old[index]).all() for index, own in zip(new, rows))

    def beside(self) -> Fitted:
        """The fit with guests beside all others."""
        return grown(self.fit, self.growth, self.fresh, self.blocks, self.solutions, self.seconds, self.iterations)

    def alone(self, relation: str) -> Fitted:
        """The fit with guests in the place of others, good for questions about one relation only."""
        growth, fit = self.growth, self.fit
        equation, known = fit.model.equation(relation), fit.known[relation]
        refuse_exposed(fit, growth, equation, WHAT)
        pattern = tuple(bool(growth.new(index)) for index in equation.indices)
        labels = {
            index: Labels(own.axis, own.names[growth.old[index] :]) if growth.new(index) else own
            for index, own in growth.labels.items()
        }
        shape = tuple(len(labels[index]) for index in equation.indices)
        own = [block for block in self.blocks if block.equation is equation and block.pattern == pattern]
        links = own[0].links if own else np.zeros(0, bool)
        cells = own[0].listed[links] if own else np.zeros((0, len(shape)), np.uint32)
        values, weights = (own[0].values[links], own[0].own[links]) if own else (np.zeros(0), np.zeros(0))
        tables = {o: t for o, t in known.closed.tables.items() if not any(growth.new(index) for index in o)}
        here = replace(
            known, shape=shape, links=LinksInMemory.of(equation.indices, shape, cells, values, weights),
            closed=Closed(equation.indices, shape, tables), rule=None, boxes=(),
        )  # fmt: skip
        terms = {
            term_key(relation, n): V
            for n in range(len(equation.terms))
            if (V := restricted(fit.exposures.of(relation, n), pattern, shape)) is not None
        }
        common: dict[str, Any] = {
            "labels": labels, "known": fit.known | {relation: here}, "exposures": Exposures(fit.exposures.names, terms),
        }  # fmt: skip
        members = [
            replace(member, **_of_guests(member, growth, solution), **common)
            for member, solution in zip(fit.members, self.solutions)
        ]
        return shown(fit, members)


def _of_guests(member: Fitted, growth: Growth, solution: Solution) -> dict[str, Any]:
    """Posteriors and priors in which guests have the place of others."""
    theirs, priors, gauge = dict[str, Posterior](), dict(member.prior), member.state.gauge or {}
    for name in dict.fromkeys(piece.factor for piece in solution.pieces):
        visible = member.model.factor(name).visible
        piece = Piece(name, tuple(bool(growth.new(index)) for index in visible))
        kept, scale = Kept.of(solution.pieces[piece]), gauge.get(name, 0.0)
        theirs[name] = posterior_of(kept, scale)
        if piece in solution.priors:
            priors[name] = prior_of(kept.layout, solution.priors[piece], scale)
    return {"factors": member.factors | theirs, "prior": priors}


def host(fit: Fit, relation: str, new: Any, names: Mapping[str, Any]) -> Fit:
    """The fit that answers a question with guests; names: what it asks for, by index."""
    guests = Guests(fit, new)
    return cast(Fit, guests.alone(relation) if guests.only(relation, names) else guests.beside())
