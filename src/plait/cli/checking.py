"""The command check: what was understood of a config and its data, and what a sweep will cost."""

import warnings
from typing import Annotated

import typer

from plait.cli.clusters import as_cluster, cluster_words, forecast_on, watch
from plait.cli.options import Blocks, ConfigFile, Json
from plait.cli.output import put, to_stderr, working
from plait.config import read_config
from plait.errors import PlaitWarning, relocating
from plait.fitting.begin import prepare
from plait.fitting.options import Options
from plait.fitting.ranks.settle import settle
from plait.report.check import describe_check
from plait.report.cost import Cost
from plait.report.understood import warnings_about


def check(
    config: ConfigFile,
    plan: Annotated[bool, typer.Option("--plan", help="Print how the sums are computed, too.")] = False,
    measure: Annotated[
        bool, typer.Option("--time/--no-time", help="Run two sweeps to measure the time that one takes.")
    ] = True,
    blocks: Blocks = None,
    dask: Annotated[
        str | None,
        typer.Option(
            "--dask", metavar="ADDRESS or N", help="Estimate a sweep on a Dask cluster, or on N machines like this."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Say what was understood of the data, without fitting.

    Sizes, links, zeros, missing cells, duplicates that were summed, entities with links in one relation only, the
    memory of a fit and the time of a sweep; and all that a fit would warn of, but for its outcome.

    \b
    Examples:
      plait check model.toml
      plait check model.toml --plan --no-time
      plait check model.toml --json
      plait check model.toml --dask 8
    """
    found = read_config(config, blocks)
    with relocating(found.locate), warnings.catch_warnings(record=True) as traps:
        warnings.simplefilter("always", PlaitWarning)
        settings = dict(found.settings)
        watched = watch(settings.pop("threads", None), measure=measure) if dask else None
        with working("reading"):
            data = found.model.bind(found.data(), labels=found.labels())
            fixed, titles = found.fixed(), found.titles(data.labels)
        with working("choosing rank and weights"):
            given = Options(fixed=fixed or None, executor=watched, titles=titles, **settings)
            data, arguments = settle(found.model, data, given, _unsaid)
        task = prepare(found.model, data, arguments)
    for trap in traps:
        if isinstance(trap.message, PlaitWarning):
            trap.message.relocate(found.locate)
    with working("measuring"):
        cost = Cost.of(task, measure=measure)
        expected = forecast_on(dask, watched) if dask and watched else None
    doubts = warnings_about(data, traps)
    cluster = (cluster_words(expected), {"cluster": as_cluster(expected)}) if expected else ("", {})
    put(describe_check(task, cost, doubts, plan=plan, cluster=cluster[0], more=cluster[1]), as_json=json)
    for text in () if json else doubts:
        to_stderr("warning", text)


def _unsaid(text: str) -> None:
    """What a fit would say of its search is not said here."""
