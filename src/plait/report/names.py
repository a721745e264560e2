"""Entities as people read them."""

from collections.abc import Mapping
from typing import Any

from plait.answer.titles import beside, title_column


def called(row: Mapping[str, Any], column: str) -> str:
    """The entity in a column of a row: its name, and its title beside it where it has one."""
    return beside(row[column], row.get(title_column(column)))
