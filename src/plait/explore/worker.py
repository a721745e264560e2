"""Worker process of what-ifs: `python -m plait.explore.worker RUN SEAL [FOLDER]`.

It reads one question per line on stdin, as JSON, writes progress and answers to stdout, and ends when stdin does. SEAL
identifies the run: row numbers of another one are other entities. A question is {"id", "relation", "cell", "changing",
"link", "value"} with cells by row numbers, or {"cancel": id}.
"""

import contextlib
import hashlib
import json
import os
import queue
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plait.analysis.explain.counterfactual import try_change
from plait.config.config_file import data_of
from plait.errors import FileLocation, PlaitError, StorageError
from plait.result import Fit, load
from plait.storage.run_folder import manifest


class Cancelled(Exception):
    """The question was cancelled."""


class Worker:
    """Reads the run and its data at the first question."""

    def __init__(self, run: str, seal: str, folder: str | None, out: Any) -> None:
        self.run, self.seal, self.folder, self.out = run, seal, folder, out
        self.cancelled: set[str] = set()
        self.held: tuple[Fit, Any] | None = None

    def say(self, id: str, kind: str, **more: Any) -> None:
        """Write one line."""
        self.out.write(json.dumps({"id": id, "kind": kind, **more}) + "\n")
        self.out.flush()

    def answer(self, asked: dict[str, Any]) -> None:
        """Refit and write the answer."""
        id = asked["id"]
        try:
            self.say(id, "progress", phase="reading", sweep=0)
            fit, data = self._data()
            self._go_on(id, "reading", 0)
            trial = try_change(
                fit, data, asked["relation"], _named(fit, asked["relation"], asked["cell"]), asked["changing"],
                _named(fit, asked["changing"], asked["link"]), asked["value"],
                on_sweep=lambda phase, sweep: self._go_on(id, phase, sweep),
            )  # fmt: skip
            self.say(id, "done", before=dict(trial.before), after=dict(trial.after), loss=trial.loss)
        except Cancelled:
            self.say(id, "cancelled")
        except (PlaitError, OSError, MemoryError) as error:
            self.say(id, "failed", what=str(error) or type(error).__name__)

    def _data(self) -> tuple[Fit, Any]:
        if self.held is None:
            fit = load(self.run)
            if seal(manifest(self.run)) != self.seal:
                raise StorageError(
                    "the run has changed since the start of the explorer.",
                    location=FileLocation(Path(self.run)),
                    hint="Start the explorer again.",
                )
            self.held = fit, data_of(fit, self.run, self.folder)
        return self.held

    def _go_on(self, id: str, phase: str, sweep: int) -> None:
        if id in self.cancelled:
            raise Cancelled
        if sweep % 10 == 0:
            self.say(id, "progress", phase=phase, sweep=sweep)


def seal(header: Mapping[str, Any]) -> str:
    """Digest of a run's manifest, which has the checksums of all its files."""
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def _named(fit: Fit, relation: str, rows: list[int]) -> dict[str, Any]:
    return {i: fit.entities[i][row] for i, row in zip(fit.model.equation(relation).indices, rows)}


def main(run: str, seal: str, folder: str | None = None) -> None:
    """Answer until stdin ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # other prints must not disturb the answers
    with contextlib.suppress(AttributeError, OSError):
        os.nice(10)  # pages have priority
    worker, questions = Worker(run, seal, folder, out), queue.Queue[dict[str, Any]]()

    def listen() -> None:
        for line in sys.stdin:
            request = json.loads(line)
            if "cancel" in request:
                worker.cancelled.add(request["cancel"])
            else:
                questions.put(request)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        worker.answer(questions.get())


if __name__ == "__main__":
    main(*sys.argv[1:])
