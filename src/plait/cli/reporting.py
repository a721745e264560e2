"""The command report."""

from pathlib import Path
from typing import Annotated

import typer

from plait.cli.cells import locating, read_cells, with_values
from plait.cli.options import (
    Columns,
    Delimiter,
    Force,
    Header,
    Json,
    Kind,
    RunFolder,
    Strip,
    Unquoted,
    Value,
    named_path,
    reading,
)
from plait.cli.output import check_free, emit, out, working
from plait.report.file import check_needed, check_place, measure, tested_relation, write_report
from plait.report.subject import Subject
from plait.result import load
from plait.run.folder import manifest
from plait.show.words import write_bytes


def report(
    run: RunFolder,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", parser=named_path, help="The page to write.")
    ] = Path("report.html"),
    test: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A table with a column for each index, and values, that the run has not seen."
        ),
    ] = None,
    relation: Annotated[
        str | None, typer.Option(metavar="RELATION", help="What the test is of; needed where there are several.")
    ] = None,
    interactive: Annotated[
        bool,
        typer.Option("--interactive", help="Tables that sort and charts that answer to the pointer; a larger file."),
    ] = False,
    value: Value = None,
    kind: Kind = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    header: Header = None,
    unquoted: Unquoted = False,
    strip: Strip = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write all that is known of a run as one page, for a browser or a printer.

    Warnings, predicted links with reasons, components, how relations share them, a test where one is given, surprises,
    how the fit went, and how to make it again. The page is one file that asks for nothing else; without --interactive
    it has no scripts.

    \b
    Examples:
      plait report run
      plait report run -o report.html --test test.csv --relation visits
      plait report run --interactive --force
    """
    check_needed()
    check_free(output, force)
    check_place(output, replace=True)
    fit = load(run)
    named = tested_relation(fit, relation, given=test is not None)
    options = reading(kind, columns, delimiter, header, unquoted, strip)
    cells = None if test is None or named is None else read_cells(fit, run, named, str(test), options)
    with working("reporting"):
        with locating({} if cells is None else {"test": cells}):
            found = None if cells is None or named is None else with_values(fit, named, cells, value)
            metrics, leaks = measure(fit, found, named)
        subject = Subject(fit, str(run), manifest(run), metrics, test.name if test else "", leaks)
        write_report(subject, output, interactive=interactive)
    size = output.stat().st_size
    if json:
        emit({"written": str(output), "bytes": size})
    else:
        out(f"wrote {output}, {write_bytes(size)}")
