"""Tables that are described and not read yet, such as `plait.scan` gives: what data need of them.

Files know nothing of relations, nor data of files, so that this is all they share.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeGuard

from plait.errors import Location, TableLocation

if TYPE_CHECKING:
    import polars as pl


class Scanned(Protocol):
    """A table in files or behind a query. stays: whether it is cheap to read twice, and the same both times."""

    is_scan: ClassVar[bool]

    @property
    def columns(self) -> Sequence[str]:
        """The names of its columns."""
        ...

    @property
    def stays(self) -> bool:
        """Whether it is cheap to read twice, and the same both times."""
        ...

    def batches(self, columns: Sequence[str], rows: int) -> Iterator["pl.DataFrame | None"]:
        """Some columns in order, about so many rows at a time; None: all that came before is void, as a column turned
        out to hold something else, and it begins again."""
        ...

    def read(self) -> "pl.DataFrame":
        """The whole table."""
        ...

    def located(self, place: TableLocation) -> Location:
        """A place of the table in its files."""
        ...


def is_scan(data: Any) -> TypeGuard[Scanned]:
    """Whether this is such a table."""
    return getattr(type(data), "is_scan", False) is True
