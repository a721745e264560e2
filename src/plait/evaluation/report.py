"""What `plait.evaluate` gives: figures by name, how well probabilities are calibrated, and what is to be known."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

CALIBRATION = ("bin", "cells", "predicted", "observed")


@dataclass(frozen=True, eq=False, repr=False)
class Metrics(Mapping[str, float]):
    """Figures by name; ``metrics["roc_auc"]``. What each means, `plait.evaluate` says.

    calibration: a polars table with the columns bin, cells, predicted (mean probability) and observed (share of links);
    None where the test has no zeros. links, zeros: rows of the test. notes: sentences on what is not among the figures
    and why, and on what they must not be taken for.
    """

    figures: Mapping[str, float]
    relation: str
    links: int
    zeros: int
    calibration: "pl.DataFrame | None" = None
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> float:
        return self.figures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.figures)

    def __len__(self) -> int:
        return len(self.figures)

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types, for JSON: relation, links, zeros, metrics, calibration (rows), notes."""
        rows = None if self.calibration is None else self.calibration.to_dicts()
        return {
            "relation": self.relation,
            "links": self.links,
            "zeros": self.zeros,
            "metrics": dict(self.figures),
            "calibration": rows,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        width = max(map(len, self.figures), default=0)
        shown = {name: _shown(figure) for name, figure in self.figures.items()}
        right = max(map(len, shown.values()), default=0)
        lines = [self._title(), *(f"  {name:<{width}}  {figure:>{right}}" for name, figure in shown.items())]
        if self.calibration is not None:
            lines += ["  calibration", *(f"    {line}" for line in _aligned(self.calibration))]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        from plait.show import note, page, table

        blocks = [table(self._title(), ("figure", ""), list(self.figures.items()))]
        if self.calibration is not None:
            blocks.append(table("Calibration", CALIBRATION, self.calibration.rows()))
        return page(*blocks, *map(note, self.notes))

    def _title(self) -> str:
        links, zeros = ("" if count == 1 else "s" for count in (self.links, self.zeros))
        return f"{self.relation}: {self.links:,} test link{links}, {self.zeros:,} test zero{zeros}"


def _shown(figure: float) -> str:
    """A figure with four decimals, or six digits where it is large."""
    return f"{figure:,.4f}" if abs(figure) < 1000 else f"{figure:,.1f}"


def _aligned(calibration: "pl.DataFrame") -> list[str]:
    cells = [CALIBRATION] + [(b, f"{n:,}", f"{p:.4f}", f"{o:.4f}") for b, n, p, o in calibration.iter_rows()]
    widths = [max(len(row[k]) for row in cells) for k in range(4)]
    return [f"{row[0]:<{widths[0]}}  " + "  ".join(f"{row[k]:>{widths[k]}}" for k in (1, 2, 3)) for row in cells]
