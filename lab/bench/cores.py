"""How sparse the prior of a core should begin: the figures of docs/decisions/0004-start.md, "Cores begin sparse"."""

import warnings
from dataclasses import replace

import numpy as np

import plait
from lab.bench import links
from lab.harness.table import show

PRIORS = {"0.5": (0.5, 0.5), "core 0.1": (0.1, 0.5), "core 0.02": (0.02, 0.5), "0.1": (0.1, 0.1),
          "entities 0.1": (0.5, 0.1)}  # fmt: skip
SEEDS = range(4)


def compare() -> None:
    """Log-likelihood of the test, AP and MRR: mean of four fits, and their average, by how sparse they begin."""
    for case in _cases():
        model = plait.Model(case.text)
        data = model.bind(case.data)
        rows = []
        for name, (core, others) in PRIORS.items():
            fits = [_fit(model, data, case.rank, core, others, seed) for seed in SEEDS]
            one = np.mean([case.judge(links.rates_of(fit)) for fit in fits], axis=0)
            together = case.judge(links.averaged(fits))
            bound = f"{np.mean([fit.objective for fit in fits]):.0f}"
            rows.append([name, bound, *(f"{figure:.4f}" for figure in (*one, *together))])
        columns = ["start", "bound", "log-likelihood", "AP", "MRR", "four: log-likelihood", "AP", "MRR"]
        show(case.name, columns, rows)


def _cases() -> list[links.Case]:
    cores = [case for case in links.cases() if "Tucker" in case.name]
    large = [case for case in cores if case.name.startswith(("kinships", "umls"))]
    return cores + [replace(case, rank=40, name=f"{case.name}, but 40") for case in large]


def _fit(model: plait.Model, data: object, rank: int, core: float, others: float, seed: int) -> plait.Fit:
    prior = {name: plait.Gamma(core if len(model.factor(name).latent) > 1 else others, 10.0) for name in model.factors}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        return plait.fit(model, data, rank=rank, prior=prior, seed=seed, progress=False)
