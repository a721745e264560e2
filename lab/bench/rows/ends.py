"""Measured in a process of its own each: from rows to CSF, memory after a fit, and queries."""

import gc
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import plait
from lab.bench import data, measure
from lab.bench.engine import Engine
from lab.harness import machine
from plait.fitting.options import Options
from plait.fitting.prepare import prepare

MODEL = plait.Model("X[i, j, k] = A[i, r] B[j, r] C[k, r]")


def trees(count: int, side: int, source: str, labels: str) -> dict[str, Any]:
    """Rows per second from a source to CSF, next to the sweeps of R = 5 that follow."""
    case = data.cp3(count, side, 5, "listed")
    table = case.relations["X"].table()
    if labels == "strings":
        table = table.with_columns(pl.format("{}-{}", pl.lit(axis), pl.col(axis)).alias(axis) for axis in "ijk")
    _grown(data.cp3(20_000, 60, 5).relations["X"].table())  # compiles
    with tempfile.TemporaryDirectory() as folder:
        given = _given(table, source, Path(folder))
        raw = table.estimated_size()
        if not isinstance(given, pl.DataFrame):
            del table
            gc.collect()
        seconds, over = [], 0
        for _ in range(3):
            machine.forget_peak()
            before, begin = machine.held(), time.perf_counter()
            task = _grown(given)
            seconds.append(time.perf_counter() - begin)
            over = over or machine.peak() - before
            sizes = task.data.sizes
            del task
            gc.collect()
    engine = Engine(case)
    sweep = measure.interleave({"sweep": engine.sweep}, repeats=5, warm=2)["sweep"].median
    figures = measure.Timing(tuple(seconds)).figures()
    assert len(sizes) == 3
    return {**figures, "rows": count, "raw": raw, "over": over, "sweep": sweep}


def _given(table: pl.DataFrame, source: str, folder: Path) -> Any:
    """What the user has: a data frame, or the path of a file."""
    if source == "data frame":
        return table
    path = folder / ("X.csv" if source == "csv" else "X.parquet")
    (table.write_csv if source == "csv" else table.write_parquet)(path)
    return path


def _grown(given: Any) -> Any:
    """All that happens before the first sweep, reading included."""
    table = plait.read(given) if isinstance(given, Path) else given
    bound = MODEL.bind({"X": plait.Relation(table, observed="listed", value="value")})
    return prepare(MODEL, bound, Options(rank=5, seed=0, warmup=0))


def encode(count: int, labels: str, distinct: int) -> dict[str, Any]:
    """Rows per second of one column with a number of different labels: labels sorted, rows numbered."""
    from plait.data.encoding.names import Seen, build

    column = pl.Series("i", np.random.default_rng(0).integers(0, distinct, count))
    column = column if labels == "integers" else pl.select(pl.format("user-{}", column)).to_series()
    runs = {"encode": lambda: build("i", [Seen("a column", column)]).encode(column)}
    return measure.interleave(runs, repeats=3, warm=1)["encode"].figures() | {"rows": count}


def rest(count: int, side: int, links: bool = False) -> dict[str, Any]:
    """Bytes a nonzero that are held between sweeps, R = 5: all arrays but those of the factors.

    Listed data; or links: the table has no column of values, and what it does not list is an observed 0.
    """
    case = data.cp3(count, side, 5, "listed")
    table = case.relations["X"].table()
    bound = MODEL.bind({"X": plait.Relation(table.drop("value"))}) if links else _bound(case)
    task = prepare(MODEL, bound, Options(rank=5, seed=0, warmup=0))
    task.problem.recompute_elbo_terms()
    engine_arrays = arrays_of((task.data.relations, task.problem.relations, task.problem.forest))
    factors = arrays_of(task.problem.factors)
    total = sum(array.nbytes for key, array in engine_arrays.items() if key not in factors)
    return {"bytes": total, "nonzeros": count, "factors": sum(array.nbytes for array in factors.values())}


def _bound(case: data.Case) -> Any:
    from lab.bench.engine import bind

    return bind(case)


def arrays_of(root: Any) -> dict[int, np.ndarray]:
    """Every array that owns its memory and can be reached from an object, by its identity; not the threads' buffers."""
    found: dict[int, np.ndarray] = {}
    seen: set[int] = set()
    todo = [root]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, (type, str, bytes, int, float, pl.DataFrame, pl.Series)):
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            if isinstance(thing.base, np.ndarray):
                todo.append(thing.base)
            else:
                found[id(thing)] = thing
        elif isinstance(thing, dict):
            todo += list(thing.values())
        elif isinstance(thing, (list, tuple, set, frozenset)):
            todo += list(thing)
        elif (home := type(thing).__module__).startswith("plait") and not home.startswith("plait.executors"):
            names = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
            todo += [getattr(thing, name, None) for name in names if not name.startswith("__")]
            todo += list(getattr(thing, "__dict__", {}).values())
    return found


def after(quick: bool) -> dict[str, Any]:
    """Cells predicted a second, seconds of top, of saving and of loading, on a fit of Digg's shape (R = 20)."""
    from lab.bench import predict, top

    fit = predict.fit_of("X[i,j,k] = A[i,r] B[j,r] C[k,r]", 20, 500, "mixed")
    count = 10_000 if quick else 1_000_000
    cells = pl.DataFrame(dict(zip("ijk", np.random.default_rng(1).integers(0, 500, (3, count)))))
    runs: dict[str, Any] = {"predict": lambda: fit.predict("X", cells)}
    if not quick:
        links = top.synthetic("sparse")
        runs["top, one user given"] = lambda: links.top("X", 10, given={"user": 17})
        runs["top, nothing given"] = lambda: links.top("X", 10)
    case = data.digg(20, scale=0.01 if quick else 1.0)
    found = plait.fit(case.model, _bound(case), rank=20, seed=0, max_iter=2, progress=False)
    with tempfile.TemporaryDirectory() as folder:
        number = iter(range(1000))
        runs["save"] = lambda: found.save(f"{folder}/{next(number)}")
        found.save(f"{folder}/kept")
        runs["load"] = lambda: plait.load(f"{folder}/kept")
        times = measure.interleave(runs, repeats=3, warm=1)
    return {"cells": count} | {name: timing.figures() for name, timing in times.items()}
