"""Last.fm: hidden links against any cell, and against the same link with another artist."""

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from lab.harness import plots
from lab.harness.table import auc_and_ap, chosen, percent, spread, text_table
from lab.paper.lastfm import CHANGES, CHOICE_MISSING, ELSEWHERE, ELSEWHERES, MISSING, MODELS, RANK, RANKS
from lab.paper.published import METHODS
from plait.rendering.document import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Figure in the results: what it is called in tables and plots.
AGAINST = {"uniform": "any cell", "corrupt_artist": "another artist, by rate", "share": "another artist, by share"}

MEASURES = {"auc": "AUC", "ap": "average precision"}

# The baseline against another artist. It needs no fit of its own: it is the share by popularity.
ARTIST = "popularity of the artist"

# What VB should beat there: a method, and the way in which it ranks.
RIVALS = {f"the {ARTIST}": ("popularity", "share"), "GCTF-EM": ("GCTF-EM", "corrupt_artist")}

# A plot of all would be a thicket: the paper's four, the baseline, and the two that are best by the share.
PLOTTED = (*METHODS, "popularity", "GCTF-VB, from EM", "GCTF-VB, exposed")

READ = "AUC, mean ± sd over the runs; in brackets the average precision, one non-link for every link."


def tables(records: pl.DataFrame) -> list[Table]:
    """Every way to draw and to rank non-links, why the ways differ, seconds, and how settings were chosen."""
    tests = chosen(records, part="test")
    return [
        _by_missing("Against any cell", tests, "uniform", READ),
        _by_rate(tests),
        _by_missing("Against another artist, ranked by its share", tests, "share", SHARE),
        _why(tests),
        _others(tests),
        _seconds(tests),
        _choice(chosen(records, part="choice")),
        _changes(chosen(records, part="change")),
    ]


RATE = (
    "This compares links of one user and tag with non-links of all other users and tags, so a score that knows active "
    "users and common tags well loses by it. *popularity* is the product of the link counts of user, artist and "
    f"tag, *{ARTIST}* that of the artist alone."
)
SHARE = (
    "The artist's share: its rate over the sum of the rates of all artists, for the same user and tag. By Neyman and "
    "Pearson no ranking does better here if the rates are right. For popularity it is the artist's own link count. "
    "EM and popularity give no rate at all to users and tags that nothing is known of; there the artist's share in all "
    "users and tags together is taken for them."
)


def _by_missing(title: str, tests: pl.DataFrame, figure: str, note: str) -> Table:
    """Methods down, shares of missing links across."""
    rows = [[method, *_across(tests, method, figure)] for method in MODELS]
    return text_table(title, ["", *(f"{percent(m)} missing" for m in MISSING)], rows, note)


def _by_rate(tests: pl.DataFrame) -> Table:
    """Another artist by the rate, next to the popularity of the artist."""
    verdicts = [_verdict(tests, measure, name, *rival) for name, rival in RIVALS.items() for measure in MEASURES]
    note = " ".join([RATE, *filter(None, verdicts)])
    table = _by_missing("Against another artist, ranked by the rate", tests, "corrupt_artist", note)
    baseline = [ARTIST, *_across(tests, "popularity", "share")]
    return replace(table, rows=[table.rows[0], baseline, *table.rows[1:]])


def _verdict(tests: pl.DataFrame, measure: str, name: str, rival: str, way: str) -> str:
    """Which VB are above a rival by the rate, in a sentence; nothing unless both are measured."""
    theirs = _means(chosen(tests, method=rival), f"{measure}_{way}")
    above: dict[float, list[str]] = {}
    for method in MODELS:
        ours = _means(chosen(tests, method=method), f"{measure}_corrupt_artist") if "VB" in method else {}
        for missing in ours.keys() & theirs.keys():
            above.setdefault(missing, []).extend([method] if ours[missing] > theirs[missing] else [])
    where = [f"at {percent(missing)} ({'; '.join(above[missing])})" for missing in sorted(above) if above[missing]]
    beats = f"VB beats {name} {' and '.join(where)}" if where else f"no VB beats {name}"
    return f"By the {MEASURES[measure]} of the rate {beats}." if above else ""


def _means(records: pl.DataFrame, figure: str) -> dict[float, float]:
    """The mean of a figure for each share of missing links."""
    if figure not in records.columns:
        return {}
    return dict(records.drop_nulls(figure).group_by("missing").agg(pl.col(figure).mean()).iter_rows())


