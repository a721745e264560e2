"""The page as text."""

from collections.abc import Iterable
from pathlib import Path

from lab.bench.report import answers, front, growth, large, quality, sweep, targets
from lab.harness.page import failures, joined, picture, where
from lab.harness.results import Found
from lab.harness.table import as_markdown
from plait.rendering.text import write_table

FIRST = """# Benchmarks

This page compares Plait with a kernel written by hand (the *yardstick*: the counts pass of CP-3 alone), plain NumPy
and other packages: the same data, in one run, one iteration of each in turn, each in a separate process with the
same number of threads (NumPy uses one core except in BLAS). Values are medians ± half the distance between the
quartiles (without ± if an iteration takes seconds and was run once). Ratios are comparable across machines, seconds
are not. `make bench` measures missing rows, `make bench ARGS=--fresh` all rows, `python -m lab.bench
sweep` one part. The page and its plots are made from `docs/benchmarks/results.jsonl`.
"""

SECTIONS = (
    (
        "One sweep",
        "Every factor is updated once. Packages that cannot do a row are listed below with the reason.",
        sweep,
        ("sweep",),
    ),
    ("Time to quality", "Time until a fit has converged in quality.", quality, ("bound", "likelihood")),
    ("Front end", "Everything before the first sweep and after the last.", front, ()),
    ("Answers", "What users wait for, next to packages that are as good on the same data.", answers, ("answers",)),
    ("Growth", "Cost by size of the data.", growth, ("growth",)),
    ("Large data", "Data larger than memory, clusters, and new data after a fit.", large, ()),
)


def text(found: Found, folder: Path, to: Path) -> str:
    """The whole page; plots are linked where they were drawn."""
    parts = [FIRST, where(found), "## Targets", write_table(targets.table(found))]
    for title, sentence, module, pictures in SECTIONS:
        tables = list(module.tables(found))
        if tables:
            links = [picture(folder / f"{name}.svg", to) for name in pictures if _drawn(name, found)]
            parts += [
                f"## {title}",
                sentence,
                *([answers.slower(found)] if module is answers else []),
                *links,
                *(as_markdown(table) for table in tables),
            ]
    return joined([*parts, *failures(found)])


def _drawn(name: str, found: Found) -> bool:
    """Whether there is anything in a plot."""
    part, what = {
        "sweep": ("sweep", {}),
        "bound": ("quality", {"what": "bound"}),
        "likelihood": ("quality", {"what": "likelihood"}),
        "growth": ("growth", {}),
        "answers": ("answers", {"what": "course"}),
    }[name]
    rows: Iterable[tuple[object, dict[str, object]]] = found.part(part, **what)
    return any("cannot" not in figures for _, figures in rows)
