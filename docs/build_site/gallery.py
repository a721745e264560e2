"""Make the pictures of docs/gallery.md: its code is run, and what a block ends with is drawn where an image follows.

Run it again when charts change (`make gallery`).
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plait.rendering.document import Picture
from plait.rendering.svg import drawn

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "gallery.md"
FOLDER = ROOT / "docs" / "images" / "gallery"
STEP = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n+!\[(?P<alt>[^\]]*)\]\(images/gallery/(?P<file>[\w-]+\.svg)\))?",
    re.MULTILINE | re.DOTALL,
)
# Outside of a page a drawing has its own ground; the site puts it into the page (drawings.py).
STYLE = (
    "<style>svg{color:#1f2328;background:#fff}"
    "@media (prefers-color-scheme:dark){svg{color:#e6e6e6;background:#1e2129}}</style>"
)


@dataclass(frozen=True)
class Step:
    """A block of code, and the image that follows it, if one does."""

    code: str
    file: str | None
    alt: str


def steps(text: str) -> list[Step]:
    """The Python blocks of a page, in order."""
    return [Step(found["code"], found["file"], found["alt"] or "") for found in STEP.finditer(text)]


def pictures(text: str) -> Iterator[tuple[str, str]]:
    """File and SVG of every image of a page, by running its code; paths in it begin at the root of the repository."""
    names: dict[str, Any] = {}
    for step in steps(text):
        made = _run(step.code, names)
        if step.file:
            yield step.file, _alone(made.to_dict(), step.alt)


def _run(code: str, names: dict[str, Any]) -> Any:
    """Run a block; what its last line is worth."""
    *before, last = ast.parse(code).body
    exec(compile(ast.Module(before, []), str(PAGE), "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), str(PAGE), "eval"), names)
    exec(compile(ast.Module([last], []), str(PAGE), "exec"), names)
    return None


def _alone(chart: dict[str, Any], alt: str) -> str:
    """A drawing that can be read by itself, on light and on dark ground."""
    svg = drawn(Picture(lambda: chart, alt))
    if svg is None:
        raise SystemExit("vl-convert-python is not installed: pip install 'tensorplait[report]'")
    return f"{svg.replace('>', f'>{STYLE}', 1)}\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, svg in pictures(PAGE.read_text(encoding="utf-8")):
        (FOLDER / name).write_text(svg, encoding="utf-8")
