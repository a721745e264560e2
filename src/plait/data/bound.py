"""Bound data: every relation as sorted cells, values and weights, and one `Labels` per axis."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.encoding.names import Labels
from plait.data.observation.links import Links
from plait.data.observation.observed import Rule
from plait.data.observation.structural_zeros import StructuralZeros
from plait.data.observation.symmetry import Groups, canonical, count_cells
from plait.data.observation.weights import Weights
from plait.model.model import Model

if TYPE_CHECKING:
    from plait.likelihood import Likelihood


DIAGONAL_WORDS = {
    "missing": "missing",
    "observed": "observed",
}


@dataclass(frozen=True, eq=False)
class BoundRelation:
    """A relation as a fit needs it.

    `links`: cells with X > 0 and M > 0, with X and M. `weights`: M everywhere. `structural_zeros`: cells that a
    rule excludes. `columns`, `value`: column names of a table. `seen`: entities of unhidden rows, by index (empty for
    arrays, which have them all). `self_links`: "missing" or "observed"; "" where there are none. `open_weight`: whether
    a fit has to find its weight, 1 so far. `groups`: exchangeable positions (`observation.symmetry`): links are in
    canonical orientation and count once, M has all orientations. `rule`: observation of cells of new entities. `kind`:
    library of the table. `likelihood_by`: why this likelihood was chosen, "" where it was given. The rest are counts
    for summaries: `observed_cells` have M > 0, `dropped_self_links` were listed and dropped.
    """

    name: str
    indices: tuple[str, ...]
    shape: tuple[int, ...]
    links: Links
    weights: Weights
    likelihood: "Likelihood"
    observed_cells: int
    seen: Mapping[str, NDArray[np.bool_]]
    summed: int
    structural_zeros: StructuralZeros
    columns: Mapping[str, str]
    value: str | None
    self_links: str
    open_weight: bool = False
    groups: Groups = ()
    dropped_self_links: int = 0
    kind: str = "polars"
    rule: Rule | None = None
    likelihood_by: str = ""

    @property
    def cells(self) -> AnyArray:
        """Coordinates of the links, (n, order)."""
        return self.links.cells()

    @property
    def values(self) -> Array:
        """Values of the links, (n,)."""
        return self.links.values

    def values_at(self, cells: AnyArray) -> Array:
        """X at cells (m, order), 0 without a link."""
        return self.links.find(canonical(cells, self.groups))

    @property
    def cell_weights(self) -> Array:
        """M at the links, (n,)."""
        return self.links.weights

    @property
    def n_unseen(self) -> dict[str, int]:
        """Number of entities without a row, by index."""
        return {index: int(np.count_nonzero(~vector)) for index, vector in self.seen.items()}

    @property
    def total_cells(self) -> int:
        """Number of all cells, observed or not."""
        return count_cells(self.shape, self.groups)

    @property
    def observed_zeros(self) -> int:
        """Number of zeros with M > 0."""
        return self.observed_cells - len(self.links)

    @property
    def missing_cells(self) -> int:
        """Number of cells with M = 0."""
        return self.total_cells - self.observed_cells

    @property
    def _total(self) -> str:
        """Sum of values as text; not computed for links on disk."""
        return f", sum of values {self.values.sum():g}" if self.links.in_memory else ""

    def weighing(self, weight: float) -> "BoundRelation":
        """The relation with all weights times a positive number, which settles `open_weight`."""
        return replace(
            self,
            weights=self.weights * weight,
            links=self.links.times(weight),
            rule=self.rule and replace(self.rule, weight=self.rule.weight * weight),
            open_weight=False,
        )

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        shape = " × ".join(f"{size:,}" for size in self.shape) or "one cell"
        cells = f", undirected: {self.total_cells:,}" if self.groups else f" = {self.total_cells:,}"
        lines = [f"{self.name}[{', '.join(self.indices)}]: {shape}{cells} cells"]
        lines.append(f"observed links  {len(self.links):,}{self._total}")
        lines.append(f"observed zeros  {self.observed_zeros:,}")
        lines.append(f"missing cells   {self.missing_cells:,}")
        if self.self_links:
            lines.append(f"self-links      {DIAGONAL_WORDS[self.self_links]}")
        if self.dropped_self_links:
            lines.append(f"self-links      {self.dropped_self_links:,} dropped: the equation excludes them")
        for index, count in self.n_unseen.items():
            if count:
                lines.append(f"without links   {count:,} of {self.shape[self.indices.index(index)]:,} {index}")
        if self.summed:
            lines.append(f"duplicates      {self.summed:,} row{'' if self.summed == 1 else 's'} summed")
        lines.append(
            f"likelihood      {self.likelihood}{f' (auto: {self.likelihood_by})' if self.likelihood_by else ''}"
        )
        lines.append(f"weights         {self.weights}")
        if self.open_weight:
            lines.append("weight          auto: plait.fit chooses it")
        return "\n  ".join(lines)


@dataclass(frozen=True, eq=False)
class Data:
    """All relations of a model, bound. labels by axis and by index; sizes by visible index; relations by name.

    seen: by visible index, the rows that some relation has data of, in ascending order of their names; not there where
    these are all rows as they stand.
    """

    model: Model
    entities: Mapping[str, Labels]
    sizes: Mapping[str, int]
    relations: Mapping[str, BoundRelation]
    seen: Mapping[str, NDArray[np.int64]]

    @property
    def open_weights(self) -> tuple[str, ...]:
        """Relations whose weight a fit has to find."""
        return tuple(name for name, relation in self.relations.items() if relation.open_weight)

    def weighing(self, weights: Mapping[str, float]) -> "Data":
        """The data with the weights of some relations multiplied."""
        changed = {name: self.relations[name].weighing(weight) for name, weight in weights.items()}
        return replace(self, relations={**self.relations, **changed})

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        axes = ", ".join(f"{axis} {len(self.entities[axis]):,}" for axis in self.model.axes)
        return "\n".join([f"axes: {axes or 'none'}", *map(str, self.relations.values())])

    def _repr_html_(self) -> str:
        from plait.rendering.html import render
        from plait.rendering.objects import describe_data

        return render(describe_data(self))
