"""Digg replies: who replies to whom, on the site of the paper's largest data.

Links are hidden as in `lab.paper.digg`. Coupled (GCTF), the known replies also count in the other direction: what a
person writes and what a person receives share a factor. Non-links: any cell, or a hidden link with another addressee.
"""

import time
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

import plait
from lab.harness.results import Cell, Figures
from lab.paper.experiment import Experiment, Lab
from lab.paper.settings import engine
from plait.errors import ParameterError

FOLDER = "digg_replies"
REAL, STAND_IN = "Digg replies, two weeks of 2008", "a stand-in drawn from the model, not Digg replies"
SINGLE = "replies[user, to] = U[user, r] T[to, r]\nto: user"
COUPLED = f"{SINGLE}\nreceived[user, by] = U[user, r] B[by, r]\nby: user"
METHODS = ("popularity", "PLTF-EM", "PLTF-VB", "GCTF-EM", "GCTF-VB")
MISSING = (0.6, 0.8, 0.9)
RANK, SWEEPS = 10, 100
QUICK_USERS = 400


def source(lab: Lab) -> str:
    """Where the links are from."""
    return STAND_IN if _folder(lab) is None else REAL


def _folder(lab: Lab) -> Path | None:
    if lab.data is not None and not lab.data.exists():
        raise ParameterError(f"there is no {lab.data}.\nName the folder that has {FOLDER}/, or leave --data out.")
    folder = None if lab.data is None else lab.data / FOLDER
    return folder if folder is not None and folder.is_dir() else None


def load(lab: Lab) -> pl.DataFrame:
    """Distinct pairs of a user and another one that is replied to."""
    return _load(_folder(lab), lab.quick)


@lru_cache(maxsize=1)
def _load(folder: Path | None, quick: bool) -> pl.DataFrame:
    links = _drawn() if folder is None else pl.read_parquet(folder / "replies.parquet").select("user", "to")
    links = links.filter(pl.col("user") != pl.col("to")).unique().sort("user", "to")
    return links.filter(pl.max_horizontal("user", "to") < QUICK_USERS) if quick else links


def _drawn() -> pl.DataFrame:
    """Links between 2000 users in ten groups, some far more active than others."""
    rng = np.random.default_rng(0)
    U, T = (rng.gamma(0.1, 1.0, (2000, 10)) * rng.lognormal(0.0, 1.0, (2000, 1)) for _ in range(2))
    parts = [
        pl.DataFrame({"user": _ends(U[:, r], rng), "to": _ends(T[:, r], rng)}) for r in range(10)
    ]  # each group has equally many
    return pl.concat(parts)


def _ends(weights: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.choice(len(weights), 4000, p=weights / weights.sum())


def cells(lab: Lab) -> list[Cell]:
    """Every share of hidden links, and every method."""
    shares = MISSING[:1] if lab.quick else MISSING
    return [{"missing": missing, "method": method, "run": 0} for missing in shares for method in METHODS]


def measure(lab: Lab, cell: Cell) -> Figures:
    """Hide links, fit the rest, and look for the hidden ones."""
    links, method, seed = load(lab), str(cell["method"]), int(cell["run"] or 0)
    relation = plait.Relation(links, unseen="zero", likelihood="poisson")
    everyone = pl.concat([links["user"], links["to"]]).unique().sort().to_list()
    train, test = plait.train_test_split(
        relation, "replies", fraction=float(cell["missing"] or 0), by="thinned_links", seed=seed, model=SINGLE,
        entities={"user": everyone}, leakage="ignore",
    )  # fmt: skip
    data, model = {"replies": train}, SINGLE
    if method.startswith("GCTF"):
        known = links.join(test, on=["user", "to"], how="anti").select(user="to", by="user")
        data, model = data | {"received": plait.Relation(known, unseen="zero", likelihood="poisson")}, COUPLED
    algorithm: Literal["vb", "em"] = "vb" if method.endswith("VB") else "em"
    begin = time.process_time()
    fit = plait.fit(
        model,
        data,
        rank=1 if method == "popularity" else RANK,
        method=algorithm,
        **engine(algorithm),
        entities={"user": everyone},
        max_iter=20 if lab.quick else SWEEPS,
        seed=seed,
        threads=1,
        progress=False,
    )
    seconds = time.process_time() - begin
    metrics = plait.evaluate(fit, "replies", test, seed=seed)
    return {
        "auc_uniform": metrics["roc_auc_uniform"],
        "ap_uniform": metrics["average_precision_uniform"],
        "auc_corrupt": metrics["roc_auc_corrupt_to"],
        "ap_corrupt": metrics["average_precision_corrupt_to"],
        "seconds": seconds,
    }


EXPERIMENT = Experiment("replies", "Digg replies: who replies to whom", cells, measure, source)
