"""Progress of fits and evaluations, and handling of Ctrl-C.

A bar on stderr of a terminal (lines with TERM=dumb), a line of the cell in a notebook, nothing in a pipe. A callable
gets every `Record`; returning False stops the fit.
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
LINE_SECONDS = 5.0  # between lines on a terminal without a bar
REDRAW_SECONDS = 0.2  # in a notebook, where each is a message to a browser
BAR_CHARACTERS = 20  # in a notebook


@dataclass(frozen=True)
class Progress:
    """How a fit reports its progress, and what Ctrl-C does.

    Parameters
    ----------
    bar : bool or None, default None
        Whether to show a bar. ``None`` shows it on a terminal and in a notebook.
    callback : callable, default None
        Called with the record of every sweep: ``sweep``, ``objective``, ``change``,
        ``seconds``, ``rank``. The fit stops when it returns ``False``.
    interrupt : one of "return", "raise" or None, default None
        What Ctrl-C does. ``"return"`` returns the fit so far at the end of the sweep; a second
        Ctrl-C raises. ``"raise"`` raises ``KeyboardInterrupt`` immediately. ``None`` is
        ``"return"`` with an `InterruptedWarning`, unless the program handles Ctrl-C itself.

    Raises
    ------
    plait.errors.ParameterError
        If ``callback`` is not callable or ``interrupt`` is wrong.

    Examples
    --------
    >>> seen = []
    >>> progress = plait.Progress(bar=False, callback=lambda record: seen.append(record.sweep))
    >>> fit = plait.fit(model, {"visits": visits}, progress=progress, **quick)
    >>> seen
    [0, 1, 2, 3, 4, 5]
    """

    bar: bool | None = None
    callback: Callback | None = None
    interrupt: Literal["raise", "return"] | None = None
    # Not the user's: what the command line says in a pipe as a phase begins.
    _on_phase: Callable[[str], None] | None = None

    def _announce(self, phase: str) -> None:
        """Say that a phase begins, where no bar shows it."""
        if self._on_phase is not None and not _is_shown(self.bar):
            self._on_phase(phase)

    def __post_init__(self) -> None:
        if self.interrupt not in ("raise", "return", None):
            raise ParameterError.must_be("interrupt", '"raise", "return" or None', self.interrupt)
        if self.callback is not None and not callable(self.callback):
            raise ParameterError.must_be("callback", "callable", self.callback)


def as_progress(given: "Progress | bool | Callback | None") -> Progress:
    """The argument `progress` in its full form."""
    if isinstance(given, Progress):
        return given
    if given is None or isinstance(given, bool):
        return Progress(bar=given)
    if callable(given):
        return Progress(bar=False, callback=given)
    raise ParameterError.must_be("progress", "None, True, False, a callable or a plait.Progress", given)


@contextmanager
def watching(progress: Progress, sweeps: int, members: int = 1) -> Iterator[OnSweep]:
    """Watcher of the loops of all members, with its bar and Ctrl-C handler."""
    with _bar(sweeps, members, _is_shown(progress.bar)) as advance, _interrupts(progress.interrupt) as interrupted:

        def watch(record: Record) -> Stop | None:
            advance(record)
            if progress.callback is not None and progress.callback(record) is False:
                return Stop(Reason.CALLBACK, f"stopped by the progress callable {_when(record)}.")
            if interrupted.is_set():
                return Stop(Reason.INTERRUPTED, f"interrupted {_when(record)}; the result is the fit so far.")
            return None

        yield watch


@contextmanager
def counting(
    what: str, total: int, show: bool | None = None, *, percent: bool = False
) -> Iterator[Callable[[int], None]]:
    """A bar for work of `total` parts, advanced by the number of parts done; it appears when the work takes long.

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
    """Whether to show progress; None: on a terminal or in a notebook."""
    return (sys.stderr.isatty() or in_notebook()) if bar is None else bar


