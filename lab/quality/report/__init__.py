"""The page docs/quality.md and its plots, from the results alone."""

from pathlib import Path

from lab.harness import results
from lab.harness.page import save
from lab.quality.report import page, plot


def write(file: Path, to: Path, folder: Path) -> None:
    """The page, and the plots in a folder."""
    found = results.read(file)
    plot.draw(found, folder)
    save(to, page.text(found, folder, to))
