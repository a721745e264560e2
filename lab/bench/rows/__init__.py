"""Measurements of `make bench`, one module per part."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from lab.harness.running import Row

PARTS = ("sweep", "quality", "front", "growth", "large", "dask", "fold_in", "update", "answers")


def rows(part: str, quick: bool, **more: Any) -> Iterator[Row]:
    """The rows of a part, small ones if quick; more: what only this part takes."""
    found: Iterator[Row] = import_module(f"lab.bench.rows.{part}").rows(quick, **more)
    return found
