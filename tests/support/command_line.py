"""The command line, in the process of a test."""

from typer.testing import CliRunner

from plait.cli import app


def plait_command(*arguments, **options):
    """Run `plait` with these arguments: exit code, stdout and stderr."""
    return CliRunner().invoke(app, [*map(str, arguments)], **options)
