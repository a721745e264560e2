"""Subprocesses of the explorer that talk by lines; and drawing in one of them, which would block all threads here.

`python -m plait.explore.subprocesses` reads one picture per line on stdin, as JSON, and writes its SVG. It ends when
stdin does.
"""

import contextlib
import json
import subprocess
import sys
import threading
from functools import partial
from typing import Any

from plait.rendering.document import Picture
from plait.rendering.svg import drawn


def start(command: list[str]) -> "subprocess.Popen[str]":
    """A process in a separate group, without the terminal's Ctrl-C."""
    apart: dict[str, Any] = {"process_group": 0} if sys.platform != "win32" else {"creationflags": 0x200}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", **apart)


def end(process: "subprocess.Popen[str] | None") -> None:
    """End a process, and close its pipes."""
    if process is None:
        return
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError, ValueError):
            if pipe is not None:
                pipe.close()


COMMAND = [sys.executable, "-m", "plait.explore.subprocesses"]


class Drawing:
    """The drawing process, started on first use."""

    def __init__(self) -> None:
        self.drawer: subprocess.Popen[str] | None = None
        self.is_closed, self.lock = False, threading.Lock()

    def draw(self, picture: Picture) -> str | None:
        """The picture as an SVG element; None if the packages are not installed."""
        line = json.dumps({"chart": picture.chart(), "alt": picture.alt})
        with self.lock:
            response = "" if self.is_closed else self._ask(line)
        if not response:
            raise RuntimeError("the process that draws has ended")
        svg: str | None = json.loads(response)
        return svg

    def _ask(self, line: str) -> str:
        """Response to a line; "" if the process has ended, after which another one is started."""
        if self.drawer is None or self.drawer.poll() is not None:
            end(self.drawer)
            self.drawer = start(COMMAND)
        assert self.drawer.stdin is not None
        assert self.drawer.stdout is not None
        self.drawer.stdin.write(line + "\n")
        self.drawer.stdin.flush()
        return self.drawer.stdout.readline()

    def close(self) -> None:
        """End the process, also while it draws."""
        self.is_closed, drawer = True, self.drawer
        if drawer is not None:
            drawer.kill()  # its reader sees the end and releases the lock
        with self.lock:
            end(self.drawer)


def main() -> None:
    """Draw until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(drawn(Picture(partial(dict, request["chart"]), request["alt"]))), flush=True)


if __name__ == "__main__":
    main()
