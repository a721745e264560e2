"""What the documentation shows works: code blocks of README.md and docs/ are run, and so is every example.

The blocks of a file run in order, in one namespace and one empty folder. In shell blocks the lines `$ plait …` are run.
A block preceded by `<!-- skip: reason -->` is shown as skipped.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
SHELL = {"sh", "shell", "bash", "console"}
BLOCK = re.compile(
    r"(?:^<!--\s*skip:\s*(?P<reason>.*?)\s*-->\s*)?^(?P<fence>`{3,})(?P<language>\w+)[^\n]*\n(?P<code>.*?)^(?P=fence)\s*$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    language: str
    code: str
    line: int  # of the first line of code
    reason: str | None  # to skip it


def blocks_of(text):
    """The python and shell blocks of a Markdown text."""
    found = []
    for match in BLOCK.finditer(text):
        if match["language"] == "python" or match["language"] in SHELL:
            line = text.count("\n", 0, match.start("code")) + 1
            found.append(Block(match["language"], match["code"], line, match["reason"]))
    return found


def documents():
    """One case per file, and one skipped case per block that says it cannot run."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        name, blocks = path.relative_to(ROOT).as_posix(), blocks_of(path.read_text(encoding="utf-8"))
        if run := [b for b in blocks if b.reason is None]:
            yield pytest.param(path, run, id=name)
        for b in blocks:
            if b.reason is not None:
                yield pytest.param(path, [b], id=f"{name}:{b.line}", marks=pytest.mark.skip(reason=b.reason))


def run(command, folder, **options):
    """Run a command with the tools of this environment first on PATH; the output is part of a failure."""
    env = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(("path", "blocks"), list(documents()))
def test_code_blocks_run(path, blocks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for block in blocks:
        if block.language == "python":
            code = "\n" * (block.line - 1) + block.code  # tracebacks show the line of the document
            exec(compile(code, str(path), "exec", dont_inherit=True), namespace)
        else:
            for line in block.code.replace("\\\n", " ").splitlines():
                if line.startswith("$ plait "):
                    run(line.removeprefix("$ "), tmp_path, shell=True)


@pytest.mark.parametrize("path", [pytest.param(p, id=p.name) for p in sorted((ROOT / "examples").glob("*.py"))])
def test_examples_run(path, tmp_path):
    run([sys.executable, str(path)], tmp_path)


def test_blocks_are_found_with_their_line_and_reason_to_skip():
    text = "a\n```python\nx = 1\n```\n<!-- skip: needs a cluster -->\n\n```python\ny\n```\n"
    text += "```\nplain\n```\n```text\nz\n```\n```sh\n$ plait info\n```\n"
    assert blocks_of(text) == [
        Block("python", "x = 1\n", 3, None),
        Block("python", "y\n", 8, "needs a cluster"),
        Block("sh", "$ plait info\n", 17, None),
    ]
