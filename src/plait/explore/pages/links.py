"""Known links as rows of tables: which ones match, and a page of them at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from plait.data.binding.known import Known
from plait.explore.site import Site
from plait.files.formulas import escape_formulas
from plait.show.document import Ref
from plait.types import AnyArray, Array, Flags, Rows

PIECE = 20_000  # rows of a csv file that are written at once


@dataclass(frozen=True)
class Filter:
    """Links of some entities, and of values from least to most."""

    rows: Mapping[int, int]  # place -> row
    least: float | None = None
    most: float | None = None

    @property
    def empty(self) -> bool:
        """Whether all links pass."""
        return not self.rows and self.least is None and self.most is None


def matching(known: Known, wanted: Filter) -> tuple[AnyArray, Array, Rows | None]:
    """Cells and values that links are taken from, and which of them match; None: all."""
    if wanted.empty:
        return known.cells, known.values, None
    near = known.among(partial(_has, wanted.rows)) if wanted.rows else known
    cells, values = near.cells, near.values
    found = _has(wanted.rows, cells)
    if wanted.least is not None:
        found &= values >= wanted.least
    if wanted.most is not None:
        found &= values <= wanted.most
    return cells, values, np.flatnonzero(found)


def _has(rows: Mapping[int, int], cells: AnyArray) -> Flags:
    found = np.ones(len(cells), bool)
    for place, row in rows.items():
        found &= cells[:, place] == row
    return found


def chosen(cells: AnyArray, values: Array, numbers: Rows | None, at: slice) -> tuple[AnyArray, Array]:
    """A page of them."""
    own: Any = at if numbers is None else numbers[at]
    return cells[own], values[own]


def table_rows(site: Site, relation: str, cells: AnyArray, values: Array) -> list[list[Any]]:
    """Names that lead to their pages, the value, and a way to the reasons."""
    names, indices = site.names, site.fit.model.equation(relation).indices
    return [
        [*(names.ref(i, int(row)) for i, row in zip(indices, cell)), Ref("why", names.cell_address(relation, cell)),
         float(value)]
        for cell, value in zip(cells, values)
    ]  # fmt: skip


def frame(site: Site, relation: str, cells: AnyArray, values: Array) -> pl.DataFrame:
    """Links as a table of names and values."""
    indices = site.fit.model.equation(relation).indices
    columns = {i: site.fit.labels[i].names.gather(np.asarray(cells[:, k], np.int64)) for k, i in enumerate(indices)}
    return pl.DataFrame({**columns, "value": values})


def csv(site: Site, relation: str, wanted: Filter, most: int) -> Iterator[bytes]:
    """A csv file of links, piece by piece, of so many rows at the most."""
    cells, values, numbers = matching(site.fit.known[relation], wanted)
    count = min(most, len(cells) if numbers is None else len(numbers))
    for at in range(0, max(count, 1), PIECE):
        piece = frame(site, relation, *chosen(cells, values, numbers, slice(at, min(at + PIECE, count))))
        yield escape_formulas(piece).write_csv(include_header=at == 0).encode()


def predicted_rows(site: Site, relation: str, table: pl.DataFrame, columns: Sequence[str]) -> list[list[Any]]:
    """Rows of a table of `fit.top` or `fit.surprising`: names that lead to their pages, and some of its columns."""
    names, indices = site.names, site.fit.model.equation(relation).indices
    rows = np.stack([site.fit.labels[i].encode(table[i]) for i in indices], axis=1) if indices else np.zeros((1, 0))
    return [
        [*(names.ref(i, int(row)) for i, row in zip(indices, cell)), Ref("why", names.cell_address(relation, cell)),
         *(table[column][n] for column in columns)]
        for n, cell in enumerate(rows)
    ]  # fmt: skip
