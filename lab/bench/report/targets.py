"""What was to be reached, what was measured, and whether it was met: the first table of the page.

A figure is None where it was not measured, and not a number where it was tried and failed: a target with one of the
first is not measured, a target with one of the second is not met.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lab.bench.report import growth, large, quality, sweep, words
from lab.bench.rows import rows as planned
from lab.harness.results import Found
from lab.harness.table import percent
from lab.harness.table import targets as tabled
from plait.rendering.document import Table

Target = tuple[str, str, bool | None]  # what, measured, met; None: not measured
Named = list[tuple[str, float | None]]  # figures, each with a word before it
CUBES = {500: "500³", 1000: "1000³"}
RANKS = (5, 20, 50)
FAILED = math.nan


def table(found: Found) -> Table:
    """All targets."""
    return tabled([*_sweeps(found), *_peers(found), *_times(found), *_memory(found), *_start(found), *_large(found)])


def judge(
    what: str,
    figures: Iterable[tuple[str, float | None]],
    limit: float,
    show: Callable[[Any], str],
    *,
    least: bool = False,
    complete: bool = True,
) -> Target:
    """One target over several figures: all must keep to the limit. complete: whether these are all there should be."""
    figures = list(figures)
    measured = [(word, value) for word, value in figures if value is not None]
    shown = "; ".join(f"{word} {'never' if math.isnan(value) else show(value)}".strip() for word, value in measured)
    if not all(value >= limit if least else value <= limit for _, value in measured):
        return what, shown, False
    return what, shown or "–", True if measured and len(measured) == len(figures) and complete else None


def complete(found: Found, part: str, **about: Any) -> bool:
    """Whether all rows that are measured today are there."""
    wanted = (row.about for row in planned(part, bool(found.head.get("quick"))))
    return all(found.get(a) is not None for a in wanted if all(a.get(name) == value for name, value in about.items()))


def _sweeps(found: Found) -> Iterator[Target]:
    for side, cube in CUBES.items():
        figures = _by_rank(found, side, "all", "counts ÷ yardstick")
        yield judge(f"counts pass ≤ 1.15 × the yardstick, {cube}", _named(figures), 1.15, words.significant)
    for side, cube in CUBES.items():
        figures = _by_rank(found, side, "listed", "sweep ÷ counts")
        what = f"listed: sweep ≤ 3.5 × counts at R = 5, 3 × at 20 and 50, {cube}"
        _, shown, met = judge(what, _named(figures), 3.5, words.significant)
        larger = judge(what, _named({rank: figures[rank] for rank in (20, 50)}), 3.0, words.significant)[2]
        yield what, shown, False if larger is False else met
    for side, cube in CUBES.items():
        figures = _by_rank(found, side, "all", "sweep ÷ counts")
        yield judge(f"all observed: sweep ≤ 1.5 × counts, {cube}", _named(figures), 1.5, words.significant)
    shares = [_of_plait(figures, "links' part of the bound") for _, figures in sweep.lines(found)]
    known = [share for share in shares if share is not None and not math.isnan(share)]
    largest: Named = [("at most", max(known, default=None)), *(("Plait fails in a row:", s) for s in shares if s != s)]
    yield judge(
        "the links' part of the bound < 15 % of a sweep, every row", largest, 0.15, percent,
        complete=complete(found, "sweep") and None not in shares,
    )  # fmt: skip


def _of_plait(figures: dict[str, Any], which: str) -> float | None:
    """A ratio of a row; failed if Plait could not do the row."""
    return FAILED if _fails(figures) else sweep.ratios(figures)[which]


def _fails(figures: dict[str, Any]) -> bool:
    return "cannot" in figures["contenders"].get("Plait", {})


def _by_rank(found: Found, side: int, observed: str, which: str) -> dict[int, float | None]:
    """A ratio of CP-3 on one cube, Poisson, by rank."""
    made: dict[int, float | None] = dict.fromkeys(RANKS)
    for about, figures in sweep.lines(found):
        cube = about["model"] == "CP" and about["sides"] == [side] * 3 and about["likelihood"] == "poisson"
        if cube and about["observed"] == observed:
            made[about["rank"]] = _of_plait(figures, which)
    return made


def _named(figures: dict[int, float | None]) -> Named:
    return [(f"R = {rank}:", ratio) for rank, ratio in sorted(figures.items())]


def _peers(found: Found) -> Iterator[Target]:
    rows = sweep.lines(found)
    for what, names, limit in (
        ("every sweep ≥ 10 × faster than the fastest Python-level peer", sweep.PYTHON_LEVEL, 10.0),
        ("the same against a package with another likelihood (dense least squares by BLAS)", sweep.DENSE, 10.0),
        ("every sweep faster than compiled peers from pip", sweep.COMPILED, 1.0),
    ):
        hits = [(*hit, sweep.name(about)) for about, figures in rows if (hit := sweep.against(figures, names))]
        hits.sort(key=lambda hit: hit[0])
        worst: Named = [(f"least: {who} in {row},", factor) for factor, who, row in hits[:1]]
        worst += [(f"Plait in {sweep.name(a)}:", FAILED) for a, f in rows if _fails(f)]
        short = sum(factor < limit for factor, _, _ in hits)
        target = judge(what, worst, limit, words.times, least=True, complete=complete(found, "sweep"))
        yield target if not short else (target[0], f"{target[1]}; short in {short} of {len(hits)} rows", target[2])
    natives: Named = []
    for rank, ratio in _by_rank(found, 1000, "all", "sweep ÷ yardstick").items():
        for who, published in sweep.NATIVE.items():
            if rank in published:
                edge = published[rank] / sweep.NATIVE_YARDSTICK[rank][1]
                word = f"{who.split(',')[0]} ({who.split(', ')[1].split()[0]}), R = {rank}:"
                natives.append((word, None if ratio is None else edge / ratio))
    yield judge("faster than native peers (published, by the yardstick), 1000³", natives, 1.0, words.times, least=True)


def _times(found: Found) -> Iterator[Target]:
    for problem, limit in (("1000³", 30.0), ("500³", 3.0)):
        figures = found.get({"part": "quality", "what": "bound", "problem": problem}) or {}
        what = f"{problem} from arrays to within 1e-4 of the best bound < {limit:.0f} s"
        near = {way: quality.seconds_near(figures, way) for way in figures.get("ways", {})}
        reached = {way: seconds for way, seconds in near.items() if seconds is not None}
        if near and not reached:
            yield what, "never", False
            continue
        best = sorted(reached, key=lambda way: reached[way])[:1]
        named: Named = [(f"{quality.way_name(figures, way)}:", reached[way]) for way in best]
        yield judge(what, named, limit, words.seconds)
    figures = found.get({"part": "quality", "what": "100 sweeps", "problem": "Digg-shaped"}) or {"ways": {}}
    seconds = [(way, run["seconds"]) for way, run in figures["ways"].items()]
    yield judge("Digg-shaped coupled fit, R = 20, 100 sweeps < 30 s", seconds, 30.0, words.seconds)
    bounds = [(a["problem"], f) for a, f in quality.usual(found) if a["problem"] != "1000³"]
    gains: Named = [(f"{problem} ({quality.arrived(f)}):", quality.gain(f)) for problem, f in bounds]
    yield judge(
        "acceleration: ≥ 3 × less time to within 1e-4", gains, 3.0, words.times, least=True,
        complete=complete(found, "quality", what="bound"),
    )  # fmt: skip
    rise = growth.rise(found)
    yield judge("time a nonzero from 1e6 to 1e8 at fixed sides rises ≤ 10 %", [("at most", rise)], 0.10, percent)


def _memory(found: Found) -> Iterator[Target]:
    for size, limit in (("12.5 million rows of 1000³", 16.0), ("12.5 million of (10⁶)³", 28.0)):
        f = found.get({"part": "front", "what": "rest", "size": size})
        value = f and f["bytes"] / f["nonzeros"]
        yield judge(f"memory at rest ≤ {limit:.0f} bytes a nonzero, {size}", [("", value)], limit, words.significant)
    yield _foretold(found)
    frames = [(a, f) for a, f in found.part("front", what="trees") if a["source"] == "data frame"]
    figures = [(f"{a['size'].split(' rows')[0]}, {a['labels']}:", f["seconds"] / f["sweep"]) for a, f in frames]
    whole = complete(found, "front", what="trees", source="data frame")
    yield judge("a data frame to trees < 20 sweeps", figures, 20.0, words.significant, complete=whole)
    rates = [
        (f"{a['distinct']:,} {a['labels']}:", f["rows"] / f["seconds"]) for a, f in found.part("front", what="encode")
    ]
    yield judge(
        "labels > 10 million rows a second", rates, 1e7, lambda rate: f"{rate / 1e6:.0f} million", least=True,
        complete=complete(found, "front", what="encode"),
    )  # fmt: skip
    figures = [(f"{a['size'].split(' rows')[0]}, {a['labels']}:", f["over"] / f["raw"]) for a, f in frames]
    yield judge("peak of reading ≤ 3 × the raw table", figures, 3.0, words.significant, complete=whole)


def _foretold(found: Found) -> Target:
    what = "memory estimated by plait check within 20 % of the peak"
    ratios = [f["estimate"] / f["peak"] for _, f in found.part("front", what="estimate") if "peak" in f]
    if not ratios:
        return what, "–", None
    met = all(0.8 <= ratio <= 1.2 for ratio in ratios)
    whole = complete(found, "front", what="estimate")
    return what, f"{min(ratios):.2f} to {max(ratios):.2f}", None if met and not whole else met


def _start(found: Found) -> Iterator[Target]:
    start = found.get({"part": "front", "what": "start"}) or {}
    for command in ("import plait", "plait --help"):
        yield judge(f"{command} < 0.4 s", [("", start.get(command, {}).get("seconds"))], 0.4, words.seconds)


def _large(found: Found) -> Iterator[Target]:
    sizes = [(words.number(about["nonzeros"]) + ":", f) for about, f in found.part("large")]
    whole = complete(found, "large")
    at_rest: Named = [(size, f["disk"]["pass"]["bytes"]) for size, f in sizes[-1:]]
    yield judge("packed links ≤ 4.5 bytes each, 10⁶ × 200 × 20,000", at_rest, 4.5, words.significant, complete=whole)
    ratios = [(size, large.disk_over_memory(f)) for size, f in sizes]
    for number, (kind, limit) in enumerate((("processors", 1.10), ("wall", 1.15))):
        named: Named = [(size, pair[number]) for size, pair in ratios if pair is not None]
        yield judge(f"a pass from disk ≤ {limit:.2f} × one in memory, {kind}", named, limit, words.significant)
    peaks: Named = [(size, f["disk"]["fit"]["peak"]) for size, f in sizes]
    yield judge("three sweeps from disk, R = 20: peak ≤ 1.5 GB", peaks, 1.5e9, _gigabytes, complete=whole)
    for what, name in (("binding a table", "bind"), ("a fit of a table, R = 20", "fit")):
        in_addition: Named = [
            (words.number(about["nonzeros"]) + ":", f["memory"][name]["more"] / about["nonzeros"])
            for about, f in found.part("large")
            if "bind" in f.get("memory", {})
        ]
        yield judge(f"{what}: peak ≤ 12 bytes per link in addition to the table", in_addition, 12.0, words.significant)
    packs: Named = [
        (size, 1e9 * f["pack"]["cpu"] / about["nonzeros"]) for (size, f), (about, _) in zip(sizes, found.part("large"))
    ]
    yield judge("packing ≤ 120 ns of processors a row", packs, 120.0, words.significant, complete=whole)
    yield from _clusters(found)
    yield from _late(found)


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.2f} GB"


def _clusters(found: Found) -> Iterator[Target]:
    dense = [(a, f) for a, f in found.part("dask", what="speed") if "500 nonzeros" not in a["data"]]
    named: Named = [(f"{a['data']}:", large.two_over_one(f)) for a, f in dense]
    yield judge(
        "two Dask workers ≥ 1.7 × one, by processor time", named, 1.7, words.times, least=True,
        complete=complete(found, "dask", what="speed"),
    )  # fmt: skip
    lost: Named = [("", f["killed"] / f["normal"]) for _, f in found.part("dask", what="lost")]
    yield judge("a sweep with a killed worker ≤ 3 × a normal one", lost, 3.0, words.times)
    kills = [f for _, f in found.part("dask", what="kills")]
    shown = "; ".join(f"{f['killed']} killed: {'the same' if f['same'] else 'OTHERS'}" for f in kills) or "–"
    yield (
        "100 workers killed and added in one fit: the same bits",
        shown,
        all(f["same"] for f in kills) if kills else None,
    )


def _late(found: Found) -> Iterator[Target]:
    folded = [(a, f) for a, f in found.part("fold_in") if "data" in a]
    gaps: Named = [(f"{a['data']}:", f["gaps"]["10"]) for a, f in folded]
    yield judge(
        "fold-in: 10 iterations within 0.003 nats a link of 40", gaps, 0.003, lambda gap: f"{gap:.4f}",
        complete=complete(found, "fold_in"),
    )  # fmt: skip
    newcomer = found.get({"part": "fold_in", "what": "newcomer"}) or {}
    yield judge("fold-in of one user among 10⁶ items < 20 ms", [("", newcomer.get("fold_in"))], 0.02, words.seconds)
    shares: Named = [(f"{a['data']}:", f["shares"]["2"]) for a, f in found.part("update")]
    yield judge(
        "update: two iterations give ≥ 80 % of what 20 sweeps gain", shares, 0.8, percent, least=True,
        complete=complete(found, "update"),
    )  # fmt: skip
