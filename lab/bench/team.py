"""Contenders side by side: a process each, all on the same case, one iteration in turn."""

import json
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.bench import measure, worker
from lab.bench.data import Case
from lab.bench.peers import find
from lab.bench.peers.peer import Lap
from lab.harness.apart import environment
from lab.harness.packages import missing

PATIENCE = 2.0  # seconds that an action of a contender may take in all, with the subtracted part
LIMIT = 15.0  # seconds after which a measurement is given up
LOADING = 90.0  # seconds to load, sort and compile, while the others do
REPEATS = 12
REST = 0.03  # seconds before each: threads of the one before spin for a while


@dataclass
class Member:
    """A contender: its process, what it has measured so far, or why it cannot."""

    name: str
    process: subprocess.Popen[str] | None = None
    cannot: str = ""
    laps: dict[str, list[Lap]] = field(default_factory=dict)  # by action
    spent: float = 0.0
    peak: int = 0

    def tell(self, order: Mapping[str, Any]) -> None:
        """Send a line; whether anybody reads it is for `answer` to see."""
        assert self.process
        assert self.process.stdin
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()

    def answer(self, limit: float = LIMIT, what: str = "no iteration measured") -> dict[str, Any]:
        """Wait for a line; a process that died or takes too long is out."""
        assert self.process
        try:
            line = _line(self.process, limit)
        except EOFError:
            line = json.dumps({"cannot": f"its process ended with code {self.process.wait()}"})
        except TimeoutError:
            line = json.dumps({"cannot": f"{what} within {limit:.0f} s"})
        found = dict(json.loads(line))
        if "cannot" in found:
            self.leave(found["cannot"])
        return found

    def leave(self, reason: str = "") -> None:
        """End the process."""
        self.cannot = self.cannot or reason
        if self.process:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                with suppress(BrokenPipeError):  # it never read the last order
                    pipe.close()
            self.process = None

    def run(self) -> None:
        """One measurement of every action."""
        time.sleep(REST)
        begin = time.perf_counter()
        self.tell({"run": True})
        found = self.answer()
        for action, lap in found.get("laps", {}).items():
            self.laps[action].append(Lap(**lap))
        self.spent += time.perf_counter() - begin
        self.peak = found.get("peak", 0)

    def has_time(self, patience: float) -> bool:
        """Whether another measurement fits."""
        measured = max((len(laps) for laps in self.laps.values()), default=0)
        return not self.cannot and self.spent * (1 + 1 / max(measured, 1)) <= patience * len(self.laps)

    def forget(self) -> None:
        """Start a new measurement."""
        self.laps, self.spent = {action: [] for action in self.laps}, 0.0

    def figures(self) -> dict[str, Any]:
        """Median, spread and peak; or the reason why there are none."""
        if self.cannot:
            return {"cannot": self.cannot}
        timings = {action: timing(laps) for action, laps in self.laps.items()}
        if any(found["seconds"] <= 0 for found in timings.values()):
            return {"cannot": "an iteration is lost in the noise of setting up"}
        return {"peak": self.peak, **timings}


def timing(laps: Sequence[Lap]) -> dict[str, Any]:
    """An iteration: the median of the long runs less that of the short ones, as many times less as lie between.

    rounds: each lap's own figure, so that what was measured in the same round can be compared.
    """
    long, short = (measure.Timing(tuple(getattr(lap, word) for lap in laps)) for word in ("long", "short"))
    between = laps[-1].between
    seconds, spread = (long.median - short.median) / between, (long.spread + short.spread) / between
    rounds = [float(f"{(lap.long - lap.short) / lap.between:.4g}") for lap in laps]
    return {"seconds": seconds, "spread": spread, "repeats": len(laps), "rounds": rounds}


def compete(case: Case, names: Sequence[str], threads: int, patience: float = PATIENCE) -> dict[str, dict[str, Any]]:
    """Every contender on the same case, interleaved. -> by contender: its figures, or why it has none."""
    with tempfile.TemporaryDirectory() as folder:
        saved = worker.save(case, Path(folder))
        members: list[Member] = []
        try:
            members += (_start(name, case, saved, threads) for name in names)
            for member in members:
                _loaded(member)
            _rounds(members, patience)
            return {member.name: member.figures() for member in members}
        finally:
            for member in members:
                member.leave()


def _start(name: str, case: Case, saved: dict[str, Any], threads: int) -> Member:
    contender = find(name)
    if reason := missing(contender.package) or contender.refuses(case):
        return Member(name, cannot=reason)
    process = subprocess.Popen(
        [sys.executable, "-m", "lab.bench.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=environment(threads),
    )  # fmt: skip
    member = Member(name, process)
    member.tell({"load": name, "case": saved, "threads": threads})
    return member


def _loaded(member: Member) -> None:
    """Wait until a contender has loaded the case."""
    if member.process:
        found = member.answer(LOADING, "not loaded")
        member.laps = {action: [] for action in found.get("actions", ())}


def _rounds(members: Sequence[Member], patience: float) -> None:
    """A first round that warms up and shows how long an iteration takes, then as many as patience allows."""
    for member in members:
        if member.process:
            member.run()
        if member.spent < patience / 2 * len(member.laps):  # else the first one is the measurement
            member.forget()
    for _ in range(REPEATS):
        for member in members:
            if member.process and member.has_time(patience):
                member.run()


def _line(process: subprocess.Popen[str], limit: float) -> str:
    """The next line of a process."""
    assert process.stdout
    if not select.select([process.stdout], [], [], limit)[0]:
        raise TimeoutError
    line = process.stdout.readline()
    if not line:
        raise EOFError
    return line