def in_notebook() -> bool:
    """Whether this is a notebook kernel, without importing IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None  # a terminal shell has none


@contextmanager
def _cell_line(end: str | None = None) -> Iterator[Callable[[str], None]]:
    """A line of the notebook's cell that is replaced by each text; the last one stays, or `end`.

    Display text, which every front end can replace: bars of rich need ipywidgets, and stderr is red.
    """
    from IPython import display as shown

    display: Any = shown.display  # untyped
    handle: Any = None  # no display before the first text
    last, said = "", 0.0

    def say(text: str) -> None:
        nonlocal handle, last, said
        last = text
        if handle is None:
            handle = display({"text/plain": text}, raw=True, display_id=True)
        elif time.monotonic() - said >= REDRAW_SECONDS:
            handle.update({"text/plain": text}, raw=True)
        else:
            return
        said = time.monotonic()

    try:
        yield say
    finally:
        if handle is not None:
            handle.update({"text/plain": last if end is None else end}, raw=True)


def _draw_bar(done: int, total: int) -> str:
    full = BAR_CHARACTERS * min(done, total) // max(total, 1)
    return f"{done:,}/{total:,} {'█' * full}{'░' * (BAR_CHARACTERS - full)}"


@contextmanager
def _counting_in_cell(what: str, total: int) -> Iterator[Callable[[int], None]]:
    done, began = 0, time.monotonic()
    with _cell_line(end="") as say:

        def advance(more: int) -> None:
            nonlocal done
            done += more
            if time.monotonic() - began >= TUNING.quiet_seconds:
                say(f"{what} {_draw_bar(done, total)}")

        yield advance


@contextmanager
def _bar_in_cell(sweeps: int, members: int) -> Iterator[Callable[[Record], None]]:
    done, began = 0, time.monotonic()
    with _cell_line() as say:
        say("compiling")

        def advance(record: Record) -> None:
            nonlocal done
            done = _sweeps_done(record, done, members)
            seconds = time.monotonic() - began
            say(f"sweep {_draw_bar(done, sweeps * members)}  {''.join(_reached(record))}  {seconds:.0f} s")

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
    if console.is_dumb_terminal:  # no cursor movement
        with _lines(sweeps, members) as advance:
            yield advance
        return
    wide = console.width >= 80  # else there is no space for the numbers
    columns = (TextColumn("sweep"), MofNCompleteColumn(), *([BarColumn()] if wide else []))
    times = (TimeElapsedColumn(), *([TimeRemainingColumn()] if wide else []))
    with Progress(*columns, TextColumn("{task.description}"), *times, console=console, transient=True) as bar:
        task, done = bar.add_task("compiling", total=sweeps * members), 0

        def advance(record: Record) -> None:
            nonlocal done
            bound, change = _reached(record)
            done = _sweeps_done(record, done, members)
            bar.update(task, completed=done, description=f"{bound}{change}" if console.width >= 60 else bound)

        yield advance


def _sweeps_done(record: Record, done: int, members: int) -> int:
    """Sweeps done by all members, without warm-ups."""
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
        if time.monotonic() - said >= LINE_SECONDS:
            said, last = time.monotonic(), None
            say(record)

    try:
        yield advance
    finally:
        if last is not None:
            say(last)


@contextmanager
def saying(progress: Progress) -> Iterator[Callable[[str], None]]:
    """Messages before a fit: replaced in place, or lines with TERM=dumb."""
    if not _is_shown(progress.bar):
        announced: list[str] = []

        def announce(text: str) -> None:
            if not announced:
                progress._announce(next((f"{w} search" for w in ("rank", "evidence") if w in text), "weight search"))
            announced.append(text)

        yield announce
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
    """The first Ctrl-C sets a flag, so that no update is cut, unless it is to raise."""
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
    """Whether a fit handles Ctrl-C itself; by default not if the program has its own handler."""
    return mode == "return" or (mode is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler)
