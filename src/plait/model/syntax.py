"""Parser of the model language: text to statements with source spans.

::

    text        = { statement }                        separated by line ends or ";"; "#" begins a comment
    statement   = equation | declaration
    equation    = bracket "=" sum                      X[i, j] = A[i, r] B[j, r] + a[i] b[j]
    sum         = product { "+" product }
    product     = part { ["*"] part }
    part        = bracket | "(" sum ")"                V[i, j] (A[i, r] B[j, r] + c[])
    declaration = name ":" name                        friend: user   month: ordered
    bracket     = name "[" [ name { "," name } ] "]"   A[i, r]   b[i]   c[]

Parentheses are multiplied out: a sum is the list of its products. A name satisfies ``str.isidentifier``. `model` checks
the meaning of statements.
"""

import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from plait.errors import Location, ModelError

MARKS = frozenset("[],=*:;+()")
MAX_TERMS = 100  # of an equation, parentheses multiplied out
MAX_DEPTH = 50  # parentheses inside one another: 150 frames of Python's 1,000

ONE_LINE = "An equation is one line: relation[index, …] = Factor[index, …] Factor[index, …] + …"
BRACKET = "Write indices in brackets, separated by commas: A[i, r]."

# A misplaced mark: message and hint.
STRAY = {
    "=": ("the equation has a second =.", "Write one equation per line."),
    ",": ("unexpected comma outside brackets.", "Write factors next to each other: A[i, r] B[j, r]."),
    ":": (
        "unexpected : in an equation.",
        "Write a declaration, axis: other_axis or axis: ordered, on a separate line.",
    ),
    "[": ("a name is missing before this bracket.", BRACKET),
    "]": ("this closing bracket has no opening bracket.", BRACKET),
    ")": (
        "this closing parenthesis has no opening parenthesis.",
        "Parentheses contain terms separated by +: V[i] (A[i, r] B[j, r] + c[]).",
    ),
}

# Common input that is not in the language, and the likely intention.
HINTS = (
    ("-", "Names consist of letters, digits and _. Factors cannot be subtracted."),
    (".·⋅×", "Write factors next to each other, or with * between them: A[i, r] B[j, r]."),
    ("{}<>", "Write indices in square brackets: A[i, r]."),
    ("'\"`", "Write names without quotes."),
    ("~∼≈", "Write = between a relation and its factors; set the likelihood in plait.Relation."),
)
LANGUAGE = "Names consist of letters, digits and _. Allowed symbols: [ ] ( ) , = * + : ; and # before a comment."


@dataclass(frozen=True)
class Line:
    """One line of the model, stripped; its number, if the model has several."""

    text: str
    number: int | None


@dataclass(frozen=True)
class Span(Location):
    """A piece of a line: characters start…stop−1."""

    line: Line
    start: int
    stop: int

    @property
    def text(self) -> str:
        """The piece as the user wrote it."""
        return self.line.text[self.start : self.stop]

    def through(self, other: "Span") -> "Span":
        """From the start of this span to the end of the other, on the same line."""
        return Span(self.line, self.start, other.stop)

    def excerpt(self) -> str:
        """The line, with carets under the piece."""
        prefix = "  " if self.line.number is None else f"  line {self.line.number}: "
        start, stop = (_width(_printable(self.line.text[:at])) for at in (self.start, self.stop))
        return f"{prefix}{_printable(self.line.text)}\n{' ' * (len(prefix) + start)}{'^' * max(1, stop - start)}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON: characters count from 0."""
        return {"line": self.line.number or 1, "text": self.line.text, "start": self.start, "stop": self.stop}


@dataclass(frozen=True)
class Token:
    """A name, a mark, or "" behind the last token of a statement."""

    text: str
    span: Span

    @property
    def is_name(self) -> bool:
        """Whether this is a name rather than a mark."""
        return self.text.isidentifier()


@dataclass(frozen=True)
class Bracket:
    """A name with its bracket, ``A[i, r]``."""

    name: Token
    indices: tuple[Token, ...]
    span: Span


Product = tuple[Bracket, ...]


@dataclass(frozen=True)
class EquationStatement:
    """``left = term + term + …``; a term is a product of brackets, which may have stood in parentheses."""

    left: Bracket
    terms: tuple[Product, ...]

    @property
    def right(self) -> tuple[Bracket, ...]:
        """All brackets behind the =, term by term."""
        return tuple(bracket for term in self.terms for bracket in term)


@dataclass(frozen=True)
class Declaration:
    """``axis: other`` or ``axis: ordered``."""

    axis: Token
    other: Token

    @property
    def span(self) -> Span:
        """The whole declaration."""
        return self.axis.span.through(self.other.span)


