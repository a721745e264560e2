"""The results file of an experiment: one line of JSON for every finished cell, so that a long run can go on.

The first line says what the figures were measured on: data, size, version, machine, command. A line is written when its
cell is finished; a last line cut short by a power failure is left out and measured again.
"""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from plait.errors import DataError, SettingError
from plait.machine import memory, processors
from plait.paper.experiment import Cell, Figures


class Results:
    """Finished cells of one experiment, in memory and on disk."""

    def __init__(self, path: Path, experiment: str, source: str, quick: bool, command: str) -> None:
        """Open a results file, or begin one; refuse one that was measured on something else."""
        import plait

        self.path = path
        asked = {"experiment": experiment, "source": source, "quick": quick}
        place = {"plait": plait.__version__, "machine": machine()}
        if path.exists() and (lines := _lines(path)):
            head = lines[0]
            _refuse_other(path, {name: head.get(name) for name in asked}, asked)
            self._done = {_key(line["cell"]): line for line in lines[1:]}
            head = head | {name: _added(str(head.get(name)), here) for name, here in place.items()}
            _rewrite(path, [head, *lines[1:]])
        else:
            self._done = {}
            head = asked | {"command": command} | place
            path.parent.mkdir(parents=True, exist_ok=True)
            _rewrite(path, [head])
        self.head: Mapping[str, Any] = head

    def __contains__(self, cell: Cell) -> bool:
        return _key(cell) in self._done

    def add(self, cell: Cell, figures: Figures) -> None:
        """Keep what was found for a cell."""
        line = {"cell": dict(cell), "figures": dict(figures)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._done[_key(cell)] = line

    def records(self, cells: Sequence[Cell]) -> pl.DataFrame:
        """A row for every finished one of these cells."""
        return _frame([self._done[_key(cell)] for cell in cells if cell in self])


def read(path: Path, cells: Sequence[Cell]) -> pl.DataFrame:
    """A row for every one of these cells that a results file has; others are of another time."""
    if not path.exists():
        return pl.DataFrame()
    found = {_key(line["cell"]): line for line in _lines(path)[1:]}
    return _frame([found[_key(cell)] for cell in cells if _key(cell) in found])


def head(path: Path) -> dict[str, Any]:
    """What the figures of a results file were measured on."""
    return _lines(path)[0]


def machine() -> str:
    """A few words on this machine."""
    return (
        f"{processors()} × {_processor()}, {memory() / 1e9:.0f} GB, {platform.system()}, "
        f"Python {platform.python_version()}"
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def _key(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True)


def _frame(lines: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame([line["cell"] | line["figures"] for line in lines], infer_schema_length=None)


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a results file; the last may have been cut short."""
    texts = path.read_text(encoding="utf-8", errors="replace").split("\n")
    found: list[dict[str, Any]] = []
    for number, text in enumerate(texts, start=1):
        line = _understood(text)
        if line is not None and (number == 1 or line.keys() == {"cell", "figures"}):
            found.append(line)
        elif text and number < len(texts):
            raise DataError(
                f"{path}, line {number}: this is no line of results: {text[:60]}\nDelete the line, or the file."
            )
    return found


def _understood(text: str) -> dict[str, Any] | None:
    """A line as an object; None if it is something else, or nothing."""
    try:
        line = json.loads(text)
    except json.JSONDecodeError:
        return None
    return line if isinstance(line, dict) else None


def _added(before: str, now: str) -> str:
    """All places where a file of results was measured."""
    return before if now in before.split("; ") else f"{before}; {now}"


def _rewrite(path: Path, lines: list[dict[str, Any]]) -> None:
    """The file without a torn last line, replaced as a whole."""
    new = path.with_suffix(".new")
    new.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    new.replace(path)


def _refuse_other(path: Path, found: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    for name, want in asked.items():
        if found[name] != want:
            raise SettingError(
                f"{path} holds results with {name} = {found[name]!r}, not {want!r}: the two must not be mixed.\n"
                f"Name another --folder, or begin anew: --fresh."
            )
