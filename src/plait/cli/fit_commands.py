"""Commands that compute: fit and resume, on this machine or on a Dask cluster."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import plait
from plait.analysis.topk.top import propose
from plait.cli.command_options import Blocks, ConfigFile, Json, RunFolder, fit_options, named_path
from plait.cli.output import announce, emit, out, working
from plait.cli.program import warnings_on_stderr
from plait.config import Config, read_config
from plait.data.bound import Data
from plait.errors import FileLocation, FitError, ParameterError, StorageError, relocating
from plait.executors import Dask, Threads
from plait.executors.dask_cost import Forecast, Watched, forecast
from plait.fitting.options import Options
from plait.fitting.prepare import CannotGoOnError
from plait.inference.state import Reason
from plait.machine import processors
from plait.rendering.document import Document, Facts, Note, Section
from plait.rendering.formatting import plural, write_seconds
from plait.rendering.text import show
from plait.report.data_summary import relations_table
from plait.report.run_summary import description, ending, found_words, members, rank_words, reached
from plait.result import Fit, load
from plait.storage.load import stop_of, sweeps_done
from plait.storage.run_folder import holds_run, manifest, refuse_older, saved_files

DaskAddress = Annotated[
    str | None, typer.Option("--dask", metavar="ADDRESS", help="Compute on a Dask cluster; address of its scheduler.")
]
WORKER_SECONDS = 10.0  # that a check waits for a worker


@contextmanager
def computing_on(address: str | None, settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Settings of a fit on a cluster, or on this machine; with a cluster, threads are those of row updates."""
    if address is None:
        yield dict(settings)
        return
    others = {name: value for name, value in settings.items() if name != "threads"}
    with Dask(address, threads=settings.get("threads")) as dask:
        yield others | {"executor": dask}


def watch(threads: int | None, *, measure: bool) -> Watched:
    """An executor that records the sums of a sweep."""
    if not measure:
        raise ParameterError(
            "`dask` requires a measured sweep, but `no-time` turns the measurement off.", hint="Remove one of the two."
        )
    return Watched(Threads(threads))


def forecast_on(dask: str, watched: Watched) -> Forecast:
    """Forecast of a sweep on the cluster at an address, or on N machines like this one."""
    if dask.isdecimal():
        if int(dask) < 1:
            raise ParameterError(
                "`dask` must be at least 1, got 0.", hint="Give a number of workers, such as --dask 8, or an address."
            )
        workers, threads = int(dask), processors()
    else:
        with Dask(dask, patience=WORKER_SECONDS) as cluster:
            thread_counts = cluster.workers()
        workers, threads = len(thread_counts), max(thread_counts.values())
    return forecast(watched.sums, watched.seconds, workers, threads, watched.threads)


def as_cluster(forecast: Forecast) -> dict[str, Any]:
    """The forecast as data."""
    return {
        "workers": forecast.workers,
        "threads": forecast.threads,
        "seconds_per_sweep": forecast.seconds,
        "computing": forecast.computing,
        "sending": forecast.sending,
        "waiting": forecast.waiting,
        "rows": forecast.rows,
        "here": forecast.here,
        "pays": forecast.pays,
    }


def cluster_words(forecast: Forecast) -> str:
    """The forecast in two sentences."""
    parts = {
        "computing": forecast.computing,
        "sending": forecast.sending,
        "tasks": forecast.waiting,
        "rows": forecast.rows,
    }
    spent = ", ".join(f"{name} {write_seconds(seconds)}" for name, seconds in parts.items())
    n_workers, n_threads = forecast.workers, forecast.threads
    workers = f"{n_workers} worker{'s' * (n_workers > 1)} of {n_threads} thread{'s' * (n_threads > 1)}"
    words = (
        f"about {write_seconds(forecast.seconds)} per sweep on {workers} ({spent}); this is an estimate, not "
        "a measurement. "
    )
    if forecast.pays:
        return f"{words}The cluster is {forecast.here / forecast.seconds:.1f} times as fast as this machine"
    return f"{words}The cluster is not faster: this machine takes about {write_seconds(forecast.here)}"


Every = Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Seconds between checkpoints.")]


@fit_options()
def fit(
    config: ConfigFile,
    run: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="RUN", parser=named_path, help="Folder, or .plait file, to save the run in."
        ),
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing run.")] = False,
    blocks: Blocks = None,
    every: Every = 60.0,
    dask: DaskAddress = None,
    json: Json = False,
    **settings: Any,
) -> None:
    """Fit the model of a config file and save the run.

    Saves checkpoints during the fit. Ctrl-C stops after the current sweep; `plait resume` continues from there.

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
    configuration = read_config(config, blocks).changed(**settings | {"rank": ranks(settings["rank"] or [])})
    refuse_other_run(run, force)
    _compute(configuration, run, every=every, force=force, as_json=json, dask=dask)


@fit_options("max_iter", "threads")
def resume(run: RunFolder, every: Every = 60.0, dask: DaskAddress = None, json: Json = False, **settings: Any) -> None:
    """Continue a run that was interrupted or has not converged.

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
            "`plait fit` did not make this run, so the paths of its data are unknown.",
            location=FileLocation(run),
            hint=f"Continue in Python: plait.fit(model, data, init={str(run)!r}).",
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
        out(f"{run}: nothing to resume: {reason}")


