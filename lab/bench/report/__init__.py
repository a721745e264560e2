"""The page docs/benchmarks.md and its plots, from the results alone."""

from pathlib import Path

from lab.bench.report import answers, growth, page, quality, sweep
from lab.harness import results
from lab.harness.page import save


def write(file: Path, to: Path, folder: Path) -> None:
    """The page, and the plots in a folder."""
    found = results.read(file)
    for module in (sweep, quality, growth, answers):
        module.draw(found, folder)
    save(to, page.text(found, folder, to))
