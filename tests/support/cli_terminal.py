"""Commands on a pseudo-terminal."""

import os
import subprocess

import pytest


def on_a_terminal(command, environment, cwd=None, stderr=None):
    """Output of a command on a terminal of 80 columns; stderr goes there too unless it is a pipe."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    settings = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    settings |= {"COLUMNS": "80", **environment}
    process = subprocess.Popen(command, cwd=cwd, stdout=theirs, stderr=stderr or theirs, env=settings)
    os.close(theirs)
    found = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side has closed
            break
        if not part:
            break
        found += part
    os.close(ours)
    _, errors = process.communicate(timeout=100)
    assert (process.returncode, errors or b"") == (0, b"")
    return found
