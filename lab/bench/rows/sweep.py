"""One sweep, every factor once: Plait and all others on the same data, in turn."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from lab.bench import data, team
from lab.bench.peers import OTHERS, OURS
from lab.harness.results import Figures
from lab.harness.running import Done, Row
from plait.machine import processors

CUBES = {1_250_000: 500, 12_500_000: 1000}
SMALL = {20_000: 60}
RANKS = (5, 20, 50)
TOO_LONG = 6.0  # seconds of an iteration that is not worth waiting for: the smaller cube has shown it


def rows(quick: bool) -> Iterator[Row]:
    """CP-3 in all sizes and ranks, then the other models, weights and likelihoods in one size."""
    for about in _abouts(quick):
        yield Row({"part": "sweep", **about}, partial(compete, about, quick))


def _abouts(quick: bool) -> Iterator[dict[str, Any]]:
    common: dict[str, Any] = {"observed": "all", "likelihood": "poisson"}
    for nonzeros, side in (SMALL if quick else CUBES).items():
        for observed in ("all", "listed"):
            for rank in RANKS[: 1 if quick else 3]:
                sides = {"sides": [side] * 3, "nonzeros": nonzeros, "rank": rank}
                yield {"model": "CP", **common, **sides, "observed": observed}
    nonzeros, side = next(iter((SMALL if quick else CUBES).items()))
    one = {**common, "nonzeros": nonzeros, "sides": [side] * 3, "rank": 20}
    yield {**one, "model": "CP", "observed": "missing"}
    if quick:
        return
    for observed in ("all", "listed"):
        yield {**one, "model": "CP", "observed": observed, "likelihood": "bernoulli"}
        yield {**one, "model": "CP", "observed": observed, "sides": [150] * 4}
        yield {**one, "model": "Tucker", "observed": observed, "rank": 8}
    yield {**one, "model": "coupled", "nonzeros": sum(data.DIGG_LINKS.values()), "sides": [*data.DIGG_SIZES.values()]}
    yield {**one, "model": "CP", "sides": [5000] * 2}


def case_of(about: dict[str, Any]) -> data.Case:
    """The data of a row."""
    nonzeros, sides, rank, observed = (about[name] for name in ("nonzeros", "sides", "rank", "observed"))
    if about["model"] == "Tucker":
        return data.tucker(nonzeros, sides[0], rank, observed)
    if about["model"] == "coupled":
        return data.digg(rank, observed, likelihood=about["likelihood"])
    return data.cp(nonzeros, tuple(sides), rank, observed, about["likelihood"])


def compete(about: dict[str, Any], quick: bool, done: Done) -> Figures:
    """All contenders that can, but not those that the smaller cube has shown to take too long."""
    case, slow = case_of(about), _too_slow(about, done)
    names = [name for name in (*OURS, *OTHERS) if name not in slow]
    found = team.compete(case, names, processors(), 0.3 if quick else team.PATIENCE)
    return {"nonzeros": case.nonzeros, "contenders": {name: slow.get(name) or found[name] for name in (*OURS, *OTHERS)}}


def _too_slow(about: dict[str, Any], done: Done) -> dict[str, Figures]:
    """By contender: that it would take too long, by the row of the smaller cube."""
    smaller = {large: small for small, large in zip(list(CUBES)[:-1], list(CUBES)[1:])}.get(about["nonzeros"])
    before = smaller and done({"part": "sweep", **about, "nonzeros": smaller, "sides": [CUBES[smaller]] * 3})
    slow = _out_of_time(about, done)
    for name, figures in (before or {"contenders": {}})["contenders"].items():
        expected = figures.get("sweep", {}).get("seconds", 0.0) * about["nonzeros"] / (smaller or 1)
        if expected > TOO_LONG:
            slow[name] = {"cannot": f"not run: about {expected:.0f} s an iteration by the row of {CUBES[smaller]}³"}
        elif "within" in figures.get("cannot", ""):
            slow[name] = figures
    return slow


def _out_of_time(about: dict[str, Any], done: Done) -> dict[str, Figures]:
    """By contender: that it had no time for an iteration of a smaller rank."""
    slow = {}
    for rank in [rank for rank in RANKS if rank < about["rank"]]:
        before = done({"part": "sweep", **about, "rank": rank}) or {"contenders": {}}
        for name, figures in before["contenders"].items():
            if "within" in (reason := figures.get("cannot", "")):
                slow[name] = {"cannot": reason if reason.startswith("not run") else f"not run: R = {rank}: {reason}"}
    return slow
