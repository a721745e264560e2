"""`python -m bench`: everything that is measured, into docs/benchmarks.md; `python -m bench sweep growth`: some parts.

Finished rows are kept, so that an interrupted run goes on; --fresh begins anew. `page` writes the page from what there
is. Other parts (--help lists them) print tables and keep nothing.
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path

from bench import measure, results
from bench.rows import PARTS, Row, rows

ROOT = Path(__file__).resolve().parents[1]
TABLES = (
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
    "top",
    "tyings",
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", help=f"any of {', '.join((*PARTS, 'page', *TABLES))}; all but tables if none"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works; kept in .cache/bench")
    parser.add_argument("--fresh", action="store_true", help="forget what was found for these rows")
    parser.add_argument("--only", default="", help="rows whose name has this text")
    parser.add_argument("--folder", type=Path, help="of results and plots; docs/benchmarks unless quick")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md unless quick")
    parser.add_argument("--nonzeros", type=lambda text: int(float(text)), default=1_250_000, help="of counts")
    parser.add_argument("--side", type=int, default=500, help="of counts")
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - {*PARTS, "page", *TABLES}:
        parser.error(f"unknown part {', '.join(sorted(unknown))}; choose from {', '.join((*PARTS, 'page', *TABLES))}")
    for name in [part for part in given.parts if part in TABLES]:
        options = {"nonzeros": given.nonzeros, "side": given.side} if name == "counts" else {}
        import_module(f"bench.{name}").compare(**options)
    kept = [part for part in given.parts or PARTS if part in PARTS]
    return run(kept, given) if kept or "page" in given.parts else 0


def run(parts: list[str], given: argparse.Namespace) -> int:
    """Measure what is not measured yet, then write the page."""
    home = ROOT / ".cache" / "bench" if given.quick else ROOT / "docs" / "benchmarks"
    folder = given.folder or home
    page = given.page or (home / "benchmarks.md" if given.quick else ROOT / "docs" / "benchmarks.md")
    file = folder / results.NAME
    todo = [row for part in parts for row in rows(part, given.quick) if given.only in results.title(row.about)]
    if given.fresh:  # with all rows of a part go those that are measured no more
        results.forget(file, [row.about for row in todo], () if given.only else parts)
    failed: list[str] = []
    try:
        failed = measured(todo, file, given.quick)
    except KeyboardInterrupt:
        print("\nstopped; finished rows are kept, and the same command goes on", file=sys.stderr)
        return 130
    from bench.report import write

    write(file, page, folder)
    print(f"{page} and its plots are written")
    for line in failed:
        print(f"failed: {line}", file=sys.stderr)
    return 1 if failed else 0


def measured(todo: list[Row], file: Path, quick: bool) -> list[str]:
    """Measure rows; the words of those that failed."""
    if not todo:
        return []
    print(measure.machine())
    return results.run(todo, file, quick, "make bench ARGS=--quick" if quick else "make bench")


if __name__ == "__main__":
    sys.exit(main())
