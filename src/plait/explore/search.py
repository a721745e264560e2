"""Search-as-you-type: all names of an axis, and their titles, as one text that is looked through.

Names stand one below the other, casefolded; a match is a place in the text. Those at the beginning of a name come
first. Nothing is done by entity, so a million names take milliseconds.
"""

import unicodedata
from dataclasses import dataclass

import numpy as np
import polars as pl

from plait.result import Fit
from plait.types import Rows

LINE = b"\n"
MANY = 500  # matches that are looked at before the beginnings of names are looked for by themselves


@dataclass(frozen=True, eq=False)
class Index:
    """The names of an axis: text with a line before, between and after them; begins: where each line ends."""

    text: bytes
    begins: Rows
    size: int  # entities; what follows them are titles

    @classmethod
    def of(cls, names: pl.Series, titles: pl.Series | None = None) -> "Index":
        """Of names in row order, and their titles by row."""
        columns = [names.cast(pl.String)] + ([] if titles is None else [titles.fill_null("")])
        plain = pl.concat([column.str.replace_all("[\r\n]", " ").rename("name") for column in columns])
        text = b"\n" + fold("\n".join(plain.to_list())).encode() + b"\n"
        return cls(text, np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")), len(names))

    def find(self, query: str, most: int) -> tuple[list[int], bool]:
        """The first rows whose name or title has the query, those that begin with it first; and whether more have."""
        wanted = fold(query).replace("\n", " ").replace("\r", " ").encode()
        if not wanted:
            return [], False
        places, everything = self._lines(wanted, 0, max(MANY, most + 1))
        if everything:
            first = [line for place, line in places if place == self.begins[line] + 1]
        else:  # there may be names further down that begin with it
            first = [line for _, line in self._lines(LINE + wanted, 1, most + 1)[0]]
        rows = dict.fromkeys(line % self.size for line in (*first, *(line for _, line in places)))
        found = list(rows)
        return found[:most], len(found) > most

    def _lines(self, sought: bytes, ahead: int, most: int) -> tuple[list[tuple[int, int]], bool]:
        """Places of the text and their lines, the first in each line, up to so many; and whether these are all.

        ahead: how many of the letters sought stand before the line.
        """
        found: list[tuple[int, int]] = []
        place = self.text.find(sought)
        while place >= 0 and len(found) < most:
            line = int(np.searchsorted(self.begins, place + ahead, "right")) - 1
            found.append((place, line))
            place = self.text.find(sought, int(self.begins[line + 1]) + 1 - ahead)
        return found, place < 0


def fold(text: str) -> str:
    """Text in which letters compare as people do."""
    return unicodedata.normalize("NFC", text).casefold()


def indices_of(fit: Fit) -> dict[str, Index]:
    """What is looked through, by axis."""
    titles = {axis: fit.titles[axis].column for axis in fit.model.axes if axis in fit.titles}
    return {axis: Index.of(fit.labels[axis].names, titles.get(axis)) for axis in fit.model.axes}
