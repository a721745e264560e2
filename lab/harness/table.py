"""Tables of text: shown on a terminal, written as Markdown."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from lab.harness.machine import machine, versions
from plait.cli.output import grid, out

NOTHING = "–"  # where a figure would stand


@dataclass(frozen=True)
class Table:
    """A title, headings, rows of text; the first `left` columns are words. note: a sentence or two below it."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    left: int = 1

    def markdown(self) -> str:
        """The table as Markdown."""
        return f"**{self.title}**\n\n{self.body()}"

    def body(self) -> str:
        """The same without its title."""
        rule = ["---" if k < self.left else "--:" for k in range(len(self.headings))]
        lines = [f"| {' | '.join(_escaped(cells))} |" for cells in (self.headings, rule, *self.rows)]
        return "\n".join([*lines, *(["", self.note] if self.note else [])])

    def show(self) -> None:
        """Print the table, its note below it."""
        out()
        grid(self.headings, self.rows, self.title, left=self.left)
        if self.note:
            out(self.note)

    def measured(self) -> "Table":
        """The table without rows and columns of which nothing is measured (yet)."""
        rows = [row for row in self.rows if any(cell not in ("", NOTHING) for cell in row[self.left :])]
        kept = [k for k in range(len(self.headings)) if k < self.left or any(row[k] != NOTHING for row in rows)]
        return replace(self, headings=[self.headings[k] for k in kept], rows=[[row[k] for k in kept] for row in rows])


def show(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> None:
    """Print a table that is kept nowhere, and where it was measured."""
    cells = [[f"{v:.2f}" if isinstance(v, float) else "" if v is None else str(v) for v in row] for row in rows]
    place = ", ".join([machine(), *(f"{name} {version}" for name, version in versions().items())])
    Table(title, headings, cells, f"{note} {place}".strip()).show()


def targets(rows: Iterable[tuple[str, str, bool | None]]) -> Table:
    """What was to be reached: what, measured, whether it was met; None: not measured."""
    words = {True: "yes", False: "**no**", None: "not measured"}
    return Table("Targets", ["target", "measured", "met"], [[*row[:2], words[row[2]]] for row in rows], left=3)


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


def _escaped(cells: Sequence[str]) -> list[str]:
    return [cell.replace("|", "\\|") for cell in cells]
