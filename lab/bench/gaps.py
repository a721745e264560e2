"""How far the bound of a default fit is below the best of many starts: the second table of docs/decisions/0004."""

from statistics import mean

import plait
from lab.bench import links
from lab.bench.starts import SEEDS, fit_from
from lab.harness.table import show

STARTS = {"random": (0, 10), "EM 10": (10, 30), "EM 30": (30, 30), "EM 50": (50, 30), "EM 100": (100, 30),
          "EM 300": (300, 30)}  # fmt: skip
DEFAULT = "EM 50"


def compare() -> None:
    """The gap to the best of all starts and seeds, of (that best − the bound without latent indices)."""
    rows = []
    for case in links.cases():
        model = plait.Model(case.text)
        data = model.bind(case.data)
        fits = {
            name: [fit_from(model, data, case.rank, seed, *when) for seed in SEEDS] for name, when in STARTS.items()
        }
        bounds = {name: [fit.objective for fit in own] for name, own in fits.items()}
        alone = max(fit_from(model, data, 1, seed, 0, 10).objective for seed in SEEDS[:2])
        best = max(map(max, bounds.values()))
        one, five = mean(bounds[DEFAULT]), max(bounds[DEFAULT])
        gaps = [f"{100 * (best - bound) / (best - alone):.1f} %" for bound in (one, five)]
        by_bound = max(STARTS, key=lambda name: mean(bounds[name]))
        rows.append(
            [case.name, f"{alone:.0f}", f"{best:.0f}", f"{one:.0f}", *gaps, by_bound, _best_predicting(case, fits)]
        )
    columns = ["case", "without latent indices", "best", "default", "gap", "of the best of five", "best by the bound",
               "best by log-likelihood, AP, MRR"]  # fmt: skip
    show("Gaps of the default start", columns, rows)


def _best_predicting(case: links.Case, fits: dict[str, list[plait.Fit]]) -> str:
    """The start that is best by each of the three figures, in the mean over seeds."""
    figures = {
        name: [mean(f) for f in zip(*(case.judge(links.rates_of(fit)) for fit in own))] for name, own in fits.items()
    }
    return ", ".join(
        max(STARTS, key=lambda name: figures[name][n]) for n in range(3) if figures["EM 50"][n] == figures["EM 50"][n]
    )
