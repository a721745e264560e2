"""`plait explore` under load: 50 clients of 200 requests each over all kinds of pages, at the size of Last.fm, against
the real command on loopback; the time of pages that are not cached; and search among a million names.

Clients ask for the next page as soon as they have one. "again" are pages of which some client has asked for before, as
readers of one run do: drawn from a pool that holds some of every kind; the first time counts as well. "first" are pages
of entities and cells that all differ, so that every one has to be made.
"""

import http.client
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

import plait
from lab.harness import sources
from lab.harness.table import show
from plait.explore.entity_urls import Index

CLIENTS, REQUESTS = 50, 200
FIRST = 4  # pages that each client asks for first
MODEL = (
    "tags[user, artist, tag] = U[user, r] A[artist, r] T[tag, r]\nplays[user, artist] = U[user, r] A[artist, r] d[r]"
)
START = [sys.executable, "-c", "from plait.cli import app; app()", "explore"]


class Asked(NamedTuple):
    """One request: its kind, how long it took, its status."""

    kind: str
    seconds: float
    status: int


def compare() -> None:
    """Latencies, errors and memory of the server; then search."""
    if reason := sources.absent("lastfm"):
        print(f"no Last.fm: {reason}")
    else:
        with tempfile.TemporaryDirectory() as folder:
            _explore(_run(Path(folder)))
    _search()


def _run(folder: Path) -> Path:
    """A fit of Last.fm, saved."""
    ids = {"sourceNodeId": "user", "targetNodeId": "artist", "tagID": "tag"}
    files = {"tags": "user_tag_artist_rels", "plays": "user_listen_artist_rels"}
    data = {}
    for name, file in files.items():
        table = pl.read_parquet(sources.SHARED / "lastfm" / f"{file}.parquet")
        data[name] = table.select(
            pl.col(own).alias(index) for own, index in ids.items() if own in table.columns
        ).unique()
    fit = plait.fit(MODEL, data, rank=10, seed=0, max_iter=60)
    fit.save(folder / "run")
    return folder / "run"


