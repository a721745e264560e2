"""Entities as people read them."""

from collections.abc import Mapping
from typing import Any

from plait.answer.titles import title_column


def called(row: Mapping[str, Any], column: str) -> str:
    """The entity in a column of a row: its name, and its title beside it where it has one."""
    title = row.get(title_column(column))
    return str(row[column]) if title is None else f'{row[column]} "{title}"'
