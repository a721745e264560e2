"""Scorer: a fit that scores the cells of a test set, in the test set's row numbers.

Compared fits may number their entities differently, and know different ones. The test set has the numbers of one fit;
`Scorer.of` finds those of the others by name. Entities with equal rows in all factors of all members, such as those
without data, have equal predictions and are scored once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Rows
from plait.analysis.predict.operands import meetings
from plait.data.encoding.names import declaring
from plait.data.sparse.keys import columns_of, pack
from plait.errors import DataError, TableLocation, quoted
from plait.evaluation import metrics
from plait.storage.fitted import Fitted

if TYPE_CHECKING:
    from plait.result import Fit


def alike(fit: Fitted, relation: str) -> tuple[Rows, ...]:
    """For every index and entity of a relation one with equal predictions: itself, or an earlier one."""
    indices = fit.model.equation(relation).indices
    if relation in fit.calibration and fit.calibration[relation].features:  # features distinguish entities
        return tuple(np.arange(size) for size in fit.known[relation].shape)
    # Exposures distinguish entities, and so does meeting oneself where rows of a factor meet.
    needed = fit.exposures.indices(relation).union(indices[place] for pair in meetings(fit, relation) for place in pair)
    # So do factors over pairs.
    remembered = [o for o in fit.model.equation(relation).occurrences if o.factor in fit.factors]
    needed = needed.union(i for o in remembered if fit.factors[o.factor].pairs is not None for i in o.indices)
    return tuple(
        np.arange(size) if index in needed else _first_equal(_tables(fit, relation, index, size), size)
        for index, size in zip(indices, fit.known[relation].shape)
    )


def _tables(fit: Fitted, relation: str, index: str, size: int) -> list[Array]:
    """Arrays (size, n_columns) on which predictions of an index's entities depend."""
    return [
        np.moveaxis(array, place, 0).reshape(size, -1)
        for member in fit.members
        for occurrence in fit.model.equation(relation).occurrences
        if occurrence.factor in member.factors
        for place, own in enumerate(occurrence.indices)
        if own == index
        for array in (member.factors[occurrence.factor].mean, member.factors[occurrence.factor].scale)
    ]


def _first_equal(tables: Sequence[Array], size: int) -> Rows:
    """For each row the first one that is equal in all tables (size, n_columns)."""
    key, rng = np.zeros(size), np.random.default_rng(0)
    for table in tables:
        key += table @ rng.random(table.shape[1])
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    numbers = first[which.reshape(-1)]
    same = np.ones(size, bool)  # rows with equal sums may differ
    for table in tables:
        same &= (table == table[numbers]).all(axis=1)
    return np.asarray(np.where(same, numbers, np.arange(size)), np.int64)


