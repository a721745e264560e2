"""The part of answers: tables with peers of equal quality, and average precision against seconds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.bench.report import words
from lab.harness import plots, results
from lab.harness.command import NAME
from lab.harness.packages import ROOT
from lab.harness.results import Found
from lab.harness.table import text_table
from lab.quality.methods import OURS
from plait.rendering.document import Table

NEAR = 0.005  # of average precision: equal quality, and the end of a course
GOALS = {"plait top": 0.7, "plait demo, empty cache": 8.0}  # processor seconds
FIRST_GOALS = {("empty", "first"): 1.2, ("full", "first"): 0.4, ("full", "again"): 0.1}
FIT_GOAL = 1.5  # × the five fits


def tables(found: Found) -> Iterator[Table]:
    """Commands, first fits, fits of a rank that is left out, evaluations, time to quality."""
    for make in (_commands, _fits, _evaluations, _courses):
        table = make(found)
        if table.rows:
            yield table


def slower(found: Found) -> str:
    """Data on which a peer of equal quality is there sooner: the first sentence of the part."""
    said = []
    for data, courses in _by_data(found).items():
        if own := courses.get("Plait"):
            good = {who: course for who, course in courses.items() if course["AP"][-1] >= own["AP"][-1] - NEAR}
            said += [f"{who} on {data}" for who, course in good.items() if near(course) < near(own)]
    return f"Sooner than one fit of Plait, with an AP that is as good: {', '.join(said)}." if said else ""


def near(course: dict[str, Any]) -> float:
    """Seconds of the shortest training from which on average precision stays above that of the longest less NEAR."""
    below = [n for n, precision in enumerate(course["AP"]) if precision < course["AP"][-1] - NEAR]
    return float(course["seconds"][max(below, default=-1) + 1])


def _commands(found: Found) -> Table:
    made = []
    for _, figures in found.part("answers", what="commands"):
        for name, seconds in figures["seconds"].items():
            made.append([name, words.seconds(seconds), words.seconds(GOALS.get(name))])
    for _, figures in found.part("answers", what="first fit"):
        for cache in ("empty", "full"):
            for what in ("import", "first", "again"):
                goal = FIRST_GOALS.get((cache, what))
                name = {"import": "import of plait.fit", "first": "first fit", "again": "the fit again"}[what]
                made.append([f"{name}, {cache} cache", words.seconds(figures[cache][what]), words.seconds(goal)])
    note = "Nations, rank 8, ten sweeps; whole processes, the best of four (demo: one), on a machine with other load."
    return text_table("Commands and first fits", ["answer", "processor seconds", "goal"], made, note)


def _fits(found: Found) -> Table:
    made = []
    for about, figures in found.part("answers", what="fit"):
        precision = figures["figures"]["AP"]["value"]
        made.append([about["data"], " × ".join(map(str, figures["rank"].values())), words.seconds(figures["seconds"]),
                     words.times(figures["seconds"] / figures["five"]), f"{precision:.3f}",
                     _equal(about["data"], precision, figures["seconds"])])  # fmt: skip
    headings = ["data", "rank", "seconds", "÷ the five fits", "AP", "sooner, with equal AP"]
    note = (
        f"`restarts=5`, the rank left out; goal: {FIT_GOAL} × five fits of that rank. Sooner: methods of quality.md "
        "whose AP on the same split is at most 0.005 lower, with their seconds and those to choose their settings."
    )
    return text_table("Fits of a rank that is left out, processor seconds", headings, made, note)


def _equal(data: str, precision: float, before: float) -> str:
    """Other methods that `make quality` measured on this split, if they are as good and sooner."""
    file = ROOT / "docs" / "quality" / NAME
    others = []
    for cell, figures in results.read(file).part(data, split=0) if file.exists() else ():
        if (
            cell["method"] not in OURS
            and "figures" in figures
            and figures["figures"]["AP"]["value"] >= precision - NEAR
        ):
            others.append((sum(figures["seconds"].values()), cell["method"]))
    others = [other for other in others if other[0] < before]
    return ", ".join(f"{who} {words.seconds(seconds)}" for seconds, who in sorted(others)) or "none"


def _evaluations(found: Found) -> Table:
    made = [
        [
            about["data"],
            *map(words.seconds, f["seconds"]),
            words.size(f["peak"]),
            words.size(f["before"]),
            f"{f['mrr']:.3f}",
        ]
        for about, f in found.part("answers", what="evaluate")
    ]
    headings = ["data", "first call", "second call", "peak", "of that before", "MRR"]
    return text_table("plait.evaluate on ensembles, processor seconds", headings, made)


def _by_data(found: Found) -> dict[str, dict[str, Any]]:
    """Courses that could be measured, by data and method."""
    by_data: dict[str, dict[str, Any]] = {}
    for about, figures in found.part("answers", what="course"):
        if "AP" in figures:
            by_data.setdefault(about["data"], {})[about["method"]] = figures
    return by_data


def _courses(found: Found) -> Table:
    made = []
    for data, courses in _by_data(found).items():
        for who, course in courses.items():
            made.append([data, who, words.seconds(near(course)), f"{course['AP'][-1]:.3f}",
                         words.seconds(course["seconds"][-1])])  # fmt: skip
    absent = {
        a["method"]: f["cannot"]
        for a, f in found.part("answers", what="course")
        if "cannot" in f and "not for" not in f["cannot"]
    }
    lines = "; ".join(f"{who}: {why}" for who, why in absent.items())
    note = (
        "Processor seconds of a fit until the average precision of held-out links stays within 0.005 of that of the "
        f"full training; settings by validation links. Plait: one fit of rank 20. {lines}"
    )
    headings = ["data", "method", "seconds to quality", "AP at the end", "seconds of the full training"]
    return text_table("Time to quality: average precision of held-out links", headings, made, note, left=2)


def draw(found: Found, folder: Path) -> None:
    """Average precision against processor seconds, a plot for each data set."""
    by_data = _by_data(found)
    if not by_data:
        return
    columns = min(4, len(by_data))
    figure, panels = plots.panels(columns, -(-len(by_data) // columns), sharey=False, width=2.3)
    with plots.styled():
        for axes in panels.flat[len(by_data) :]:
            axes.remove()
        for axes, (data, courses) in zip(panels.flat, by_data.items()):
            for position, (who, course) in enumerate(courses.items()):
                pairs = sorted(zip(course["seconds"], course["AP"]))
                look = plots.look("PLTF-VB" if who == "Plait" else who, position)
                axes.plot(*zip(*pairs), label=who, **look)
            axes.set(xscale="log", title=data, xlabel="processor seconds")
            axes.xaxis.minorticks_off()  # their labels would lie on one another
        for row in panels:
            row[0].set_ylabel("average precision")
        plots.legend(figure)
    plots.save(figure, folder, "answers")
