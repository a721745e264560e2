"""Pages: Markdown made from results alone, or a page whose prose is kept and whose blocks are filled.

A block stands between `<!-- results: NAME -->` and `<!-- end of NAME -->`.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from lab.harness.results import MACHINE, Found, title
from lab.harness.table import text_table
from plait.rendering.text import write_table

QUICK = "quick, small sizes: only to see that it works"


def joined(parts: Iterable[str]) -> str:
    """Parts of a page, an empty line between them; those without text are left out."""
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def save(page: Path, text: str) -> None:
    """Write a page, replaced as a whole."""
    page.parent.mkdir(parents=True, exist_ok=True)
    new = page.with_name(f"{page.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(page)


def fill(page: Path, name: str, content: str, first: str, heading: str) -> None:
    """Write a block into a page; one that it lacks is added at its end, under a heading. first: of a new page."""
    text = page.read_text(encoding="utf-8") if page.exists() else first
    begin, end = f"<!-- results: {name} -->", f"<!-- end of {name} -->"
    filled = f"{begin}\n\n{content}\n\n{end}"
    before, found, rest = text.partition(begin)
    if found and end in rest:
        save(page, before + filled + rest.split(end, 1)[1])
    else:
        save(page, joined([text, f"## {heading}", filled]))


def picture(path: Path, page: Path, words: str = "") -> str:
    """A plot, linked from the page."""
    link = quote(Path(os.path.relpath(path, page.parent)).as_posix())
    return f"![{words or path.stem.replace('-', ' ')}]({link})"


def where(found: Found) -> str:
    """Machine, versions and date; never a path."""
    about = found.get(MACHINE)
    if not about:
        return "Nothing is measured yet."
    commits = ", ".join(about.get("commits", ()))
    own = f"{found.head['plait']} ({commits})" if commits else found.head["plait"]
    versions = ", ".join([own, *(f"{name} {version}" for name, version in about["versions"].items())])
    size = f" **{QUICK.capitalize()}.**" if found.head["quick"] else ""
    return f"Measured {about['date']} on {found.head['machine']}; Plait {versions}.{size}"


def failures(found: Found) -> list[str]:
    """A section on what failed; nothing if nothing did."""
    rows = [[title(line["cell"]), line["figures"]["failed"]] for line in found.failures]
    table = text_table("Rows that failed", ["row", "reason"], rows, left=2)
    return [f"## {table.title}", "A rerun tries them again.", write_table(table)] if rows else []
