"""The part of one sweep: tables, ratios, and a plot of all contenders."""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.bench.peers import OTHERS, OURS, find
from lab.bench.report import words
from lab.harness import plots
from lab.harness.results import Found
from lab.harness.table import NOTHING, percent, text_table
from plait.rendering.document import Table

# Measured once, natively built, 2 threads, 12.5 million nonzeros of 1000³: ms an iteration, by rank; from the issue.
NATIVE = {
    "ALTO, Poisson CP-APR": {5: 142, 20: 421, 50: 985},
    "SPLATT, least-squares CP": {5: 86, 20: 139},
    "ALTO, least-squares CP": {5: 59, 20: 73},
}
NATIVE_YARDSTICK = {5: (27, 45), 20: (52, 66), 50: (108, 122)}
PYTHON_LEVEL = ("NumPy", "pyttb cp_apr", "pyttb gcp_opt", "scikit-learn NMF")
DENSE = ("TensorLy",)  # of another likelihood: least squares, by BLAS
COMPILED = ("pygenten cp_als", "pygenten gcp_sgd", "SMURFF", "hpfrec", "poismf")

Line = tuple[dict[str, Any], dict[str, Any]]


def name(about: dict[str, Any]) -> str:
    """``CP-3, 500³, R = 5, listed``."""
    sides, rank = about["sides"], about["rank"]
    equal = {2: "²", 3: "³", 4: "⁴"}.get(len(sides), "") if len(set(sides)) == 1 else ""
    model = {"CP": f"CP-{len(sides)}", "Tucker": f"Tucker {rank}×{rank}×{rank}", "coupled": "coupled"}[about["model"]]
    what = [model, f"{sides[0]}{equal}" if equal else "Digg-shaped", *([] if "Tucker" in model else [f"R = {rank}"])]
    weights = {"all": "all observed", "listed": "listed", "missing": "missing cells"}[about["observed"]]
    return ", ".join([*what, weights, *(["Bernoulli"] if about["likelihood"] == "bernoulli" else [])])


def lines(found: Found) -> list[Line]:
    """All rows with their contenders."""
    return [(about, figures) for about, figures in found.part("sweep")]


def ratios(figures: dict[str, Any]) -> dict[str, float | None]:
    """What the targets are about."""
    who = figures["contenders"]
    plait, yard = who.get("Plait", {}), who.get("yardstick", {})
    sweep, counts, both = (words.rounds_of(plait, action) for action in ("sweep", "counts", "counts and bound"))
    hand, single = words.rounds_of(yard, "counts"), words.rounds_of(who.get("Plait float32"))
    bound = _typical([(b - c) / s for b, c, s in zip(both, counts, sweep)])
    return {
        "counts ÷ yardstick": _quotient(counts, hand),
        "sweep ÷ counts": _quotient(sweep, counts),
        "sweep ÷ yardstick": _quotient(sweep, hand),
        "links' part of the bound": None if bound is None else max(bound, 0.0),
        "float32": _quotient(single, sweep),
    }


def _quotient(top: list[float], bottom: list[float]) -> float | None:
    """Of what was measured in the same round: the machine may be faster in the next."""
    return _typical([above / below for above, below in zip(top, bottom)])


def _typical(figures: list[float]) -> float | None:
    return statistics.median(figures) if figures else None


def against(figures: dict[str, Any], names: tuple[str, ...]) -> tuple[float, str] | None:
    """The fastest of some contenders in a row: how many times Plait's time it takes, and its name."""
    who = figures["contenders"]
    sweep = words.time_of(who.get("Plait"))
    found = [(seconds / sweep, n) for n in names if sweep and (seconds := words.time_of(who.get(n)))]
    return min(found, default=None)


def tables(found: Found) -> Iterator[Table]:
    """Ratios of Plait; then every contender; then those that cannot, with the reason."""
    rows = lines(found)
    if not rows:
        return
    yield _plait(rows)
    yield _contenders(rows)
    yield _refusals(rows)
    yield _about()
    if native := _native(rows):
        yield native


def _plait(rows: list[Line]) -> Table:
    made = []
    for about, figures in rows:
        plait, n = figures["contenders"].get("Plait", {}), figures["nonzeros"]
        sweep, r = plait.get("sweep", {}), ratios(figures)
        made.append([
            name(about), words.number(n), words.seconds(sweep.get("seconds"), sweep.get("spread")),
            words.significant(sweep["seconds"] / n * 1e9) if sweep else NOTHING, words.size(plait.get("peak")),
            words.significant(r["counts ÷ yardstick"]), words.significant(r["sweep ÷ counts"]),
            percent(r["links' part of the bound"]), words.significant(r["float32"]),
        ])  # fmt: skip
    headings = [
        "row", "nonzeros", "sweep", "ns a nonzero", "peak memory", "counts ÷ yardstick", "sweep ÷ counts",
        "links' part of the ELBO", "float32 ÷ float64",
    ]  # fmt: skip
    note = (
        "Counts: the pass over the nonzeros without the ELBO. The links' part of the ELBO: the additional time of the "
        "same pass with it, as a share of the sweep. The rows' part (KL) is not included: the row update computes it "
        "with ψ and log Γ. Ratios are medians of those of each round. Peak memory is that of the process."
    )
    return text_table("Plait: a sweep of VB", headings, made, note)


