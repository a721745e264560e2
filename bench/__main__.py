"""`python -m bench`: everything that is measured, into docs/benchmarks.md; `python -m bench sweep growth`: some parts.

Finished rows are kept, so that an interrupted run goes on; --fresh begins anew. `page` writes the page from what there
is. Other parts (--help lists them) print tables and keep nothing.
"""

import argparse
import sys
from importlib import import_module

from bench import running
from bench.results import SPEED
from bench.rows import PARTS, rows

HOME = "benchmarks"
TABLES = (
    "bursts",
    "cores",
    "counts",
    "couplings",
    "coverage",
    "ensembles",
    "gaps",
    "intervals",
    "orders",
    "predict",
    "ranks",
    "starts",
    "sums",
    "top",
    "tyings",
    "worths",
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", help=f"any of {', '.join((*PARTS, 'page', *TABLES))}; all but tables if none"
    )
    running.options(parser, HOME)
    parser.add_argument("--nonzeros", type=lambda text: int(float(text)), default=1_250_000, help="of counts")
    parser.add_argument("--side", type=int, default=500, help="of counts")
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - {*PARTS, "page", *TABLES}:
        parser.error(f"unknown part {', '.join(sorted(unknown))}; choose from {', '.join((*PARTS, 'page', *TABLES))}")
    for name in [part for part in given.parts if part in TABLES]:
        options = {"nonzeros": given.nonzeros, "side": given.side} if name == "counts" else {}
        import_module(f"bench.{name}").compare(**options)
    kept = [part for part in given.parts or PARTS if part in PARTS]
    if not kept and "page" not in given.parts:
        return 0
    from bench.report import write

    todo = [row for part in kept for row in rows(part, given.quick)]
    return running.run(SPEED, HOME, kept, todo, given, write)


if __name__ == "__main__":
    sys.exit(main())
