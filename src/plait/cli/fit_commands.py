"""A cluster on the command line: where a fit computes, and a forecast for a check.

Commands that compute: fit and resume.

The command demo.
"""

import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import plait
from plait.cli.command_options import Blocks, ConfigFile, Json, RunFolder, fit_options, named_path
from plait.cli.output import emit, out, working
from plait.cli.program import say
from plait.config import Config, read_config
from plait.data.bound import Data
from plait.errors import FileLocation, FitError, ParameterError, PlaitWarning, StorageError, relocating
from plait.executors import Dask, Threads
from plait.executors.dask_cost import Forecast, Watched, forecast
from plait.fitting.options import Options
from plait.fitting.prepare import CannotGoOnError
from plait.inference.state import Reason
from plait.machine import processors
from plait.rendering.document import Document, Facts, Note, Section
from plait.rendering.formatting import write_seconds
from plait.rendering.text import show
from plait.report.data_summary import relations_table
from plait.report.run_summary import description, ending, members, rank_words, reached, weight_words
from plait.result import Fit, load
from plait.storage.load import stop_of, sweeps_done
from plait.storage.run_folder import holds_run, manifest, refuse_older

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
        raise ParameterError("--dask needs a measured sweep, and --no-time measures none.", hint="Leave one out.")
    return Watched(Threads(threads))


def forecast_on(dask: str, watched: Watched) -> Forecast:
    """A sweep on the workers of the cluster at an address, or on N machines like this one."""
    if dask.isdecimal():
        if int(dask) < 1:
            raise ParameterError("--dask is 0.", hint="Give a number of workers, --dask 8, or an address.")
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


Every = Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How often the run is saved while it goes on.")]


@fit_options()
def fit(
    config: ConfigFile,
    run: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="RUN", parser=named_path, help="A folder to save the run in, or a file, ….plait."
        ),
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace a run that is already there.")] = False,
    blocks: Blocks = None,
    every: Every = 60.0,
    dask: DaskAddress = None,
    json: Json = False,
    **settings: Any,
) -> None:
    """Fit the model of a config file, and save the run.

    The run is saved while it goes on. Ctrl-C ends it after the current sweep; `plait resume` goes on exactly there.

    \b
    Examples:
      plait fit model.toml -o run
      plait fit model.toml -o run --seed 1 --rank 20 --max-iter 500
      plait fit model.toml -o run --restarts 5
      plait fit model.toml -o run --rank r=10 --rank s=4 --force
      plait fit model.toml -o run --blocks visits.blocks
      plait fit model.toml -o run --dask tcp://10.0.0.1:8786

    \b
    The smallest config:
      model = "visits[user, place] = U[user, r] P[place, r]"
      rank = 10
      [relations.visits]
      source = "visits.csv"
    """
    found = read_config(config, blocks).changed(**settings | {"rank": ranks(settings["rank"] or [])})
    refuse_other_run(run, force)
    _compute(found, run, every=every, force=force, as_json=json, dask=dask)


@fit_options("max_iter", "threads")
def resume(run: RunFolder, every: Every = 60.0, dask: DaskAddress = None, json: Json = False, **settings: Any) -> None:
    """Go on with a run that was interrupted, or was too short.

    \b
    Examples:
      plait resume run
      plait resume run --max-iter 500
    """
    header = manifest(run)
    refuse_older(run, header)
    remembered = header["extra"].get("config")
    if remembered is None:
        raise StorageError(
            "this run was not made by `plait fit`, so where its data are is unknown.",
            location=FileLocation(run),
            hint=f"Go on in Python: plait.fit(model, data, init={str(run)!r}).",
        )
    config = Config.from_dict(remembered).changed(**settings)
    reason = _nothing_left(header, config)
    if reason is None:
        _compute(config, run, every=every, force=False, as_json=json, dask=dask, resumed=True)
        return
    finished = load(run)  # a damaged run is not finished
    if json:
        emit({"run": str(run), "resumed": False, **description(finished, header)})
    else:
        out(f"{run}: nothing left to do: {reason}")


def ranks(given: Sequence[str]) -> int | str | dict[str, int] | None:
    """``["10"]`` -> 10, ``["r=10", "s=4"]`` -> a size for each latent index; a word as it is."""
    if len(given) == 1 and given[0] in ("auto", "elbo"):
        return given[0]
    sizes: dict[str, int] = {}
    for text in given:
        index, _, size = text.rpartition("=")
        if not size.isdecimal() or (not index and len(given) > 1):
            raise ParameterError(
                f"--rank is {text!r}.",
                hint="Give one number, --rank 10, one for each index, --rank r=10, or a word, --rank auto.",
            )
        sizes[index] = int(size)
    return sizes.get("", sizes or None)


def refuse_other_run(run: Path, force: bool) -> None:
    """A run is replaced only where that is asked for."""
    if not force and holds_run(run):
        raise StorageError(
            f"this {'file' if run.is_file() else 'folder'} holds a run already.",
            location=FileLocation(run),
            hint=f"Go on with it: plait resume {shlex.quote(str(run))}; or replace it: --force.",
        )