def _across(tests: pl.DataFrame, method: str, figure: str) -> list[str]:
    """A method at each share of missing links."""
    return [_figure(chosen(tests, method=method, missing=m), figure) for m in MISSING]


def _figure(records: pl.DataFrame, figure: str) -> str:
    return auc_and_ap(records, f"auc_{figure}", f"ap_{figure}")


def _why(tests: pl.DataFrame) -> Table:
    ways = {
        "auc_corrupt_artist": "by rate",
        "auc_warm": "by rate, known artists",
        "auc_share": "by share",
        "auc_pair": "pair by pair",
    }
    rows = [[m, *(spread(tests, figure, method=m, missing=MISSING[0]) for figure in ways)] for m in MODELS]
    note = (
        "AUC. Known artists: without those that have no known link, on either side. "
        "Pair by pair: how often a link has a larger share than itself with another artist. User and tag are then the "
        "same on both sides, and no longer matter."
    )
    return text_table(f"Why the rate misleads, {percent(MISSING[0])} missing", ["", *ways.values()], rows, note)


def _others(tests: pl.DataFrame) -> Table:
    columns = [(index, missing) for index in ("user", "tag") for missing in MISSING]
    rows = [
        [method, *(_figure(chosen(tests, method=method, missing=m), f"corrupt_{index}") for index, m in columns)]
        for method in MODELS
    ]
    headings = ["", *(f"{index}, {percent(missing)}" for index, missing in columns)]
    return text_table("Against another user or another tag, ranked by the rate", headings, rows, READ)


def _seconds(tests: pl.DataFrame) -> Table:
    rows = [[m, *(spread(tests, "seconds", 1, method=m, missing=f) for f in MISSING)] for m in MODELS]
    return text_table("Seconds a fit", ["", *(f"{percent(m)} missing" for m in MISSING)], rows)


def _choice(trials: pl.DataFrame) -> Table:
    """The settings, tried on links hidden from the training part."""
    cases: list[tuple[str, str, float]] = [("GCTF-VB", "rank", rank) for rank in RANKS]
    cases += [("GCTF-VB, exposed", "elsewhere", value) for value in ELSEWHERES]
    cases += [("GCTF-VB, from EM", "rank", RANK)]
    words = {"rank": "rank", "elsewhere": "V where not played"}
    rows = []
    for method, name, value in cases:
        found = chosen(trials, **{"method": method, name: value})
        rows.append([f"{method}: {words[name]} {value:g}", *(_figure(found, way) for way in AGAINST)])
    note = (
        f"At {percent(CHOICE_MISSING)} missing, a fifth of the remaining links hidden once more; test links are not "
        f"looked at. Taken by the AUC against any cell: rank {RANK}, V = {ELSEWHERE:g}."
    )
    return text_table("Choice of settings", ["", *AGAINST.values()], rows, note)


def _changes(trials: pl.DataFrame) -> Table:
    """What else was tried, on the same hidden links."""
    rows = []
    for change in CHANGES:
        found = chosen(trials, change=change)
        figures = [_figure(found, way) for way in AGAINST]
        rows.append([change, *figures, spread(found, "auc_pair"), spread(found, "bound", 0)])
    note = (
        "The same hidden links as in the choice of settings. If too few sweeps, or shrinkage by the prior, were why VB "
        "ranks artists badly by the rate, one of these would help. ELBOs are comparable within the column."
    )
    return text_table("What else might help PLTF-VB", ["", *AGAINST.values(), "pair by pair", "bound"], rows, note)


def figures(records: pl.DataFrame) -> "dict[str, Figure]":
    """AUC and average precision over the share of missing links."""
    tests = chosen(records, part="test")
    figure, axes = plots.panels(len(AGAINST), len(MEASURES), sharex=True, sharey="col")
    with plots.styled():
        for down, (measure, words) in enumerate(MEASURES.items()):
            for across, (way, title) in enumerate(AGAINST.items()):
                panel = axes[down, across]
                for position, method in enumerate(PLOTTED):
                    own = chosen(tests, method=method)
                    plots.points(panel, own, "missing", f"{measure}_{way}", method, position)
                if way == "corrupt_artist":
                    baseline = chosen(tests, method="popularity")
                    plots.points(panel, baseline, "missing", f"{measure}_share", ARTIST, 2)
                panel.set_xticks(MISSING, list(map(percent, MISSING)))
                if down == 0:
                    panel.set_title(title)
                else:
                    panel.set_xlabel("links hidden")
            axes[down, 0].set_ylabel(words)
        plots.legend(figure, columns=4)
    return {"lastfm-links": figure}
