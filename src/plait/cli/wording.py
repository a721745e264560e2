"""Errors of the library in the words of the command line: file and line instead of row, TOML instead of Python."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from plait.cli.cells import Cells
from plait.config import Config
from plait.errors import DataError, SettingError
from plait.files.kinds import shown

# What a cure of the library says -> what the config file says; the relation or factor it is about is {name}.
IN_TOML = (
    (r"plait\.(Relation|Exposure)\(table, columns=\{'(\w+)': …\}\)", r'columns = {{ \2 = "…" }} in {table}'),
    (r"plait\.(Relation|Exposure)\(table, (\w+)='([^']*)'\)", r'\2 = "\3" in {table}'),
    (r"plait\.Exposure\(table, default=1\.0\)", "default = 1.0 in {table}"),
    (r"labels=\{'(\w+)': \[…\]\}", r"\1 = […] in [labels]"),
    (
        r"(columns? (.+) (?:is|are) not used;.*\n)(?:Drop|Leave out) what is not part of it(?:: plait\.\w+\(.*?\]\))?",
        r"\1Say ignore = [\2] in {table}",
    ),
    (r"\bquoted=False\b", "quoted = false in {table}"),
    (r"\bkind='csv'", 'kind = "csv" in {table}'),
    (r"Say header=True\b", "Say header = true in {table}"),
    (r"\bheader=True\b", "header = true"),
    (r"\bheader=False\b", "header = false"),
    (r"\bcolumns=\[…\]", "columns = […] in {table}"),
    (r"Say which: name='([^']*)'", r'Say which: name = "\1" in {table}'),
    (r"\brank=\{'(\w+)': (\d+)\}", r"\1 = \2 in [rank]"),
    (r"\bkeep='(\w+)'", r'keep = "\1"'),
    (r"\brestarts=(\d+)", r"restarts = \1"),
    (r"\bbootstrap=True\b", "bootstrap = true"),
    (r'\bkeep="best"', 'keep = "best"'),
    (r"\brank=\"(\w+)\"", r'rank = "\1"'),
    (r"name its cell in missing=", 'name its cell in a file, missing = "…" in {table}'),
    (r"\blikelihood='(\w+)'", r'likelihood = "\1"'),
    (r"^labels= ", "[labels] "),
    (r"prior=plait\.Gamma\(concentration=1\.0, mean=…\)", "concentration = 1.0 in [fit.prior]"),
    (r"\bmethod=\"(\w+)\"", r'method = "\1"'),
    (r"(Both are axis \w+:) convert one of the two", r'\1 read the integers as text, text = ["…"] in their table'),
    (
        r"^init: the run in (.*) cannot go on, for (an older version of Plait made it)\.\n.*",
        r"\1: the run cannot go on: \2.\nFit anew with `plait fit`.",
    ),
    (
        r"^init: the run in (.*) cannot go on, for its (\w+) differs(.*)\.\n.*",
        r"\1: the run cannot go on: its \2 is not what it was\3.\nPut it back, or fit anew with `plait fit`.",
    ),
    (
        r"^explain: data differ from those of the fit.*\n.*",
        "the data are not what the run was fitted to, so that fitting again would compare two things at once.\n"
        "Put them back, or fit anew with `plait fit`.",
    ),
    (r"\b(columns|value|weight|missing|hidden)= (names|holds|is)\b", r"\1 \2"),
)
# What plait.read says -> the options of the commands that read files.
IN_OPTIONS = (
    (r"^plait\.read: quoted= says nothing about (.*)\.\n.*", r"--unquoted says nothing about \1.\nLeave it out."),
    (r"^plait\.read: (\w+)= says nothing about (.*)\.\n.*", r"--\1 says nothing about \2.\nLeave it out."),
    (r"^plait\.read: (columns|delimiter|kind) ", r"--\1 "),
    (r"^plait\.read: ", ""),
    (r"\bheader=True\b", "--header"),
    (r"\bheader=False\b", "--no-header"),
    (r"\bquoted=False\b", "--unquoted"),
    (r"\bkind='csv'", "--kind csv"),
    (r"\bcolumns=\[…\]", "--columns A,B,…"),
    (r"\bname='([^']*)'", r"--name \1"),
    (r"\bquery='select …'", "--query 'select …'"),
    (r"\btable='visits'", "--table visits"),
    (r"\b(columns|query|table)=(?= )", r"--\1"),
    (r"For another database open a connection: .*", "Databases are sqlite:// and postgresql://."),
)
# What fit.predict says -> the command's option, and what to change in the config before a run is made anew.
OF_RUNS = (
    (r'^unknown="prior": ', "--unknown prior: "),
    (r'\bunknown="prior"', "--unknown prior"),
    (
        r"Fit again with labels=\{'(\w+)': \[…\]\} and its exposure",
        r"Fit again with \1 = […] in [labels] of the config, and its exposure",
    ),
    (r"plait\.Relation\((?:test|known\[\d+\]), value='([^']*)'\)", r"--value \1"),
    (r"^k is \[(.*?)\](.*)\n(.*)rank=…", r"-k is \1\2\n\3--rank INDEX"),
    (r"\bvalue= names", "--value names"),
    (r'Fit with method="vb"', 'Fit with method = "vb" in [fit] of the config'),
)
PRIOR = r"(Remove the row), or score unknown names by the prior: .*"
LINE_FIRST = (r"(, column '[^']*')(, line \d+)", r"\2\1")
ROW = re.compile(r"row (\d+) \(counting from 0\)")
ROWS = re.compile(r"rows (\d+) and (\d+) \(counting from 0\)")

Lines = Callable[[int], int | None]


@contextmanager
def of_config(config: Config) -> Iterator[None]:
    """Errors while the data of a config are bound and fitted name its files, lines and keys."""
    try:
        yield
    except (DataError, SettingError) as error:
        message = in_config(str(error), config)
        raise type(error)(f"{config.path}: {message}" if _about_file(error, message, config) else message) from None


def in_config(message: str, config: Config) -> str:
    """A message about relations in memory as one about the files they come from."""
    subject = _subject(message, config)
    table = _table_of(message, config)
    if subject is not None:
        prefix, table, entry, indices = subject
        source = config.location(entry["source"])
        options = config.options(entry, indices)
        message = _with_lines(message, lambda row: line_of_source(source, row, options))
        message = shown(source) + message.removeprefix(prefix)
    for pattern, words in IN_TOML:
        message = re.sub(pattern, words.format(table=table) if "{" in words else words, message)
    return re.sub(*LINE_FIRST, message)


def _about_file(error: DataError | SettingError, message: str, config: Config) -> bool:
    """Whether a message is about a key of the config: settings are, unless given on the command line."""
    if message.startswith(config.path) or "cannot go on" in message:
        return False
    said = message.partition(" ")[0].rstrip(":")
    return message.startswith("[labels]") or (isinstance(error, SettingError) and said not in config.changes)


def _subject(message: str, config: Config) -> tuple[str, str, dict[str, Any], tuple[str, ...]] | None:
    """What a message begins with: these words, the table of the config they mean, its source, and its indices."""
    found = re.match(r"(\w+)(, (missing|hidden)(\[(\d+)\])?)?(?=[:,])", message)
    if found is None:
        return None
    name = found[1]
    for group, indices_of in (("relations", config.model.equation), ("exposures", config.model.factor)):
        entry = config.tables.get(group, {}).get(name)
        if entry is not None and found[2]:
            given = entry[found[3]]
            hidden = (given if isinstance(given, list) else [given])[int(found[5] or 0)]
            return found[0], f"[{group}.{name}]", hidden if isinstance(hidden, dict) else {"source": hidden}, ()
        if entry is not None:
            return found[0], f"[{group}.{name}]", entry, indices_of(name).indices
    return None


def _table_of(message: str, config: Config) -> str:
    """The table of the config whose source a message begins with."""
    for group in ("relations", "exposures"):
        for name, entry in config.tables.get(group, {}).items():
            source = shown(config.location(entry["source"]))
            if message.startswith((f"{source}:", f"{source},")):
                return f"[{group}.{name}]"
    return "the config"


def line_of_source(source: str, row: int, options: dict[str, Any]) -> int | None:
    """The line of a file that a row came from; None where it has no lines."""
    from plait.files.read import line_of

    return line_of(source, row, **options)


def _with_lines(message: str, line: Lines) -> str:
    """Rows of a table in memory -> lines of the file, where it has lines."""
    if (pair := ROWS.search(message)) and line(int(pair[1])) is not None:
        return ROWS.sub(f"lines {line(int(pair[1]))} and {line(int(pair[2]))}", message)
    if (one := ROW.search(message)) and line(int(one[1])) is not None:
        return ROW.sub(f"line {line(int(one[1]))}", message)
    return message


@contextmanager
def of_options() -> Iterator[None]:
    """Errors while a file is read name the options of the command."""
    try:
        yield
    except (DataError, SettingError) as error:
        raise type(error)(_replaced(str(error), IN_OPTIONS)) from error.__cause__


def _replaced(message: str, patterns: Sequence[tuple[str, str]]) -> str:
    for pattern, words in patterns:
        message = re.sub(pattern, words, message)
    return message


@contextmanager
def of_cells(cells: Cells, *, prior: bool = True, known: Sequence[Cells] = ()) -> Iterator[None]:
    """Errors about a table of cells name the file it was read from, and the command's own options.

    prior: whether the command can score unknown names by the prior. known: tables of further known links.
    """
    try:
        yield
    except (DataError, SettingError) as error:
        message = str(error)
        if found := re.match(r"(cells|test|known\[(\d+)\])( of \w+)?", message):
            table = cells if found[2] is None else known[int(found[2])]
            message = table.path + message.removeprefix(found[0])
            message = _with_lines(message, lambda row: line_of_source(table.path, row, table.options))
            message = re.sub(*LINE_FIRST, message)
        if not prior:
            message = re.sub(PRIOR, r"\1.", message)
        raise type(error)(_replaced(message, OF_RUNS)) from None


@contextmanager
def of_excluded(tables: Sequence[Cells]) -> Iterator[None]:
    """Errors about tables of what is excluded name the file that each was read from."""
    try:
        yield
    except DataError as error:
        message = str(error)
        if found := re.match(r"exclude(\[(\d+)\])?", message):
            cells = tables[int(found[2] or 0)]
            message = _with_lines(message, lambda row: line_of_source(cells.path, row, cells.options))
            message = re.sub(*LINE_FIRST, cells.path + message[found.end() :])
        raise DataError(message) from None
