"""What was to be reached, and whether it was."""

from collections.abc import Iterator

from lab.harness.results import Found
from lab.harness.table import NOTHING, targets
from lab.quality.methods import BEST
from lab.quality.report.entries import Lines, measured
from plait.rendering.document import Table

# by data and method: what MRR of the tail and AP shall be at least
LEAST = {
    ("Kinships", "Plait"): (0.62, 0.85),
    ("Kinships", BEST): (0.72, 0.90),
    ("UMLS", BEST): (0.86, 0.99),
}
RIVALS = ("resource allocation", "Adamic–Adar", "EASE", "ALS")
Target = tuple[str, str, bool | None]


def table(found: Found) -> Table:
    """All targets."""
    every = measured(found)
    return targets([*_least(every), *_above(every)])


def _least(every: dict[str, Lines]) -> Iterator[Target]:
    for (data, method), (rank, precision) in LEAST.items():
        what = f"{data}, {method}: MRR of the tail ≥ {rank:g}, AP ≥ {precision:g}"
        line = every.get(data, {}).get(method)
        if line is None:
            yield what, NOTHING, None
            continue
        got = [line.measures[name].value for name in ("MRR tail", "AP")]
        yield what, " / ".join(f"{value:.3f}" for value in got), got[0] >= rank and got[1] >= precision


def _above(every: dict[str, Lines]) -> Iterator[Target]:
    for data in ("USAir", "Celegans"):
        for measure in ("MRR", "AP"):
            what = f"{data}, {BEST}: {measure} above {', '.join(RIVALS)}"
            own = every.get(data, {})
            there = [rival for rival in RIVALS if rival in own]
            if BEST not in own or not there:
                yield what, NOTHING, None
                continue
            mine = own[BEST].measures[measure].value
            rival = max(there, key=lambda name: own[name].measures[measure].value)
            theirs = own[rival].measures[measure].value
            met = mine > theirs
            whole = len(there) == len(RIVALS)
            yield what, f"{mine:.3f}; {rival} {theirs:.3f}", met if whole or not met else None
