"""The part of time to quality: tables, and how bounds and likelihoods rise."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lab.bench.report import words
from lab.harness import plots
from lab.harness.results import Found
from lab.harness.table import NOTHING, text_table
from plait.rendering.document import Table


def seconds_near(figures: dict[str, Any], way: str) -> float | None:
    """The median over seeds of the seconds to within 1e-4, never for those that did not come near; None if never."""
    seconds = [np.inf if run["seconds"] is None else run["seconds"] for run in figures.get("ways", {}).get(way, [])]
    median = float(np.median(seconds)) if seconds else np.inf
    return median if np.isfinite(median) else None


def gain(figures: dict[str, Any]) -> float | None:
    """How many times less time the accelerated fit takes: the median over seeds; 0 where it never comes near."""
    ways = figures.get("ways", {})
    found = []
    for slow, fast in zip(ways.get("plain", []), ways.get("accelerated", [])):
        if fast["seconds"] is None:
            found.append(0.0)
        else:
            found.append(np.inf if slow["seconds"] is None else slow["seconds"] / fast["seconds"])
    return float(np.median(found)) if found else None


def arrived(figures: dict[str, Any]) -> str:
    """How many seeds came near, by way: ``plain 5, accelerated 4 of 5``."""
    ways = figures.get("ways", {})
    counts = [f"{way} {sum(run['seconds'] is not None for run in runs)}" for way, runs in ways.items()]
    return f"{', '.join(counts)} of {max(map(len, ways.values()))}" if counts else "no data"


def way_name(figures: dict[str, Any], way: str) -> str:
    """``plain (default)``."""
    return f"{way} (default)" if way == figures["default"] and len(figures["ways"]) > 1 else way


def likelihood_seconds(figures: dict[str, Any], who: str) -> float | None:
    """Seconds of the shortest run that reached the goal."""
    course = figures["contenders"].get(who, {})
    pairs = zip(course.get("likelihood", ()), course.get("seconds", ()))
    return next((seconds for likelihood, seconds in pairs if likelihood >= figures["goal"]), None)


def usual(found: Found) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The rows about bounds of fits as they are by default: VB, adapted."""
    return ((about, figures) for about, figures in found.part("quality", what="bound") if "," not in about["problem"])


def tables(found: Found) -> Iterator[Table]:
    """ELBOs, hidden links, the Digg-shaped fit, EM compared with others."""
    makers = {"bound": _bounds, "auc": _aucs, "100 sweeps": _hundred, "likelihood": _likelihoods}
    for what, make in makers.items():
        rows = list(found.part("quality", what=what))
        if rows:
            yield make(rows)


def _bounds(rows: list[Any]) -> Table:
    made = []
    for about, figures in rows:
        if "cannot" in figures:
            made.append([about["problem"], figures["cannot"], *[NOTHING] * 6])
        for way, runs in figures.get("ways", {}).items():
            reached = [run for run in runs if run["seconds"] is not None]
            near = seconds_near(figures, way)
            sweeps = f"{np.median([run['sweeps'] for run in reached]):.0f}" if reached else NOTHING
            gaps = max(run["gap"] for run in runs)
            gained = words.times(gain(figures)) if way == "accelerated" else NOTHING
            front = words.seconds(float(np.median([run["front"] for run in runs])))
            came = f"{len(reached)} of {len(runs)}"
            made.append([about["problem"], way_name(figures, way), came, sweeps, words.seconds(near), front,
                         f"{max(gaps, 0):.0e}", gained])  # fmt: skip
    headings = [
        "data",
        "way",
        "seeds that came near",
        "sweeps",
        "seconds",
        "of these, front end",
        "gap at the end",
        "gain",
    ]
    note = (
        "Near: within 1e-4 (relative) of the best ELBO of the long runs with the same seed. Medians over seeds, "
        "from arrays on; VB with adapted priors unless stated. Plain: sweeps alone; accelerated: with momentum. "
        "Gain: plain ÷ accelerated, the median over seeds, 0 for a seed whose accelerated fit was never near, "
        "∞ for one whose plain fit was never near. "
        "Gap at the end: difference of the worst long run from the best ELBO; a large one is another optimum."
    )
    return text_table("Seconds to within 1e-4 of the best ELBO", headings, made, note, left=2)


