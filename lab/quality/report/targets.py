"""What was to be reached, and whether it was."""

from collections.abc import Iterator

from lab.harness.results import Found
from lab.harness.table import NOTHING, targets
from lab.quality.judge import NO_LOOPS
from lab.quality.methods import BEST
from lab.quality.report.entries import Lines, best, measured, peers
from plait.rendering.document import Table

METHODS = ("Plait, evidence", BEST)
# by data: what figures shall be at least
MIN_FIGURES = {
    "UMLS": {f"MRR tail{NO_LOOPS}": 0.94, f"AP{NO_LOOPS}": 0.995},
    "Kinships": {f"MRR tail{NO_LOOPS}": 0.86, f"AP{NO_LOOPS}": 0.95},
    "Last.fm plays": {"NDCG@10": 0.24},
    "Gowalla": {"full recall@20": 0.185, "NDCG@20": 0.155},
}
ABOVE = ("USAir", "Celegans")  # by MRR and AP above every peer
ERRORS = 2.0  # standard errors by which Last.fm plays may be behind EASE
Target = tuple[str, str, bool | None]


def table(found: Found) -> Table:
    """All targets."""
    every = measured(found)
    return targets(
        target
        for method in METHODS
        for target in (*_least(every, method), *_above(every, method), _near_ease(every, method))
    )


def _least(every: dict[str, Lines], method: str) -> Iterator[Target]:
    for data, wanted in MIN_FIGURES.items():
        what = f"{data}, {method}: {', '.join(f'{name} ≥ {least:g}' for name, least in wanted.items())}"
        line = every.get(data, {}).get(method)
        if line is None or not wanted.keys() <= line.measures.keys():
            yield what, NOTHING, None
            continue
        got = {name: line.measures[name].value for name in wanted}
        met = all(got[name] >= least for name, least in wanted.items())
        yield what, " / ".join(f"{value:.3f}" for value in got.values()), met


def _above(every: dict[str, Lines], method: str) -> Iterator[Target]:
    for data in ABOVE:
        for measure in ("MRR", "AP"):
            what = f"{data}, {method}: {measure} above every peer"
            own = every.get(data, {})
            rival = best(own, measure, peers(own))
            if method not in own or rival is None:
                yield what, NOTHING, None
                continue
            mine, theirs = own[method].measures[measure], own[rival].measures[measure]
            mine, theirs = mine.on(theirs), theirs.on(mine)
            yield what, f"{mine.value:.3f}; {rival} {theirs.value:.3f}", mine.value > theirs.value


def _near_ease(every: dict[str, Lines], method: str) -> Target:
    own, measure = every.get("Last.fm plays", {}), "NDCG@10"
    what = f"Last.fm plays, {method}: {measure} no worse than EASE by {ERRORS:g} standard errors"
    if method not in own or "EASE" not in own:
        return what, NOTHING, None
    mine, ease = own[method].measures[measure], own["EASE"].measures[measure]
    mine, ease, errors = mine.on(ease), ease.on(mine), mine.ahead(ease)
    return what, f"{mine.value:.3f}; EASE {ease.value:.3f}; {errors:+.1f} standard errors", errors >= -ERRORS
