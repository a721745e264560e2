"""Arguments and options that several commands share."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer

from plait.cli.program import warnings_on_stderr
from plait.fitting.options import DECLARED, Option, flag


def named_path(text: str) -> Path:
    """A path to write to; an empty one, such as an unset shell variable, is refused."""
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
            "null_values": None if given["null_values"] is None else given["null_values"].split(","),
            "on_bad_rows": given["on_bad_rows"],
        }
        with warnings_on_stderr(None, values["json"]):
            command(**values, options={name: value for name, value in options.items() if value is not None})

    changed: Any = run
    changed.__signature__ = signature.replace(parameters=[*own[:-1], *shared, own[-1]])  # --json is the last
    return cast(Command, changed)


def fit_options(*names: str) -> Callable[[Command], Command]:
    """Give a command with ``**settings`` the options of `plait.fit` by these names, or all.

    An option that is not given is None, so that a config file decides.
    """
    chosen = [option for option in DECLARED if option.command and (not names or option.name in names)]

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        added = [_parameter(option) for option in chosen]
        first = sum(p.default is p.empty for p in own)
        changed: Any = command
        changed.__signature__ = signature.replace(parameters=[*own[:first], *added, *own[first:]])
        return command

    return decorate


def _parameter(option: Option) -> inspect.Parameter:
    kind: Any = option.kind.spoken or list[str]
    name, more = flag(option), dict[str, Any]()
    if kind is bool:
        name = f"{name}/--no-{option.name}"
    if kind in (int, float):
        more |= {"min": option.kind.least, "metavar": "N" if kind is int else "NUMBER"}
    if kind is str:
        more["metavar"] = "|".join(option.kind.choices) or "WORD"
    if option.name == "rank":
        more["metavar"] = "N or INDEX=N"
    annotation = Annotated[kind | None, typer.Option(name, help=option.help, **more)]
    return inspect.Parameter(option.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)


ConfigFile = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="TOML file with the model, the relations and the settings.")
]
Blocks = Annotated[
    Path | None,
    typer.Option(
        "--blocks", metavar="FOLDER", help="Folder of `plait pack`; its relations replace the tables of the config."
    ),
]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run: a folder or a .plait file written by `plait fit`.")
]
RelationName = Annotated[str, typer.Argument(metavar="RELATION", help="Relation of the model.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
OutputFile = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        parser=named_path,
        help="Write the table to this file (.csv, .csv.gz, .parquet, …).",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file or run.")]
Kind = Annotated[
    str | None,
    typer.Option("--kind", metavar="ENDING", help="Format of the file (csv, parquet, …) if its name does not show it."),
]
Columns = Annotated[str | None, typer.Option(metavar="A,B,…", help="Column names of a file without a header.")]
Delimiter = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Delimiter of a text file, one character; detected by default.")
]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether the first line of a text file is a header.")
]
Unquoted = Annotated[
    bool, typer.Option("--unquoted", help="Treat quotation marks of a text file as ordinary characters.")
]
Strip = Annotated[bool, typer.Option("--strip", help="Remove blanks at both ends of names.")]
NullValues = Annotated[
    str | None, typer.Option(metavar="A,B,…", help='Fields of a text file that mean "no value", such as NA.')
]
OnBadRows = Annotated[
    str | None,
    typer.Option(metavar="error|skip", help="Refuse or skip rows of a text file that cannot be read."),
]
RawNames = Annotated[
    bool,
    typer.Option(
        "--no-escape-formulas",
        help=(
            "Do not put an apostrophe before names that begin with = + - @. A spreadsheet may execute such "
            "names as formulas."
        ),
    ),
]
Value = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of values; without it, every row is a link.")]
NewEntities = Annotated[
    list[str] | None,
    typer.Option(
        "--new-entities",
        metavar="[RELATION=]FILE",
        help="Links of new entities, which are not added to the run. Repeatable, once per relation.",
    ),
]
Score = Annotated[str, typer.Option("--score", metavar="mean|probability|rate", help="Score to rank by.")]

# Options of `plait.read` that commands share: default and annotation.
READ_OPTIONS: dict[str, tuple[Any, Any]] = {
    "kind": (None, Kind),
    "columns": (None, Columns),
    "delimiter": (None, Delimiter),
    "header": (None, Header),
    "unquoted": (False, Unquoted),
    "strip": (False, Strip),
    "null_values": (None, NullValues),
    "on_bad_rows": (None, OnBadRows),
}