def _nothing_left(header: dict[str, Any], config: "Config") -> str | None:
    """Why a run is complete; None where there are sweeps to do."""
    stop, done = stop_of(header), sweeps_done(header)
    limit = config.settings.get("max_iter", Options.max_iter)
    further = f"Go further with --max-iter {2 * max(limit, done, 1)}."
    if stop is None or stop.reason == Reason.INTERRUPTED:
        return None if done < limit else f"all its {done} sweeps are done.\n{further}"
    words = stop.sentence if stop.reason in (Reason.NO_SWEEPS, Reason.NOTHING) else f"it {stop.sentence}"
    if stop.reason in (Reason.MAX_ITER, Reason.NO_SWEEPS):
        return None if done < limit else f"{words}\n{further}"
    return words


def _compute(
    config: "Config",
    run: Path,
    *,
    every: float,
    force: bool,
    as_json: bool,
    dask: str | None = None,
    resumed: bool = False,
) -> None:
    try:
        with warnings_on_stderr(config, as_json):
            data, fitted = _fitted(config, run, every, force, dask, resumed)
    except KeyboardInterrupt:  # the second one, or while files were read
        raise FitError("interrupted.", hint=_left_behind(run)) from None
    if not _is_saved(run, fitted):  # the last checkpoint failed, and said so as a warning
        fitted.save(run, replace=True, extra={"config": config.to_dict()})
    if as_json:
        emit({"run": str(run), "resumed": resumed, **description(fitted, manifest(run))})
    else:
        show(_summary(data, fitted, run))
    if fitted.stop.reason == Reason.INTERRUPTED:
        raise typer.Exit(1)


def _is_saved(run: Path, fitted: Fit) -> bool:
    try:
        return stop_of(manifest(run)) == fitted.stop
    except StorageError:  # somebody removed it
        return False


def _left_behind(run: Path) -> str:
    try:
        if manifest(run)["stop"] is None:
            return f"Go on from the last checkpoint: plait resume {shlex.quote(str(run))}."
    except StorageError:  # no run there yet
        pass
    return "Nothing was saved."


def _fitted(
    config: "Config", run: Path, every: float, force: bool, dask: str | None, resumed: bool
) -> tuple["Data", "Fit"]:
    with relocating(config.locate), computing_on(dask, config.settings) as settings:
        with working("reading"):
            data = config.model.bind(config.data(), entities=config.entities())
            fixed = config.fixed()
            titles = None if resumed else config.titles(data.entities)  # a run that goes on has them
        try:
            fitted = plait.fit(
                config.model,
                data,
                fixed=fixed or None,
                titles=titles,
                init=run if resumed else None,
                progress=plait.Progress(interrupt="return"),
                checkpoint=plait.Checkpoint(run, seconds=every, overwrite=force, extra={"config": config.to_dict()}),
                **settings,
            )
        except CannotGoOnError as error:
            raise _cannot_go_on(error) from None
    return data, fitted


def _cannot_go_on(error: "CannotGoOnError") -> ParameterError:
    """The same for who resumes a run, and has no other use for its factors."""
    what, hint = "an older version of Plait made it", "Fit again with `plait fit`."
    if error.word:
        what, hint = f"its {error.word} is not what it was{error.detail}", "Put it back, or fit again with `plait fit`."
    return ParameterError(f"the run cannot go on: {what}.", location=FileLocation(error.folder), hint=hint)


@contextmanager
def warnings_on_stderr(config: "Config", as_json: bool) -> Iterator[None]:
    """A warning of the library is said as errors are, not with Python's file name and line."""

    def show(message: Warning | str, category: type[Warning], *rest: Any, **options: Any) -> None:
        own = message.relocate(config.locate) if isinstance(message, PlaitWarning) else PlaitWarning(str(message))
        parts = own.to_dict() | {"kind": category.__name__}
        say(parts, as_json=as_json, word="warning")

    with warnings.catch_warnings():
        warnings.simplefilter("always", PlaitWarning)
        warnings.showwarning = show
        yield


def _summary(data: "Data", fitted: "Fit", run: Path) -> Document:
    about = {
        "model": f"{fitted.method}, rank {rank_words(fitted.rank, fitted.settings)}, seed {fitted.seed}",
        **weight_words(fitted.settings),
        **members(fitted),
        "objective": reached(fitted),
        "ended": ending(fitted, manifest(run)),
        "saved": str(run),
    }
    commands = [f"  {line}" for line in _next_commands(fitted, shlex.quote(str(run)))]
    following = Section("Next:", [Note("\n".join(commands), quiet=False)])
    return Document("", [relations_table(data), Facts.of(about), following])


def _next_commands(fitted: "Fit", run: str) -> list[str]:
    """Commands to try, with names of this run; after Ctrl-C the one that goes on."""
    if fitted.stop.reason == Reason.INTERRUPTED:
        return [f"plait resume {run}"]
    relation = fitted.model.relations[0]
    indices = fitted.model.equation(relation).indices
    names = {index: shlex.quote(f"{index}={fitted.entities[index][0]}") for index in indices}
    commands = [f"plait top {run} {relation}"]
    if indices:
        commands.append(f"plait top {run} {relation} --given {names[indices[0]]}")
        commands.append(f"plait explain {run} {relation} {' '.join(names.values())}")
    if fitted.stop.reason == Reason.MAX_ITER:
        commands.append(f"plait resume {run} --max-iter {2 * fitted.history[-1].sweep}")
    return [*commands, f"plait info {run}"]
