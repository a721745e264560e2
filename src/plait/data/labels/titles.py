"""What people call entities, beside the names that data have for them: one `Titles` per axis."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from plait.data.labels.names import Labels
from plait.errors import DataError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Titles(Mapping[Any, str]):
    """The titles of an axis, a mapping from the names that have one; column: by row, null where there is none."""

    labels: Labels
    column: "pl.Series"

    def of(self, names: Any) -> "pl.Series":
        """The titles of a column of names (n,) -> (n,); null where a name has none, or is none of the axis."""
        rows = self.labels.encode(names, unknown="mark")
        return self.column.gather(gaps(rows))

    def along(self, labels: Labels) -> "Titles":
        """The same for an axis with new names behind, which have no titles."""
        return Titles(labels, self.column.extend_constant(None, len(labels) - len(self.column)))

    def replaced(self, other: "Titles", named: Any) -> "Titles":
        """These titles, but those of other where it was named, (rows,)."""
        import polars as pl

        return Titles(self.labels, other.column.zip_with(pl.Series(named), self.column))

    @cached_property
    def mark(self) -> str:
        """A fingerprint: files of equal titles need not be written again."""
        content = self.column.alias("title").to_frame().write_ipc(None).getvalue()
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def __getitem__(self, name: Any) -> str:
        try:
            found = self.of([name])[0]
        except DataError:  # a name of another kind
            found = None
        if found is None:
            raise KeyError(name)
        return str(found)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.labels.names.filter(self.column.is_not_null()).to_list())

    def __len__(self) -> int:
        return len(self.column) - self.column.null_count()

    def __repr__(self) -> str:
        return f"Titles({self.labels.axis!r}, {len(self):,} of {len(self.column):,})"


def gaps(rows: Any) -> "pl.Series":
    """Row numbers (n,) with null in the place of −1, to gather by."""
    import polars as pl

    return pl.Series(rows).set(pl.Series(np.asarray(rows) < 0), None)


def grown_titles(titles: Mapping[str, Titles], labels: Mapping[str, Labels]) -> dict[str, Titles]:
    """Titles by axis and index for axes with new names behind."""
    return {index: own.along(labels[index]) for index, own in titles.items()}
