"""A process that holds one contender and one case, and runs an iteration on request: `python -m lab.bench.worker`.

It reads requests as lines of JSON on stdin and answers as JSON: {"load": contender, "case": …, "threads": n}, then
{"run": true} any number of times. Between two lines it waits, so contenders in turn do not disturb one another.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lab.bench.data import Case, Cells, cp
from lab.bench.peers import OTHERS, Cannot, Peer, find
from lab.harness import machine
from lab.harness.apart import last_line


def save(case: Case, folder: Path) -> dict[str, Any]:
    """A case as JSON, its arrays as files in a folder."""
    found = asdict(case)
    for name, cells in case.relations.items():
        for part in ("index", "x"):
            np.save(folder / f"{name}.{part}.npy", getattr(cells, part))
        found["relations"][name] = {"axes": cells.axes, "files": str(folder / name)}
    for name, index in case.hidden.items():
        np.save(folder / f"{name}.hidden.npy", index)
        found["hidden"][name] = str(folder / f"{name}.hidden.npy")
    return found


def load(saved: dict[str, Any]) -> Case:
    """The case that was saved."""
    relations = {
        name: Cells(tuple(cells["axes"]), np.load(f"{cells['files']}.index.npy"), np.load(f"{cells['files']}.x.npy"))
        for name, cells in saved["relations"].items()
    }
    hidden = {name: np.load(path) for name, path in saved["hidden"].items()}
    return Case(**saved | {"relations": relations, "hidden": hidden})


def warm(kind: type[Peer], case: Case, threads: int) -> None:
    """Import a package, start its threads and compile what it compiles, on next to nothing."""
    order = len(next(iter(case.relations.values())).axes)
    # Samplers of zeros want nearly empty arrays, those that make them dense want small ones.
    tiny = cp(40, (100 if order == 2 else 30,) * order, 2, case.observed, case.likelihood)
    contender = kind(tiny, threads)
    contender.laps()


def main() -> None:
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # some contenders talk
    contender: Any = None
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if "load" in order:
                case, kind = load(order["case"]), find(order["load"])
                if order["load"] in OTHERS:
                    warm(kind, case, order["threads"])
                contender = kind(case, order["threads"])
                found: dict[str, Any] = {"actions": contender.actions}
            else:
                laps = {action: asdict(lap) for action, lap in contender.laps().items()}
                found = {"laps": laps, "peak": machine.peak()}
        except Cannot as reason:
            found = {"cannot": str(reason)}
        except Exception as error:  # an error of a contender is a row of the table
            found = {"cannot": last_line(f"{type(error).__name__}: {error}".strip().splitlines()[0])}
        print(json.dumps(found), file=answer, flush=True)
    os._exit(0)  # some contenders crash while they are taken down


if __name__ == "__main__":
    main()
