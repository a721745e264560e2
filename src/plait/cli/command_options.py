"""Arguments that several commands share."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer

from plait.fitting.options import DECLARED, Option, flag


def named_path(text: str) -> Path:
    """A path to write to; an empty one, as an unset variable of a shell gives, is not the current folder."""
    if not text:
        raise typer.BadParameter("the name is empty.")
    return Path(text)


Command = TypeVar("Command", bound=Callable[..., None])


def read_options(command: Command) -> Command:
    """Give a command with a parameter `options` the options of `plait.read` for text files and tables.

    The command gets those that the user gave, as keyword arguments of `plait.read`.
    """
    signature = inspect.signature(command)
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (default, annotation) in READ_OPTIONS.items()
    ]
    own = [one.replace(kind=one.KEYWORD_ONLY) for name, one in signature.parameters.items() if name != "options"]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        given = {name: values.pop(name) for name in READ_OPTIONS}
        columns = given["columns"]
        options = {
            "kind": given["kind"],
            "columns": None if columns is None else [column.strip() for column in columns.split(",")],
            "delimiter": given["delimiter"],
            "header": given["header"],
            "quoted": False if given["unquoted"] else None,
            "strip": given["strip"] or None,
        }
        command(**values, options={name: value for name, value in options.items() if value is not None})

    changed: Any = run
    changed.__signature__ = signature.replace(parameters=[*own[:-1], *shared, own[-1]])  # --json is the last
    return cast(Command, changed)


def fit_options(*names: str) -> Callable[[Command], Command]:
    """Gives a command with ``**settings`` the options of `plait.fit` by these names (all that it may have, if none).

    An option that is not said is None, so that a config file is heard.
    """
    chosen = [option for option in DECLARED if option.command and (not names or option.name in names)]

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        told = [_parameter(option) for option in chosen]
        first = sum(p.default is p.empty for p in own)
        changed: Any = command
        changed.__signature__ = signature.replace(parameters=[*own[:first], *told, *own[first:]])
        return command

    return decorate


def _parameter(option: Option) -> inspect.Parameter:
    kind: Any = option.kind.spoken or list[str]
    name, more = flag(option), dict[str, Any]()
    if kind is bool:
        name = f"{name}/--no-{option.name}"
    if kind in (int, float):
        more["min"] = option.kind.least
    if option.kind.choices:
        more["metavar"] = "|".join(option.kind.choices)
    if option.name == "rank":
        more["metavar"] = "N or INDEX=N"
    annotation = Annotated[kind | None, typer.Option(name, help=option.help, **more)]
    return inspect.Parameter(option.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)


ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file: model, relations, settings.")]
Blocks = Annotated[
    Path | None,
    typer.Option("--blocks", metavar="FOLDER", help="Relations that `plait pack` made blocks of, in place of tables."),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A folder or a .plait file that `plait fit` made.")]
RelationName = Annotated[str, typer.Argument(metavar="RELATION", help="A relation of the model.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout instead of tables.")]
OutputFile = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        parser=named_path,
        help="Write the table to a file: .csv, .csv.gz, .parquet, …",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")]
Kind = Annotated[
    str | None, typer.Option("--kind", metavar="ENDING", help="csv, parquet, …, where the file's name does not say it.")
]
Columns = Annotated[str | None, typer.Option(metavar="A,B,…", help="Names of the columns of a file without a header.")]
Delimiter = Annotated[str | None, typer.Option(help="One character (text); found by itself otherwise.")]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether the first line names the columns (text).")
]
Unquoted = Annotated[bool, typer.Option("--unquoted", help="Quotation marks are ordinary characters (text).")]
Strip = Annotated[bool, typer.Option("--strip", help="Blanks at both ends of names are not part of them (tables).")]
RawNames = Annotated[
    bool,
    typer.Option(
        "--no-escape-formulas",
        help="Put no apostrophe before names that begin with = + - @ (text); a spreadsheet may run them.",
    ),
]
Value = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column of values; without one every row is a link.")
]
NewEntities = Annotated[
    list[str] | None,
    typer.Option(
        "--new-entities",
        metavar="[RELATION=]FILE",
        help="Rows of guests, who may be asked about and are not stored; repeatable, once a relation.",
    ),
]
Score = Annotated[str, typer.Option("--score", help="What to rank by: mean, probability or rate.")]

# Options of `plait.read` that commands share: default and annotation.
READ_OPTIONS: dict[str, tuple[Any, Any]] = {
    "kind": (None, Kind),
    "columns": (None, Columns),
    "delimiter": (None, Delimiter),
    "header": (None, Header),
    "unquoted": (False, Unquoted),
    "strip": (False, Strip),
}
