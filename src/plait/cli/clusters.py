"""A cluster on the command line: where a fit computes, and a forecast for a check."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from plait.errors import SettingError
from plait.execute import Dask, Threads
from plait.execute.cost import Forecast, Watched, forecast
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
    """An executor that records the sums of a sweep."""
    if not measure:
        raise SettingError("--dask needs a measured sweep, and --no-time measures none.", hint="Leave one out.")
    return Watched(Threads(threads))


def forecast_on(dask: str, watched: Watched) -> Forecast:
    """A sweep on the workers of the cluster at an address, or on N machines like this one."""
    if dask.isdecimal():
        if int(dask) < 1:
            raise SettingError("--dask is 0.", hint="Give a number of workers, --dask 8, or an address.")
        workers, threads = int(dask), processors()
    else:
        with Dask(dask, patience=PATIENCE) as cluster:
            found = cluster.workers()
        workers, threads = len(found), max(found.values())
    return forecast(watched.sums, watched.seconds, workers, threads, watched.threads)


def as_cluster(found: Forecast) -> dict[str, Any]:
    """The forecast as data."""
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


def cluster_words(found: Forecast) -> str:
    """The forecast in two sentences."""
    parts = {"computing": found.computing, "sending": found.sending, "tasks": found.waiting, "rows": found.rows}
    spent = ", ".join(f"{name} {write_seconds(seconds)}" for name, seconds in parts.items())
    workers = f"{found.workers} worker{'s' * (found.workers > 1)} of {found.threads} thread{'s' * (found.threads > 1)}"
    words = f"about {write_seconds(found.seconds)} a sweep on {workers} ({spent}): a forecast, not a measurement. "
    if found.pays:
        return f"{words}A cluster pays: {found.here / found.seconds:.1f} times as fast as this machine"
    return f"{words}A cluster does not pay: this machine takes about {write_seconds(found.here)}"
