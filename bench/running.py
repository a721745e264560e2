"""A run of some rows: forgotten if asked, measured as far as they are not, and the page written."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from bench import measure, results
from bench.results import Study
from bench.rows import Row

ROOT = Path(__file__).resolve().parents[1]
Write = Callable[[Path, Path, Path], None]  # results, page, folder of plots


def options(parser: argparse.ArgumentParser, home: str) -> None:
    """What every run takes. home: of results and plots, under docs."""
    parser.add_argument("--quick", action="store_true", help=f"small, to see that it works; kept in .cache/{home}")
    parser.add_argument("--fresh", action="store_true", help="forget what was found for these rows")
    parser.add_argument("--only", default="", help="rows whose name has this text")
    parser.add_argument("--folder", type=Path, help=f"of results and plots; docs/{home} unless quick")
    parser.add_argument("--page", type=Path, help=f"docs/{home}.md unless quick")


def places(given: argparse.Namespace, home: str) -> tuple[Path, Path, Path]:
    """The file of results, the page, and the folder of plots."""
    base = ROOT / ".cache" / home if given.quick else ROOT / "docs" / home
    folder = given.folder or base
    return (
        folder / results.NAME,
        given.page or (base / f"{home}.md" if given.quick else base.with_suffix(".md")),
        folder,
    )


def run(study: Study, home: str, parts: list[str], todo: list[Row], given: argparse.Namespace, write: Write) -> int:
    """Measure what is not measured yet, then write the page."""
    file, page, folder = places(given, home)
    todo = [row for row in todo if given.only in results.title(row.about)]
    if given.fresh:  # with all rows of a part go those that are measured no more
        results.forget(file, [row.about for row in todo], () if given.only else parts)
    try:
        failed = _measured(study, todo, file, given.quick)
    except KeyboardInterrupt:
        print("\nstopped; finished rows are kept, and the same command goes on", file=sys.stderr)
        return 130
    write(file, page, folder)
    print(f"{page} and its plots are written")
    for line in failed:
        print(f"failed: {line}", file=sys.stderr)
    return 1 if failed else 0


def _measured(study: Study, todo: list[Row], file: Path, quick: bool) -> list[str]:
    """Measure rows; the words of those that failed."""
    if not todo:
        return []
    print(measure.machine())
    command = f"make {study.name}"
    return results.run(todo, file, quick, f"{command} ARGS=--quick" if quick else command, study=study)