Statement = EquationStatement | Declaration


def parse(text: str) -> tuple[Statement, ...]:
    """Read the statements of a model's text, in order; ModelError with a caret where the grammar is broken."""
    return tuple(_Reader(tokens).statement() for line in _lines(text) for tokens in _split(_tokens(line)))


def mistake(what: str, span: Span, hint: str) -> ModelError:
    """An error with a message, a caret under the line, and a hint."""
    return ModelError(what, location=span, hint=hint)


def _printable(text: str) -> str:
    """The text as it can be printed: tabs expanded, nothing that moves the cursor or cannot be encoded."""
    plain = (c if c.isprintable() or c == "\t" else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return "".join(plain).expandtabs(4)


def _width(text: str) -> int:
    """Columns that the text takes on a terminal: combining marks none, wide East Asian characters two."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.category(c) in ("Mn", "Me") for c in text)


def _lines(text: str) -> Iterator[Line]:
    """The lines of the text. Not str.splitlines: a form feed or U+2028 is no new line to an editor."""
    lines = [line.strip() for line in re.split(r"\r\n?|\n", text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}"))]
    several = sum(map(bool, lines)) > 1
    # The line break behind an opening triple quote is not a line of the model.
    first = 1 if lines[0] else 0
    for number, line in enumerate(lines, first):
        yield Line(line, number if several else None)


def _tokens(line: Line) -> Iterator[Token]:
    """Names and marks of one line, without its comment."""
    at, text = 0, line.text
    while at < len(text) and text[at] != "#":
        stop = at + 1
        while _in_name(text[at]) and stop < len(text) and _in_name(text[stop]):
            stop += 1
        token = Token(text[at:stop], Span(line, at, stop))
        if token.is_name or token.text in MARKS:
            yield token
        elif not text[at].isspace():
            raise _unknown(line, at)
        at = stop


def _in_name(char: str) -> bool:
    # Not the regex \w, which leaves out combining marks and so half of the world's scripts.
    return f"_{char}".isidentifier()


def _unknown(line: Line, at: int) -> ModelError:
    """The error for a character that is in no token, or a word that begins with a digit."""
    if number := re.compile(r"\d[\w.]*").match(line.text, at):
        hint = "Names begin with a letter or _. A constant is a factor without indices, such as c[]."
        return mistake(f"{number[0]} begins with a digit.", Span(line, at, number.end()), hint)
    char = line.text[at]
    printed = f"'{char}'" if char.isprintable() and _width(char) else f"U+{ord(char):04X}"
    hint = next((hint for chars, hint in HINTS if char in chars), LANGUAGE)
    return mistake(f"unexpected character {printed}.", Span(line, at, at + 1), hint)


def _split(tokens: Iterator[Token]) -> Iterator[list[Token]]:
    """The tokens of each statement of a line; empty statements are skipped."""
    statement: list[Token] = []
    for token in tokens:
        if token.text != ";":
            statement.append(token)
        elif statement:
            yield statement
            statement = []
    if statement:
        yield statement


class _Reader:
    """Reads one statement from its tokens, from left to right."""

    def __init__(self, tokens: list[Token]):
        last = tokens[-1].span
        self.tokens = [*tokens, Token("", Span(last.line, last.stop, last.stop))]
        self.at = 0
        self.depth = 0

    @property
    def next(self) -> Token:
        """The token to be read next."""
        return self.tokens[self.at]

    def take(self, mark: str | None = None) -> Token | None:
        """Read a name, or the given mark, if that is what comes next."""
        token = self.next
        if token.text != mark if mark else not token.is_name:
            return None
        self.at += 1
        return token

    def statement(self) -> Statement:
        """``equation | declaration``."""
        name = self.next
        if not name.is_name:
            raise mistake(f"a statement cannot begin with {name.text}.", name.span, ONE_LINE)
        if self.tokens[1].text == ":":
            return self.declaration()
        left = self.bracket("relation", "i, j", "a single cell")
        if equals := self.take("="):
            terms = self.sum(equals)
            if self.next.text:
                raise self.stray()
            return EquationStatement(left, terms)
        if self.next.text in STRAY:
            raise self.stray()
        raise mistake(f"= is missing after {left.span.text}.", left.span, ONE_LINE)

    def declaration(self) -> Declaration:
        """``name ":" name``."""
        axis, colon = self.tokens[:2]
        self.at = 2
        other = self.take()
        if other is None:
            what = f"the declaration of {axis.text} is incomplete."
            raise mistake(
                what,
                axis.span.through(colon.span),
                "A declaration has two indices, axis: other_axis, or is axis: ordered.",
            )
        if self.next.text:
            what = f"unexpected text after the declaration of {axis.text}."
            raise mistake(what, self.next.span, "Write one declaration per line, with two indices: axis: other_axis.")
        return Declaration(axis, other)

    def sum(self, before: Token) -> tuple[Product, ...]:
        """``product { "+" product }``; ``before`` is the mark ahead of it. Parentheses are multiplied out."""
        terms = list(self.product(before))
        while plus := self.take("+"):
            terms += self.product(plus)
        return tuple(terms)

    def product(self, before: Token) -> tuple[Product, ...]:
        """``part { ["*"] part }``, as the terms that it is the sum of."""
        parts: list[tuple[Product, ...]] = []
        while True:
            parts.append(self.part(before))
            if star := self.take("*"):
                before = star
            elif not (self.next.is_name or self.next.text == "("):
                break
        if math.prod(map(len, parts)) > MAX_TERMS:
            hint = f"An equation can have at most {MAX_TERMS} terms. Use a latent index for longer sums."
            raise mistake(f"this product has {math.prod(map(len, parts)):,} terms.", before.span, hint)
        return tuple(tuple(bracket for piece in pieces for bracket in piece) for pieces in product(*parts))

    def part(self, before: Token) -> tuple[Product, ...]:
        """``bracket | "(" sum ")"``, as the terms that it is the sum of."""
        if opening := self.take("("):
            if self.depth == MAX_DEPTH:
                what = f"parentheses are nested more than {MAX_DEPTH} levels deep."
                raise mistake(what, opening.span, "Remove parentheses around a single term or a whole sum.")
            self.depth += 1
            terms = self.sum(opening)
            self.depth -= 1
            if not self.take(")"):
                if self.next.text in STRAY:
                    raise self.stray()
                read = opening.span.through(self.tokens[self.at - 1].span)
                raise mistake("this parenthesis is not closed.", read, "Write ) after its last term.")
            return terms
        if self.next.is_name:
            return ((self.bracket("factor", "i, r", "a single number"),),)
        if before.text == "(" and self.next.text == ")":
            raise mistake("the parentheses are empty.", before.span.through(self.next.span), ONE_LINE)
        if self.next.text in STRAY and self.next.text != ")":
            raise self.stray()
        what = "term" if before.text == "+" else "factor"
        at = self.next if before.text == "=" and self.next.text == "+" else before
        what = f"a term is missing before {at.text}." if at is not before else f"a {what} is missing after {at.text}."
        raise mistake(what, at.span, ONE_LINE)

    def bracket(self, kind: str, example: str, scalar: str) -> Bracket:
        """``name "[" [ name { "," name } ] "]"``, begun by a name; the words are for its errors."""
        name = self.next
        self.at += 1
        if not self.take("["):
            hint = f"Write its indices, as in {name.text}[{example}], or {name.text}[] if it is {scalar}."
            raise mistake(f"{kind} {name.text} has no brackets.", name.span, hint)
        indices: list[Token] = []
        close = self.take("]")
        while close is None:
            index = self.take()
            if index is None:
                raise self.no_index(name)
            indices.append(index)
            close = self.take("]")
            if close is None and not self.take(","):
                raise self.no_comma(name)
        return Bracket(name, tuple(indices), name.span.through(close.span))

    def stray(self) -> ModelError:
        """The error for a mark that cannot be where it is."""
        what, hint = STRAY[self.next.text]
        return mistake(what, self.next.span, hint)

    def no_index(self, name: Token) -> ModelError:
        """The error for something else where an index of ``name`` must be."""
        if self.next.text in (",", "]"):
            return mistake(f"an index of {name.text} is missing here.", self.next.span, BRACKET)
        return self.not_closed(name)

    def no_comma(self, name: Token) -> ModelError:
        """The error for something else where a comma or the end of the bracket of ``name`` must be."""
        last, following = self.tokens[self.at - 1], self.next
        # In A[i r B[j r] the name B is the next factor, not a second index without its comma.
        if not following.is_name or self.tokens[self.at + 1].text == "[":
            return self.not_closed(name)
        what = f"a comma is missing between {last.text} and {following.text}."
        return mistake(what, last.span.through(following.span), BRACKET)

    def not_closed(self, name: Token) -> ModelError:
        """The error for a bracket without its end."""
        read = name.span.through(self.tokens[self.at - 1].span)
        return mistake(f"the bracket of {name.text} is not closed.", read, BRACKET)
