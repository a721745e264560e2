"""Tables of text: shown on a terminal, written as Markdown."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

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
        rule = ["---" if k < self.left else "--:" for k in range(len(self.headings))]
        lines = [f"| {' | '.join(_escaped(cells))} |" for cells in (self.headings, rule, *self.rows)]
        return "\n".join([f"**{self.title}**", "", *lines, *(["", self.note] if self.note else [])])

    def measured(self) -> "Table":
        """The table without rows and columns of which nothing is measured (yet)."""
        rows = [row for row in self.rows if any(cell not in ("", NOTHING) for cell in row[self.left :])]
        kept = [k for k in range(len(self.headings)) if k < self.left or any(row[k] != NOTHING for row in rows)]
        return replace(self, headings=[self.headings[k] for k in kept], rows=[[row[k] for k in kept] for row in rows])


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


def percent(share: float) -> str:
    """``60 %``."""
    return f"{100 * share:.0f} %"


def _escaped(cells: Sequence[str]) -> list[str]:
    return [cell.replace("|", "\\|") for cell in cells]
