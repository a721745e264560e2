"""Whether coupling hurts, by what shares a prior: the figures behind docs/decisions/0018-adapt.md."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import plait
from lab.bench import links
from lab.harness.sources import SHARED
from lab.harness.table import show
from lab.paper import lastfm
from lab.paper.acts import COUPLED_CP, CP, hidden
from lab.paper.experiment import Lab
from lab.paper.sources import lastfm as tagging
from lab.paper.sources import uclaf as acting
from plait.evaluation.metrics import average_precision, roc_auc

MISSING, RANKS, SPLITS = (0.6, 0.8, 0.9), (2, 5, 20), range(10)
SEEDS = range(5)
WAYS = {"single": (CP, "auto"), "coupled": (COUPLED_CP, "auto"), "coupled, factor": (COUPLED_CP, "factor")}
SINGLE_TIES = ("auto", "component", "rank-one", None)


def compare() -> None:
    """UCLAF, Last.fm, then every single model of `lab.bench.links`."""
    warnings.simplefilter("ignore", plait.PlaitWarning)
    if SHARED.exists():
        _uclaf()
        _averaged()
        _lastfm()
    _single()


def _uclaf() -> None:
    """AUC and AP of hidden acts; coupled less single, its standard error over the splits."""
    data, rows = acting.load(Lab(False, SHARED, SHARED)), []
    for missing in MISSING:
        for rank in RANKS:
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
            for run in SPLITS:
                train, test = hidden(data, missing, run)
                link = test["value"].to_numpy() > 0
                for name, (text, adapt) in WAYS.items():
                    relations = train if text == CP else data.relations() | train
                    fit = plait.fit(
                        text,
                        relations,
                        rank=rank,
                        adapt_prior=adapt,
                        entities=data.entities,
                        seed=run,
                        threads=1,
                        progress=False,
                    )
                    rates = fit.predict("acts", test)["mean"].to_numpy()
                    found[name].append((roc_auc(link, rates), average_precision(link, rates)))
            means = [_cell(np.mean(values, axis=0)) for values in found.values()]
            gain = np.subtract(found["coupled"], found["single"])
            error = gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
            rows.append([f"{missing:.0%}", str(rank), *means, _cell(gain.mean(axis=0)), _cell(error)])
            print(*rows[-1], flush=True)
    show(
        f"UCLAF, AUC / AP, mean of {len(SPLITS)} splits, weights 1, one fit each",
        ["missing", "rank", *WAYS, "coupled − single", "its standard error"], rows,
    )  # fmt: skip


def _averaged() -> None:
    """The same of five fits averaged, their rank left out: PLTF-VB and GCTF-VB as one would fit them now."""
    data, rows = acting.load(Lab(False, SHARED, SHARED)), []
    for missing in MISSING:
        for name in ("single", "coupled"):
            found, ranks = [], []
            for run in SPLITS:
                train, test = hidden(data, missing, run)
                text, relations = WAYS[name][0], train if name == "single" else data.relations() | train
                fit = plait.fit(
                    text, relations, restarts=5, entities=data.entities, seed=run, threads=1, progress=False
                )
                rates, link = fit.predict("acts", test)["mean"].to_numpy(), test["value"].to_numpy() > 0
                found.append((roc_auc(link, rates), average_precision(link, rates)))
                ranks.append(next(iter(fit.rank.values())))
            error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
            rows.append([f"{missing:.0%}", name, _cell(np.mean(found, axis=0)), _cell(error), str(sorted(ranks))])
            print(*rows[-1], flush=True)
    columns = ["missing", "", "AUC / AP", "standard error", "ranks"]
    show(f"UCLAF, five fits averaged, mean of {len(SPLITS)} splits", columns, rows)


def _cell(figures: Any) -> str:
    return " / ".join(f"{figure:.3f}" for figure in figures)


def _lastfm() -> None:
    """AUC against any cell, by the artist's share, and pair by pair; links of the training part are hidden."""
    data, rows = tagging.load(Lab(False, SHARED, SHARED)), []
    for missing in MISSING:
        about = {"part": "choice", "missing": missing, "run": 0}
        train, test, known = lastfm.hidden(data, about)
        for name, text, adapt in (
            ("single", lastfm.SINGLE, "auto"),
            ("coupled", lastfm.SINGLE + lastfm.SIDES, "auto"),
            ("coupled, factor", lastfm.SINGLE + lastfm.SIDES, "factor"),
        ):
            relations = {"tags": train} | (lastfm.sides(data) if "plays" in text else {})
            fit = plait.fit(text, relations, rank=20, adapt_prior=adapt, seed=0, threads=1, progress=False)
            shares = lastfm.another_artist(fit, data, (known, test), 1.0, 0)
            figures = (
                plait.evaluate(fit, "tags", test, seed=0)["roc_auc_uniform"],
                shares["auc_share"],
                shares["auc_pair"],
            )
            rows.append([f"{missing:.0%}", name, *(f"{figure:.3f}" for figure in figures)])
            print(*rows[-1], flush=True)
    show("Last.fm, rank 20", ["missing", "", "any cell", "share", "in pairs"], rows)


def _single() -> None:
    """Log-likelihood, AP and MRR of hidden links, means of five fits."""
    rows = [row for case in _alone() for row in _tyings(case)]
    columns = ["case", "adapt", "bound", "log-likelihood", "AP", "MRR"]
    show(f"Single models, mean of {len(SEEDS)} seeds", columns, rows)


def _alone() -> Iterator[links.Case]:
    return (case for case in links.cases() if len(case.data) == 1)


def _tyings(case: links.Case) -> Iterator[list[str]]:
    model = plait.Model(case.text)
    data = model.bind(case.data)
    for adapt in SINGLE_TIES:
        fits = [
            plait.fit(model, data, rank=case.rank, adapt_prior=adapt, seed=seed, threads=1, progress=False)
            for seed in SEEDS
        ]
        figures = np.mean([case.judge(links.rates_of(fit)) for fit in fits], axis=0)
        bound = np.mean([fit.objective for fit in fits])
        yield [case.name, str(adapt), f"{bound:.0f}", *(f"{figure:.4f}" for figure in figures)]
