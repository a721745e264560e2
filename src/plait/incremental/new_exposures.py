"""Exposures of new entities, such as evidence of later periods: `fixed` of `Fit.update` and `Fit.forecast`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from plait.data.binding.given import Exposures, bind_exposure, relation_of, renamed, term_key
from plait.data.bound import Data
from plait.data.encoding.names import Labels
from plait.data.observation.terms import Term, WeightTable
from plait.data.observation.weights import Weights
from plait.data.sources.relation import Exposure
from plait.errors import DataError, ParameterError, TableLocation, suggestion
from plait.storage.fitted import Fitted


def extend_exposures(
    fit: Fitted, entities: Mapping[str, Labels], fixed: Mapping[str, Any] | None, what: str
) -> Exposures:
    """Exposures over all entities; new ones have the default, or the rows that are given."""
    terms = {}
    plain = fit.exposures.names - {sparse.factor for sparse in fit.exposures.summed.values()}
    for key, V in fit.exposures.terms.items():
        indices = fit.model.equation(relation_of(key)).indices
        terms[key] = Weights(V.indices, tuple(len(entities[i]) for i in indices), V.terms)
    for name, rows in (fixed or {}).items():
        if name not in plain:
            have = ", ".join(sorted(plain)) or "none"
            raise ParameterError(
                f"{what}: `fixed`: {name!r} is not a fixed factor over visible indices.",
                hint=f"{suggestion(name, sorted(plain))}These are: {have}.",
            )
        added = _rows(fit, entities, name, rows, what)
        for equation in fit.model.equations:
            for number, term in enumerate(equation.terms):
                for use in (o for o in term.occurrences if o.factor == name):
                    if sum(o.factor in fit.exposures.names for o in term.occurrences) > 1:
                        raise ParameterError(
                            f"{what}: `fixed`: {name} multiplies another exposure in {equation.relation}.",
                            hint="Multiply the two into one before the fit.",
                        )
                    key = term_key(equation.relation, number)
                    terms[key] += renamed(added, use.indices).over(equation.indices, terms[key].shape)
    summed = {
        key: replace(sparse, shape=tuple(len(entities[index]) for index in sparse.indices))
        for key, sparse in fit.exposures.summed.items()
    }
    return Exposures(fit.exposures.names, terms, summed)


def _rows(fit: Fitted, entities: Mapping[str, Labels], name: str, rows: Any, what: str) -> Weights:
    """What new rows add to the default of an exposure, over its indices."""
    default, where = _default(fit, name), TableLocation(name)
    if not isinstance(rows, Exposure):
        rows = Exposure(rows, default=default)
    if rows.default not in (None, default):
        raise ParameterError(
            f"{what}: `fixed`: the default of {name} is {rows.default:g}, but {default:g} in the fit.",
            hint="Remove it.",
        )
    rows = Exposure(rows.table, default, rows.columns, rows.value)
    indices = fit.model.factor(name).indices
    old = np.array([len(fit.entities[index]) for index in indices])
    sizes = {index: len(own) for index, own in entities.items()}
    V = bind_exposure(rows, indices, Data(fit.model, entities, sizes, {}, {}), name)
    for term in V.terms:
        cells = np.zeros((0, len(indices)), np.int64) if term.table is None else term.table.coords
        if term.vectors or (cells < old).all(axis=1).any():
            raise DataError(
                "a row has known entities only, whose values cannot change.",
                location=where,
                hint="Give rows of new entities, such as later periods.",
            )
    return V - default


def _default(fit: Fitted, name: str) -> float:
    """Value of an exposure at cells that its table does not list."""
    for equation in fit.model.equations:
        for number, term in enumerate(equation.terms):
            if any(o.factor == name for o in term.occurrences):
                V = fit.exposures.terms[term_key(equation.relation, number)]
                return sum(own.coefficient for own in V.terms if own.table is None and not own.vectors)
    return 0.0


def restricted(weights: Weights | None, starts: tuple[int, ...], shape: tuple[int, ...]) -> Weights | None:
    """An exposure in a block of rows from `starts` on."""
    if weights is None:
        return None
    begin, size = dict(zip(weights.indices, starts)), dict(zip(weights.indices, shape))

    def inside(term: Term) -> Term | None:
        vectors = {index: own[begin[index] : begin[index] + size[index]] for index, own in term.vectors.items()}
        table = term.table
        if table is None or all(weights.sizes[index] == size[index] for index in table.indices):
            return Term(term.coefficient, vectors, table)
        low = np.array([begin[index] for index in table.indices])
        high = low + np.array([size[index] for index in table.indices])
        coords = table.coords
        kept = ((coords >= low) & (coords < high)).all(axis=1)
        cells = (coords[kept] - low).astype(coords.dtype)
        return (
            Term(term.coefficient, vectors, WeightTable(table.indices, cells, table.values[kept]))
            if len(cells)
            else None
        )

    terms = (inside(term) for term in weights.terms)
    return Weights(weights.indices, shape, tuple(term for term in terms if term is not None))
