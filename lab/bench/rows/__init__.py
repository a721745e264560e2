"""What is measured, part by part."""

from collections.abc import Iterator

from lab.harness.running import Row

PARTS = ("sweep", "quality", "front", "growth")


def rows(part: str, quick: bool) -> Iterator[Row]:
    """The rows of a part, small ones if quick."""
    from lab.bench.rows import front, growth, quality, sweep

    return {"sweep": sweep, "quality": quality, "front": front, "growth": growth}[part].rows(quick)
