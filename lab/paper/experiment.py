"""What an experiment is: a list of cells, and a way to measure one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lab.harness.results import Cell, Figures, read

Value = str | int | float | bool | None


@dataclass(frozen=True)
class Lab:
    """Where experiments are done.

    quick: everything small, to see that it works. data: the folder (or file) with the real data; without it a labelled
    stand-in is drawn. results: the folder with what was found so far.
    """

    quick: bool
    data: Path | None
    results: Path

    def finished(self, name: str) -> pl.DataFrame:
        """What another experiment has found: a row for every cell, its columns those of the cell and of its figures."""
        from lab.paper import experiment

        return read(self.file(name)).records(experiment(name).cells(self))

    def file(self, name: str) -> Path:
        """The results file of an experiment."""
        return self.results / f"{name}.jsonl"


def one_source(lab: Lab) -> str:
    """The source of experiments whose data are always drawn from the model."""
    return "drawn from the model"


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    name: of its file, its report (lab.paper.report.NAME) and on the command line. cells: what there is to measure.
    measure: one cell, from its seeds alone, so that any cell can be done again. source: which data it uses, a few
    words; results of different sources are never mixed. needs: experiments whose results it reads.
    """

    name: str
    title: str
    cells: Callable[[Lab], list[Cell]]
    measure: Callable[[Lab, Cell], Figures]
    source: Callable[[Lab], str] = one_source
    needs: tuple[str, ...] = ()
