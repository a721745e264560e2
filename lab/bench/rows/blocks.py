"""Updates after every block of links: the figures behind docs/decisions/0030-blocks.md."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import plait
from lab.harness import sources
from lab.harness.results import Figures
from lab.harness.running import Done, Row
from lab.harness.sources import SHARED
from plait.data.cells import leaves
from plait.infer import cutting

NEAR = 1e-4
SEEDS = range(2)
SWEEPS = 200
WAYS: dict[str, dict[str, Any]] = {
    "one-pass": {},
    "accelerated": {"accelerate": True},
    "blocks": {"order": "blocks"},
    "blocks, accelerated": {"order": "blocks", "accelerate": True},
}


class Case(NamedTuple):
    """A model, its data and rank; forced: cut into blocks however little they pay."""

    name: str
    text: str
    data: Callable[[], dict[str, Any]]
    rank: Any
    forced: bool = False


class Course(NamedTuple):
    """The bound after every own sweep, processor seconds until then (the warm-up included), blocks."""

    bounds: np.ndarray
    seconds: np.ndarray
    blocks: int

    @property
    def near(self) -> int:
        """The sweep that came within 1e-4 of the end."""
        return int(np.argmax(self.bounds >= self.bounds[-1] - NEAR * abs(self.bounds[-1])))


def rows(quick: bool) -> Iterator[Row]:
    """All data, each once."""
    for case in list(cases())[: 1 if quick else None]:
        yield Row({"part": "blocks", "data": case.name}, partial(_measured, case, 45 if quick else SWEEPS))


def _measured(case: Case, sweeps: int, done: Done) -> Figures:
    """By way, a seed each: sweeps and processor seconds to within 1e-4 of the own end, which is below the best."""
    found: dict[str, list[Course]] = {way: [] for way in WAYS}
    with cut_finely(case.forced):
        model = plait.Model(case.text)
        data = model.bind(case.data())
        _course(model, data, case.rank, 0, 45, {"accelerate": True})  # so that all is compiled
        for seed in SEEDS:
            for way, how in WAYS.items():
                found[way].append(_course(model, data, case.rank, seed, sweeps, how))
    best = [max(course.bounds[-1] for course in courses) for courses in zip(*found.values())]
    ways = {
        way: {
            "sweeps": [c.near for c in courses],
            "seconds": [float(c.seconds[c.near]) for c in courses],
            "below": [float((b - c.bounds[-1]) / abs(b)) for b, c in zip(best, courses)],
        }
        for way, courses in found.items()
    }
    return {"blocks": found["blocks"][0].blocks, "ways": ways}


def _course(model: plait.Model, data: Any, rank: Any, seed: int, sweeps: int, how: dict[str, Any]) -> Course:
    fit, own = follow(model, data, rank, seed, sweeps, how)
    blocks = max((len(visits.kept) for visits in fit.state.visits.values()), default=1)
    return Course(own[:, 0], own[:, 2], blocks)


def follow(
    model: plait.Model, data: Any, rank: Any, seed: int, sweeps: int, how: dict[str, Any]
) -> tuple[plait.Fit, np.ndarray]:
    """A fit, and of each own sweep: the bound, its number with those of the warm-up, processor seconds until then."""
    seen: list[tuple[bool, float, float]] = []

    def watch(record: Any) -> bool:
        seen.append((record.warm_up, record.bound, time.process_time() - begin))
        return True

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        begin = time.process_time()
        fit = plait.fit(model, data, rank=rank, seed=seed, sweeps=sweeps, tol=0.0, progress=watch, **how)
    return fit, np.array([(bound, n, seconds) for n, (warm_up, bound, seconds) in enumerate(seen) if not warm_up])


@contextmanager
def cut_finely(forced: bool) -> Iterator[None]:
    """Blocks of a few links, if they are forced."""
    words = {(leaves, "FEW"): 256, (leaves, "PAYS"): 1, (cutting, "LEAVES"): 1, (cutting, "SHARE"): 1e9,
             (cutting, "ROOM"): 1e9, (cutting, "MOST"): 8}  # fmt: skip
    before = {(place, word): getattr(place, word) for place, word in words}
    try:
        for (place, word), value in words.items() if forced else ():
            setattr(place, word, value)
        yield
    finally:
        for (place, word), value in before.items():
            setattr(place, word, value)


# --- data


def cases() -> Iterator[Case]:
    """Drawn data of several shapes, and real ones; those of which blocks do not pay are forced."""
    yield Case("600 × 300 × 200, 1.3 million, R = 10", _cp(3), lambda: _drawn((600, 300, 200), 8, 1_500_000), 10)
    yield Case("1,000 × 400 × 100 links, R = 10", _cp(3), lambda: _links((1000, 400, 100), 6, 1_500_000), 10)
    yield Case("300 × 200 × 60 × 20, R = 8", _cp(4), lambda: _drawn((300, 200, 60, 20), 6, 1_000_000), 8)
    yield Case("20,000 × 1,000, 2.8 million, R = 20", _cp(2), lambda: _drawn((20000, 1000), 12, 3_500_000), 20)
    yield Case("2,000 × 1,500 × 300, 2.9 million, R = 20", _cp(3), lambda: _drawn((2000, 1500, 300), 12, 3_000_000), 20)
    tucker = "X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]"
    yield Case("the first, Tucker 5 × 5 × 5", tucker, lambda: _drawn((600, 300, 200), 8, 1_500_000), 5)
    if SHARED.exists():
        for name in ("kinships", "umls"):
            yield Case(f"{name}, R = 20 (forced)", _cp(3), lambda name=name: _triples(name), 20, True)
        yield Case("Last.fm tags, R = 10 (forced)", _cp(3), lambda: _table(sources.tags()[1]), 10, True)
        yield Case("Last.fm plays, R = 10 (forced)", _cp(2), lambda: _table(sources.plays()[1]), 10, True)


def _cp(order: int) -> str:
    factors = " ".join(f"{factor}[{index},r]" for factor, index in zip("ABCD"[:order], "ijkl"))
    return f"X[{','.join('ijkl'[:order])}] = {factors}"


def _drawn(shape: tuple[int, ...], rank: int, events: int, seed: int = 0) -> dict[str, Any]:
    """Counts of events that fall into cells of components, each a product of Gamma weights."""
    rng = np.random.default_rng(seed)
    Z = [rng.gamma(0.3, 1.0, (size, rank)) for size in shape]
    totals = np.prod([z.sum(axis=0) for z in Z], axis=0)
    found = []
    for r, count in enumerate(rng.poisson(events * totals / totals.sum())):
        found.append(np.stack([rng.choice(len(z), count, p=z[:, r] / z[:, r].sum()) for z in Z], axis=1))
    cells, values = np.unique(np.concatenate(found), axis=0, return_counts=True)
    return _table(cells, values)


def _links(shape: tuple[int, ...], rank: int, events: int) -> dict[str, Any]:
    table = _drawn(shape, rank, events)["X"].with_columns(value=pl.lit(1.0))
    return {"X": plait.Relation(table, likelihood="bernoulli")}


def _triples(name: str) -> dict[str, Any]:
    return _table(sources.triples(name).parts["train"])


def _table(cells: np.ndarray, values: np.ndarray | None = None) -> dict[str, Any]:
    columns = {index: np.ascontiguousarray(column) for index, column in zip("ijkl", cells.T)}
    return {"X": pl.DataFrame(columns | {"value": np.ones(len(cells)) if values is None else values.astype(float)})}
