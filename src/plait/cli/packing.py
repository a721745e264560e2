"""The command pack: tables of any size into a folder of blocks."""

from pathlib import Path
from typing import Annotated

import typer

from plait.cli.fitting import warnings_on_stderr
from plait.cli.options import ConfigFile, Json, named_path
from plait.cli.output import emit, grid, out
from plait.config import read_config
from plait.data.blocks.memory import bytes_of
from plait.errors import relocating
from plait.show.words import write_bytes


def pack(
    config: ConfigFile,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FOLDER", parser=named_path, help="The folder of blocks to make."),
    ],
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="How much memory to take beside Python itself: 4GB, 500MB.")
    ] = "4GB",
    json: Json = False,
) -> None:
    """Sort tables that are larger than memory into blocks on disk.

    Nothing is read as a whole. A folder of blocks that is there already is replaced, once the new one is complete. A
    source may name many files: source = "logs/*.parquet".

    \b
    Examples:
      plait pack model.toml -o visits.blocks
      plait pack model.toml -o visits.blocks --memory 500MB
      plait pack model.toml -o visits.blocks --json
    """
    from plait.fitting.packing import pack as pack_tables

    budget = bytes_of(memory)
    found = read_config(config).changed(memory=memory)  # in messages an option of the command line
    with relocating(found.locate), warnings_on_stderr(found, json):
        packed = pack_tables(found.model, found.scans(), output, memory=budget, labels=found.labels())
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
