"""UCLAF, the paper's first table: will this user do this activity at this place?

Users × places × activities, alone (PLTF) and coupled with visits and features of places (GCTF); then models of our own.
A share of all cells is hidden, the rest is fitted, and the hidden cells are ranked.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import plait
from lab.harness.results import Cell, Figures
from lab.paper.acts import BASELINES, COUPLED_CP, CP, baseline, hidden, judged
from lab.paper.experiment import Experiment, Lab
from lab.paper.settings import Setting, engine, settled
from lab.paper.sources.uclaf import Uclaf, load, source

TUCKER = "acts[user, place, activity] = A[user, p] B[place, q] C[activity, s] G[p, q, s]"
COUPLED_TUCKER = f"""
    {TUCKER}
    visits[user, visited]   = A[user, p] D[visited, p]
    features[place, feature] = B[place, q] E[feature, q]
"""
# Our own. V is given: 1 where the user has been, 0.01 elsewhere. a and b say how active a user and a place are.
EXPOSURE = "acts[user, place, activity] = V[user, place] A[user, r] B[place, r] C[activity, r]"
BIASES = "acts[user, place, activity] = a[user] b[place] A[user, r] B[place, r] C[activity, r]"
BOTH = "acts[user, place, activity] = V[user, place] a[user] b[place] A[user, r] B[place, r] C[activity, r]"
# Visits as evidence: groups of places that are visited, and their activities.
EVIDENCE = f"{CP} + V[user, place] F[place, q] H[activity, q]"
SHARED = f"""
    {CP}
    visits[user, place] = A[user, r] B[place, r] d[r]
