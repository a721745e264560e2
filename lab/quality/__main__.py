"""Accuracy tables, into docs/quality.md; `python -m lab.quality Kinships`: some data.

Finished rows are kept, so that an interrupted run goes on; --fresh starts again. Rows without their package or data are
tried again. `page` writes the page from stored results.
"""

import sys
from pathlib import Path

from lab.harness import command, results
from lab.harness.running import Study
from lab.quality.data import SOURCES
from lab.quality.methods import METHODS, find
from lab.quality.rows import absent, names, rows

HOME = "quality"
STUDY = Study("quality", "shared and drawn", frozenset(find(name).package for name in METHODS) - {""})


def main(arguments: list[str] | None = None) -> int:
    given = command.parse(command.parser("lab.quality", __doc__, HOME), arguments, tuple(SOURCES))
    parts = [part for part in given.parts or names(given.quick) if part in SOURCES]
    forget_absent(command.places(given, HOME)[0] / command.NAME)
    from lab.quality.report import write

    return command.measure(STUDY, HOME, parts, [row for part in parts for row in rows(part, given.quick)], given, write)


def forget_absent(file: Path) -> None:
    """Leave out rows that lacked something which is here now."""
    lines = [line["cell"] for line in results.read(file).lines if "absent" in line["figures"]]
    results.forget(file, [cell for cell in lines if not absent(cell["part"], cell["method"])])


if __name__ == "__main__":
    sys.exit(command.ended(main))
