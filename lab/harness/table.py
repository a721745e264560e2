"""Tables of text: shown on a terminal, written as Markdown."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl

from lab.harness.machine import machine, versions
from plait.cli.output import out
from plait.cli.output import show as show_document
from plait.rendering.document import Document, Table
from plait.rendering.text import render_markdown

NOTHING = "–"  # where a figure would stand


def text_table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], note: str = "", left: int = 1
) -> Table:
    """A table of text: its title, headings, rows and note; the first `left` columns are words."""
    return Table(headings, rows, title, note, left)


def as_markdown(made: Table) -> str:
    """The table as Markdown, its title above it."""
    return render_markdown(Document("", [made]))


def without_empty(made: Table) -> Table:
    """The table without rows and columns that have no figure yet."""
    rows = [row for row in made.rows if any(cell not in ("", NOTHING) for cell in row[made.left :])]
    kept = [k for k in range(len(made.columns)) if k < made.left or any(row[k] != NOTHING for row in rows)]
    return replace(made, columns=[made.columns[k] for k in kept], rows=[[row[k] for k in kept] for row in rows])


def print_table(made: Table) -> None:
    """Print a table below an empty line."""
    out()
    show_document(Document("", [made]))


def show(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> None:
    """Print a table that is kept nowhere, and where it was measured."""
    cells = [[f"{v:.2f}" if isinstance(v, float) else "" if v is None else str(v) for v in row] for row in rows]
    place = ", ".join([machine(), *(f"{name} {version}" for name, version in versions().items())])
    print_table(text_table(title, headings, cells, f"{note} {place}".strip()))


def targets(rows: Iterable[tuple[str, str, bool | None]]) -> Table:
    """What was to be reached: what, measured, whether it was met; None: not measured."""
    words = {True: "yes", False: "**no**", None: "not measured"}
    return text_table("Targets", ["target", "measured", "met"], [[*row[:2], words[row[2]]] for row in rows], left=3)


def mean_sd(values: Iterable[float | None], decimals: int = 3) -> str:
    """``0.973 ± 0.002``; one value has no sd, none is a dash."""
    found = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not found:
        return NOTHING
    mean = math.fsum(found) / len(found)
    if len(found) == 1:
        return f"{mean:.{decimals}f}"
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (len(found) - 1))
    return f"{mean:.{decimals}f} ± {sd:.{decimals}f}"


def chosen(records: pl.DataFrame, **cell: object) -> pl.DataFrame:
    """The records with these values; a value that no record has gives no rows."""
    for name, value in cell.items():
        if name not in records.columns:
            return records.clear()
        records = records.filter(pl.col(name) == pl.lit(value))
    return records


def spread(records: pl.DataFrame, figure: str, decimals: int = 3, **cell: object) -> str:
    """Mean ± sd of a figure over the records with these values."""
    found = chosen(records, **cell)
    return mean_sd(found[figure].to_list() if figure in found.columns else [], decimals)


def auc_and_ap(records: pl.DataFrame, auc: str = "auc", ap: str = "ap") -> str:
    """``0.985 ± 0.001 (0.412)``: mean ± sd of the AUC, and the mean average precision in brackets."""
    area, precision = (spread(records, figure) for figure in (auc, ap))
    return area if NOTHING in (area, precision) else f"{area} ({precision.split()[0]})"


def percent(share: float | None) -> str:
    """``60 %``."""
    return NOTHING if share is None else f"{100 * share:.0f} %"
