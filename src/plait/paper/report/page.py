"""The page: a Markdown file whose blocks are filled from the results; the prose around them is kept.

A block stands between `<!-- plait paper: NAME -->` and `<!-- end of NAME -->`. A page that is not there yet is made
with one block for every experiment.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from plait.paper.experiment import Experiment
from plait.paper.report.table import Table

FIRST = "# The paper, reproduced\n"


QUICK = "quick, small sizes: only to see that it works"


def block(
    head: Mapping[str, Any], finished: tuple[int, int], tables: Sequence[Table], plots: Sequence[Path], page: Path
) -> str:
    """What stands in a block: data, machine and command, the plots, the tables. finished: so many cells of so many."""
    done, cells = finished
    parts = [
        f"Data: {head['source']} ({QUICK if head['quick'] else 'full size'}).",
        f"Machine: {head['machine']}; Plait {head['plait']}.",
        f"Command: `{head['command']}`.",
        *([head["note"]] if "note" in head else []),
        *([f"Not finished: {done:,} of {cells:,} cells."] if done < cells else []),
    ]
    pictures = [f"![{path.stem.replace('-', ' ')}]({_link(path, page)})" for path in plots]
    return "\n\n".join([" ".join(parts), *pictures, *(table.markdown() for table in tables)])


def _link(path: Path, page: Path) -> str:
    """The way from the page to a plot, as a URL."""
    return quote(Path(os.path.relpath(path, page.parent)).as_posix())


def fill(page: Path, blocks: Mapping[str, str], experiments: Sequence[Experiment]) -> None:
    """Write blocks into a page; one that it lacks is added at its end."""
    text = page.read_text(encoding="utf-8") if page.exists() else FIRST
    titles = {experiment.name: experiment.title for experiment in experiments}
    for name, content in blocks.items():
        begin, end = f"<!-- plait paper: {name} -->", f"<!-- end of {name} -->"
        filled = f"{begin}\n\n{content}\n\n{end}"
        before, found, rest = text.partition(begin)
        if found and end in rest:
            text = before + filled + rest.split(end, 1)[1]
        else:
            text = f"{text.rstrip()}\n\n## {titles[name]}\n\n{filled}\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    new = page.with_name(f"{page.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(page)
