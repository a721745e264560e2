"""A cluster on the command line: where a fit computes, and what a check foretells of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from plait.errors import SettingError
from plait.execute import Dask, Threads
from plait.execute.cluster import Cluster
from plait.execute.cost import Foretold, Network, Watched, foretell
from plait.machine import processors
from plait.show.words import write_seconds

DaskAddress = Annotated[
    str | None, typer.Option("--dask", metavar="ADDRESS", help="Compute on a Dask cluster: its scheduler's address.")
]
PATIENCE = 10.0  # seconds that a check waits for a worker


@contextmanager
def computing_on(address: str | None, settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The settings of a fit on a cluster, or on this machine alone; threads are then those of its row updates."""
    if address is None:
        yield dict(settings)
        return
    others = {name: value for name, value in settings.items() if name != "threads"}
    with Dask(address, threads=settings.get("threads")) as dask:
        yield others | {"executor": dask}


def watch(threads: int | None, *, measure: bool) -> Watched:
    """An executor that remembers what a sweep is made of."""
    if not measure:
        raise SettingError(
            "--dask foretells from a measured sweep, and --no-time measures none.", cure="Leave one out."
        )
    return Watched(Threads(threads))


def foretell_on(dask: str, watched: Watched) -> Foretold:
    """A sweep on the cluster at an address, or on so many machines like this one, in an ordinary network."""
    if dask.isdecimal():
        if int(dask) < 1:
            raise SettingError("--dask is 0.", cure="Give a number of workers, --dask 8, or an address.")
        return _on(watched, int(dask), processors(), Network())
    cluster = Cluster(dask, PATIENCE)
    try:
        workers = cluster.workers()
        return _on(watched, len(workers), max(workers.values()), Network.of(cluster))
    finally:
        cluster.close()


def _on(watched: Watched, workers: int, threads: int, network: Network) -> Foretold:
    return foretell(watched.sums, watched.seconds, workers, threads, network, watched.threads)


def as_cluster(found: Foretold) -> dict[str, Any]:
    """What is foretold, as data."""
    return {
        "workers": found.workers,
        "threads": found.threads,
        "seconds_per_sweep": found.seconds,
        "computing": found.computing,
        "sending": found.sending,
        "waiting": found.waiting,
        "rows": found.rows,
        "here": found.here,
        "pays": found.pays,
    }


def cluster_words(found: Foretold) -> str:
    """What is foretold, in a sentence or two."""
    parts = {"computing": found.computing, "sending": found.sending, "tasks": found.waiting, "rows": found.rows}
    spent = ", ".join(f"{name} {write_seconds(seconds)}" for name, seconds in parts.items())
    workers = f"{found.workers} worker{'s' * (found.workers > 1)} of {found.threads} thread{'s' * (found.threads > 1)}"
    words = f"about {write_seconds(found.seconds)} a sweep on {workers} ({spent}): a forecast, not a measurement. "
    if found.pays:
        return f"{words}A cluster pays: {found.here / found.seconds:.1f} times as fast as this machine"
    return f"{words}A cluster does not pay: this machine takes about {write_seconds(found.here)}"
