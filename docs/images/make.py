"""Make demo.svg, the picture in the README, from what `plait demo` prints on a terminal.

Run it again when the demo changes: .venv/bin/python docs/images/make.py
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
COMMAND = ["plait", "demo", "--top", "5"]
COLUMNS, LINES = 100, 60


def printed_on_a_terminal(command: list[str]) -> str:
    """What a command prints where it believes to be on a terminal: tables of its width, colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    env = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    env.pop("NO_COLOR", None)
    tool = str(Path(sys.executable).parent / command[0])
    # Progress goes to stderr, which is no terminal here, so that the picture holds results only.
    process = subprocess.Popen([tool, *command[1:]], stdout=theirs, stderr=subprocess.PIPE, env=env)
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        parts.append(part)
    _, errors = process.communicate()
    if process.returncode:
        raise SystemExit(errors.decode())
    return b"".join(parts).decode().replace("\r\n", "\n")


def picture(text: str) -> str:
    """Terminal output as SVG, with the reader's own fixed-width font: nothing is fetched."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    console.print(Text.from_ansi(f"\x1b[1m$ {' '.join(COMMAND)}\x1b[0m\n{text.rstrip()}"))
    svg = console.export_svg(title="plait demo", unique_id="plait")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


if __name__ == "__main__":
    (HERE / "demo.svg").write_text(picture(printed_on_a_terminal(COMMAND)), encoding="utf-8")