def _contenders(rows: list[Line]) -> Table:
    made = []
    for about, figures in rows:
        sweep = words.time_of(figures["contenders"].get("Plait"))
        for who, own in figures["contenders"].items():
            timing = own.get("sweep")
            if timing and who != "Plait":
                made.append([
                    name(about), who, words.seconds(timing["seconds"], timing["spread"]),
                    words.significant(timing["seconds"] / figures["nonzeros"] * 1e9),
                    words.times(words.ratio(timing["seconds"], sweep)), words.size(own["peak"]),
                ])  # fmt: skip
    headings = ["row", "contender", "iteration", "ns a nonzero", "÷ Plait", "peak memory"]
    return text_table("All others, in the same run", headings, made, left=2)


def _refusals(rows: list[Line]) -> Table:
    reasons: dict[tuple[str, str], list[str]] = {}
    for about, figures in rows:
        for who, own in figures["contenders"].items():
            if "cannot" in own:
                reasons.setdefault((who, own["cannot"]), []).append(name(about))
    alike: dict[tuple[str, str], list[str]] = {}
    for (who, reason), names in reasons.items():
        shown = "; ".join(names) if len(names) <= 3 else f"{len(names)} rows"
        alike.setdefault((reason, shown), []).append(who)
    made = [[", ".join(who), reason, shown] for (reason, shown), who in alike.items()]
    return text_table("Rows that contenders cannot do", ["contenders", "reason", "rows"], made, left=3)


def _about() -> Table:
    made = []
    for who in (*OURS, *OTHERS):
        contender = find(who)
        made.append([who, contender.solves, contender.timed])
    return text_table(
        "Iterations of the contenders, and how they are timed", ["contender", "solves", "timed by"], made, left=3
    )


def _native(rows: list[Line]) -> Table | None:
    made = []
    for rank, plait, yard in native_rows(rows):
        for who, published in NATIVE.items():
            if rank in published:
                low, high = (published[rank] / edge for edge in reversed(NATIVE_YARDSTICK[rank]))
                cells = [f"{low:.1f} – {high:.1f}", f"{plait / yard:.1f}", "yes" if plait / yard < low else "no"]
                made.append([f"{who}, R = {rank}", f"{published[rank]} ms", *cells])
    headings = ["peer", "published", "÷ yardstick then", "Plait's sweep ÷ yardstick here", "Plait faster"]
    note = "Published figures of another run on a machine of this kind, in units of the yardstick's counts pass."
    return (
        text_table("Native peers, 12.5 million nonzeros of 1000³, all observed", headings, made, note) if made else None
    )


def native_rows(rows: list[Line]) -> list[tuple[int, float, float]]:
    """By rank: the sweep and the yardstick on the large cube, everything observed."""
    made = []
    for about, figures in rows:
        if about["model"] == "CP" and about["sides"] == [1000] * 3 and about["observed"] == "all":
            who = figures["contenders"]
            plait, yard = words.time_of(who.get("Plait")), words.time_of(who.get("yardstick"), "counts")
            if plait and yard:
                made.append((about["rank"], plait, yard))
    return made


def draw(found: Found, folder: Path) -> None:
    """Nanoseconds a nonzero of all contenders, a dot each, a line of the plot for every row."""
    rows = lines(found)
    if not rows:
        return
    figure, panels = plots.panels(1, width=7.2, height=0.27 * len(rows) + 0.6)
    axes = panels[0, 0]
    with plots.styled():
        for position, who in enumerate(n for n in (*OURS, *OTHERS) if n != "yardstick"):
            at = [
                (k, t / f["nonzeros"] * 1e9)
                for k, (_, f) in enumerate(rows)
                if (t := words.time_of(f["contenders"].get(who)))
            ]
            if at:
                ours = {"color": "#0072B2", "marker": "o", "markersize": 7} if who == "Plait" else _look(position)
                axes.plot([t for _, t in at], [k for k, _ in at], linestyle="none", label=who, **ours)
        axes.set_yticks(range(len(rows)), [name(about) for about, _ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xscale("log")
        axes.set_xlabel("ns a nonzero, one iteration")
        plots.legend(figure, columns=4)
    plots.save(figure, folder, "sweep")


def _look(position: int) -> dict[str, Any]:
    """A marker and a colour for each of twelve."""
    colours = ("#D55E00", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#000000")
    return {"color": colours[position % 6], "marker": "svD^Px*<>ph8"[position % 12], "markersize": 5}
