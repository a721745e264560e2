"""How parts are put into words: Python's here; those of config files and of the command line build upon it."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plait.saying.parts import (
    DOTS,
    NOTHING,
    TOKEN,
    Argument,
    Call,
    Excerpt,
    FilePlace,
    Key,
    Part,
    Phrase,
    Place,
    Subject,
    Where,
    Within,
    part_of,
)

if TYPE_CHECKING:
    from plait.saying.told import Told


class Dialect:
    """How parts are put into words; this one is Python's, and others override what they say in another way."""

    def text(self, text: str, about: Where | None) -> str:
        """A sentence with its parts in words; about: the place of the message, which says what an option belongs to."""

        def said(token: "re.Match[str]") -> str:
            found = part_of(token[1])
            return token[1] if found is None else self.part(found[0], about, found[1])

        return TOKEN.sub(said, text)

    def part(self, part: Part, about: Where | None, spec: str) -> str:
        """One part in words."""
        if isinstance(part, Argument):
            return self.argument(part, about, spec)
        if isinstance(part, Phrase):
            return self.text(self.phrase(part), about)
        located = self.located(part)
        return located.words() if isinstance(located, WORDED) else ""

    def argument(self, given: Argument, about: Where | None, sign: str) -> str:
        """``rank``, ``value=``, ``method="vb"``, ``plait.Relation(table, value="plays")``."""
        if given.value is NOTHING:
            return f"{given.name}{sign}"
        said = f"{given.name}={self.value(given.value)}"
        if given.of == "Gamma":
            return f"prior=plait.Gamma({said}, mean=…)"
        return f"plait.{given.of}({given.data}, {said})" if given.of in ("Relation", "Exposure") else said

    def phrase(self, phrase: Phrase) -> str:
        """The one of its ways that is said here."""
        return phrase.python

    def value(self, value: Any) -> str:
        """A value as Python writes it, strings in double quotes."""
        if isinstance(value, str):
            return value if value == DOTS else json.dumps(value, ensure_ascii=False)
        if isinstance(value, Mapping):
            if set(value) == {"code"}:
                return str(value["code"])
            if set(value) == {"tuple"}:
                return self.several(value["tuple"])
            return "{" + ", ".join(f"{self.value(key)}: {self.value(one)}" for key, one in value.items()) + "}"
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(self.value, value))}]"
        return repr(value)

    def several(self, values: Sequence[Any]) -> str:
        """A tuple as Python writes it."""
        return f"({', '.join(map(self.value, values))}{',' if len(values) == 1 else ''})"

    def located(self, where: Any) -> Any:
        """Where something is, as this dialect knows it: a table in memory may be a file."""
        return where

    def described(self, where: Where) -> dict[str, Any]:
        """Where something is, for programs."""
        found: dict[str, Any] = self.located(where).to_dict()
        return found

    def head(self, where: Where | None) -> str:
        """What stands before the sentence: ``visits, column 'who': ``; nothing where the sentence says it itself."""
        where = self.located(where)
        if isinstance(where, Within):
            return self.head(where.outer) + self.head(where.inner)
        if isinstance(where, Argument):
            return CALLED.get(where.of, f"{where.of}: " if where.of else "")
        return f"{where.words()}: " if isinstance(where, WORDED) else ""

    def message(self, told: "Told") -> str:
        """All of it: where and what, the lines to draw, the cure."""
        lines = [self.head(told.where) + self.what(told), _drawn(told.where), self.text(told.said_cure, told.where)]
        return "\n".join(line for line in lines if line)

    def what(self, told: "Told") -> str:
        """The sentence that says what is wrong."""
        return self.text(told.said_what, told.where)

    def to_dict(self, told: "Told") -> dict[str, Any]:
        """The parts in words, for programs."""
        return {
            "message": self.message(told),
            "what": self.what(told),
            "where": None if told.where is None else self.described(told.where),
            "got": None if told.got is NOTHING else told.got if _is_plain(told.got) else repr(told.got),
            "wanted": None if told.wanted is None else self.text(told.wanted, told.where),
            "cure": self.text(told.said_cure, told.where) or None,
        }


WORDED = (Place, FilePlace, Key, Call, Subject)
CALLED = {"read": "plait.read: ", "write": "plait.write: ", "labels": ""}
PYTHON = Dialect()


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool, type(None)))


def _drawn(where: Where | None) -> str:
    if isinstance(where, Within):
        return _drawn(where.inner)
    return where.drawn() if isinstance(where, Excerpt) else ""
