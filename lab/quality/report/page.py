"""The page as text."""

from pathlib import Path

from lab.harness.page import failures, joined, picture, where
from lab.harness.results import Found
from lab.harness.table import as_markdown
from lab.quality.data import MIN_LINKS
from lab.quality.methods import TRIES, Method
from lab.quality.methods.plait_ import EQUATIONS, SHARED, Default, Evidence, EvidenceFive, Five
from lab.quality.report import tables, targets
from lab.quality.rows import names, rows
from plait.rendering.text import write_table


def _short(method: type[Method]) -> str:
    return method.says.removesuffix(", nothing chosen")


def _equation(kind: str) -> str:
    return SHARED[kind].splitlines()[0]


FIRST = f"""# Quality

This page compares predictions of Plait with those of simple rules and other packages, on the same links and by the
same code (`lab/quality/judge.py`, which is independent of Plait). `make quality` measures missing rows,
`make quality ARGS=--fresh` everything, `python -m lab.quality Kinships` one data set. The page and its plots are
made from `docs/quality/results.jsonl`.

**Plait** uses the obvious equation for the kind of data (below). *One fit* ({_short(Default)}) and *five fits*
({_short(Five)}) have no evidence. *Evidence* is {Evidence.says}; *evidence, five fits* is {EvidenceFive.says}.
With evidence, the two ends of a link between entities of one kind share a factor. Plait chooses
ranks that are left out and `evidence="auto"` by links held out from its training links; the seconds of the fit
include this.

**The others**, and Plait's EM, have the same budget: each tries {TRIES} settings, or has none to try, and takes the
best by the first measure on validation links: the official ones of knowledge graphs and of Gowalla, otherwise links
hidden from the training links. Then all are fitted on the same training links: on the training triples only for
knowledge graphs, on training and validation links for all others. {TRIES} settings are few: with more settings or
longer training, some packages would be better than shown here. No method uses test links before the end.

**Published** figures are shown as published, on the same official test. They were not measured here, and have neither
an error nor an AP.

**Measures.** *MRR*: mean of 1 ÷ rank of a hidden link among all entities of one index, given the other entities,
without other known links (filtered); for knowledge graphs over heads and tails together, and for each. *hits@k*: the
share of ranks of at most k. Ties have their expected rank, for every method. *No self-links*: in relations with
{MIN_LINKS} or more training links and no self-link, an entity is not a candidate for its own links, as
in `fit.top` and `plait.evaluate`. *AP*: average precision of the hidden links against ten times as many cells, drawn
uniformly from all cells that are not links; equal scores are taken together. *NDCG@k*, *recall@k*: of the list of
every user, without known links, equal scores in random order. Recall is hits ÷ the smaller of k and the user's test
links; *full recall* is hits ÷ all of them, as is published for Gowalla. ± is a standard error: over splits if there
are several, otherwise over queries (for AP, over ten parts of the test). Two methods are compared on the splits that
both have. Seconds are processor seconds for one split: of the last fit, and of choosing settings. The first row of
Plait that needs a kernel also compiles it.

**Splits.** A data set without an official split has three or more random splits, each with its own seed.

**Equations.** Triples: `{EQUATIONS["triples"]}`, with evidence `{_equation("triples")}`; graphs:
`X[a,b] = A[a,r] B[b,r]`, both directions of an edge, with missing self-links, with evidence `{_equation("graph")}`;
matrices: `{EQUATIONS["matrix"]}`; other tensors: `{EQUATIONS["tensor"]}`. The
likelihood is Bernoulli, and Poisson for Last.fm, Gowalla and WN18RR, whose links are rare.
"""

SELF_LINKS = """\
No training triple of these relations links an entity to itself, but the usual ranking includes the entity itself as a
candidate. `A G A` observes no self-links, so such a cell may rank first. The columns *no self-links* leave these
candidates out for every method. ComplEx and RESCAL were measured before these columns existed.
"""


def text(found: Found, folder: Path, to: Path) -> str:
    """The whole page; plots are linked where they were drawn."""
    parts = [FIRST, where(found), _whole(found)]
    if found.lines:
        parts += ["## At a glance", tables.verdicts(found), picture(folder / "quality.svg", to, "all methods")]
        parts += [as_markdown(tables.glance(found, precision)) for precision in (False, True)]
        parts += ["## Targets", write_table(targets.table(found)), "## All methods"]
        for table in tables.each(found):
            parts += [f"### {table.title}", write_table(table)]
    parts += ["## Self-links in knowledge graphs", SELF_LINKS]
    if gone := tables.absent(found):
        parts += ["## Data that are not at hand", gone]
    return joined([*parts, "## Methods", write_table(tables.methods()), *failures(found)])


def _whole(found: Found) -> str:
    """Whether all rows are measured that there should be."""
    quick = bool(found.head.get("quick"))
    wanted = [row.about for data in names(quick) for row in rows(data, quick)]
    missing: dict[str, dict[str, int]] = {}
    for about in wanted:
        if "figures" not in (found.get(about) or {}):
            methods = missing.setdefault(about["part"], {})
            methods[about["method"]] = methods.get(about["method"], 0) + 1
    if not missing:
        return ""
    count = sum(sum(methods.values()) for methods in missing.values())
    every = "\n".join(f"- {data}: {_counted(methods)}." for data, methods in missing.items())
    return f"**{count} of {len(wanted)} rows are not measured yet**; `make quality` goes on.\n\n{every}"


def _counted(methods: dict[str, int]) -> str:
    return "; ".join(f"{name}, {n} splits" if n > 1 else name for name, n in methods.items())