def ranks(given: Sequence[str]) -> int | str | dict[str, int] | None:
    """``["10"]`` → 10, ``["r=10", "s=4"]`` → a size for each latent index; a word stays."""
    if len(given) == 1 and given[0] in ("auto", "elbo"):
        return given[0]
    sizes: dict[str, int] = {}
    for text in given:
        index, _, size = text.rpartition("=")
        if not size.isdecimal() or (not index and len(given) > 1):
            raise ParameterError(
                f'`rank` must be an integer, integers by index, "auto" or "elbo", got {text!r}.',
                hint="Examples: --rank 10, --rank r=10, --rank auto.",
            )
        sizes[index] = int(size)
    return sizes.get("", sizes or None)


def refuse_other_run(run: Path, force: bool) -> None:
    """Refuse to replace a run without --force, or other files at all."""
    if force or not holds_run(run):
        saved_files(run)
    else:
        raise StorageError(
            f"this {'file' if run.is_file() else 'folder'} already contains a run.",
            location=FileLocation(run),
            hint=f"Continue it with `plait resume {shlex.quote(str(run))}`, or replace it with --force.",
        )


def _nothing_left(header: dict[str, Any], config: "Config") -> str | None:
    """Why a run is complete; None where there are sweeps to do."""
    stop, done = stop_of(header), sweeps_done(header)
    limit = config.settings.get("max_iter", Options.max_iter)
    further = f"Continue with --max-iter {2 * max(limit, done, 1)}."
    if stop is None or stop.reason == Reason.INTERRUPTED:
        return None if done < limit else f"{plural(done, 'sweep')} of `max_iter` done.\n{further}"
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
        with warnings_on_stderr(config.locate, as_json):
            data, fitted = _fitted(
                config, run, every, force, dask, resumed, (lambda phase: None) if as_json else announce
            )
    except KeyboardInterrupt:  # the second one, or while files were read
        raise FitError("interrupted.", hint=_left_behind(run)) from None
    if not _is_saved(run, fitted):  # the last checkpoint failed, with a warning
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
    except StorageError:  # removed meanwhile
        return False


def _left_behind(run: Path) -> str:
    try:
        if manifest(run)["stop"] is None:
            return f"Continue from the last checkpoint with `plait resume {shlex.quote(str(run))}`."
    except StorageError:  # no run there yet
        pass
    return "Nothing is saved."


def _fitted(
    config: "Config",
    run: Path,
    every: float,
    force: bool,
    dask: str | None,
    resumed: bool,
    phase: Callable[[str], None],
) -> tuple["Data", "Fit"]:
    with relocating(config.locate), computing_on(dask, config.settings) as settings:
        with working("reading"):
            phase("reading")
            tables, entities = config.data(), config.entities()
            phase("binding")
            data = config.model.bind(tables, entities=entities)
            del tables  # bound data are another copy
            fixed = config.fixed()
            titles = None if resumed else config.titles(data.entities)  # a resumed run has them
        try:
            fitted = plait.fit(
                config.model,
                data,
                fixed=fixed or None,
                titles=titles,
                init=run if resumed else None,
                progress=plait.Progress(interrupt="return", _on_phase=phase),
                checkpoint=plait.Checkpoint(run, seconds=every, overwrite=force, extra={"config": config.to_dict()}),
                **settings,
            )
        except CannotGoOnError as error:
            raise _cannot_go_on(error) from None
    return data, fitted


def _cannot_go_on(error: "CannotGoOnError") -> ParameterError:
    """The error for `plait resume`, which cannot take factors alone."""
    what, hint = "an older version of Plait made it", "Fit again with `plait fit`."
    if error.word:
        what, hint = f"its {error.word} has changed{error.detail}", "Restore it, or fit again with `plait fit`."
    return ParameterError(f"the run cannot continue: {what}.", location=FileLocation(error.folder), hint=hint)


def _summary(data: "Data", fitted: "Fit", run: Path) -> Document:
    about = {
        "model": f"{fitted.method}, rank {rank_words(fitted.rank, fitted.settings)}, seed {fitted.seed}",
        **found_words(fitted.settings, fitted.likelihood),
        **members(fitted),
        "objective": reached(fitted),
        "ended": ending(fitted, manifest(run)),
        "saved": str(run),
    }
    commands = [f"  {line}" for line in _next_commands(fitted, shlex.quote(str(run)))]
    following = Section("Next:", [Note("\n".join(commands), quiet=False)])
    return Document("", [relations_table(data), Facts.of(about), following])


def _next_commands(fitted: "Fit", run: str) -> list[str]:
    """Commands to try, with entities of this run; after Ctrl-C the command that resumes it."""
    if fitted.stop.reason == Reason.INTERRUPTED:
        return [f"plait resume {run}"]
    relation = fitted.model.relations[0]
    commands = [f"plait top {run} {relation}"]
    if cell := _example_cell(fitted, relation):
        names = [shlex.quote(f"{index}={name}") for index, name in cell.items()]
        if len(names) > 1:
            commands.append(f"plait top {run} {relation} --given {names[0]}")
        commands.append(f"plait explain {run} {relation} {' '.join(names)}")
    if fitted.stop.reason == Reason.MAX_ITER:
        commands.append(f"plait resume {run} --max-iter {2 * fitted.history[-1].sweep}")
    return [*commands, f"plait info {run}"]


def _example_cell(fitted: "Fit", relation: str) -> dict[str, Any]:
    """Return the best new link that shares all entities but the last with the first known link, else that link.

    The search is over one axis, so it is cheap on large data.
    """
    indices = fitted.model.equation(relation).indices
    if not indices or not len(fitted.known[relation]):
        return {}
    row = next(fitted.known[relation].pieces(1)).cells[0]
    link = {index: fitted.entities[index][int(number)] for index, number in zip(indices, row)}
    best, _ = propose(fitted, relation, 1, given={index: link[index] for index in indices[:-1]})
    return {index: best[index][0] for index in indices} if len(best) else link