def _aucs(rows: list[Any]) -> Table:
    made = []
    for about, figures in rows:
        for way, run in figures.get("ways", {}).items():
            cells = [str(run["sweeps"] or NOTHING), words.seconds(run["seconds"]), f"{run['last']:.4f}"]
            made.append([about["problem"], way, f"{run['goal']:.4f}", *cells])
    headings = ["data", "way", "AUC wanted", "sweeps", "seconds", "AUC after 200 sweeps"]
    return text_table(
        "Seconds to the AUC of hidden links (0.002 below that of 200 plain sweeps)", headings, made, left=2
    )


def _hundred(rows: list[Any]) -> Table:
    made = [
        [about["problem"], way, words.seconds(run["seconds"]), f"{run['bound']:.6g}"]
        for about, figures in rows
        for way, run in figures["ways"].items()
    ]
    return text_table("A fit of 100 sweeps, R = 20, from arrays", ["data", "way", "seconds", "ELBO"], made, left=2)


def _likelihoods(rows: list[Any]) -> Table:
    made = []
    for about, figures in rows:
        own = likelihood_seconds(figures, "Plait")
        for who, course in figures["contenders"].items():
            if "cannot" in course:
                made.append([about["problem"], who, course["cannot"], *[NOTHING] * 3])
                continue
            reached = likelihood_seconds(figures, who)
            shown = words.seconds(reached) if reached else f"not in {words.seconds(course['seconds'][-1])}"
            best = max(course["likelihood"])
            made.append([about["problem"], who, shown, words.times(words.ratio(reached, own)), f"{best:,.0f}",
                         str(course["iterations"][-1])])  # fmt: skip
    headings = ["data", "package", "seconds", "÷ Plait", "best log-likelihood", "iterations"]
    note = "Goal: 1e-3 (relative) below the best of all. Each package draws its own random start."
    return text_table("EM compared with other packages: seconds to a log-likelihood", headings, made, note, left=2)


def draw(found: Found, folder: Path) -> None:
    """Gaps to the best bound, and log-likelihoods, against seconds."""
    bounds = [(about, figures) for about, figures in usual(found) if "courses" in figures]
    if bounds:
        figure, panels = plots.panels(len(bounds), width=2.3)
        with plots.styled():
            for axes, (about, figures) in zip(panels[0], bounds):
                for way, course in figures["courses"].items():
                    axes.plot(course["seconds"], course["gap"], label=way, **_look(way))
                axes.axhline(1e-4, color="#666666", linewidth=0.8)
                axes.set(xscale="log", yscale="log", ylim=(1e-7, None), title=about["problem"], xlabel="seconds")
                axes.xaxis.minorticks_off()  # their labels would lie on one another
            panels[0, 0].set_ylabel("gap to the best bound")
            plots.legend(figure)
        plots.save(figure, folder, "bound")
    _draw_likelihoods(found, folder)


def _draw_likelihoods(found: Found, folder: Path) -> None:
    rows = list(found.part("quality", what="likelihood"))
    if not rows:
        return
    figure, panels = plots.panels(len(rows), sharey=False, width=3.2)
    with plots.styled():
        for axes, (about, figures) in zip(panels[0], rows):
            courses = {who: own for who, own in figures["contenders"].items() if "likelihood" in own}
            best = max(max(own["likelihood"]) for own in courses.values())
            for position, (who, own) in enumerate(courses.items()):
                gap = np.maximum((best - np.array(own["likelihood"])) / abs(best), 1e-7)
                axes.plot(own["seconds"], gap, label=who, **plots.look("PLTF-VB" if who == "Plait" else who, position))
            axes.axhline(1e-3, color="#666666", linewidth=0.8)
            axes.set(xscale="log", yscale="log", title=about["problem"], xlabel="seconds")
        panels[0, 0].set_ylabel("gap to the best log-likelihood")
        plots.legend(figure)
    plots.save(figure, folder, "likelihood")


def _look(way: str) -> dict[str, Any]:
    look = plots.look("PLTF-VB" if way == "accelerated" else "PLTF-EM")
    return look | {"marker": "", "linestyle": "-" if way == "accelerated" else "--"}
