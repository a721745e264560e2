"""Results: one line of JSON for every finished row, kept as `plait paper` keeps its own."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version as installed
from pathlib import Path
from subprocess import CalledProcessError, TimeoutExpired
from typing import Any

from bench.measure import last_line
from bench.peers import OTHERS, find, version
from bench.rows import Figures, Row
from plait.paper.results import Results

NAME = "results.jsonl"
MACHINE = {"part": "machine"}
CORE = ("numpy", "numba", "polars")


@dataclass(frozen=True)
class Study:
    """What a file of results is about; packages: those that Plait is measured beside."""

    name: str
    source: str
    packages: Callable[[], set[str]]


SPEED = Study("bench", "drawn", lambda: {find(name).package for name in OTHERS})


def run(
    rows: list[Row], file: Path, quick: bool, command: str, watch: Callable[[str], None] = print,
    study: Study = SPEED,
) -> list[str]:  # fmt: skip
    """Measure the rows that have no result yet; each is kept when it is finished. The words of those that failed."""
    forget(file, [line["cell"] for line in read(file).failures])
    kept = Results(file, study.name, study.source, quick, command)
    if MACHINE not in kept:
        kept.add(MACHINE, {"date": date.today().isoformat(), "versions": versions(study.packages())})
    todo, failed = [row for row in rows if row.about not in kept], []
    for count, row in enumerate(todo, start=1):
        watch(f"{count} of {len(todo)}: {title(row.about)}")
        try:
            kept.add(row.about, row.measure(read(file).get))
        except Exception as error:  # one row less is better than none; the page says so, and a rerun tries again
            reason = why(error)
            kept.add(row.about, {"failed": reason})
            failed.append(f"{title(row.about)}: {reason}")
    return failed


def why(error: Exception) -> str:
    """Why a row failed, in a few words and without paths."""
    if isinstance(error, TimeoutExpired):
        return f"not done within {error.timeout:.0f} s"
    if isinstance(error, CalledProcessError):
        return f"a process ended with code {error.returncode}"
    return last_line(str(error) or type(error).__name__)


def forget(file: Path, cells: Sequence[Mapping[str, Any]], parts: Sequence[str] = ()) -> None:
    """Leave these rows out of a file, and all of these parts; if no row is left, what is said of the machine too."""
    found = read(file)
    every = [*found.lines, *found.failures]
    kept = [line for line in every if line["cell"] not in cells and line["cell"]["part"] not in parts]
    if len(kept) == len(every):
        return
    if any(line["cell"] != MACHINE for line in kept):
        lines = [found.head, *kept]
        file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    else:
        file.unlink()


class Found:
    """What a file of results holds: finished rows, and failures."""

    def __init__(self, head: Mapping[str, Any], lines: list[dict[str, Any]]) -> None:
        self.head = head
        self.lines = [line for line in lines if "failed" not in line["figures"]]
        self.failures = [line for line in lines if "failed" in line["figures"]]

    def get(self, about: Mapping[str, Any]) -> Figures | None:
        """The figures of one row; None if it is not finished."""
        return next((line["figures"] for line in self.lines if line["cell"] == dict(about)), None)

    def part(self, name: str, **about: Any) -> Iterator[tuple[dict[str, Any], Figures]]:
        """The rows of a part, with these properties: what they are and what was found."""
        wanted = {"part": name, **about}.items()
        return ((line["cell"], line["figures"]) for line in self.lines if wanted <= _hashable(line["cell"]).items())


def read(file: Path) -> Found:
    """The finished rows of a file; a last line that was cut short is left out."""
    lines = []
    for text in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return Found(lines[0] if lines else {}, lines[1:])


def title(about: Mapping[str, Any]) -> str:
    """A row in words."""
    return ", ".join(str(value) for value in about.values())


def versions(packages: set[str]) -> dict[str, str]:
    """The packages that were measured, as far as they are there, and those beneath."""
    return {name: installed(name) for name in CORE} | {
        name: found for name in sorted(packages) if (found := version(name))
    }


def _hashable(about: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in about.items() if not isinstance(value, list)}
