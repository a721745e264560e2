"""Results: one line of JSON for every finished cell, so that a long run can go on.

The first line says what the figures were measured on: data, size, version, machine, command. A line is written when its
cell is finished; a last line cut short by a power failure is left out and measured again. A cell that failed has a line
too, which says why; it is forgotten when the file is opened again.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from lab.harness.machine import machine
from plait.errors import DataError, ParameterError

Cell = Mapping[str, Any]  # of a table: {"method": "PLTF-VB", "missing": 0.6, "run": 3}
Figures = Mapping[str, Any]  # what was found: {"auc": 0.97, "ap": 0.55, "seconds": 0.4}
Line = dict[str, Any]

MACHINE = {"part": "machine"}  # a cell whose figures say when it was measured, with which versions


class Found:
    """What a file of results holds: finished cells, and failures."""

    def __init__(self, head: Mapping[str, Any], lines: Sequence[Line]) -> None:
        self.head = head
        self._by_cell = {_key(line["cell"]): line for line in lines}

    @property
    def lines(self) -> list[Line]:
        """Finished cells with their figures."""
        return [line for line in self._by_cell.values() if "failed" not in line["figures"]]

    @property
    def failures(self) -> list[Line]:
        """Cells that failed, and why."""
        return [line for line in self._by_cell.values() if "failed" in line["figures"]]

    def get(self, cell: Cell) -> Figures | None:
        """The figures of a cell; None if it is not finished."""
        figures = self._by_cell.get(_key(cell), {}).get("figures")
        return None if figures is None or "failed" in figures else figures

    def __contains__(self, cell: Cell) -> bool:
        return self.get(cell) is not None

    def part(self, name: str, **about: Any) -> Iterator[tuple[Cell, Figures]]:
        """The finished cells of a part, with these properties."""
        wanted = {"part": name, **about}
        for line in self.lines:
            if all(line["cell"].get(key) == value for key, value in wanted.items()):
                yield line["cell"], line["figures"]

    def records(self, cells: Sequence[Cell]) -> pl.DataFrame:
        """A row for every finished one of these cells; others in the file are of another time."""
        rows = [{**cell, **figures} for cell in cells if (figures := self.get(cell)) is not None]
        return pl.DataFrame(rows, infer_schema_length=None)


class Results(Found):
    """Finished cells of one experiment, in memory and on disk."""

    def __init__(self, path: Path, experiment: str, source: str, quick: bool, command: str) -> None:
        """Open a results file, or begin one; refuse one that was measured on something else."""
        import plait

        asked = {"experiment": experiment, "source": source, "quick": quick}
        place = {"plait": plait.__version__, "machine": machine()}
        _refuse_other(path, read(path).head, asked)
        forget(path, [line["cell"] for line in read(path).failures])
        found = read(path)
        head = found.head | {name: _added(str(found.head.get(name)), here) for name, here in place.items()}
        super().__init__(head if found.head else asked | {"command": command} | place, found.lines)
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        _rewrite(path, [self.head, *self.lines])

    def add(self, cell: Cell, figures: Figures) -> None:
        """Keep what was found for a cell, in place of what was found before."""
        line, is_known = {"cell": dict(cell), "figures": dict(figures)}, _key(cell) in self._by_cell
        self._by_cell[_key(cell)] = line
        if is_known:
            _rewrite(self.path, [self.head, *self._by_cell.values()])
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())


def read(path: Path) -> Found:
    """What a file holds; nothing if there is none. The last line may have been cut short."""
    texts = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []
    found: list[Line] = []
    for number, text in enumerate(texts, start=1):
        line = _understood(text)
        if line is not None and (number == 1 or line.keys() == {"cell", "figures"}):
            found.append(line)
        elif text and number < len(texts):
            raise DataError(
                f"{path}, line {number}: this is no line of results: {text[:60]}\nDelete the line, or the file."
            )
    return Found(found[0] if found else {}, found[1:])


def forget(path: Path, cells: Sequence[Cell], parts: Sequence[str] = ()) -> None:
    """Remove these cells and all of these parts from a file; without any cell, the machine too."""
    found = read(path)
    every = [*found.lines, *found.failures]
    kept = [line for line in every if line["cell"] not in cells and line["cell"].get("part") not in parts]
    if len(kept) == len(every):
        return
    if any(line["cell"] != MACHINE for line in kept):
        _rewrite(path, [found.head, *kept])
    else:
        path.unlink()


def title(cell: Cell) -> str:
    """A cell in words."""
    return ", ".join(str(value) for value in cell.values())


def _key(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True)


def _understood(text: str) -> Line | None:
    """A line as an object; None if it is something else, or nothing."""
    try:
        line = json.loads(text)
    except json.JSONDecodeError:
        return None
    return line if isinstance(line, dict) else None


def _added(before: str, now: str) -> str:
    """All places where a file of results was measured."""
    return before if now in before.split("; ") else f"{before}; {now}"


def _rewrite(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """The file without a torn last line, replaced as a whole."""
    new = path.with_suffix(".new")
    new.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    new.replace(path)


def _refuse_other(path: Path, found: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    for name, want in asked.items() if found else ():
        if found.get(name) != want:
            raise ParameterError(
                f"{path} holds results with {name} = {found.get(name)!r}, not {want!r}: the two must not be mixed.\n"
                f"Name another --folder, or start again: --fresh."
            )
