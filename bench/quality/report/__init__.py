"""The page docs/quality.md and its plots, from the results alone."""

from pathlib import Path

from bench import results
from bench.quality.report import page, plot


def write(file: Path, to: Path, folder: Path) -> None:
    """The page, and the plots in a folder."""
    found = results.read(file)
    plot.draw(found, folder)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(page.text(found, folder, to), encoding="utf-8")
