"""Where VB should begin: the figures behind docs/decisions/0004-start.md."""

import warnings
from statistics import mean

import plait
import plait.fitting.prepare
from lab.bench import links
from lab.harness.table import show

STARTS = {"random": (0, 10), "EM 10": (10, 30), "EM 30": (30, 30), "EM 50": (50, 30), "EM 100": (100, 30),
          "EM 50, adapt at 10": (50, 10), "EM 50, adapt at 60": (50, 60)}  # fmt: skip
SEEDS = range(5)


def compare() -> None:
    """Bound, log-likelihood of the test, AP and MRR of every case and start: means of five seeds, and of all five."""
    for case in links.cases():
        model = plait.Model(case.text)
        data = model.bind(case.data)
        rows = []
        for name, (warmup, adapt_after) in STARTS.items():
            fits = [fit_from(model, data, case.rank, seed, warmup, adapt_after) for seed in SEEDS]
            single = [case.judge(links.rates_of(fit)) for fit in fits]
            bounds = [fit.objective for fit in fits]
            cells = [f"{mean(column):.4f}" for column in zip(*single)]
            rows.append([name, f"{mean(bounds):.0f}", f"{max(bounds):.0f}", *cells, *_figures(case, fits)])
        columns = ["start", "bound", "best", "log-likelihood", "AP", "MRR", "five: log-likelihood", "AP", "MRR"]
        show(case.name, columns, rows)


def _figures(case: links.Case, fits: list[plait.Fit]) -> list[str]:
    return [f"{figure:.4f}" for figure in case.judge(links.mixed(fits))]


def fit_from(model: plait.Model, data: object, rank: int, seed: int, warmup: int, adapt_after: int) -> plait.Fit:
    before = plait.fitting.prepare.ADAPT_WARM
    plait.fitting.prepare.ADAPT_WARM = adapt_after
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", plait.PlaitWarning)
            return plait.fit(model, data, rank=rank, seed=seed, warmup=warmup, progress=False)
    finally:
        plait.fitting.prepare.ADAPT_WARM = before
