"""Everything that is measured, into docs/benchmarks.md; `python -m lab.bench sweep growth`: some parts.

Finished rows are kept, so that an interrupted run goes on; --fresh starts again. `page` writes the page from what there
is. Tables (bursts and all that follow it below) are printed and not kept.
"""

import argparse
import sys
from importlib import import_module
from typing import Any

from lab.bench.peers import OTHERS, find
from lab.bench.rows import PARTS, rows
from lab.harness import command
from lab.harness.running import Study

HOME = "benchmarks"
TABLES = (
    "bursts",
    "calibrated",
    "convergence",
    "cores",
    "counts",
    "couplings",
    "coverage",
    "dated",
    "ensembles",
    "evidence",
    "explore",
    "gaps",
    "intervals",
    "models",
    "neighbours",
    "pack",
    "pages",
    "predict",
    "pruning",
    "ranks",
    "repeats",
    "rules",
    "starts",
    "sums",
    "time",
    "top",
    "tyings",
    "unseen",
    "worths",
)

OPTIONS = {"calibrated": ("data",), "counts": ("nonzeros", "side"), "large": ("nonzeros",)}


def main(arguments: list[str] | None = None) -> int:
    parser = command.parser("lab.bench", __doc__, HOME)
    parser.add_argument("--nonzeros", type=lambda text: int(float(text)), help="of counts and large")
    parser.add_argument("--side", type=int, help="of counts")
    parser.add_argument("--data", help="of calibrated: a data set of docs/quality.md")
    given = command.parse(parser, arguments, (*PARTS, *TABLES))
    asked = {name: _asked(name, given) for name in given.parts or PARTS}
    for name in [part for part in given.parts if part in TABLES]:
        import_module(f"lab.bench.{name}").compare(**asked[name])
    kept = [part for part in given.parts or PARTS if part in PARTS]
    if not kept and "page" not in given.parts:
        return 0
    from lab.bench.report import write

    study = Study("bench", "drawn", frozenset(find(name).package for name in OTHERS))
    todo = [row for part in kept for row in rows(part, given.quick, **asked[part])]
    return command.measure(study, HOME, kept, todo, given, write)


def _asked(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """The options that a part or table takes, as far as they are given."""
    return {word: getattr(given, word) for word in OPTIONS.get(name, ()) if getattr(given, word) is not None}


if __name__ == "__main__":
    sys.exit(command.ended(main))
