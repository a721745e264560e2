"""What messages are made of: places and arguments as values.

A sentence is an f-string in which parts may stand: ``f"Say {Argument('quoted', False)}."``
A part is not text yet but a token in the text, so that Python says ``quoted=False``, a config file
``quoted = false in [relations.visits]`` and the command line ``--unquoted``, and none of them has to look for the words
of another (docs/decisions/0026-errors.md).
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

OPEN, CLOSE = "\ue0f0", "\ue0f1"  # around a part; private use, so no text of a user's has them
TOKEN = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
DOTS = "…"  # as a value: whatever is wanted there

KINDS: dict[str, "type[Part]"] = {}


class Nothing:
    """No value, where None is one."""

    def __repr__(self) -> str:
        return "NOTHING"

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING: Final = Nothing()


class Part:
    """A value inside a sentence: in an f-string it is a token, which a dialect puts into words."""

    def __init_subclass__(cls) -> None:
        KINDS[cls.__name__] = cls

    def __format__(self, spec: str) -> str:
        own = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        kept = {name: _kept(name, value) for name, value in own.items() if value is not NOTHING}
        return f"{OPEN}{json.dumps([type(self).__name__, kept, spec], default=_as_code)}{CLOSE}"


def code(text: str) -> dict[str, str]:
    """A value that is shown as it is written here."""
    return {"code": text}


def _kept(name: str, value: Any) -> Any:
    """JSON does not tell a tuple from a list, but Python does."""
    return {"tuple": list(value)} if name == "value" and isinstance(value, tuple) else value


def _as_code(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else code(repr(value))


def part_of(text: str) -> tuple["Part", str] | None:
    """The part of a token and its spec; None for what only looks like one."""
    try:
        kind, own, spec = json.loads(text)
        places = {name: tuple(own[name]) for name in ("rows", "lines", "cell") if name in own}
        return KINDS[kind](**{**own, **places}), spec
    except (ValueError, TypeError, KeyError):
        return None


# --- arguments


@dataclass(frozen=True)
class Argument(Part):
    """An argument or setting, alone or with a value; ``f"{argument:=}"`` writes it with ``=`` where Python would.

    of: what takes it: "" for `plait.fit` and its friends, "read", "Relation", "Exposure", "Gamma", "labels", or the
    name of another function or class. data: what stands before it where it is written as a call.
    """

    name: str
    value: Any = NOTHING
    of: str = ""
    data: str = "table"

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"argument": self.name} | ({"of": self.of} if self.of else {})


@dataclass(frozen=True)
class Phrase(Part):
    """What Python says in one way and who reads files in another: there is no table to convert, but a file to read.

    command: what the command line says, where that is not what a config file says.
    """

    python: str
    files: str
    command: str | None = None


# --- places


@dataclass(frozen=True)
class Place(Part):
    """A table or an array in memory, by the name that the user knows: a relation, "cells", "test"; rows count from 0.

    part, number: one of its own tables, as ``visits, missing[1]``; a number without part: one of several, ``known[0]``.
    cell: of an array. noun: what the column is called. of_relation: which relation a test is of.
    """

    table: str
    column: Any = None
    rows: tuple[int, ...] = ()
    cell: tuple[int, ...] = ()
    part: str | None = None
    number: int | None = None
    noun: str = "column"
    of_relation: str | None = None

    @classmethod
    def of(cls, name: "str | Place") -> "Place":
        """A name as a place; a place as it is."""
        return name if isinstance(name, Place) else cls(name)

    def at(self, column: Any = None, *, row: int | None = None) -> "Place":
        """A column of it, or a row, or both."""
        rows = self.rows if row is None else (int(row),)
        return replace(self, column=self.column if column is None else column, rows=rows)

    @property
    def name(self) -> str:
        """The table alone, in Python's words."""
        part = "" if self.part is None else f", {self.part}"
        number = "" if self.number is None else f"[{self.number}]"
        return f"{self.table}{part}{number}" + ("" if self.of_relation is None else f" of {self.of_relation}")

    def words(self) -> str:
        """``visits, column 'who', row 3 (counting from 0)``."""
        return self.name + _column(self.noun, self.column) + _rows(self.rows) + _cell(self.cell)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return _filled(table=self.name, column=self.column, rows=self.rows, cell=self.cell)


@dataclass(frozen=True)
class FilePlace(Part):
    """A file, folder or URL; lines count from 1. rows: of what has no lines, counting from 0."""

    path: "str | os.PathLike[str]"
    lines: tuple[int, ...] = ()
    column: Any = None
    rows: tuple[int, ...] = ()
    field: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))

    def words(self) -> str:
        """``visits.csv, line 4, column 'who'``."""
        several = "lines" if len(self.lines) > 1 else "line"
        lines = f", {several} {' and '.join(map(str, self.lines))}" if self.lines else ""
        field = "" if self.field is None else f", field {self.field}"
        return f"{self.path}{lines}{_column('column', self.column)}{field}{_rows(self.rows)}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return _filled(file=self.path, lines=self.lines, column=self.column, field=self.field, rows=self.rows)


@dataclass(frozen=True)
class Key(Part):
    """A table or key of a config file: ``model.toml: [relations.visits]``."""

    path: str
    key: str

    def words(self) -> str:
        """``model.toml: [relations.visits]``, ``model.toml, model``."""
        return f"{self.path}{': ' if self.key.startswith('[') else ', '}{self.key}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"file": self.path, "key": self.key}


@dataclass(frozen=True)
class Call(Part):
    """A function or a class of Python's, as a whole."""

    name: str

    def words(self) -> str:
        """The name itself."""
        return self.name

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"call": self.name}


@dataclass(frozen=True)
class Subject(Part):
    """What a message is about, by its name: an axis, a factor, a relation as a whole."""

    name: str

    def words(self) -> str:
        """The name itself."""
        return self.name

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"subject": self.name}


class Excerpt:
    """Something that is drawn below the sentence: a line of a model, with carets (`model/syntax.py`)."""

    def drawn(self) -> str:
        """The lines to draw."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        raise NotImplementedError


@dataclass(frozen=True)
class Within:
    """A place inside another one: a line of a model inside a config file."""

    outer: "Where"
    inner: "Where"

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return self.outer.to_dict() | self.inner.to_dict()


Named = str | Place
Where = Argument | Place | FilePlace | Key | Call | Subject | Excerpt | Within


def quoted(label: object) -> str:
    """A label or the name of a column as a message shows it."""
    return repr(label) if isinstance(label, str) else str(label)


def _filled(**parts: Any) -> dict[str, Any]:
    kept = {name: value for name, value in parts.items() if value not in (None, ())}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


def _column(noun: str, column: Any) -> str:
    return "" if column is None else f", {noun} {quoted(column)}"


def _rows(rows: Sequence[int]) -> str:
    if not rows:
        return ""
    return f", row{'s' if len(rows) > 1 else ''} {' and '.join(map(str, rows))} (counting from 0)"


def _cell(cell: Sequence[int]) -> str:
    return f", cell {list(cell)}" if cell else ""
