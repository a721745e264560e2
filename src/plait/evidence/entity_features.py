"""Features of entities as non-negative columns, for given factors.

Text, categories and booleans become a column per value. Numbers become linear B-splines (hats) with knots at quantiles:
1 at a knot, 0 at all others and linear between. The columns of one feature add up to 1 in every row, so no entity has a
larger rate because of the encoding.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Array
from plait.data.sources.tables import frame_of
from plait.errors import DataError, ParameterError, TableLocation, quoted

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw


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
        values = _hats(_numbers(column), self.points) if self.numeric else _ones(column.to_list(), self.points)
        return np.where(np.isnan(values), self.average, values)


@dataclass(frozen=True, eq=False)
class Features:
    """Non-negative feature columns of entities, as `features` returns them.

    ``len(features)`` is the number of columns: the size of the index that runs over them.

    Attributes
    ----------
    entities : tuple
        Names of the entities.
    names : tuple of str
        Names of the columns.
    values : numpy.ndarray
        Array of shape ``(n_entities, n_columns)``.
    entity : str
        Column that names the entities.
    parts : tuple
        How each feature becomes columns.

    Examples
    --------
    >>> people = pl.DataFrame({"user": ["ann", "bob"], "city": ["Rome", "Oslo"]})
    >>> features = plait.evidence.features(people, "user")
    >>> features.names
    ('city=Oslo', 'city=Rome')
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
        """Return the columns of some entities.

        Parameters
        ----------
        entities : iterable
            Names of entities, such as ``fit.entities["user"]``.

        Returns
        -------
        numpy.ndarray
            Array of shape ``(n_entities, n_columns)``. An entity without features has the average
            row.

        Examples
        --------
        >>> people = pl.DataFrame({"user": ["ann", "bob"], "city": ["Rome", "Oslo"]})
        >>> plait.evidence.features(people, "user").rows(["bob", "ann", "cem"]).shape
        (3, 2)
        """
        places = {label: n for n, label in enumerate(self.entities)}
        average = np.concatenate([part.average for part in self.parts])
        rows = [self.values[places[label]] if label in places else average for label in entities]
        return np.array(rows).reshape(-1, len(self))

    def encode(self, table: Any) -> "Features":
        """Compute the same columns for another table.

        Parameters
        ----------
        table : table or dict of columns
            One row per entity, with the same feature columns.

        Returns
        -------
        Features
            The columns. A value that the first table did not have becomes the average.

        Raises
        ------
        plait.errors.DataError
            If a column is missing.

        Examples
        --------
        >>> people = pl.DataFrame({"user": ["ann", "bob"], "city": ["Rome", "Oslo"]})
        >>> features = plait.evidence.features(people, "user")
        >>> features.encode({"user": ["fay"], "city": ["Oslo"]}).entities
        ('fay',)
        """
        frame = _frame(table)
        labels = _labels(frame, self.entity)
        for part in self.parts:
            _check_column(frame, part.name)
        values = np.concatenate([part.columns(frame.get_column(part.name)) for part in self.parts], axis=1)
        return Features(labels, self.names, values, self.entity, self.parts)


def features(table: Any, entity: str, *, knots: int = 5) -> Features:
    """Turn features of entities into non-negative columns for a given factor.

    Parameters
    ----------
    table : table or dict of columns
        One row per entity.
    entity : str
        Column that names the entities. All other columns are features.
    knots : int, default 5
        Number of columns (linear B-splines) per numeric feature; fewer if it has fewer values.

    Returns
    -------
    Features
        The columns. Use ``rows`` as ``fixed`` factor of `plait.fit`.

    Raises
    ------
    plait.errors.DataError
        If an entity is missing or listed twice, or a number is infinite.
    plait.errors.ParameterError
        If ``knots`` is less than 2.

    Notes
    -----
    A text feature becomes one column per value. A missing value becomes the average of the
    others.

    Examples
    --------
    >>> users = ["ann", "bob", "cem", "dee", "eva"]
    >>> table = {"user": users, "city": ["Rome", "Rome", "Rome", "Oslo", "Oslo"]}
    >>> features = plait.evidence.features(table, "user")
    >>> model = "visits[user, place] = X[user, f] W[place, f]"
    >>> fixed = {"X": features.rows(users)}
    >>> rank = {"f": len(features)}
    >>> fit = plait.fit(model, {"visits": visits}, rank=rank, fixed=fixed, seed=0)
    >>> fit.top("visits", k=1)["user"].to_list()
    ['bob']
    """
    if isinstance(knots, bool) or not isinstance(knots, (int, np.integer)) or knots < 2:
        raise ParameterError.must_be("knots", "an integer of at least 2", knots)
    frame = _frame(table)
    labels = _labels(frame, entity)
    parts = tuple(_feature(frame.get_column(name), int(knots)) for name in frame.columns if name != entity)
    if not parts:
        raise DataError(
            f"the table has no columns other than {quoted(entity)}.",
            location="features",
            hint="Add one column per feature.",
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
            f"the table has no column {quoted(name)}, only {there}.",
            location="features",
            hint="Choose one of them.",
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
                hint="Add the name, or remove the row.",
            )
        if label in seen:
            raise DataError(
                f"{label!r} occurs twice.",
                location=TableLocation("features", rows=(row,)),
                hint=f"Keep one row for each {entity}.",
            )
        seen.add(label)
    if not labels:
        raise DataError("the table has no rows.", location="features", hint="Add one row per entity.")
    return labels


def _feature(column: "nw.Series[Any]", knots: int) -> Feature:
    """What a column becomes."""
    numeric = column.dtype.is_numeric()
    points = _knots(_numbers(column), knots) if numeric else _categories(column)
    if len(points) < 2:  # nothing to tell entities apart by
        return Feature(str(column.name), (), numeric, np.ones(1))
    values = _hats(_numbers(column), points) if numeric else _ones(column.to_list(), points)
    return Feature(str(column.name), points, numeric, np.nanmean(values, axis=0))


def _numbers(column: "nw.Series[Any]") -> Array:
    """A column of numbers, NaN where missing."""
    values = column.to_list()
    if not column.dtype.is_numeric() and any(value is not None for value in values):
        raise DataError(
            f"expected numbers, got {column.dtype}.",
            location=TableLocation("features", str(column.name)),
            hint="Use the same type as in the first table.",
        )
    numbers = np.array([np.nan if value is None else float(value) for value in values], np.float64)
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise DataError(
            f"the value must be finite, got {numbers[row]:g}.",
            location=TableLocation("features", str(column.name), (row,)),
            actual=float(numbers[row]),
            hint="Use a finite number, or leave the value missing.",
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
                f"features, column {where}: expected text, booleans or numbers, got {kind}.",
                hint="Convert or remove the column.",
            )
    return tuple(sorted(set(values), key=str))


def _hats(numbers: Array, knots: Sequence[float]) -> Array:
    """Linear B-splines: each number is shared between two knots; beyond the last it belongs to that knot."""
    places = np.interp(numbers, knots, np.arange(len(knots)))
    return np.clip(1.0 - np.abs(places[:, None] - np.arange(len(knots))), 0.0, 1.0)


def _ones(values: Sequence[Any], categories: Sequence[Any]) -> Array:
    """One 1 per row; NaN for unknown categories."""
    places = {category: n for n, category in enumerate(categories)}
    encoded = np.full((len(values), len(categories)), np.nan)
    for row, value in enumerate(values):
        if value in places:
            encoded[row] = 0.0
            encoded[row, places[value]] = 1.0
    return encoded


def _written(point: Any) -> str:
    return f"{point:g}" if isinstance(point, float) else str(point)
