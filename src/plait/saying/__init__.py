"""Messages as values: `parts` they are made of, `dialect` that puts them into words, `told` by errors and warnings."""

from plait.saying.dialect import PYTHON, Dialect
from plait.saying.parts import (
    CLOSE,
    DOTS,
    NOTHING,
    OPEN,
    Argument,
    Call,
    Excerpt,
    FilePlace,
    Key,
    Named,
    Part,
    Phrase,
    Place,
    Subject,
    Where,
    Within,
    code,
    quoted,
)
from plait.saying.told import Told, Words

__all__ = [
    "CLOSE",
    "DOTS",
    "NOTHING",
    "OPEN",
    "PYTHON",
    "Argument",
    "Call",
    "Dialect",
    "Excerpt",
    "FilePlace",
    "Key",
    "Named",
    "Part",
    "Phrase",
    "Place",
    "Subject",
    "Told",
    "Where",
    "Within",
    "Words",
    "code",
    "quoted",
]
