"""Digg: who will comment on a story, and who will digg it? Very large, very sparse, and hardly known.

Two tasks. Each has a relation of its own, whose links are hidden, and the same side information: what the stories are
about. Non-links are drawn in two ways: any cell (uniform), or a hidden link with another story (corrupted).
"""

import time
from typing import Any, Literal

import numpy as np
import polars as pl

import plait
from lab.harness.results import Cell, Figures
from lab.paper.corrupted import corrupted
from lab.paper.experiment import Experiment, Lab
from lab.paper.settings import engine
from lab.paper.sources.digg import DRAWN, RANK, Digg, load, source

SINGLE = {
    "comment": "comments[user, story, comment] = U[user, r] S[story, r] C[comment, r]",
    "digg": "diggs[user, story] = U[user, r] S[story, r]",
}
SIDE = "\n topics[story, keyword, topic] = S[story, r] K[keyword, r] T[topic, r]"
RELATION = {"comment": "comments", "digg": "diggs"}
AXES = {"U": "user", "S": "story", "C": "comment"}

# Of rank 1, EM gives popularity: the product of how many links the user, the story and the comment have.
METHODS = ("popularity", "PLTF-EM", "PLTF-VB", "GCTF-EM", "GCTF-VB")
MISSING = (0.6, 0.8, 0.9)
RUNS = 1
SWEEPS = 100


def cells(lab: Lab) -> list[Cell]:
    """Both tasks, every share of hidden links, every method; the truth, where it is known, shows what can be had."""
    methods = (*METHODS, "truth") if source(lab) == DRAWN else METHODS
    runs, missing = (1, MISSING[:1]) if lab.quick else (RUNS, MISSING)
    return [
        {"task": task, "missing": hidden, "method": method, "run": run}
        for run in range(runs)
        for task in SINGLE
        for hidden in missing
        for method in methods
    ]


def measure(lab: Lab, cell: Cell) -> Figures:
    """Hide links, fit the rest, and look for the hidden ones."""
    about = dict[str, Any](cell)
    data, relation, run = load(lab, about["run"]), RELATION[about["task"]], about["run"]
    links = data.links[relation]
    known = plait.Relation(links, unseen="zero", likelihood="poisson")  # a story that is not listed has no comments
    # There are too many cells to list: links are hidden, and all other cells weigh less.
    train, test = plait.train_test_split(known, relation, fraction=about["missing"], by="thinned_links", seed=run)
    begin = time.perf_counter()
    fit = fitted(data, about["task"], about["method"], train, seed=run, max_iter=20 if lab.quick else SWEEPS)
    seconds = time.perf_counter() - begin
    metrics = plait.evaluate(fit, relation, test, seed=run)
    return {
        "auc_uniform": metrics["roc_auc_uniform"],
        "ap_uniform": metrics["average_precision_uniform"],
        "auc_corrupt": metrics["roc_auc_corrupt_story"],
        "ap_corrupt": metrics["average_precision_corrupt_story"],
        "auc_pair": better_than_another_story(fit, relation, links, test, run),
        "seconds": seconds,
        "sweeps": fit.history[-1].sweep,
        "bound": fit.objective,
    }


def fitted(data: Digg, task: str, method: str, train: plait.Relation, *, seed: int, max_iter: int) -> plait.Fit:
    """The relation of the task, alone or coupled with the topics of the stories. All entities are known by name."""
    coupled = method.startswith("GCTF")
    model = plait.Model(SINGLE[task] + (SIDE if coupled else ""))
    relations = {RELATION[task]: train} | (
        {"topics": plait.Relation(data.links["topics"], likelihood="poisson")} if coupled else {}
    )
    entities = {axis: data.entities[axis] for axis in model.axes}
    if method == "truth":
        assert data.truth is not None
        given = {name: data.truth[AXES[name]] for name in model.factors}
        return plait.fit(model, relations, rank=RANK, fixed=given, entities=entities, progress=False)
    algorithm: Literal["vb", "em"] = "vb" if method.endswith("VB") else "em"
    return plait.fit(
        model,
        relations,
        rank=1 if method == "popularity" else RANK,
        method=algorithm,
        **engine(algorithm),
        entities=entities,
        max_iter=max_iter,
        seed=seed,
        progress=False,
    )


def better_than_another_story(
    fit: plait.Fit, relation: str, links: pl.DataFrame, test: pl.DataFrame, seed: int
) -> float:
    """How often a hidden link has a larger rate than the same one with another story.

    Only these pairs say whether the right story is found. Corrupted non-links ranked among all hidden links also ask
    how active the user is, which is the same in both.
    """
    pairs = corrupted(links, test, "story", np.random.default_rng(seed))
    right, wrong = (fit.predict(relation, side)["mean"].to_numpy() for side in pairs)
    return float(np.mean(right > wrong) + np.mean(right == wrong) / 2)


EXPERIMENT = Experiment("digg", "Digg: two tasks on very large coupled relations", cells, measure, source)
