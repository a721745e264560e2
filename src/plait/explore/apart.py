"""Processes that work for the explorer, told and answering by lines."""

import contextlib
import subprocess
import sys
from typing import Any


def start(command: list[str]) -> "subprocess.Popen[str]":
    """A process in a group of its own: Ctrl-C of the terminal is not for it."""
    apart: dict[str, Any] = {"process_group": 0} if sys.platform != "win32" else {"creationflags": 0x200}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", **apart)


def end(process: "subprocess.Popen[str] | None") -> None:
    """End a process, and close what leads to it."""
    if process is None:
        return
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError, ValueError):
            if pipe is not None:
                pipe.close()
