"""What a person sees while a fit runs or a test is ranked, and what Ctrl-C does.

On a terminal a bar on stderr (lines where nothing can move, TERM=dumb), in a notebook a line of the cell, in a pipe
nothing, a callable for anything else. A callable gets every `Record`; returning False stops the fit.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from plait.errors import ParameterError
from plait.inference.loop import OnSweep
from plait.inference.state import Reason, Record, Stop
from plait.tuning import TUNING

Callback = Callable[[Record], Any]
SECONDS = 5.0  # between two lines on a terminal that has no bar
REDRAWN = 0.2  # seconds between two states of a line in a notebook: each is a message to a browser
WIDTH = 20  # characters of a bar in a notebook


@dataclass(frozen=True)
class Progress:
    """How a fit reports.

    bar: True, False, or None for "on a terminal and in a notebook". callback: sees every record; returning False stops
    the fit. interrupt: what Ctrl-C does: "return" the fit so far at the end of the sweep (a second Ctrl-C raises), or
    "raise" KeyboardInterrupt at once. None returns it, with an `InterruptedWarning`; but a program that has a handler
    of its own for Ctrl-C keeps that.
    """

    bar: bool | None = None
    callback: Callback | None = None
    interrupt: Literal["raise", "return"] | None = None

    def __post_init__(self) -> None:
        if self.interrupt not in ("raise", "return", None):
            raise ParameterError.must_be("interrupt", '"raise", "return" or None', self.interrupt)
        if self.callback is not None and not callable(self.callback):
            raise ParameterError.must_be("callback", "callable", self.callback)


def as_progress(given: "Progress | bool | Callback | None") -> Progress:
    """The `progress=` argument in its full form."""
    if isinstance(given, Progress):
        return given
    if given is None or isinstance(given, bool):
        return Progress(bar=given)
    if callable(given):
        return Progress(bar=False, callback=given)
    raise ParameterError.must_be("progress", "None, True, False, a callable or a plait.Progress", given)


@contextmanager
def watching(progress: Progress, sweeps: int, members: int = 1) -> Iterator[OnSweep]:
    """A watcher for the loops of all members, with its bar and its Ctrl-C handler while they run."""
    with _bar(sweeps, members, _is_shown(progress.bar)) as advance, _interrupts(progress.interrupt) as interrupted:

        def watch(record: Record) -> Stop | None:
            advance(record)
            if progress.callback is not None and progress.callback(record) is False:
                return Stop(Reason.CALLBACK, f"stopped by the progress callable {_when(record)}.")
            if interrupted.is_set():
                return Stop(Reason.INTERRUPTED, f"interrupted {_when(record)}; this is the fit so far.")
            return None

        yield watch


@contextmanager
def counting(
    what: str, total: int, show: bool | None = None, *, percent: bool = False
) -> Iterator[Callable[[int], None]]:
    """A bar for work of `total` parts, told of each so many that are done; it appears when the work takes long.

    show: True, False, or None for "on a terminal and in a notebook". percent: whether parts are said as percentages.
    """
    if not _is_shown(show):
        yield lambda more: None
        return
    if in_notebook():
        with _counting_in_cell(what, total) as count:
            yield count
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    began, started = time.monotonic(), False
    said = TaskProgressColumn() if percent else MofNCompleteColumn()
    columns = (TextColumn(what), said, BarColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=total)

    def advance(more: int) -> None:
        nonlocal started
        bar.advance(task, more)
        if not started and time.monotonic() - began >= TUNING.quiet_seconds:
            started = True
            bar.start()

    try:
        yield advance
    finally:
        if started:
            bar.stop()


def _is_shown(bar: bool | None) -> bool:
    """Whether a person is to see how far it is; None: where somebody can."""
    return (sys.stderr.isatty() or in_notebook()) if bar is None else bar


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook. IPython is not imported for it: there it is already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None  # a shell on a terminal has none


@contextmanager
def _cell_line(end: str | None = None) -> Iterator[Callable[[str], None]]:
    """A line of the notebook's cell, written anew with each text; in the end the last one stays, or `end`.

    Text of a display, which every front end can replace: bars of rich need ipywidgets there, and stderr is red.
    """
    from IPython import display as shown

    display: Any = shown.display  # untyped
    handle: Any = None  # a line that says nothing is not there
    last, said = "", 0.0

    def say(text: str) -> None:
        nonlocal handle, last, said
        last = text
        if handle is None:
            handle = display({"text/plain": text}, raw=True, display_id=True)
        elif time.monotonic() - said >= REDRAWN:
            handle.update({"text/plain": text}, raw=True)
        else:
            return
        said = time.monotonic()

    try:
        yield say
    finally:
        if handle is not None:
            handle.update({"text/plain": last if end is None else end}, raw=True)


def _drawn(done: int, total: int) -> str:
    full = WIDTH * min(done, total) // max(total, 1)
    return f"{done:,}/{total:,} {'█' * full}{'░' * (WIDTH - full)}"


@contextmanager
def _counting_in_cell(what: str, total: int) -> Iterator[Callable[[int], None]]:
    done, began = 0, time.monotonic()
    with _cell_line(end="") as say:

        def advance(more: int) -> None:
            nonlocal done
            done += more
            if time.monotonic() - began >= TUNING.quiet_seconds:
                say(f"{what} {_drawn(done, total)}")

        yield advance


@contextmanager
def _bar_in_cell(sweeps: int, members: int) -> Iterator[Callable[[Record], None]]:
    done, began = 0, time.monotonic()
    with _cell_line() as say:
        say("compiling")

        def advance(record: Record) -> None:
            nonlocal done
            done = _done(record, done, members)
            seconds = time.monotonic() - began
            say(f"sweep {_drawn(done, sweeps * members)}  {''.join(_reached(record))}  {seconds:.0f} s")

        yield advance


@contextmanager
def _bar(sweeps: int, members: int, show: bool) -> Iterator[Callable[[Record], None]]:
    if not show:
        yield lambda record: None
        return
    if in_notebook():
        with _bar_in_cell(sweeps, members) as advance:
            yield advance
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if console.is_dumb_terminal:  # nothing can move there
        with _lines(sweeps, members) as advance:
            yield advance
        return
    wide = console.width >= 80  # else the bar would leave no room for the numbers
    columns = (TextColumn("sweep"), MofNCompleteColumn(), *([BarColumn()] if wide else []))
    times = (TimeElapsedColumn(), *([TimeRemainingColumn()] if wide else []))
    with Progress(*columns, TextColumn("{task.description}"), *times, console=console, transient=True) as bar:
        task, done = bar.add_task("compiling", total=sweeps * members), 0

        def advance(record: Record) -> None:
            nonlocal done
            bound, change = _reached(record)
            done = _done(record, done, members)
            bar.update(task, completed=done, description=f"{bound}{change}" if console.width >= 60 else bound)

        yield advance


def _done(record: Record, done: int, members: int) -> int:
    """Sweeps done by now, of all members together; those of a warm-up do not count."""
    return done + (record.sweep > 0) if members > 1 else max(record.sweep, 0)


@contextmanager
def _lines(sweeps: int, members: int) -> Iterator[Callable[[Record], None]]:
    """A plain line every few seconds, and one at the end."""
    said, last = time.monotonic(), None

    def say(record: Record) -> None:
        place = "" if record.warm_up else f"sweep {record.sweep}/{sweeps}  "
        print(f"{place}{''.join(_reached(record))}", file=sys.stderr, flush=True)

    def advance(record: Record) -> None:
        nonlocal said, last
        last = record
        if time.monotonic() - said >= SECONDS:
            said, last = time.monotonic(), None
            say(record)

    try:
        yield advance
    finally:
        if last is not None:
            say(last)


@contextmanager
def saying(progress: Progress) -> Iterator[Callable[[str], None]]:
    """Tells a person what is tried before a fit begins: words that change in place, or lines where nothing can move."""
    if not _is_shown(progress.bar):
        yield lambda text: None
        return
    if in_notebook():
        with _cell_line(end="") as say:
            yield say
        return
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        yield lambda text: print(text, file=sys.stderr, flush=True)
        return
    with console.status("") as status:
        yield status.update


def _when(record: Record) -> str:
    return "in the warm-up" if record.warm_up else f"after {record.sweep} sweeps"


def _reached(record: Record) -> tuple[str, str]:
    word = "warm-up" if record.warm_up else "objective"
    return f"{word} {record.objective:,.6g}", f"  change {record.change:.1e}" if isfinite(record.change) else ""


@contextmanager
def _interrupts(mode: str | None) -> Iterator[threading.Event]:
    """Unless Ctrl-C is to raise: the first one only sets a flag, so that no update is ever cut in two."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread() or not _takes_over(mode):
        yield pressed
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: Any) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, handle)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _takes_over(mode: str | None) -> bool:
    """Whether a fit handles Ctrl-C itself; a program that was not asked may have a handler that must hear of it."""
    return mode == "return" or (mode is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler)
