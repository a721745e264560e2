"""The page as text."""

import os
from pathlib import Path

from bench import results
from bench.quality.methods import TRIES, Method
from bench.quality.methods.plait_ import Default, Five
from bench.quality.report import tables, targets
from bench.quality.rows import names, rows
from bench.report.page import where, without_title
from bench.results import Found
from plait.paper.report.table import Table


def _short(method: type[Method]) -> str:
    return method.says.removesuffix(", nothing chosen")


FIRST = f"""# Quality

How good the answers are: Plait beside simple rules and other packages, on the same links, judged by the same code
(`bench/quality/judge.py`, which is none of Plait's). `make quality` measures what is not measured yet, `make quality
ARGS=--fresh` everything, `python -m bench.quality Kinships` some data. The page and its plots are made from
`docs/quality/results.jsonl` alone.

**Plait** is fitted with the obvious equation for the kind of data (below) and nothing chosen: *one fit*
({_short(Default)}) and *five fits* ({_short(Five)}). **The others**, EM among them, may each try up to {TRIES} settings
and take the one that is best by the first measure on validation links: the official ones of knowledge graphs,
elsewhere links hidden from the training links. Then all are fitted on the same training links (of knowledge graphs the
training triples alone). {TRIES} tries are few: with more of them, or longer training, some would be better than they
look here. Nobody sees test links before the end.

**Measures.** *MRR*: mean of 1 ÷ rank of a hidden link among all entities of one index, the other entities given, other
links left out (filtered), equals at their expected rank; of knowledge graphs over heads and tails, and of each. *AP*:
average precision of the hidden links against ten times as many cells, drawn uniformly from those that are no links.
*NDCG@10*, *recall@20*: of the list of every user, without what the user is known to play. ± is a standard error: over
splits where there are several, else over queries (of AP, over ten parts of the test). Seconds are those of one
processor, for one split: of the last fit, and of choosing settings.

**Equations.** Triples: `X[h,p,t] = H[h,a] P[a,p,b] T[t,b]`; graphs: `X[a,b] = A[a,r] B[b,r]`, both directions of an
edge, the diagonal missing; matrices: `X[u,i] = U[u,r] I[i,r]`; other tensors: `X[i,j,k] = A[i,r] B[j,r] C[k,r]`.
Bernoulli; of Last.fm, whose links are rare among its many cells, Poisson.
"""


def text(found: Found, folder: Path, to: Path) -> str:
    """The whole page; plots are linked where they were drawn."""
    parts = [FIRST, where(found), _whole(found)]
    if found.lines:
        parts += ["## At a glance", tables.verdicts(found), _picture(folder, to)]
        parts += [tables.glance(found, precision).markdown() for precision in (False, True)]
        parts += ["## Targets", without_title(targets.table(found)), "## All methods"]
        for table in tables.each(found):
            parts += [f"### {table.title}", without_title(table)]
    if gone := tables.absent(found):
        parts += ["## Data that are not at hand", gone]
    parts += ["## Methods", without_title(tables.methods())]
    if found.failures:
        parts += ["## Rows that failed", "A rerun tries them again.", _failures(found)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _whole(found: Found) -> str:
    """Whether all rows are measured that there should be."""
    quick = bool(found.head.get("quick"))
    wanted = [row.about for data in names(quick) for row in rows(data, quick)]
    missing = sum(found.get(about) is None for about in wanted)
    return f"**{missing} of {len(wanted)} rows are not measured yet**; `make quality` goes on." if missing else ""


def _failures(found: Found) -> str:
    rows = [[results.title(line["cell"]), line["figures"]["failed"]] for line in found.failures]
    return without_title(Table("Failed", ["row", "reason"], rows, left=2))


def _picture(folder: Path, to: Path) -> str:
    return f"![all methods]({Path(os.path.relpath(folder / 'quality.svg', to.parent)).as_posix()})"
