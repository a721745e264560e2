"""From bound data to the parts of a problem; and the problem of a loop that goes on."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from plait.data.binding.given import Exposures
from plait.data.bound import BoundRelation, Data
from plait.data.cells.sorting import sort_cells
from plait.data.cells.trees import Forest
from plait.data.observing.undirected import each_once
from plait.data.observing.weights import PIECE, Weights
from plait.errors import DataError, TableLocation
from plait.execute import Executor
from plait.infer.packed_links import nonzeros_of
from plait.infer.problem import Method, Problem
from plait.infer.relation import Part, Uses
from plait.infer.state import State
from plait.model import Summand
from plait.types import AnyArray


def parts_of(data: Data, exposures: Exposures) -> list[Part]:
    """All relations as inference needs them."""
    return [part_of(data, name, exposures) for name in data.model.relations]


def go_on(
    parts: Sequence[Part], state: State, method: Method, free: tuple[str, ...], executor: Executor, forest: Forest
) -> Problem:
    """The problem of a loop that was interrupted, at the state it was left in."""
    factors = {name: kept.factor() for name, kept in state.factors.items()}
    method = "em" if state.history[-1].warm_up else method
    return Problem(method, parts, factors, free, dict(state.priors), executor, forest, dict(state.learnt))


def part_of(data: Data, name: str, exposures: Exposures) -> Part:
    """One relation as inference needs it; under an exposure the weights of a term are M·V."""
    relation, equation = data.relations[name], data.model.equation(name)
    given = tuple(exposures.of(name, n) for n in range(len(equation.terms)))
    if all(V is not None for V in given):
        _check_exposure(relation, data, cast(tuple[Weights, ...], given))
    M = each_once(relation.weights, relation.groups)
    return Part(
        name,
        relation.likelihood,
        relation.indices,
        dict(zip(relation.indices, relation.shape)),
        tuple(_uses(term, exposures) for term in equation.terms),
        nonzeros_of(relation.links, given),
        tuple(M if V is None else M * V for V in given),
    )


def _uses(term: Summand, exposures: Exposures) -> Uses:
    """The factors of a term that are not exposures."""
    return tuple((o.factor, o.indices) for o in term.occurrences if o.factor not in exposures.names)


def _check_exposure(relation: BoundRelation, data: Data, exposures: Sequence[Weights]) -> None:
    """A link where every term has V = 0 is impossible under any factors."""
    found: list[AnyArray] = []
    for cells, _, _ in relation.links.pieces(PIECE):
        found.append(cells[np.max([V.at(cells) for V in exposures], axis=0) <= 0])
    bad = np.concatenate(found) if found else np.zeros((0, 0))
    if len(bad):
        cell = sort_cells(bad, relation.shape)[1][0]  # blocks on disk have another order
        names = ", ".join(f"{i}={data.labels[i][int(row)]!r}" for i, row in zip(relation.indices, cell))
        raise DataError(
            f"the link at {names} has exposure 0, so it cannot happen ({len(bad):,} such).",
            location=TableLocation.of(relation.name),
            hint="Give these cells a positive exposure, for example a small default.",
        )
