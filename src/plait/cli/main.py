"""The program: its commands, and the options that come before one."""

from typing import Annotated

import typer

from plait.cli.program import Program
from plait.version import __version__

app = typer.Typer(
    name="plait",
    cls=Program,
    epilog="Exit codes: 0 fine; 1 it could not be done; 2 a mistake in arguments, config or data.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: quick, and the same in a pipe
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"plait {__version__}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Bayesian coupled tensor factorisation and link prediction.

    \b
    A first look:    plait demo
    From a config:   plait check model.toml
                     plait fit model.toml -o run
                     plait top run RELATION
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
