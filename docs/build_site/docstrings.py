"""Docstrings as Markdown: what is aligned for a terminal becomes a table, and examples become code."""

import re
from typing import Any

import griffe

NAMES = r"[a-z_]\w*(?:,\s+[a-z_]\w*)*(?: \([^)]*\))?"
# "name   what it is", two spaces or more between; a line that is indented further goes on.
ROW = re.compile(rf"^(?P<name>{NAMES})\s{{2,}}(?P<text>\S.*)$")
# "name: what it is. other name: what that is." in running text.
SENTENCE = re.compile(rf"(?:^|(?<=[.;)]\s))(?P<name>{NAMES}):\s")


class Docstrings(griffe.Extension):
    """Rewrites every docstring when its object is found."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called by griffe for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """A docstring written for a terminal, as Markdown."""
    blocks = re.split(r"\n\s*\n", text)
    return "\n\n".join(_block(block) for block in blocks)


def _block(block: str) -> str:
    lines = block.split("\n")
    if lines[0].lstrip().startswith(">>>"):
        return "\n".join(["```pycon", *lines, "```"])
    if lines[0].strip() == "::":
        return ""
    if all(line.startswith("    ") for line in lines):
        return "\n".join(["```text", *(line[4:] for line in lines), "```"])
    if ROW.match(lines[0]) and sum(ROW.match(line) is not None for line in lines) > 1:
        return _table(_rows(lines))
    running = " ".join(block.split())  # a name and its remark may stand on two lines
    if SENTENCE.match(running) and len(SENTENCE.findall(running)) > 1:
        pieces = SENTENCE.split(running)[1:]
        return _table([[name, text.strip()] for name, text in zip(pieces[::2], pieces[1::2])])
    return block


def _rows(lines: list[str]) -> list[list[str]]:
    rows: list[list[str]] = []
    for line in lines:
        found = ROW.match(line)
        if found:
            rows.append([found["name"], found["text"]])
        else:
            rows[-1][1] += f" {line.strip()}"
    return rows


def _table(rows: list[list[str]]) -> str:
    bar = r"\|"
    cells = [f"| {_code(name)} | {text.replace('|', bar)} |" for name, text in rows]
    return "\n".join(["| name | meaning |", "|---|---|", *cells])


def _code(name: str) -> str:
    """Names as code, a remark in brackets as it is."""
    names, bracket, remark = name.partition(" (")
    return ", ".join(f"`{one}`" for one in re.split(r",\s+", names)) + bracket + remark
