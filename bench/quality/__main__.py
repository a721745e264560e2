"""`python -m bench.quality`: how good answers are, into docs/quality.md; `python -m bench.quality Kinships`: some data.

Finished rows are kept, so that an interrupted run goes on; --fresh begins anew. Rows that wanted a package or data that
were not there are tried again. `page` writes the page from what there is.
"""

import argparse
import sys
from pathlib import Path

from bench import results, running
from bench.quality.data import SOURCES
from bench.quality.methods import METHODS, find
from bench.quality.rows import absent, names, rows
from bench.results import Study

HOME = "quality"
STUDY = Study("quality", "shared and drawn", lambda: {find(name).package for name in METHODS} - {""})


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="data", help=f"any of {', '.join((*SOURCES, 'page'))}; all if none")
    running.options(parser, HOME)
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - {*SOURCES, "page"}:
        parser.error(f"unknown data {', '.join(sorted(unknown))}; choose from {', '.join((*SOURCES, 'page'))}")
    parts = [part for part in given.parts or names(given.quick) if part in SOURCES]
    forget_absent(running.places(given, HOME)[0])
    from bench.quality.report import write

    return running.run(STUDY, HOME, parts, [row for part in parts for row in rows(part, given.quick)], given, write)


def forget_absent(file: Path) -> None:
    """Leave out rows that lacked something which is here now."""
    lines = [line["cell"] for line in results.read(file).lines if "absent" in line["figures"]]
    results.forget(file, [cell for cell in lines if not absent(cell["part"], cell["method"])])


if __name__ == "__main__":
    sys.exit(main())
