"""The front end: from files and tables to fibre trees, starting up, compiling, and what comes after a fit."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from lab.harness.apart import call
from lab.harness.results import Figures
from lab.harness.running import Done, Row

FULL = {"1.25 million rows of 500³": (1_250_000, 500), "12.5 million rows of 1000³": (12_500_000, 1000)}
SMALL = {"20,000 rows of 60³": (20_000, 60)}
HYPERSPARSE = (12_500_000, 1_000_000)
# by name: model, nonzeros, side, rank, observed, accelerated
SHAPES: dict[str, tuple[str, int, int, int, str, bool]] = {
    "20,000 of 60³, R = 5": ("CP", 20_000, 60, 5, "listed", False),
    "1.25 million of 500³, listed, R = 50": ("CP", 1_250_000, 500, 50, "listed", False),
    "12.5 million of 1000³, listed, R = 5": ("CP", 12_500_000, 1000, 5, "listed", False),
    "1.25 million of 500³, all observed, R = 5": ("CP", 1_250_000, 500, 5, "all", False),
    "Digg-shaped, R = 20": ("coupled", 0, 0, 20, "all", False),
    "Digg-shaped, R = 20, accelerated": ("coupled", 0, 0, 20, "all", True),
}


def rows(quick: bool) -> Iterator[Row]:
    """In the order of the page."""
    for name, (count, side) in (SMALL if quick else FULL).items():
        for source in ("data frame", "Parquet", "csv"):
            for labels in ("integers", "strings"):
                if count < 10_000_000 or (labels == "integers" and source == "data frame"):
                    about = {"what": "trees", "size": name, "source": source, "labels": labels}
                    yield _row(about, "trees", count=count, side=side, source=source, labels=labels)
    for labels, distinct in (("integers", 1000), ("strings", 1000), ("strings", 100_000)):
        about = {"what": "encode", "labels": labels, "distinct": distinct}
        yield _row(about, "encode", count=20_000 if quick else 12_500_000, labels=labels, distinct=distinct)
    for name, (count, side) in (SMALL if quick else FULL | {"12.5 million of (10⁶)³": HYPERSPARSE}).items():
        yield _row({"what": "rest", "size": name}, "rest", count=count, side=side)
    (name, (count, side)) = list((SMALL if quick else FULL).items())[-1]
    yield _row({"what": "rest", "size": f"{name}, links without values"}, "rest", count=count, side=side, links=True)
    for name, shape in list(SHAPES.items())[: 1 if quick else None]:
        yield Row({"part": "front", "what": "estimate", "shape": name}, partial(_estimate, shape))
    for what in ("start", "compile"):
        yield Row({"part": "front", "what": what}, partial(_here, what))
    yield _row({"what": "after"}, "after", quick=quick)


def _row(about: dict[str, Any], function: str, **arguments: Any) -> Row:
    return Row({"part": "front", **about}, lambda done: call(f"lab.bench.rows.ends:{function}", **arguments))


def _estimate(shape: tuple[str, int, int, int, str, bool], done: Done) -> Figures:
    from lab.bench.rows import estimate

    return estimate.compare(*shape)


def _here(what: str, done: Done) -> Figures:
    from lab.bench.rows import startup

    return startup.seconds() if what == "start" else startup.compiling()
