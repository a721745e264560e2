"""What-ifs: a bounded queue of questions, answered one after another by a subprocess (`worker`).

A refit takes all processors for seconds to minutes; pages are served meanwhile. Nothing is saved.
"""

import contextlib
import json
import queue
import secrets
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plait.explore import subprocesses
from plait.explore.request import Refused
from plait.tuning import TUNING

MAX_WAITING_JOBS = 8


@dataclass(frozen=True)
class Question:
    """Prediction of a cell of a relation if another cell (`link`, of `changing`) had this value.

    Cells are row numbers; `value`: 0 for an observed zero, None for missing. `claim`: first-order estimate of
    `explain`, None without one.
    """

    relation: str
    cell: tuple[int, ...]
    changing: str
    link: tuple[int, ...]
    value: float | None
    claim: float | None = None


@dataclass
class TrialJob:
    """A question and its state: waiting, running, done, failed, cancelled or late."""

    id: str
    question: Question
    state: str = "waiting"
    phase: str = ""
    sweep: int = 0
    answer: Mapping[str, Any] = field(default_factory=dict)
    asked: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    @property
    def ended(self) -> bool:
        return self.state not in ("waiting", "running")


class Trials:
    """All what-ifs of an explorer. `limit`: seconds per question; `seal`: of the run shown."""

    def __init__(self, run: str, folder: str | None, limit: float, seal: str) -> None:
        self.limit, self.jobs = limit, OrderedDict[str, TrialJob]()
        self.command = [sys.executable, "-m", "plait.explore.worker", run, seal,
                        *([] if folder is None else [folder])]  # fmt: skip
        self.waiting: queue.Queue[TrialJob | None] = queue.Queue(MAX_WAITING_JOBS)
        self.worker: subprocess.Popen[str] | None = None
        self.is_closed, self.lock = False, threading.Lock()
        self.thread = threading.Thread(target=self._work, name="what-if", daemon=True)
        self.thread.start()

    def ask(self, question: Question) -> TrialJob:
        """Queue a question; refused if the queue is full."""
        job = TrialJob(secrets.token_hex(8), question)
        try:
            self.waiting.put_nowait(job)
        except queue.Full:
            what = f"{MAX_WAITING_JOBS} what-ifs are already waiting."
            raise Refused(503, what, "Wait until one ends, or cancel one.") from None
        with self.lock:
            self.jobs[job.id] = job
            while len(self.jobs) > TUNING.whatif_answers:
                self.jobs.popitem(last=False)
        return job

    def job(self, id: str) -> TrialJob:
        with self.lock:
            job = self.jobs.get(id)
        if job is None:
            what = "this what-if does not exist, or its result is no longer stored."
            raise Refused(404, what, "Start it again from the page of the link.")
        return job

    def ahead(self, job: TrialJob) -> int:
        """Number of questions before this one."""
        with self.lock:
            others = list(self.jobs.values())
        return sum(not other.ended and other.asked < job.asked for other in others)

    def cancel(self, id: str) -> TrialJob:
        job = self.job(id)
        if not job.ended:
            running, job.state = job.state == "running", "cancelled"
            if running:
                self._tell({"cancel": job.id})
            with contextlib.suppress(ValueError), self.waiting.mutex:  # frees its place in the queue
                self.waiting.queue.remove(job)
        return job

    def close(self) -> None:
        """End the process and the thread."""
        self.is_closed = True
        worker = self.worker
        if worker is not None:
            worker.kill()  # the thread that reads from it sees the end
        with contextlib.suppress(queue.Full):
            self.waiting.put_nowait(None)
        self.thread.join(TUNING.whatif_grace_seconds)
        subprocesses.end(worker)

    # --- the thread

    def _work(self) -> None:
        while (job := self.waiting.get()) is not None and not self.is_closed:
            if not job.ended:
                self._answer(job)

    def _answer(self, job: TrialJob) -> None:
        began, q = time.monotonic(), job.question
        job.state, job.phase = "running", "starting"
        watch = threading.Timer(self.limit, self._late, [job])
        watch.daemon = True
        watch.start()
        try:
            worker = self._started()
            self._tell({"id": job.id, "relation": q.relation, "cell": q.cell, "changing": q.changing, "link": q.link,
                        "value": q.value})  # fmt: skip
            self._listen(job, worker)
        except OSError as error:  # no process could be started
            job.answer, job.state = {"what": f"the refit cannot start: {error.strerror}."}, "failed"
        finally:
            watch.cancel()
            job.seconds = time.monotonic() - began

    def _listen(self, job: TrialJob, worker: "subprocess.Popen[str]") -> None:
        """Follow a question until its answer."""
        assert worker.stdout is not None
        for line in worker.stdout:
            message = json.loads(line)
            if message["id"] != job.id:
                continue
            if message["kind"] == "progress":
                job.phase, job.sweep = message["phase"], message["sweep"]
                continue
            if not job.ended:
                job.answer, job.state = message, message["kind"]
            return
        self.worker = None
        subprocesses.end(worker)  # ended without an answer
        if not job.ended:
            what = (
                "the process of the refit ended unexpectedly, possibly for lack of memory; see the "
                "terminal of the explorer."
            )
            job.answer = {"what": what}
            job.state = "failed"

    def _late(self, job: TrialJob) -> None:
        """End a question that exceeds the time limit."""
        if not job.ended:
            job.state = "late"
            self._tell({"cancel": job.id})
        last = threading.Timer(TUNING.whatif_grace_seconds, self._give_up, [job, self.worker])
        last.daemon = True
        last.start()

    def _give_up(self, job: TrialJob, worker: "subprocess.Popen[str] | None") -> None:
        if job.seconds == 0.0 and worker is not None:  # not answered
            worker.kill()

    def _started(self) -> "subprocess.Popen[str]":
        if self.worker is None or self.worker.poll() is not None:
            self.worker = subprocesses.start(self.command)
        return self.worker

    def _tell(self, line: Mapping[str, Any]) -> None:
        worker = self.worker
        if worker is not None and worker.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                worker.stdin.write(json.dumps(line) + "\n")
                worker.stdin.flush()
