"""The command explore."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from plait.cli.options import Json, RunFolder
from plait.cli.output import emit, out
from plait.explore.address import is_loopback
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
    json: Json = False,
) -> None:
    """Look at a run in the browser, and ask what if.

    Entities, components, known and predicted links with their reasons, surprises; and what would be predicted, were a
    link not there. The server is for this computer only, tells nobody anything, and saves nothing; Ctrl-C ends it. With
    --json the document says where it is.

    \b
    Examples:
      plait explore run
      plait explore run --port 8000
      plait explore run --data ~/tables
    """

    def say(address: str) -> None:
        closed = is_loopback(host)
        if json:
            emit({"run": str(run), "address": address, "this_computer_only": closed})
        else:
            out(f"Exploring {run} at {address}  (Ctrl-C ends it)")
            if not closed:
                out(f"Everybody who can reach {host} can read this run and start what-ifs: there is no password.")
        sys.stdout.flush()

    serve(run, host=host, port=port, folder=data, limit=limit, say=say)