"""
MODELS = {
    "PLTF": CP, "GCTF": COUPLED_CP, "PLTF Tucker": TUCKER, "GCTF Tucker": COUPLED_TUCKER,
    "GCTF evidence": COUPLED_CP.replace(CP, EVIDENCE),
    "exposure": EXPOSURE, "biases": BIASES, "exposure and biases": BOTH, "shared places": SHARED, "Bernoulli": CP,
}  # fmt: skip
PAPER = ("PLTF", "GCTF", "PLTF Tucker", "GCTF Tucker")
OWN = tuple(name for name in MODELS if name not in PAPER)
MISSING = (0.6, 0.8, 0.9)
ELSEWHERE = 0.01  # the exposure of a place that a user has not visited; as evidence it has none


def cells(lab: Lab) -> list[Cell]:
    """Every method at every share of missing cells, ten times; GCTF also with all weights 1."""
    ways: list[tuple[str, str, str]] = [(name, "none", "chosen") for name in BASELINES]
    ways += [(model, algorithm, "chosen") for model in PAPER for algorithm in ("EM", "VB")]
    ways += [(model, algorithm, "1") for model in PAPER if "GCTF" in model for algorithm in ("EM", "VB")]
    ways += [(model, "VB", "chosen") for model in OWN]
    return [
        {"model": model, "algorithm": algorithm, "weights": weights, "missing": missing, "run": run}
        for run in range(1 if lab.quick else 10)
        for missing in (MISSING[:1] if lab.quick else MISSING)
        for model, algorithm, weights in ways
    ]


def measure(lab: Lab, cell: Cell) -> Figures:
    """Hide cells, fit the others, rank the hidden ones."""
    data, model, run = load(lab), str(cell["model"]), int(cell["run"] or 0)
    train, test = hidden(data, float(cell["missing"] or 0), run)
    if model in BASELINES:
        return judged(test, baseline(data, model, test))
    setting = settled(lab, model, str(cell["algorithm"]))
    if cell["weights"] == "1":
        setting = replace(setting, visits=1.0, features=1.0)
    rates, costs = predicted(lab, setting, train, test, run)
    found = judged(test, averaged(rates, setting.average)) | suffixed("one", judged(test, rates[0]))
    return found | costs | setting.figures()


def predicted(
    lab: Lab, setting: Setting, train: Any, test: pl.DataFrame, run: int
) -> tuple[NDArray[np.float64], dict[str, float]]:
    """The rates of the test cells by every restart (restarts, cells), and what it cost."""
    data, rates, seconds = load(lab), [], 0.0
    restarts = 1 if setting.average == "one" else 2 if lab.quick else 5
    for seed in range(restarts):
        begin = time.process_time()
        fit = plait.fit(
            MODELS[setting.model],
            related(data, setting, train["acts"]),
            rank=ranks(setting),
            method=setting.algorithm.lower(),
            **engine(setting.algorithm.lower(), starts_at_random="G[" not in MODELS[setting.model])
            | {"adapt_prior": ties(setting)},
            max_iter=10 if lab.quick else 60,  # 200 change no figure by more than a few thousandths
            fixed=given_visits(data, setting),
            init={"G": core(setting)} if "G[" in MODELS[setting.model] else None,
            entities=data.entities,
            seed=1000 * run + seed,
            threads=1,  # so small a model is not faster on more
            progress=False,
        )
        seconds += time.process_time() - begin
        rates.append(fit.predict("acts", test)["mean"].to_numpy())
    return np.stack(rates), {"seconds": seconds / restarts, "fits": restarts}


def related(data: Uclaf, setting: Setting, acts: plait.Relation) -> dict[str, plait.Relation]:
    """The relations of a model, with their weights."""
    text = MODELS[setting.model]
    visited = {"visited": "place"} if "visited" in text else None
    found = {
        "acts": replace(acts, likelihood=setting.likelihood),
        "visits": plait.Relation(
            data.visits, unseen="zero", weight=setting.visits, columns=visited, likelihood="poisson"
        ),
        "features": plait.Relation(data.features, unseen="zero", weight=setting.features, likelihood="poisson"),
    }
    return {name: found[name] for name in plait.Model(text).relations}


def given_visits(data: Uclaf, setting: Setting) -> dict[str, plait.Exposure] | None:
    """V of the models that have it."""
    text = MODELS[setting.model]
    return {"V": plait.Exposure(data.visits, default=0.0 if "+ V[" in text else ELSEWHERE)} if "V[" in text else None


def ranks(setting: Setting) -> dict[str, int]:
    """The size of every latent index."""
    latent = plait.Model(MODELS[setting.model]).latent
    return dict(zip(latent, map(int, setting.rank.split()), strict=True))


def ties(setting: Setting) -> Any:
    """What shares a prior. "users": each user has a level of activity of their own (and each visited place one of its
    popularity), learnt from visits too; one that the acts alone would put to nothing for users without a known act.
    """
    if setting.algorithm == "EM":
        return None
    factors = [name for name in plait.Model(MODELS[setting.model]).factors if name != "V"]
    if setting.adapt == "users":
        return {name: "rank-one" if name in ("A", "D") else "factor" for name in factors}
    return setting.adapt


def core(setting: Setting) -> NDArray[np.float64]:
    """Where the core of Tucker starts: near a diagonal, as if it were CP. From a random core most fits end in the
    model of popularity alone: the groups of three axes would have to be found at once.
    """
    sizes = tuple(ranks(setting).values())
    start = np.full(sizes, 0.01)
    for component in range(max(sizes)):
        start[tuple(component % size for size in sizes)] = 1.0
    return start


def averaged(rates: NDArray[np.float64], average: str) -> NDArray[np.float64]:
    """One score a cell from the rates of all restarts (restarts, cells). EM has rates of 0, which have no logarithm."""
    if average == "logs":
        return np.asarray(np.log(np.maximum(rates, 1e-12)).mean(axis=0))
    return np.asarray(rates.mean(axis=0) if average == "rates" else rates[0])


def suffixed(word: str, figures: dict[str, float]) -> dict[str, float]:
    """{"auc": …} -> {"auc_word": …}."""
    return {f"{name}_{word}": value for name, value in figures.items()}


EXPERIMENT = Experiment("uclaf", "UCLAF: who does what where", cells, measure, source=source, needs=("choice",))
