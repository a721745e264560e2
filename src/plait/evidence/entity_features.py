"""Features of entities, of any kind, as columns that are never negative: what a given factor needs.

Text, categories and truth values become a column for each value. Numbers become hats: functions that are 1 at a knot, 0
at all others and straight between, with knots at quantiles. Either way the columns of one feature add up to 1 in every
row, so that no entity has more rate than another only because of how its features are written.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Array
from plait.data.sources.tables import frame_of
from plait.errors import DataError, ParameterError, TableLocation, quoted

if TYPE_CHECKING:
    import narwhals as nw


@dataclass(frozen=True, eq=False)
class Feature:
    """One feature: the values (categories) or knots (numbers) that have a column, and what an unknown value becomes."""

    name: str
    points: tuple[Any, ...]
    numeric: bool
    average: Array

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        sign = "~" if self.numeric else "="
        return [f"{self.name}{sign}{_written(point)}" for point in self.points] or [self.name]

    def columns(self, column: "nw.Series[Any]") -> Array:
        """(rows, columns): of a missing or new value the average row."""
        if not self.points:
            return np.ones((len(column), 1))
        found = _hats(_numbers(column), self.points) if self.numeric else _ones(column.to_list(), self.points)
        return np.where(np.isnan(found), self.average, found)


@dataclass(frozen=True, eq=False)
class Features:
    """Columns for entities. entities: the entities. names: the columns. values (entities, columns): 0 or more.

    `len(features)` is the number of columns, the rank of the index that runs over them.
    """

    entities: tuple[Hashable, ...]
    names: tuple[str, ...]
    values: Array
    entity: str
    parts: tuple[Feature, ...]

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Features of {len(self.entities)} {self.entity}: {', '.join(self.names)}"

    def rows(self, entities: Iterable[Hashable]) -> Array:
        """The array with a row for each of some entities, in their order; one without features has the average row."""
        places = {label: n for n, label in enumerate(self.entities)}
        average = np.concatenate([part.average for part in self.parts])
        found = [self.values[places[label]] if label in places else average for label in entities]
        return np.array(found).reshape(-1, len(self))

    def encode(self, table: Any) -> "Features":
        """The same columns for the entities of another table; a value that has none becomes the average."""
        frame = _frame(table)
        labels = _labels(frame, self.entity)
        for part in self.parts:
            _check_column(frame, part.name)
        values = np.concatenate([part.columns(frame.get_column(part.name)) for part in self.parts], axis=1)
        return Features(labels, self.names, values, self.entity, self.parts)


def features(table: Any, entity: str, *, knots: int = 5) -> Features:
    """Columns of 0 or more for every feature of some entities, to be given as a factor.

    table: a dataframe (or a dict of columns) with a row for each entity. entity: the column that names it; all other
    columns are features. knots: hats that a number becomes, fewer where it has fewer values.

    A missing value becomes the average of all known ones. Infinite numbers are an error.
    """
    if isinstance(knots, bool) or not isinstance(knots, (int, np.integer)) or knots < 2:
        raise ParameterError.must_be("knots", "a whole number, 2 or more", knots)
    frame = _frame(table)
    labels = _labels(frame, entity)
    parts = tuple(_feature(frame.get_column(name), int(knots)) for name in frame.columns if name != entity)
    if not parts:
        raise DataError(
            f"the table has no column besides {quoted(entity)}.",
            location="features",
            hint="Give it one for each feature.",
        )
    names = tuple(name for part in parts for name in part.names)
    values = np.concatenate([part.columns(frame.get_column(part.name)) for part in parts], axis=1)
    return Features(labels, names, values, entity, parts)


def _frame(table: Any) -> "nw.DataFrame[Any]":
    import polars as pl

    return frame_of(pl.DataFrame(dict(table)) if isinstance(table, Mapping) else table, "features")


def _check_column(frame: "nw.DataFrame[Any]", name: str) -> None:
    if name not in frame.columns:
        there = ", ".join(map(quoted, frame.columns))
        raise DataError(
            f"there is no column {quoted(name)}, only {there}.",
            location="features",
            hint="Name one of them.",
        )


def _labels(frame: "nw.DataFrame[Any]", entity: str) -> tuple[Hashable, ...]:
    """The entities, each once."""
    _check_column(frame, entity)
    labels = tuple(frame.get_column(entity).to_list())
    seen = set[Hashable]()
    for row, label in enumerate(labels):
        if label is None or label != label:
            raise DataError(
                f"{quoted(entity)} is missing.",
                location=TableLocation("features", rows=(row,)),
                hint="Name every entity, or drop the row.",
            )
        if label in seen:
            raise DataError(
                f"{label!r} stands twice.",
                location=TableLocation("features", rows=(row,)),
                hint=f"Keep one row for each {entity}.",
            )
        seen.add(label)
    if not labels:
        raise DataError("the table has no rows.", location="features", hint="Give it one for each entity.")
    return labels


def _feature(column: "nw.Series[Any]", knots: int) -> Feature:
    """What a column becomes."""
    numeric = column.dtype.is_numeric()
    points = _knots(_numbers(column), knots) if numeric else _categories(column)
    if len(points) < 2:  # nothing to tell entities apart by
        return Feature(str(column.name), (), numeric, np.ones(1))
    found = _hats(_numbers(column), points) if numeric else _ones(column.to_list(), points)
    return Feature(str(column.name), points, numeric, np.nanmean(found, axis=0))


def _numbers(column: "nw.Series[Any]") -> Array:
    """A column of numbers, NaN where missing."""
    values = column.to_list()
    if not column.dtype.is_numeric() and any(value is not None for value in values):
        raise DataError(
            f"numbers are wanted, got {column.dtype}.",
            location=TableLocation("features", str(column.name)),
            hint="Give what the first table gave.",
        )
    numbers = np.array([np.nan if value is None else float(value) for value in values], np.float64)
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise DataError(
            f"the value is {numbers[row]:g}.",
            location=TableLocation("features", str(column.name), (row,)),
            actual=float(numbers[row]),
            hint="Leave it missing, or put a number.",
        )
    return numbers


def _knots(numbers: Array, knots: int) -> tuple[float, ...]:
    """Where hats stand: at every value if there are few, else at quantiles."""
    distinct = np.unique(numbers[~np.isnan(numbers)])
    if len(distinct) > knots:
        distinct = np.unique(np.nanquantile(numbers, np.linspace(0.0, 1.0, knots)))
    return tuple(distinct.tolist())


def _categories(column: "nw.Series[Any]") -> tuple[Any, ...]:
    """The values of a column, in order."""
    values = [value for value in column.to_list() if value is not None and value is not np.nan]
    for value in values:
        if not isinstance(value, (str, bool, np.bool_)):
            kind, where = type(value).__name__, quoted(str(column.name))
            raise DataError(
                f"features, column {where}: text, truth values or numbers are wanted, got {kind}.",
                hint="Turn it into one of them, or leave the column out.",
            )
    return tuple(sorted(set(values), key=str))


def _hats(numbers: Array, knots: Sequence[float]) -> Array:
    """Linear B-splines: each number shared between the knots beside it; beyond the last it is that knot's."""
    places = np.interp(numbers, knots, np.arange(len(knots)))
    return np.clip(1.0 - np.abs(places[:, None] - np.arange(len(knots))), 0.0, 1.0)


def _ones(values: Sequence[Any], categories: Sequence[Any]) -> Array:
    """One 1 a row; NaN for what is no category."""
    places = {category: n for n, category in enumerate(categories)}
    found = np.full((len(values), len(categories)), np.nan)
    for row, value in enumerate(values):
        if value in places:
            found[row] = 0.0
            found[row, places[value]] = 1.0
    return found


def _written(point: Any) -> str:
    return f"{point:g}" if isinstance(point, float) else str(point)
