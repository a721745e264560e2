"""What-ifs: a bounded queue of questions, answered one after another by a process of its own (`worker`).

Fitting again takes all processors and seconds to minutes; pages are served meanwhile. Nothing is ever saved.
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

MOST_WAITING = 8


@dataclass(frozen=True)
class Question:
    """What would be predicted of a cell of a relation, were another cell (link, of changing) of this value?

    Cells are row numbers; value: 0 for an observed zero, None for missing. claim: what `explain` says of it to first
    order, the fraction by which the mean would be smaller; None where it says nothing.
    """

    relation: str
    cell: tuple[int, ...]
    changing: str
    link: tuple[int, ...]
    value: float | None
    claim: float | None = None


@dataclass
class TrialJob:
    """A question and how far its answer is: waiting, running, done, failed, cancelled or late."""

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
        """Whether nothing more will come."""
        return self.state not in ("waiting", "running")


class Trials:
    """All what-ifs of an explorer. limit: seconds that one may take; seal: of the run that is shown."""

    def __init__(self, run: str, folder: str | None, limit: float, seal: str) -> None:
        self.limit, self.jobs = limit, OrderedDict[str, TrialJob]()
        self.command = [sys.executable, "-m", "plait.explore.worker", run, seal,
                        *([] if folder is None else [folder])]  # fmt: skip
        self.waiting: queue.Queue[TrialJob | None] = queue.Queue(MOST_WAITING)
        self.worker: subprocess.Popen[str] | None = None
        self.closed, self.lock = False, threading.Lock()
        self.thread = threading.Thread(target=self._work, name="what-if", daemon=True)
        self.thread.start()

    def ask(self, question: Question) -> TrialJob:
        """Put a question into the queue; a full one is refused."""
        job = TrialJob(secrets.token_hex(8), question)
        try:
            self.waiting.put_nowait(job)
        except queue.Full:
            what = f"{MOST_WAITING} what-ifs are waiting already."
            raise Refused(503, what, "Wait until one of them has ended, or cancel one.") from None
        with self.lock:
            self.jobs[job.id] = job
            while len(self.jobs) > TUNING.whatif_answers:
                self.jobs.popitem(last=False)
        return job

    def job(self, id: str) -> TrialJob:
        """A question by its number."""
        with self.lock:
            found = self.jobs.get(id)
        if found is None:
            what = "there is no such what-if, or it was so long ago that its answer is not kept."
            raise Refused(404, what, "Ask again from the page of the link.")
        return found

    def ahead(self, job: TrialJob) -> int:
        """How many questions are answered before this one."""
        with self.lock:
            others = list(self.jobs.values())
        return sum(not other.ended and other.asked < job.asked for other in others)

    def cancel(self, id: str) -> TrialJob:
        """Stop waiting for an answer."""
        job = self.job(id)
        if not job.ended:
            running, job.state = job.state == "running", "cancelled"
            if running:
                self._tell({"cancel": job.id})
            with contextlib.suppress(ValueError), self.waiting.mutex:  # the next one has its place
                self.waiting.queue.remove(job)
        return job

    def close(self) -> None:
        """End the process and the thread."""
        self.closed = True
        worker = self.worker
        if worker is not None:
            worker.kill()  # the thread, which reads from it, sees its end
        with contextlib.suppress(queue.Full):
            self.waiting.put_nowait(None)
        self.thread.join(TUNING.whatif_grace_seconds)
        subprocesses.end(worker)

    # --- the thread

    def _work(self) -> None:
        while (job := self.waiting.get()) is not None and not self.closed:
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
            job.answer, job.state = {"what": f"nothing can be fitted: {error.strerror}."}, "failed"
        finally:
            watch.cancel()
            job.seconds = time.monotonic() - began

    def _listen(self, job: TrialJob, worker: "subprocess.Popen[str]") -> None:
        """Follow a question until its answer."""
        assert worker.stdout is not None
        for line in worker.stdout:
            told = json.loads(line)
            if told["id"] != job.id:
                continue
            if told["kind"] == "progress":
                job.phase, job.sweep = told["phase"], told["sweep"]
                continue
            if not job.ended:
                job.answer, job.state = told, told["kind"]
            return
        self.worker = None
        subprocesses.end(worker)  # it has ended without an answer
        if not job.ended:
            what = "the process that fits again has ended, perhaps for lack of memory; see the explorer's terminal."
            job.answer = {"what": what}
            job.state = "failed"

    def _late(self, job: TrialJob) -> None:
        """A question that takes too long."""
        if not job.ended:
            job.state = "late"
            self._tell({"cancel": job.id})
        last = threading.Timer(TUNING.whatif_grace_seconds, self._give_up, [job, self.worker])
        last.daemon = True
        last.start()

    def _give_up(self, job: TrialJob, worker: "subprocess.Popen[str] | None") -> None:
        if job.seconds == 0.0 and worker is not None:  # still not answered
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
