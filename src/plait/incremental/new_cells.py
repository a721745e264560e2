"""Cells of new entities in blocks: along each index either the old entities or the new ones.

Each block is a separate relation, in which every factor has the rows of the block; rows of old entities are fixed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.binding.self_links import all_of
from plait.data.observation.observed import Rule, observe
from plait.data.observation.structural_zeros import Tables
from plait.data.observation.symmetry import Groups, each_once
from plait.data.observation.weights import Weights
from plait.data.sparse.csf_index import CSFIndex, distinct
from plait.errors import DataError, ParameterError, TableLocation
from plait.incremental.new_exposures import restricted
from plait.incremental.new_rows import Extension, Fresh, rule_of
from plait.model.model import Equation
from plait.storage.fitted import Fitted

Pattern = tuple[bool, ...]  # along each index: whether rows are new


@dataclass(frozen=True, eq=False)
class NewCells:
    """Cells of a relation with rows from `starts` on along each index.

    `listed`, `values`, `own`: its listed cells by the rows of the block, X and M there; `weights`: M of all its cells,
    in all orientations (`groups`: exchangeable positions). `exposures`: V by term, None without one.
    """

    equation: Equation
    pattern: Pattern
    starts: tuple[int, ...]
    shape: tuple[int, ...]
    listed: AnyArray
    values: Array
    own: Array
    weights: Weights
    groups: Groups
    exposures: tuple[Weights | None, ...]

    @property
    def links(self) -> NDArray[np.bool_]:
        """Which listed cells are links."""
        return np.asarray((self.values > 0) & (self.own > 0))

    @property
    def once(self) -> Weights:
        """M with each cell once."""
        return each_once(self.weights, self.groups)

    def cell(self, rows: Mapping[str, int], growth: Extension) -> str:
        """A cell of the block by its names, for errors."""
        numbers = {index: rows[index] + start for index, start in zip(self.equation.indices, self.starts)}
        return ", ".join(f"{index}={growth.entities[index][number]!r}" for index, number in numbers.items())


def blocks_of(fit: Fitted, growth: Extension, fresh: Mapping[str, Fresh], what: str) -> list[NewCells]:
    """All blocks with a new entity and observed cells, of all relations."""
    blocks = []
    for equation in fit.model.equations:
        if not any(growth.new(index) for index in equation.indices):
            continue
        rule = rule_of(fit, equation.relation, what)
        if equation.relation not in fresh and rule.unseen == "missing":
            continue  # no new entity on its axes
        refuse_exposed(fit, growth, equation, what)
        for pattern in patterns(growth, equation, fit.known[equation.relation].groups):
            block = _block_of(fit, growth, equation, rule, fresh.get(equation.relation), pattern)
            if block.weights.terms:
                blocks.append(block)
    return blocks


def patterns(growth: Extension, equation: Equation, groups: Groups) -> Iterator[Pattern]:
    """All blocks with a new entity; among exchangeable positions, those with old entities first."""
    kinds = [(False, True) if growth.new(index) else (False,) for index in equation.indices]
    for pattern in product(*kinds):
        first = all(list(own) == sorted(own) for own in ([pattern[place] for place in group] for group in groups))
        if any(pattern) and first:
            yield pattern


def refuse_exposed(fit: Fitted, growth: Extension, equation: Equation, what: str) -> None:
    """Refuse new entities of an index over which an exposure varies."""
    for number in range(len(equation.terms)):
        weights = fit.exposures.of(equation.relation, number)
        for index in {index for term in (weights.terms if weights else ()) for index in term.vectors}:
            if growth.new(index):
                raise ParameterError(
                    f"{what}: {equation.relation} has an exposure over {index}, which is unknown for "
                    f"{growth.entities[index][growth.old[index]]!r}.",
                    location=TableLocation(equation.relation),
                    hint="Fit again with the new entities and their exposures.",
                )


def _block_of(
    fit: Fitted, growth: Extension, equation: Equation, rule: Rule, fresh: Fresh | None, pattern: Pattern
) -> NewCells:
    indices, known = equation.indices, fit.known[equation.relation]
    old = tuple(growth.old[index] for index in indices)
    starts = tuple(n if new else 0 for n, new in zip(old, pattern))
    shape = tuple(growth.new(index) if new else n for index, n, new in zip(indices, old, pattern))
    listed, values, own = _inside(fresh, pattern, old, starts)
    groups = _split(known.groups, pattern)
    hidden = _hidden(fit, rule, fresh, equation, pattern, old, starts, shape, listed)
    observed = observe(
        indices, shape, CSFIndex.of(indices, shape, listed), own, rule.unlisted,
        _observed_rows(rule, fresh, indices, pattern, old, shape), hidden, rule.weight, groups,
    )  # fmt: skip
    exposures = tuple(
        restricted(growth.exposures.of(equation.relation, number), starts, shape)
        for number in range(len(equation.terms))
    )
    return NewCells(
        equation, pattern, starts, shape, listed, values, observed.listed, observed.weights, groups, exposures
    )


def _inside(
    fresh: Fresh | None, pattern: Pattern, old: tuple[int, ...], starts: tuple[int, ...]
) -> tuple[AnyArray, Array, Array]:
    """Listed cells of a block by its own rows, their values and weights."""
    if fresh is None:
        return np.zeros((0, len(old)), np.uint32), np.zeros(0), np.zeros(0)
    coords = fresh.entries.coords
    mine = ((coords >= np.array(old, coords.dtype)) == np.array(pattern)).all(axis=1)
    cells = np.ascontiguousarray(coords[mine] - np.array(starts, coords.dtype))
    return cells, np.asarray(fresh.entries.values[mine], np.float64), np.asarray(fresh.weights[mine], np.float64)


def _split(groups: Groups, pattern: Pattern) -> Groups:
    """Exchangeable positions within a block: old rows separate from new ones."""
    parts = (tuple(place for place in group if pattern[place] == new) for group in groups for new in (False, True))
    return tuple(part for part in parts if len(part) > 1)


def _observed_rows(
    rule: Rule, fresh: Fresh | None, indices: tuple[str, ...], pattern: Pattern, old: tuple[int, ...],
    shape: tuple[int, ...],
) -> dict[str, NDArray[np.bool_]]:  # fmt: skip
    """Rows of a block that the relation has, by index."""
    entities = {}
    for index, new, start, size in zip(indices, pattern, old, shape):
        rows = np.zeros(0, np.int64) if fresh is None else fresh.mentioned[index]
        if new and rule.unseen == "missing":
            entities[index] = np.zeros(size, bool)
            entities[index][rows[rows >= start] - start] = True
        elif not new and index in rule.seen:
            entities[index] = rule.seen[index].copy()
            entities[index][rows[rows < start]] = True
    return entities


def _hidden(
    fit: Fitted, rule: Rule, fresh: Fresh | None, equation: Equation, pattern: Pattern, old: tuple[int, ...],
    starts: tuple[int, ...], shape: tuple[int, ...], listed: AnyArray,
) -> Tables:  # fmt: skip
    """Unobserved cells of a block by index set: by earlier rules, by new ones, and self-links."""
    indices, hidden = equation.indices, dict[tuple[str, ...], list[AnyArray]]()
    for tables in (rule.hidden, {} if fresh is None else fresh.hidden):
        for over, coords in tables.items():
            places = [indices.index(index) for index in over]
            bounds = np.array([old[k] for k in places])
            mine = ((coords >= bounds) == np.array([pattern[k] for k in places])).all(axis=1)
            if mine.any():
                hidden.setdefault(over, []).append(coords[mine] - np.array([starts[k] for k in places], coords.dtype))
    axes = [fit.model.axis(index) for index in indices]
    square = len(indices) == 2 and axes[0] == axes[1] and rule.self_links == "missing"
    for pair in equation.doubled or ([(indices[0], indices[1])] if square else []):
        first, second = (indices.index(index) for index in pair)
        if pattern[first] and pattern[second]:
            own = all_of(shape[first])
            if not (equation.doubled or rule.apart):  # listed cells are observed
                own = own[~np.isin(own[:, 0], listed[listed[:, 0] == listed[:, 1], 0])]
            hidden.setdefault((indices[first], indices[second]), []).append(own)
    sizes = dict(zip(indices, shape))
    return {over: distinct(np.concatenate(parts), [sizes[i] for i in over]) for over, parts in hidden.items()}


def check_exposed(block: NewCells, growth: Extension) -> tuple[Array | None, ...]:
    """V of every term at the links of a block; a link where all are 0 is refused."""
    cells = block.listed[block.links]
    at = tuple(None if V is None else V.at(cells) for V in block.exposures)
    known = [V for V in at if V is not None]
    if len(known) == len(at) and len(cells) and (np.max(known, axis=0) <= 0).any():
        rows = cells[int(np.argmax(np.max(known, axis=0) <= 0))]
        place = block.cell(dict(zip(block.equation.indices, map(int, rows))), growth)
        raise DataError(
            f"the link at {place} has exposure 0, so its probability is 0.",
            location=TableLocation(block.equation.relation),
            hint="Fit again with the new entities and their exposures.",
        )
    return at
