"""Candidates of a search: which cells may be proposed.

Rows whose cells are all excluded leave their axis before the search: structural zeros, exposure 0, and pairs whose
other entity is given. Excluded pairs of free indices and known links are skipped where the search meets them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from plait._typing import AnyArray, Flags, Rows
from plait.analysis.topk.contraction import Axis
from plait.data.binding.known import Known
from plait.data.observation.structural_zeros import StructuralZeros, Tables
from plait.data.observation.symmetry import mirrored, orders, without
from plait.data.observation.terms import Term
from plait.data.observation.weights import Weights
from plait.data.sources.relation import tables_of
from plait.data.sources.tables import is_table, read_missing
from plait.errors import DataError, TableLocation
from plait.storage.fitted import Fitted, structural_zeros_of


def read_excluded(fit: Fitted, relation: str, exclude: Any) -> StructuralZeros:
    """Coordinates of the tables (or dicts of columns) of `exclude`, each over some of the indices; unknown names are
    ignored.

    Columns are called like the indices, or as in the data of the fit. A column of values is ignored. Any orientation of
    a cell will do.
    """
    indices, known = fit.model.equation(relation).indices, fit.known[relation]
    given = tables_of(exclude)
    tables: Tables = {}
    for n, one in enumerate(given):
        where = TableLocation("exclude", number=None if len(given) == 1 else n)
        labels = read_missing(_as_table(one, where), where, indices, known.columns, values=("value", known.value))
        over = tuple(index for index in indices if index in labels)
        rows = [fit.entities[index].encode(labels[index], where=where.at(index), unknown="mark") for index in over]
        coords = np.stack(rows, axis=1)
        coords = coords[(coords >= 0).all(axis=1)]
        tables[over] = np.unique(np.concatenate([tables[over], coords]) if over in tables else coords, axis=0)
    excluded = mirrored(tables, indices, known.shape, known.groups)
    return StructuralZeros(indices, known.shape, {over: coords for over, coords in excluded.items() if len(coords)})


def _as_table(table: Any, where: TableLocation) -> Any:
    """A table, or a dict of columns as one."""
    import narwhals.stable.v2 as nw

    from plait.analysis.predict.lookup import as_frame

    if not isinstance(table, dict) and not is_table(table):
        raise DataError(
            f"expected a table, got {type(table).__name__}.",
            location=where,
            hint=(
                "Give a table or a dict of columns, with one or more of the indices as columns; or a list of "
                "such tables."
            ),
        )
    return nw.to_native(as_frame(table, where))


class Candidates:
    """Axes of a search, one per index, and which of their cells are candidates.

    `include_known`: whether known links are candidates. `excluded`: cells excluded by the caller. `places`: positions
    of the indices of `per`. `batched.Blocks` applies the same rules to whole blocks (`refused`, `structural_zeros`,
    `again`, `weights`): change both.
    """

    def __init__(
        self,
        fit: Fitted,
        relation: str,
        axes: Sequence[Axis],
        include_known: bool,
        excluded: StructuralZeros,
        places: Sequence[int],
    ):
        self.known = None if include_known else fit.known[relation]
        self.structural_zeros = structural_zeros_of(fit, relation)
        self.excluded = excluded
        self.weights = _closing(fit, relation)
        self.asked = list(axes)
        self.axes = exposed(self.weights, _exposed_axes([self.structural_zeros, excluded], self.asked))
        self.groups = without(fit.known[relation].groups, places)

    def __call__(self, rows: Rows) -> Flags:
        """Which cells (m, order), as row numbers, may be proposed."""
        allowed = np.ones(len(rows), bool) if self.known is None else ~self.known.contain(rows)
        for rules in (self.structural_zeros, self.excluded):
            if rules:
                allowed &= ~rules.contain(rows)
        if self.weights:
            allowed &= np.any([V.at(rows) > 0 for V in self.weights], axis=0)
        return allowed & ~self.again(rows)

    def again(self, rows: Rows) -> Flags:
        """Which cells (m, order) also occur in an earlier orientation."""
        repeated = np.zeros(len(rows), bool)
        for order in orders(self.groups, rows.shape[1]):
            other = rows[:, order]
            repeated |= _before(other, rows) & _inside(other, self.axes)
        return repeated

    def refused(self) -> list[tuple[list[int], AnyArray]]:
        """Coordinates (n, k) of excluded cells by k places: known links, structural zeros, `exclude`."""
        tables = [
            (c.places(over), coords)
            for c in (self.structural_zeros, self.excluded)
            for over, coords in c.tables.items()
        ]
        return tables if self.known is None else [(list(range(len(self.asked))), self._among(self.known)), *tables]

    def _among(self, known: Known) -> AnyArray:
        """Known links in all their orientations; of links on disk only those of the query."""
        return known.written if known.groups else known.among(lambda cells: _inside(cells, self.asked)).written

    def rules(self) -> list[str]:
        """Rules that exclude cells of the query, in words."""
        rules = [f"structural zeros over {', '.join(over)}" for over in self._meet(self.structural_zeros)]
        if self._meet(self.excluded):
            rules.append("`exclude`")
        if self.weights and not rules and self._known_cells() < math.prod(map(len, self.asked)):
            rules.append("an exposure of 0")
        return rules

    def _meet(self, rules: StructuralZeros) -> list[tuple[str, ...]]:
        """Index sets of the tables that contain any cell of the query."""
        overs = [
            over
            for over, coords in rules.tables.items()
            if _inside(coords, [self.asked[k] for k in rules.places(over)]).any()
        ]
        for slices in rules.diagonals:
            own, other = (self.asked[place].rows[:, 0] for place in slices.pair)
            if np.isin(own, other).any() and _inside(slices.coords, [self.asked[k] for k in slices.over]).any():
                overs.append(tuple(rules.indices[place] for place in slices.pair))
        return overs

    def _known_cells(self) -> int:
        """Number of cells of the query that are excluded as known."""
        return 0 if self.known is None else int(np.count_nonzero(_inside(self._among(self.known), self.asked)))


def _exposed_axes(rules: Sequence[StructuralZeros], axes: list[Axis]) -> list[Axis]:
    """The axes without rows whose cells are all excluded."""
    tables = [(one.places(over), coords) for one in rules for over, coords in one.tables.items()]
    axes, before = list(axes), -1
    while (rows := sum(map(len, axes))) != before:  # an axis with a single row decides more pairs
        before = rows
        for places, coords in tables:
            free = [k for k in places if len(axes[k]) != 1]
            if len(free) > 1:
                continue
            at = free[0] if free else places[0]
            here = coords[_inside(coords, [axes[k] for k in places])]
            axes[at] = _without(axes[at], here[:, places.index(at)])
    return axes


def _before(cells: Rows, others: Rows) -> Flags:
    """Which cells (m, order) precede others (m, order) lexicographically."""
    earlier, tied = np.zeros(len(cells), bool), np.ones(len(cells), bool)
    for mine, theirs in zip(cells.T, others.T):
        earlier |= tied & (mine < theirs)
        tied &= mine == theirs
    return earlier


def _inside(coords: AnyArray, axes: Sequence[Axis]) -> Flags:
    """Which coordinates (n, k) are among the rows of k axes."""
    inside = np.ones(len(coords), bool)
    for k, axis in enumerate(axes):
        if not axis.whole:
            inside &= np.isin(coords[:, k], axis.rows[:, 0])
    return inside


def _without(axis: Axis, rows: Rows) -> Axis:
    kept = ~np.isin(axis.rows[:, 0], rows)
    return axis if kept.all() else replace(axis, rows=axis.rows[kept], whole=False)


def _closing(fit: Fitted, relation: str) -> list[Weights]:
    """V of every term if all have one: a cell is excluded where all are 0. Else empty."""
    weights = [fit.exposures.of(relation, number) for number in range(len(fit.model.equation(relation).terms))]
    return [] if any(V is None for V in weights) else [V for V in weights if V is not None]


def exposed(weights: Sequence[Weights], axes: list[Axis]) -> list[Axis]:
    """The axes without rows of exposure 0."""
    if not weights:
        return axes
    result = []
    for index, axis in zip(weights[0].indices, axes):
        some = np.zeros(weights[0].sizes[index], bool)
        for term in (term for V in weights for term in V.terms):
            some |= _reached(term, index, len(some))
        result.append(_without(axis, np.flatnonzero(~some)))
    return result


def _reached(term: Term, index: str, size: int) -> Flags:
    """Rows of an index at which a term may be nonzero."""
    if index in term.vectors:
        return np.asarray(term.vectors[index] != 0)
    if index not in term.table_indices:
        return np.ones(size, bool)
    assert term.table is not None
    reached = np.zeros(size, bool)
    reached[term.table.column(index)] = True
    return reached
