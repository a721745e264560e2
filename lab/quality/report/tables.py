"""The tables of the page."""

from collections.abc import Iterator
from typing import Any

from lab.harness.results import Found
from lab.harness.table import NOTHING, text_table
from lab.quality.data import SOURCES
from lab.quality.methods import BEST, METHODS, TRIES, find
from lab.quality.report.entries import Lines, best, compared, lines, main_measure, measured, peers
from plait.rendering.document import Table

BASELINES = ("popularity", "popularity of pairs")


def glance(found: Found, precision: bool) -> Table:
    """A row for each data set: Plait, popularity and the best peer, by the first measure or by AP."""
    rows = []
    for data, own in measured(found).items():
        measure = "AP" if precision else main_measure(own)
        popular, peer = best(own, measure, BASELINES), best(own, measure, peers(own))
        shown = [_shown(own, method, measure) for method in ("Plait", BEST, "Plait, EM")]
        beside = _shown(own, peer, measure) if peer else NOTHING
        rows.append(
            [data, measure, *shown, _shown(own, popular, measure), peer or NOTHING, beside, place(own, measure)]
        )
    headings = ["data", "measure", "Plait, one fit", "Plait, five fits", "Plait, EM", "popularity", "best peer",
                "its figure", "place of Plait, five fits"]  # fmt: skip
    title = "By average precision" if precision else "By rank"
    return text_table(title, headings, rows, "Popularity: the better of the two kinds, where there are two.", left=2)


def place(own: Lines, measure: str) -> str:
    """``2 of 9``: where Plait's ensemble stands among all methods."""
    if BEST not in own:
        return NOTHING
    mine = own[BEST].measures[measure].value
    rivals = compared(own)
    return f"{1 + sum(line.measures[measure].value > mine for line in rivals.values())} of {len(rivals)}"


def verdicts(found: Found) -> str:
    """Where another method is ahead of Plait's ensemble, in words; differences within two standard errors are ties."""
    ahead, ties, first, names = [], [], [], {"Plait": "one fit"}
    for data, own in measured(found).items():
        for measure in (main_measure(own), "AP"):
            if BEST not in own:
                continue
            other = best(own, measure, tuple(method for method in own if method != BEST))
            if other is None:
                continue
            mine, theirs = own[BEST].measures[measure], own[other].measures[measure]
            words = f"{data} by {measure} ({names.get(other, other)} {theirs.value:.3f}, five fits {mine.value:.3f})"
            (ties if mine.near(theirs) else ahead if theirs.value > mine.value else first).append(words)
    return "\n".join(
        f"- {title}: {'; '.join(words) or 'nowhere'}."
        for title, words in (
            ("**Another is better** than five fits of Plait", ahead),
            ("Within two standard errors of the best other", ties),
            ("Five fits of Plait are better than all others", first),
        )
    )


def each(found: Found) -> Iterator[Table]:
    """A table for every data set: all methods, all measures."""
    for data, own in measured(found).items():
        measures = next(iter(own.values())).measures
        leader = {measure: best(own, measure) for measure in measures}
        rows = [
            [method, *(_bold(str(line.measures[m]), method == leader[m]) for m in measures),
             settings(line.settings), f"{line.fit:.1f}", f"{line.choice:.1f}" if line.choice >= 0.05 else NOTHING]
            for method, line in own.items()
        ]  # fmt: skip
        splits = next(iter(own.values())).splits
        how = f"{SOURCES[data].hidden.capitalize()}; {splits} split{'s' if splits > 1 else ''}."
        missing = _reasons(found, data)
        note = f"{SOURCES[data].words}. {how}{missing}"
        yield text_table(data, ["method", *measures, "settings taken", "fit, s", "choice, s"], rows, note)


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
    note = f"No method has more than {TRIES} tries; VB has none."
    return text_table("Methods", ["method", "what it does", "for", "tries"], rows, note, left=3)


def _tries(name: str) -> int:
    """How many settings a method chooses from; one alone is no choice."""
    settings = len(find(name).settings)
    return settings if settings > 1 else 0


def _reasons(found: Found, data: str) -> str:
    """Who has no figures, and why."""
    why: dict[str, list[str]] = {}
    for cell, figures in found.part(data):
        if words := figures.get("absent"):
            why.setdefault(words, []).append(cell["method"])
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
    return str(own[method].measures[measure]) if method in own else NOTHING


def _bold(text: str, whether: bool) -> str:
    return f"**{text}**" if whether else text


def _said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
