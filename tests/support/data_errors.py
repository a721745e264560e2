"""Errors about data, files and models: their text names what is wrong, and a hint follows."""

import itertools
import re
import unicodedata

import pytest

from plait.errors import DataError, ModelError, ParameterError


def error_text(call, *arguments, **options):
    """Return the text of the error that a call raises. Its last line is a hint."""
    with pytest.raises((DataError, ModelError, ParameterError)) as caught:
        call(*arguments, **options)
    text = str(caught.value)
    assert len(text.splitlines()) > 1
    assert caught.value.hint
    return text


def assert_mentions(text, *words):
    assert [word for word in words if word not in text] == [], text


def underlined(text):
    """Return the line of a model that an error shows, with « » around the part that has carets under it."""
    lines = text.splitlines()
    for line, carets in itertools.pairwise(lines):
        if carets.strip() and not carets.strip(" ^"):
            ends = [place_of(line, column) for column in (carets.index("^"), len(carets))]
            shown = f"{line[: ends[0]]}«{line[slice(*ends)]}»{line[ends[1] :]}"
            return re.sub(r"^  (line \d+: )?", "", shown)
    return ""


def place_of(line, column):
    """Return the number of characters that fill columns of a terminal."""
    width = 0
    for place, char in enumerate(line):
        if width >= column and not unicodedata.combining(char):
            return place
        width += 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return len(line)
