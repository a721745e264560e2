"""`plait info`: alone in its module, so that it imports neither fits nor reports."""

from plait.cli.command_options import Json, RunFolder
from plait.cli.output import put
from plait.report.run_summary import describe_run
from plait.result import load
from plait.storage.run_folder import manifest


def info(run: RunFolder, json: Json = False) -> None:
    """Show model, sizes, objective and stop reason of a run.

    \b
    Examples:
      plait info run
      plait info run --json
    """
    put(describe_run(load(run), manifest(run), run), as_json=json)
