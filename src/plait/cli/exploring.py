"""The command explore."""

from pathlib import Path
from typing import Annotated

import typer

from plait.cli.options import RunFolder
from plait.cli.output import out
from plait.explore.serve import serve


def explore(
    run: RunFolder,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Where to listen; 0 takes a port that is free.")] = 0,
    host: Annotated[str, typer.Option(help="The address to listen at; any but 127.0.0.1 is open to others.")] = (
        "127.0.0.1"
    ),
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Where the files of the run's config are, for what-ifs."),
    ] = None,
    limit: Annotated[
        float, typer.Option("--time-limit", min=1.0, metavar="SECONDS", help="How long a what-if may take.")
    ] = 300.0,
) -> None:
    """Look at a run in the browser.

    Entities, components, known and predicted links with their reasons, surprises; and what would be predicted, were a
    link not there. The server is for this computer only, tells nobody anything, and saves nothing; Ctrl-C ends it.

    \b
    Examples:
      plait explore run
      plait explore run --port 8000
      plait explore run --data ~/tables
    """
    serve(run, host=host, port=port, folder=data, limit=limit, say=out)
