"""Notebooks as pages of the site, with the outputs that are stored in them: nothing is run, and nothing is a script."""

import json
import re
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from plait.rendering.svg import inline

FOLDER = Path(__file__).parents[1] / "notebooks"
LINK = re.compile(r"(?<=\]\()(?P<page>[^)\s]*notebooks/\w+)\.ipynb(?=\))")
PLACE = re.compile(r'<div data-output="(?P<cell>\d+)-(?P<output>\d+)"></div>')


def on_files(files: Files, *, config: Any) -> Files:
    """Add a page for each notebook; the notebook itself is a file next to it."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=as_markdown(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to notebooks lead to their pages."""
    return LINK.sub(r"\g<page>.md", markdown)


def on_page_content(html: str, *, page: Any, config: Any, files: Files) -> str:
    """Put outputs where the page has places for them: Markdown would take them for text."""
    path = FOLDER / f"{Path(page.file.src_uri).stem}.ipynb"
    if not page.file.src_uri.startswith("notebooks/") or not path.exists():
        return html
    cells = _cells(path)

    def output(place: re.Match[str]) -> str:
        cell = cells[int(place["cell"])]
        return shown(cell["outputs"][int(place["output"])], "".join(cell["source"]))

    return PLACE.sub(output, html)


def as_markdown(path: Path) -> str:
    """The cells of a notebook: text as it is, code in fences, and places for outputs."""
    parts = []
    for number, cell in enumerate(_cells(path)):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
        else:
            parts.append(f"```python\n{text}\n```")
            parts += [f'<div data-output="{number}-{output}"></div>' for output in range(len(cell["outputs"]))]
    parts.append(f"[This page as a notebook]({path.name})")
    return "\n\n".join(parts)


def shown(output: Any, code: str) -> str:
    """An output as HTML: a drawing, which is named by the line that made it; a page of its own; or text."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        drawn = inline("".join(data["image/svg+xml"]), f"Chart: {code.splitlines()[-1]}")
        return f'<figure class="drawing" tabindex="0" data-search-exclude>{drawn}</figure>'
    if "text/html" in data:
        return f'<div class="output" tabindex="0" data-search-exclude>{"".join(data["text/html"])}</div>'
    text = "".join(output.get("text") or data["text/plain"])
    return f'<div class="language-text highlight"><pre><code>{escape(text)}</code></pre></div>'


def _cells(path: Path) -> list[Any]:
    cells: list[Any] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells
