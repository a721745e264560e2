"""Columns of titles next to names of entities in tables."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from plait.data.encoding.columns import to_polars
from plait.storage.fitted import Fitted

if TYPE_CHECKING:
    import polars as pl

Table = TypeVar("Table")


def name_with_title(name: Any, title: str | None) -> str:
    """Name of an entity, followed by its title if it has one."""
    return str(name) if title is None else f'{name} "{title}"'


def add_titles(fit: Fitted, table: Table, indices: Sequence[str] | Mapping[str, str]) -> Table:
    """Insert a column `film_title` after each column of names whose axis has titles, in the same library.

    `indices`: columns of names, called as their index or axis; or a mapping, column → index. Names without a title or
    unknown to the fit have null. An existing column of that name stays. Without titles the table is returned as it is.
    """
    named = indices if isinstance(indices, Mapping) else dict(zip(indices, indices))
    wanted = {column: index for column, index in named.items() if index in fit.titles}
    if not wanted:
        return table
    import narwhals.stable.v2 as nw

    frame: Any = nw.from_native(cast(Any, table), eager_only=True, pass_through=False)
    new = {
        column: _series(frame, title_column(column), fit.titles[index].of(to_polars(frame.get_column(column), column)))
        for column, index in wanted.items()
        if title_column(column) not in frame.columns
    }
    order = [name for column in frame.columns for name in (column, title_column(column) if column in new else None)]
    return cast(Table, frame.with_columns(*new.values()).select([name for name in order if name]).to_native())


def _series(frame: Any, name: str, titles: "pl.Series") -> Any:
    """A column of titles in the library of a table."""
    import narwhals.stable.v2 as nw

    backend = nw.get_native_namespace(frame)
    values = titles if frame.implementation.is_polars() else titles.to_list()
    return nw.new_series(name, values, nw.String, backend=backend)


def title_column(column: str) -> str:
    return f"{column}_title"


def title_columns(fit: Fitted, indices: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Columns that `add_titles` adds to a table with these columns."""
    return [name for index in indices if index in fit.titles and (name := title_column(index)) not in columns]
