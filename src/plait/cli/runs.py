"""The command info."""

from plait.cli.options import Json, RunFolder
from plait.cli.output import put
from plait.report.run import describe_run
from plait.result import load
from plait.run.folder import manifest


def info(run: RunFolder, json: Json = False) -> None:
    """Say what a run is: model, sizes, bound, and how it ended.

    \b
    Examples:
      plait info run
      plait info run --json
    """
    put(describe_run(load(run), manifest(run), run), as_json=json)