def _explore(run: Path) -> None:
    fit, draw = plait.load(run), random.Random(0)
    with _server(run) as (port, pid):
        _wait(port)
        began = [_memory(pid)]
        pool = [(kind, address) for kind, some in _pages(fit, draw, 8).items() for address in some]
        again: list[Asked] = []
        for _ in range(4):
            each = [[draw.choice(pool) for _ in range(REQUESTS // 4)] for _ in range(CLIENTS)]
            again += _load(port, each)
            began.append(_memory(pid))
        fresh = _pages(fit, draw, CLIENTS * FIRST // 2)
        rest = [(kind, address) for kind in ("entity", "cell") for address in fresh[kind]]
        draw.shuffle(rest)
        first = _load(port, [rest[n::CLIENTS] for n in range(CLIENTS)])
        alone = _load(port, [[(kind, address) for kind in ("entity", "cell") for address in
                              _pages(fit, draw, 20)[kind]]])  # fmt: skip
        began.append(_memory(pid))
    for title, found in (("again", again), ("first", first), ("first, one client", alone)):
        show(f"{title}: {len(found):,} requests", HEADINGS, _rows(found))
    print(f"memory of the server in MB, before, after each quarter and at the end: {began}")


HEADINGS = ("kind", "requests", "p50 ms", "p99 ms", "most ms", "errors")


def _rows(found: Sequence[Asked]) -> list[tuple[object, ...]]:
    kinds = ["all", *dict.fromkeys(one.kind for one in found)]
    rows = []
    for kind in kinds:
        own = [one for one in found if kind in ("all", one.kind)]
        ms = 1000 * np.array([one.seconds for one in own])
        wrong = sum(one.status != 200 for one in own)
        rows.append((kind, len(own), *(f"{np.percentile(ms, p):.0f}" for p in (50, 99, 100)), wrong))
    return rows


def _pages(fit: plait.Fit, draw: random.Random, count: int) -> dict[str, list[str]]:
    """Some addresses of every kind of page."""
    cells, known = fit.known["tags"].cells, len(fit.known["tags"])
    names = {axis: fit.entities[axis] for axis in ("user", "artist", "tag")}

    def entity() -> str:
        axis = draw.choice(list(names))
        return f"/axis/{axis}/{names[axis][draw.randrange(len(names[axis]))]}"

    def cell() -> str:
        user, artist, tag = (int(row) for row in cells[draw.randrange(known)])
        return (
            f"/relation/tags/cell?user={names['user'][user]}&artist={names['artist'][artist]}&tag={names['tag'][tag]}"
        )

    return {
        "home": ["/", "/index.json"],
        "search": [f"/search?q={draw.randrange(1, 3000)}" for _ in range(count)],
        "axis": [f"/axis/user?from={200 * draw.randrange(8)}" for _ in range(count)],
        "entity": [entity() for _ in range(count)],
        "entity.json": [entity() + ".json" for _ in range(count)],
        "map": [entity().replace("/axis/", "/map/", 1) for _ in range(count)],
        "relation": [f"/relation/tags?links.from={draw.randrange(known)}" for _ in range(count)],
        "cell": [cell() for _ in range(count)],
        "component": ["/components", *(f"/component/{n}" for n in range(count if count < 10 else 10))],
        "surprises": ["/surprises", "/surprises.json"],
        "csv": ["/relation/plays.csv?user=17"],
    }


def _load(port: int, each: Sequence[Sequence[tuple[str, str]]]) -> list[Asked]:
    """All clients at once, each its requests in turn."""
    with ThreadPoolExecutor(len(each)) as pool:
        return [one for own in pool.map(lambda asked: list(_client(port, asked)), each) for one in own]


def _client(port: int, asked: Sequence[tuple[str, str]]) -> Iterator[Asked]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    for kind, address in asked:
        began = time.perf_counter()
        line.request("GET", address)
        answer = line.getresponse()
        answer.read()
        yield Asked(kind, time.perf_counter() - began, answer.status)
    line.close()


@contextmanager
def _server(run: Path) -> Iterator[tuple[int, int]]:
    process = subprocess.Popen([*START, str(run)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r":(\d+)/", process.stdout.readline())
    assert found is not None
    try:
        yield int(found[1]), process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def _wait(port: int) -> None:
    """Until the pages are made that the server makes by itself."""
    list(_client(port, [("component", f"/component/{n}") for n in range(10)]))


def _memory(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text() if Path(f"/proc/{pid}").exists() else ""
    found = re.search(r"VmRSS:\s+(\d+)", text)
    return round(int(found[1]) / 1024) if found else 0


def _search(size: int = 1_000_000) -> None:
    """Among a million names of two words and a number."""
    rng = np.random.default_rng(0)
    words = np.array(["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 6)) for _ in range(5000)])
    pairs = words[rng.integers(len(words), size=(size, 2))]
    names = pl.DataFrame({"a": pairs[:, 0], "b": pairs[:, 1], "n": np.arange(size)})
    began = time.perf_counter()
    index = Index.of(names.select(pl.concat_str(["a", "b", "n"], separator=" "))["a"])
    built = time.perf_counter() - began
    rows = []
    for query in ("a", "ab", words[17], f"{words[17]} {words[4]}", "777777", "not there at all", "z" * 200):
        took = []
        for _ in range(20):
            began = time.perf_counter()
            found, _ = index.find(query, 12)
            took.append(1000 * (time.perf_counter() - began))
        rows.append((query[:30], len(found), f"{np.median(took):.2f}", f"{max(took):.2f}"))
    note = f"the index took {built:.1f} s and {(len(index.text) + index.begins.nbytes) / 1e6:.0f} MB"
    show(f"search among {size:,} names", ("query", "found", "median ms", "most ms"), rows, note)
