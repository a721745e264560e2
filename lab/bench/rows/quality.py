"""Time to quality: seconds until a fit is near the best bound, finds hidden links, has a high likelihood."""

import inspect
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import plait
from lab.bench.rows.problems import PROBLEMS, Problem, absent
from lab.harness.apart import call
from lab.harness.results import Figures
from lab.harness.running import Row

NEAR = 1e-4  # of the best bound
AUC_NEAR = 0.002  # below the AUC of the long run
WARM = 60  # sweeps after which leaps have begun
STOPS = (2, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200)
# by problem: seeds, sweeps of the long run
BOUNDS = {"UCLAF": (5, 1500), "Kinships": (3, 1500), "Last.fm": (2, 400), "500³": (2, 400), "1000³": (1, 250)}
QUICK = {"60³": (1, 40)}
# by name: how else to fit the small ones
OTHERWISE: dict[str, dict[str, Any]] = {"priors as given": {"adapt_prior": None}, "EM": {"method": "em"}}


def rows(quick: bool) -> Iterator[Row]:
    """ELBOs, hidden links, a fit of 100 sweeps, and EM compared with the EM of others."""
    from lab.bench.rows import likelihood

    for name, (seeds, sweeps) in (QUICK if quick else BOUNDS).items():
        about = {"part": "quality", "what": "bound", "problem": name}
        yield Row(about, partial(_apart, name, "near", name=name, seeds=seeds, max_iter=sweeps))
        for words, how in OTHERWISE.items() if name in ("UCLAF", "Kinships") else ():
            other = about | {"problem": f"{name}, {words}"}
            yield Row(other, partial(_apart, name, "near", name=name, seeds=seeds, max_iter=sweeps, how=how))
    for name in () if quick else ("UCLAF", "Kinships", "Last.fm"):
        about = {"part": "quality", "what": "auc", "problem": name}
        yield Row(about, partial(_apart, name, "auc", name=name))
    digg = "Digg-shaped, small" if quick else "Digg-shaped"
    yield Row({"part": "quality", "what": "100 sweeps", "problem": digg}, partial(_apart, digg, "hundred", name=digg))
    yield from likelihood.rows(quick)


def ways() -> dict[str, dict[str, Any]]:
    """With and without acceleration, as far as this version has it."""
    given = inspect.signature(plait.fit).parameters.get("accelerate")
    return {"plain": {"accelerate": False}, "accelerated": {"accelerate": True}} if given else {"plain": {}}


def default() -> str:
    """Which of the ways a user gets who says nothing."""
    given = inspect.signature(plait.fit).parameters.get("accelerate")
    return "accelerated" if given is not None and given.default else "plain"


def _apart(problem: str, function: str, done: Any, **arguments: Any) -> Figures:
    if reason := absent(problem):
        return {"cannot": reason}
    return call(f"lab.bench.rows.quality:{function}", **arguments)


def near(name: str, seeds: int, max_iter: int, how: dict[str, Any] | None = None) -> Figures:
    """Every seed's long run by every way: sweeps and seconds until it was near the best bound of that seed."""
    how = how or {}
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways()}
    courses: dict[str, Any] = {}
    for seed in range(seeds):
        problem = PROBLEMS[name](seed)
        if not seed:
            _warm(name, problem, how)
        runs = {way: _course(problem, seed, max_iter, how | more) for way, more in ways().items()}
        best = max(bounds[-1] for bounds, _ in runs.values())
        for way, (bounds, seconds) in runs.items():
            found[way].append(_reached(bounds, seconds, best))
        if not courses:
            courses = {way: _thin(bounds, seconds, best) for way, (bounds, seconds) in runs.items()}
    return {"ways": found, "courses": courses, "default": default(), "long": max_iter}


def auc(name: str, seed: int = 0) -> Figures:
    """Seconds until the AUC of the hidden links is nearly that of the long run, from the arrays on."""
    problem = PROBLEMS[name](seed)
    assert problem.auc
    best, found = None, {}
    _warm(name, problem)
    for way, more in ways().items():
        course = []
        for sweeps in STOPS:
            begin = time.perf_counter()
            fit = _fit(problem, seed, sweeps, more)
            course.append((sweeps, time.perf_counter() - begin, problem.auc(fit)))
        best = course[-1][2] if best is None else best  # the plain long run sets the goal for all
        reached = next((step for step in course if step[2] >= best - AUC_NEAR), None)
        sweeps, seconds, _ = reached or (None, None, None)
        found[way] = {"sweeps": sweeps, "seconds": seconds, "last": course[-1][2], "goal": best - AUC_NEAR}
    return {"ways": found, "default": default()}


def hundred(name: str) -> Figures:
    """A fit of 100 sweeps from arrays, the front end included."""
    problem, found = PROBLEMS[name](0), {}
    _warm(name, problem)
    for way, more in ways().items():
        begin = time.perf_counter()
        fit = _fit(problem, 0, 100, more)
        found[way] = {"seconds": time.perf_counter() - begin, "bound": fit.objective}
    return {"ways": found, "default": default()}


def _fit(problem: Problem, seed: int, max_iter: int, more: dict[str, Any]) -> plait.Fit:
    return plait.fit(
        problem.model, problem.relations, rank=problem.rank, entities=problem.entities, seed=seed,
        max_iter=max_iter, tol=0.0, progress=False, **more,
    )  # fmt: skip


def _warm(name: str, problem: Problem, how: dict[str, Any] | None = None) -> None:
    """Compile everything, leaps too: by a small problem of the same model and rank, and two sweeps of the large one."""
    small = "60³" if name.endswith("³") else "Digg-shaped, small" if name.startswith("Digg") else name
    for more in ways().values():
        _fit(problem if small == name else PROBLEMS[small](0), 0, WARM, (how or {}) | more)
        if small != name:
            _fit(problem, 0, 2, (how or {}) | more)


def _course(problem: Problem, seed: int, max_iter: int, more: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The bound after every sweep, and the seconds until then, the front end and the warm-up included."""
    begin = time.perf_counter()
    fit = _fit(problem, seed, max_iter, more)
    total = time.perf_counter() - begin
    seconds = np.cumsum([record.seconds for record in fit.history])
    bounds = np.array([record.objective for record in fit.history if not record.warm_up])
    return bounds, (seconds + (total - seconds[-1]))[-len(bounds) :]


def _reached(bounds: np.ndarray, seconds: np.ndarray, best: float) -> dict[str, Any]:
    """When a run came near; None where it never did."""
    hits = np.flatnonzero(bounds >= best - NEAR * abs(best))
    gap = float((best - bounds[-1]) / abs(best))
    front = float(seconds[0])
    if not len(hits):
        return {"sweeps": None, "seconds": None, "front": front, "gap": gap}
    return {"sweeps": int(hits[0]), "seconds": float(seconds[hits[0]]), "front": front, "gap": gap}


def _thin(bounds: np.ndarray, seconds: np.ndarray, best: float) -> dict[str, list[float]]:
    """A course for a plot: about thirty points, evenly spaced by the logarithm of the sweep."""
    at = np.unique(np.geomspace(1, len(bounds) - 1, 30).astype(int))
    gaps = np.maximum((best - bounds[at]) / abs(best), 1e-9)
    return {"seconds": seconds[at].round(5).tolist(), "gap": [float(f"{gap:.3g}") for gap in gaps]}
