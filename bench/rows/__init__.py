"""What is measured, part by part. A row is one line of the results: what it is, and a function that measures it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Figures = dict[str, Any]
Done = Callable[[Mapping[str, Any]], Figures | None]  # what an earlier row found, if it is finished


@dataclass(frozen=True)
class Row:
    """about: JSON that names the row, its part among it. measure: from what is done so far to its figures."""

    about: dict[str, Any]
    measure: Callable[[Done], Figures]


def rows(part: str, quick: bool) -> Iterator[Row]:
    """The rows of a part, small ones if quick."""
    from bench.rows import front, growth, quality, sweep

    return {"sweep": sweep, "quality": quality, "front": front, "growth": growth}[part].rows(quick)


PARTS = ("sweep", "quality", "front", "growth")