@dataclass(frozen=True, eq=False)
class Scorer:
    """A fit, and the column of a prediction by which cells are ranked.

    `numbers`: for every index the fit's row numbers of the test set's entities; None where they are the same.
    """

    fit: "Fit"
    relation: str
    score: str
    numbers: tuple[Rows, ...] | None = None

    @classmethod
    def of(cls, fit: "Fit", relation: str, score: str, first: "Fit", name: str = "") -> "Scorer":
        """Scorer of a fit on a test set in the numbers of `first`; `name`: of the fit, for errors."""
        indices = first.model.equation(relation).indices
        if fit is first or all(fit.entities[i].names.equals(first.entities[i].names) for i in indices):
            return cls(fit, relation, score)
        numbers = []
        for index in indices:
            rows = fit.entities[index].encode(
                first.entities[index].names, where=TableLocation("compare", index, noun="index"), unknown="mark"
            )
            if (rows < 0).any():
                unknown = first.entities[index][int(np.argmax(rows < 0))]
                raise DataError(
                    (
                        f"{name!r} lacks {int((rows < 0).sum()):,} of {len(rows):,} entities of {index} "
                        f"that another fit has, such as {quoted(unknown)}."
                    ),
                    location="compare",
                    hint=f"Fit all models with the same {declaring(index)}.",
                )
            numbers.append(np.asarray(rows, np.int64))
        return cls(fit, relation, score, tuple(numbers))

    def scores(self, cells: Rows) -> Array:
        """What cells (n, order) are ranked by, (n,)."""
        from plait.analysis.predict import order
        from plait.analysis.predict.moments import mean_rate

        if self.by_rate:
            return mean_rate(self.fit, self.relation, self._own(cells))
        first, which = self._once(cells)
        return order.order_scores(self.fit, self.relation, self._own(cells[first]))[which]

    def along(self, cells: Rows, place: int, floor: Array) -> Array:
        """The scores (n, size) of cells (n, order) with the entity at one place running over all.

        A score below a cell's floor (n,) may be replaced by another number below it.
        """
        from plait.analysis.predict import order

        equation = self.fit.model.equation(self.relation)
        scores = order.order_along(
            self.fit, self.relation, self._own(cells), equation.indices[place], None if self.by_rate else floor
        )
        return scores if self.numbers is None else np.ascontiguousarray(scores[:, self.numbers[place]])

    def alike(self, cells: Rows) -> Rows:
        """Cells (n, order) with each entity replaced by its first equal one."""
        return np.stack([of[cells[:, place]] for place, of in enumerate(self._alike)], axis=1) if self.shape else cells

    def _once(self, cells: Rows) -> tuple[Rows, Rows]:
        """Distinct cells (n, order) up to equal predictions, and the position of each cell among them."""
        keys = pack(columns_of(self.alike(cells)), self.shape, len(cells))
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        return first, which.reshape(-1)

    @cached_property
    def _alike(self) -> tuple[Rows, ...]:

        own = alike(self.fit, self.relation)
        if self.numbers is None:
            return own
        groups = []
        for same, numbers in zip(own, self.numbers):
            _, first, which = np.unique(same[numbers], return_index=True, return_inverse=True)
            groups.append(first[which.reshape(-1)])
        return tuple(groups)

    def predictive(self, cells: Rows, values: Array) -> tuple[Array, Array, Array]:
        """Mean, P(x > 0) and log predictive probability of values at cells; all (n,)."""
        from plait.analysis.predict.prediction import columns

        first, which = self._once(cells)
        likelihood, state = self.fit.likelihood[self.relation], self.fit.likelihood_params[self.relation]
        wanted: tuple[str, ...] = ("rate", "mean", "variance", "probability")
        if self.relation in self.fit.calibration:  # elsewhere moments give the log-probability of a zero
            wanted = (*wanted, "neg_log_p_zero")
        predicted = columns(self.fit, self.relation, self._own(cells[first]), wanted)
        predicted = {name: column[which] for name, column in predicted.items()}
        moments, probability = (predicted["rate"], predicted["variance"]), predicted["probability"]
        log = metrics.log_probability(values, *moments, probability, likelihood, state)
        if "neg_log_p_zero" in predicted:
            log = np.where(values == 0, -predicted["neg_log_p_zero"], log)
        return predicted["mean"], probability, log

    def known(self) -> Rows:
        """Known links (n, order) of the fit, in the test set's numbers, without those of entities that it lacks."""
        cells = self.fit.known[self.relation].written.astype(np.int64)
        if self.numbers is None:
            return cells
        for place, numbers in enumerate(self.numbers):
            back = np.full(self.fit.known[self.relation].shape[place], -1)
            back[numbers] = np.arange(len(numbers))
            cells[:, place] = back[cells[:, place]]
        return cells[(cells >= 0).all(axis=1)]

    def knows(self, cells: Rows) -> NDArray[np.bool_]:
        """Which cells (n, order) are known links of the fit."""
        return self.fit.known[self.relation].contain(self._own(cells))

    @property
    def by_rate(self) -> bool:
        """Whether cells are ranked by their mean rate, else by their probability."""
        return self.score == "rate" or (self.score == "mean" and not self.fit.likelihood[self.relation].binary)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of entities of each index."""
        return self.fit.known[self.relation].shape if self.numbers is None else tuple(map(len, self.numbers))

    def _own(self, cells: Rows) -> Rows:
        """The fit's row numbers of cells."""
        if self.numbers is None:
            return cells
        columns = [numbers[cells[:, place]] for place, numbers in enumerate(self.numbers)]
        return np.stack(columns, axis=1) if columns else cells
