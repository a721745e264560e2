"""What errors and warnings have in common."""

from typing import Any, Self

from plait.saying.dialect import PYTHON, Dialect
from plait.saying.parts import NOTHING, Argument, Where, Within


class Words(str):
    """Something got that is shown as it is, without quotes: the name of a type."""


class Told:
    """What is wrong, where, what was got and wanted, and one cure: values, put into words by a dialect.

    Without ``what`` the sentence is made of the others: ``where`` must be ``wanted``, got ``got``.
    """

    dialect: Dialect = PYTHON

    def __init__(
        self,
        what: str | None = None,
        *,
        where: Where | None = None,
        got: Any = NOTHING,
        wanted: str | None = None,
        cure: str | None = None,
    ) -> None:
        self.where, self.got, self.wanted = where, got, wanted
        self.said_what = what if what is not None else _must_be(where, wanted, got)
        self.said_cure = cure or ""
        super().__init__(str(self))  # type: ignore[call-arg]  # beside an exception of Python's

    def __str__(self) -> str:
        return self.dialect.message(self)

    @property
    def what(self) -> str:
        """What is wrong."""
        return self.dialect.what(self)

    @property
    def cure(self) -> str | None:
        """What to do about it."""
        return self.dialect.text(self.said_cure, self.where) or None

    def to_dict(self) -> dict[str, Any]:
        """The kind and all parts as JSON has them, and the whole as ``message``."""
        return {"kind": type(self).__name__} | self.dialect.to_dict(self)

    def within(self, outer: Where) -> Self:
        """The same, inside another place."""
        self.where = outer if self.where is None else Within(outer, self.where)
        return self

    def spoken(self, dialect: Dialect) -> Self:
        """The same in another dialect, unless it has one already: the innermost knows most."""
        if self.dialect is PYTHON:
            self.dialect = dialect
        return self


def _must_be(where: Where | None, wanted: str | None, got: Any) -> str:
    shown = "" if got is NOTHING else f", got {got if isinstance(got, Words) else repr(got)}"
    subject = format(where) if isinstance(where, Argument) else "it"
    return f"{subject} must be {wanted}{shown}."
