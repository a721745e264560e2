"""The words of the command line: its options, and the files that tables were read from."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from plait.config.dialect import InToml, Toml, located_in
from plait.errors import PlaitError
from plait.saying import DOTS, NOTHING, Argument, Call, Dialect, Phrase, Place, Told, Where

if TYPE_CHECKING:
    from plait.cli.cells import Cells
    from plait.config import Config

NEGATED = {
    "quoted": "unquoted",
    "escape_formulas": "no-escape-formulas",
}  # options of plait.read whose False is an option here


class CommandLine(InToml):
    """What a command says; tables: the files that its tables were read from, by the name they have in the library.

    An option that it does not have is one of the config that the run was made from.
    """

    def __init__(self, tables: "Mapping[str, Cells] | None" = None) -> None:
        self.tables, self.params = dict(tables or {}), dict[str, Any]()

    def know(self, command: Any) -> None:
        """The options of the command that was asked for; they are known only when it ends."""
        self.params = {said.lstrip("-"): param for param in command.params for said in param.opts}

    def phrase(self, phrase: Phrase) -> str:
        """Its own way, or that of a config."""
        return phrase.files if phrase.command is None else phrase.command

    def argument(self, given: Argument, about: Where | None, sign: str) -> str:
        """``--unquoted``, ``--value plays``, ``method = "vb" in [fit] of the config``."""
        name = NEGATED.get(given.name, given.name)
        param = self.params.get(name)
        if param is None:
            if given.value is NOTHING:
                return given.name
            own = "" if given.of or isinstance(given.value, dict) else " in [fit]"
            return f"{super().argument(given, about, sign)}{own} of the config"
        if given.value is False and name == given.name:
            return str(param.secondary_opts[0])
        said = max(param.opts, key=len)
        if given.value is NOTHING or isinstance(given.value, bool):
            return str(said)
        return f"{said} {self._typed(given.value, param)}"

    def _typed(self, value: Any, param: Any) -> str:
        if value in (DOTS, [DOTS]):
            return str(param.metavar or param.name.upper())
        if isinstance(value, (list, tuple)):
            return shlex.quote(",".join(map(str, value)))
        return shlex.quote(str(value))

    def head(self, where: Where | None) -> str:
        """A function of Python's is none of the command line's, and an option is named by the sentence."""
        return "" if isinstance(where, (Call, Argument)) else super().head(where)

    def described(self, where: Where) -> dict[str, Any]:
        """An option as it is typed."""
        if isinstance(where, Argument):
            return {"option": self.argument(Argument(where.name), None, "")}
        return super().described(where)

    def located(self, where: Any) -> Any:
        """The file of a table that the command read, and its line where it has lines."""
        if not isinstance(where, Place):
            return where
        cells = self.tables.get(where.table if where.number is None else f"{where.table}[{where.number}]")
        return where if cells is None else located_in(cells.path, where, cells.options)


@contextmanager
def speaking(dialect: Dialect) -> Iterator[None]:
    """Errors in the words of a dialect."""
    try:
        yield
    except PlaitError as error:
        error.spoken(dialect)
        raise


def of_config(config: "Config") -> Any:
    """Errors while the data of a config are bound and fitted name its files, lines and keys."""
    return speaking(Toml(config))


def of_tables(tables: "Mapping[str, Cells | Sequence[Cells]]") -> Any:
    """Errors about tables name the files they were read from; several under one name are numbered."""
    named: dict[str, Cells] = {}
    for name, cells in tables.items():
        several = [cells] if not isinstance(cells, Sequence) else cells
        named |= {f"{name}[{n}]": one for n, one in enumerate(several)}
        if len(several) == 1:
            named[name] = several[0]
    return speaking(CommandLine(named))


def as_told(message: Warning | str) -> Told:
    """A warning in parts; one that is not ours is a sentence."""
    return message if isinstance(message, Told) else PlaitError(str(message))


def in_words(message: Warning | str, dialect: Dialect) -> str:
    """A warning in the words of a dialect."""
    return str(as_told(message).spoken(dialect))
