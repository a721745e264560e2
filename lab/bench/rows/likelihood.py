"""EM compared with other packages: seconds until the log-likelihood is near the best that any of them finds."""

import subprocess
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

import plait
from lab.bench import data, engine
from lab.harness.apart import call, last_line
from lab.harness.packages import missing
from lab.harness.results import Figures
from lab.harness.running import Row
from plait.machine import processors

STOPS = (1, 2, 5, 10, 20, 50, 100, 200)
PATIENCE = 8.0  # seconds of one run: no longer ones follow
NEAR = 1e-3  # of the best log-likelihood: every package has a random start of its own
CASES = {"matrix": ((2000, 2000), 10), "CP-3": ((120, 120, 120), 10)}
SMALL = {"matrix": ((100, 100), 3), "CP-3": ((20, 20, 20), 3)}
PACKAGES = {"matrix": ("Plait", "scikit-learn NMF", "poismf"), "CP-3": ("Plait", "pyttb cp_apr")}


def rows(quick: bool) -> Iterator[Row]:
    """A matrix and a cube."""
    for kind, names in PACKAGES.items():
        about = {"part": "quality", "what": "likelihood", "problem": kind}
        yield Row(about, partial(_all, kind, names[:1] if quick else names, quick))


def _all(kind: str, names: tuple[str, ...], quick: bool, done: Any) -> Figures:
    contenders = {}
    for name in names:
        package = {"Plait": "", "pyttb cp_apr": "pyttb", "scikit-learn NMF": "scikit-learn"}.get(name, name)
        reason = missing(package)
        contenders[name] = {"cannot": reason} if reason else _tried(kind, name, quick)
    finals = [max(found["likelihood"]) for found in contenders.values() if "likelihood" in found]
    if not finals:
        raise RuntimeError("no package found a likelihood")
    return {"contenders": contenders, "goal": max(finals) - NEAR * abs(max(finals))}


def _tried(kind: str, name: str, quick: bool) -> Figures:
    """The course of a package; what it fails with is a line of the table."""
    try:
        return call("lab.bench.rows.likelihood:course", kind=kind, name=name, quick=quick)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return {"cannot": last_line(str(error))}


def course(kind: str, name: str, quick: bool = False) -> Figures:
    """Iterations, seconds and log-likelihood of runs of several lengths, each from the same start."""
    case = planted(kind, quick)
    run = RUNS[name](case)
    run(2)  # compiles
    steps = []
    for iterations in STOPS[: 4 if quick else None]:
        begin = time.perf_counter()
        factors = run(iterations)
        seconds = time.perf_counter() - begin
        steps.append((iterations, seconds, log_likelihood(case, factors)))
        if seconds > PATIENCE:
            break
    return {word: list(values) for word, values in zip(("iterations", "seconds", "likelihood"), zip(*steps))}


@lru_cache(maxsize=1)
def planted(kind: str, quick: bool) -> data.Case:
    """Counts drawn from a model: there is something to find."""
    sides, rank = (SMALL if quick else CASES)[kind]
    rng = np.random.default_rng(0)
    letters = "ijk"[: len(sides)]
    factors = [rng.gamma(0.3, 1.0, (side, rank)) for side in sides]
    rate = np.einsum(",".join(f"{i}r" for i in letters) + f"->{letters}", *factors, optimize=True)
    X = rng.poisson(rate * (0.1 / rate.mean()))
    index = np.stack(np.nonzero(X), axis=1).astype(np.int32)
    case = data.cp(4, sides, rank)
    cells = data.Cells(tuple(letters), index, X[np.nonzero(X)].astype(float))
    return case.but(relations={"X": cells})


def log_likelihood(case: data.Case, factors: list[np.ndarray]) -> float:
    """Σ x log rate − Σ rate, without the constant; rates of 0 at a link are as good as 1e-300."""
    cells = case.relations["X"]
    rate = np.ones((len(cells.x), case.sizes["r"]))
    for m, factor in enumerate(factors):
        rate *= factor[cells.index[:, m]]
    total = np.prod([factor.sum(axis=0) for factor in factors], axis=0).sum()
    return float(cells.x @ np.log(np.maximum(rate.sum(axis=1), 1e-300)) - total)


def _plait(case: data.Case) -> Callable[[int], list[np.ndarray]]:
    def run(iterations: int) -> list[np.ndarray]:
        labels = {axis: range(case.sizes[axis]) for axis in plait.Model(case.model).axes}
        fit = plait.fit(
            case.model, engine.relations(case), rank=case.rank, entities=labels, method="em", seed=0,
            max_iter=iterations, tol=0.0, progress=False,
        )  # fmt: skip
        return [posterior.mean for posterior in fit.factors.values()]

    return run


def _sklearn(case: data.Case) -> Callable[[int], list[np.ndarray]]:
    from lab.bench.peers.sklearn_ import KlNmf

    return KlNmf(case, processors()).fit


def _poismf(case: data.Case) -> Callable[[int], list[np.ndarray]]:
    from lab.bench.peers.poismf_ import PoisMf

    return partial(PoisMf(case, processors()).fit, method="tncg", l2_reg=1e-3)


def _pyttb(case: data.Case) -> Callable[[int], list[np.ndarray]]:
    from lab.bench.peers.pyttb_ import CpApr

    peer = CpApr(case, processors())

    def run(iterations: int) -> list[np.ndarray]:
        found, _ = peer.fit(iterations)
        first, *others = found.factor_matrices
        return [first * found.weights, *others]

    return run


RUNS = {"Plait": _plait, "scikit-learn NMF": _sklearn, "poismf": _poismf, "pyttb cp_apr": _pyttb}
