"""The tables of the page."""

from collections.abc import Iterator
from typing import Any

from lab.harness.results import Found
from lab.harness.table import NOTHING, text_table
from lab.quality.data import SOURCES
from lab.quality.methods import BEST, EVIDENCE, METHODS, OURS, PLAIN, TRIES, find
from lab.quality.report.entries import Lines, best, lines, main_measure, measured, measures, peers
from plait.rendering.document import Table

BASELINES = ("popularity", "popularity of pairs")
BEHIND, TIED, AHEAD = "**Another is better**", "Within two standard errors of the best other", "Better than all others"


def glance(found: Found, precision: bool) -> Table:
    """A row for each data set: Plait, popularity and the best peer, by the first measure or by AP."""
    rows = []
    for data, own in measured(found).items():
        measure = "AP" if precision else main_measure(own)
        popular, peer = best(own, measure, BASELINES), best(own, measure, peers(own))
        shown = [_shown(own, method, measure) for method in ("Plait", PLAIN, "Plait, evidence", BEST)]
        compared = _shown(own, peer, measure) if peer else NOTHING
        rows.append(
            [data, measure, *shown, _shown(own, popular, measure), peer or NOTHING, compared, place(own, measure)]
        )
    headings = ["data", "measure", "one fit", "five fits", "one fit, evidence", "five fits, evidence", "popularity",
                "best peer", "its figure", "place of five fits, evidence"]  # fmt: skip
    title = "By average precision" if precision else "By rank"
    note = "The first four are Plait. Popularity: the better of the two kinds, where there are two."
    return text_table(title, headings, rows, note, left=2)


def place(own: Lines, measure: str) -> str:
    """``2 of 9``: where Plait's ensemble with evidence stands among all methods that have a figure."""
    if BEST not in own:
        return NOTHING
    mine = own[BEST].measures[measure].value
    rivals = [line.measures[measure].value for line in own.values() if measure in line.measures]
    return f"{1 + sum(value > mine for value in rivals)} of {len(rivals)}"


def verdicts(found: Found) -> str:
    """Where the best of the others is better than Plait, in words, losses first."""
    methods = {BEST: "five fits with evidence", EVIDENCE: "one fit with evidence", PLAIN: "five fits without evidence"}
    rivals = {method: _against_others(found, method) for method in methods}
    return "\n".join(
        f"- {title}, {words}: {'; '.join(rivals[method][title]) or 'nowhere'}."
        for title in (BEHIND, TIED, AHEAD)
        for method, words in methods.items()
    )


def _against_others(found: Found, method: str) -> dict[str, list[str]]:
    """A method of Plait against the best of the others, by data and measure."""
    words: dict[str, list[str]] = {BEHIND: [], TIED: [], AHEAD: []}
    for data, own in measured(found).items():
        for measure in (main_measure(own), "AP"):
            other = best(own, measure, tuple(name for name in own if name not in OURS))
            if method not in own or other is None:
                continue
            mine, theirs = own[method].measures[measure], own[other].measures[measure]
            mine, theirs, errors = mine.on(theirs), theirs.on(mine), mine.ahead(theirs)
            verdict = TIED if abs(errors) <= 2 else AHEAD if errors > 0 else BEHIND
            words[verdict].append(f"{data} by {measure} ({other} {theirs.value:.3f}, Plait {mine.value:.3f})")
    return words


def each(found: Found) -> Iterator[Table]:
    """A table for every data set: all methods, all measures."""
    for data, own in measured(found).items():
        shown = measures(own)
        leader = {measure: best(own, measure) for measure in shown}
        splits = max(line.splits for line in own.values())
        rows = [
            [_named(method, line.splits, splits), *(_bold(_shown(own, method, m), method == leader[m]) for m in shown),
             settings(line.settings), _seconds(line.fit, 0.0), _seconds(line.choice, 0.05)]
            for method, line in own.items()
        ]  # fmt: skip
        how = f"{SOURCES[data].hidden.capitalize()}; {splits} split{'s' if splits > 1 else ''}."
        missing = _reasons(found, data)
        note = f"{SOURCES[data].words}. {how}{missing}"
        yield text_table(data, ["method", *shown, "settings taken", "fit, s", "choice, s"], rows, note)


def _named(method: str, splits: int, every: int) -> str:
    return method if splits == every or method.endswith("(published)") else f"{method} ({splits} of {every} splits)"


def _seconds(seconds: float | None, least: float) -> str:
    return NOTHING if seconds is None or seconds < least else f"{seconds:.1f}"


def settings(taken: list[dict[str, Any]]) -> str:
    """The settings of all splits in words, each once."""
    said = []
    for setting in taken:
        words = ", ".join(f"{name.replace('_', ' ')} {_said(value)}" for name, value in setting.items())
        if words and words not in said:
            said.append(words)
    return "; ".join(said) or NOTHING


def methods() -> Table:
    """What the methods are."""
    rows = [[name, find(name).says, ", ".join(find(name).kinds), str(_tries(name))] for name in METHODS]
    note = f"Every method that has settings to try tries {TRIES}; VB tries none."
    return text_table("Methods", ["method", "what it does", "for", "tries"], rows, note, left=3)


def _tries(name: str) -> int:
    """How many settings a method chooses from; one alone is no choice."""
    settings = len(find(name).settings)
    return settings if settings > 1 else 0


def _reasons(found: Found, data: str) -> str:
    """Who has no figures, and why."""
    why: dict[str, list[str]] = {}
    for cell, figures in found.part(data):
        if (words := figures.get("absent")) and cell["method"] not in why.setdefault(words, []):
            why[words].append(cell["method"])
    return "".join(f" Without figures: {', '.join(who)} ({words})." for words, who in why.items())


def absent(found: Found) -> str:
    """Data sets without any figures."""
    gone = [
        f"- {data}: {words}"
        for data in SOURCES
        if not lines(found, data) and (words := next((f["absent"] for _, f in found.part(data) if "absent" in f), ""))
    ]
    return "\n".join(gone)


def _shown(own: Lines, method: str | None, measure: str) -> str:
    return str(own[method].measures[measure]) if method in own and measure in own[method].measures else NOTHING


def _bold(text: str, whether: bool) -> str:
    return f"**{text}**" if whether else text


def _said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
