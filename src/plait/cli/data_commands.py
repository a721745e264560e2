"""Commands on data: check, convert, pack."""

import warnings
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer

from plait.cli.command_options import (
    Blocks,
    ConfigFile,
    Force,
    Json,
    RawNames,
    named_path,
    read_options,
)
from plait.cli.fit_commands import as_cluster, cluster_words, forecast_on, watch
from plait.cli.output import check_free, emit, grid, out, put, to_stderr, working
from plait.cli.program import warnings_on_stderr
from plait.config import read_config
from plait.data.outofcore.memory_budget import bytes_of
from plait.errors import PlaitWarning, relocating
from plait.files import options_for
from plait.files.read import read
from plait.files.write import counts_from, write
from plait.fitting.options import Options
from plait.fitting.prepare import prepare
from plait.model_selection.auto_settings import resolve_settings
from plait.rendering.formatting import write_bytes
from plait.report.data_summary import warnings_about
from plait.report.preflight import Cost, describe_check


def check(
    config: ConfigFile,
    plan: Annotated[bool, typer.Option("--plan", help="Also print the computation plan of each relation.")] = False,
    measure: Annotated[
        bool, typer.Option("--time/--no-time", help="Run two sweeps to measure the time per sweep.")
    ] = True,
    blocks: Blocks = None,
    dask: Annotated[
        str | None,
        typer.Option(
            "--dask",
            metavar="ADDRESS or N",
            help="Estimate the time per sweep on a Dask cluster, or on N machines like this one.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Summarise the data and estimate the cost, without fitting.

    Prints sizes, links, zeros, missing cells, summed duplicates, entities with links in only one relation, the memory
    of a fit, the time per sweep, and the warnings about model and data.

    \b
    Examples:
      plait check model.toml
      plait check model.toml --plan --no-time
      plait check model.toml --json
      plait check model.toml --dask 8
    """
    configuration = read_config(config, blocks)
    with relocating(configuration.locate), warnings.catch_warnings(record=True) as traps:
        warnings.simplefilter("always", PlaitWarning)
        settings = dict(configuration.settings)
        watched = watch(settings.pop("threads", None), measure=measure) if dask else None
        with working("reading"):
            data = configuration.model.bind(configuration.data(), entities=configuration.entities())
            fixed, titles = configuration.fixed(), configuration.titles(data.entities)
        with working("choosing rank and weights"):
            given = Options(fixed=fixed or None, executor=cast(Any, watched), titles=titles, **settings)
            data, arguments = resolve_settings(configuration.model, data, given, _unsaid)
        task = prepare(data.model, data, arguments)
    for trap in traps:
        if isinstance(trap.message, PlaitWarning):
            trap.message.relocate(configuration.locate)
    with working("measuring"):
        cost = Cost.of(task, arguments.fixed, measure=measure)
        expected = forecast_on(dask, watched) if dask and watched else None
    doubts = warnings_about(data, traps)
    cluster = (cluster_words(expected), {"cluster": as_cluster(expected)}) if expected else ("", {})
    put(describe_check(task, cost, doubts, plan=plan, cluster=cluster[0], more=cluster[1]), as_json=json)
    for text in () if json else doubts:
        to_stderr("warning", text)


def _unsaid(text: str) -> None:
    """Drop progress messages of searches."""


@read_options
def convert(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="File, or URL of a database.")],
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", parser=named_path, help="File; its ending determines the format.")
    ],
    raw_names: RawNames = False,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the array (.mat, .npz).")] = None,
    query: Annotated[str | None, typer.Option(metavar="SQL", help="SQL query to a database.")] = None,
    table: Annotated[str | None, typer.Option(metavar="NAME", help="Table of a database.")] = None,
    force: Force = False,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Convert a table or an array to another file format.

    \b
    Examples:
      plait convert visits.csv visits.parquet
      plait convert tensor.tns.gz tensor.parquet --columns user,place,time,value
      plait convert sqlite:///shop.db orders.csv --query "SELECT user, item FROM orders"
    """
    check_free(target, force)
    written_raw = raw_names and "escape_formulas" in options_for(target)
    if raw_names and (not written_raw or "escape_formulas" in options_for(source, options.get("kind"))):
        options["escape_formulas"] = False
    with working(f"reading {source}"):
        loaded = read(source, name=name, query=query, table=table, **options)
    with working(f"writing {target}"):
        write(loaded, target, escape_formulas=not written_raw)
    tabular = hasattr(loaded, "columns")
    base = None if tabular else counts_from(target)
    if json:
        shape = {"rows": len(loaded), "columns": loaded.columns} if tabular else {"shape": loaded.shape}
        emit({"written": str(target), **shape, **({} if base is None else {"counts_from": base})})
        return
    if tabular:
        out(f"wrote {len(loaded):,} row{'' if len(loaded) == 1 else 's'} to {target}")
    else:
        out(f"wrote an array of {' × '.join(map(str, loaded.shape))} to {target}")
    if base is not None:
        left_out = "Missing cells" if _has_gaps(loaded) else "Zeros"
        out(f"Coordinates count from {base}. {left_out} are not written, so the shape of the array is lost.")


def _has_gaps(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f" and bool(np.isnan(array).any())


def pack(
    config: ConfigFile,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FOLDER", parser=named_path, help="Folder to write the blocks to."),
    ],
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory limit in addition to Python itself, such as 4GB or 500MB.")
    ] = "4GB",
    json: Json = False,
) -> None:
    """Sort tables larger than memory into blocks on disk.

    Tables are read in chunks. An existing folder of blocks is replaced when the new one is complete. A source can match
    several files: source = "logs/*.parquet".

    \b
    Examples:
      plait pack model.toml -o visits.blocks
      plait pack model.toml -o visits.blocks --memory 500MB
      plait pack model.toml -o visits.blocks --json
    """
    from plait.fitting.pack import pack as pack_tables

    budget = bytes_of(memory)
    configuration = read_config(config).changed(memory=memory)  # in messages an option of the command line
    with relocating(configuration.locate), warnings_on_stderr(configuration.locate, json):
        packed = pack_tables(
            configuration.model, configuration.scans(), output, memory=budget, entities=configuration.entities()
        )
    relations = packed.relations.values()
    if json:
        emit(
            {
                "written": str(output),
                "bytes": packed.nbytes,
                "fingerprint": packed.fingerprint,
                "relations": {
                    one.name: {
                        "shape": one.shape, "links": one.links, "zeros": one.zeros, "summed": one.summed,
                        "blocks": len(one.blocks), "bytes": one.blocks.nbytes,
                    }
                    for one in relations
                },
            }
        )  # fmt: skip
        return
    rows = [
        [
            one.name,
            " × ".join(f"{size:,}" for size in one.shape),
            one.links,
            len(one.blocks),
            write_bytes(one.blocks.nbytes),
        ]
        for one in relations
    ]
    grid(["relation", "size", "links", "blocks", "on disk"], rows, left=2)
    out(f"packed into {output}")
