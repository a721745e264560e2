"""Search-as-you-type: all names of an axis, and their titles, as one text that is looked through.

Names stand one below the other, casefolded; a match is a place in the text. Those at the beginning of a name come
first. Nothing is done by entity, so a million names take milliseconds.

Addresses of entities and cells.

An entity's page is `/axis/<axis>/<name>`. What a path cannot carry is asked for by `?name=`: browsers take `.` and `..`
for steps, `.json` at the end means the page's twin, a path has one line, and nothing is nothing. Names too long for an
address, and those of which text says too little (times in a zone), go by `?row=`, their number.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import polars as pl

from plait._typing import Rows
from plait.analysis.predict.lookup import row_named
from plait.analysis.titled_tables import beside
from plait.data.encoding.columns import kind
from plait.data.encoding.names import PARSERS, Labels, read_label, write_label
from plait.errors import DataError, suggestion
from plait.explore.request import Refused, shorten, whole
from plait.rendering.document import Ref
from plait.result import Fit

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
    return {axis: Index.of(fit.entities[axis].names, titles.get(axis)) for axis in fit.model.axes}


LONGEST = 1500  # bytes of a name in an address
SHOWN = 100  # characters of a name in a table
TWIN = ".json"


class EntityUrls:
    """The entities of a fit, by number, by text, and by address."""

    def __init__(self, fit: Fit) -> None:
        self.fit = fit

    # --- numbers → text

    def label(self, index: str, row: int) -> Any:
        """The name itself."""
        return self.fit.entities[index][int(row)]

    def title(self, index: str, row: int) -> str | None:
        """What people call it, where that is known."""
        own = self.fit.titles.get(index)
        return None if own is None else own.column[int(row)]

    def text(self, index: str, row: int) -> str:
        """The name for people: its title beside it."""
        return beside(write_label(self.label(index, row)), self.title(index, row))

    def ref(self, index: str, row: int) -> Ref:
        """The name as a link to its page."""
        return Ref(_visible(shorten(self.text(index, row), SHOWN)), self.address(index, row))

    def of_cell(self, relation: str, cell: Sequence[int] | Rows) -> dict[str, Any]:
        """A cell by names."""
        indices = self.fit.model.equation(relation).indices
        return {index: self.label(index, int(row)) for index, row in zip(indices, cell)}

    def cell_text(self, relation: str, cell: Sequence[int] | Rows) -> str:
        """A cell as one text: ``visits(ann, cafe)``."""
        indices = self.fit.model.equation(relation).indices
        own = [_visible(shorten(self.text(index, int(row)), 60)) for index, row in zip(indices, cell)]
        return f"{relation}({', '.join(own)})"

    # --- numbers → addresses

    def address(self, index: str, row: int, kind: str = "axis") -> str:
        """The page of an entity; kind: "picture" for that of its pictures."""
        labels = self.fit.entities[index]
        page = f"/{kind}/{quote(labels.axis, safe='')}"
        text = _sayable(labels, int(row))
        if text is None:
            return f"{page}?row={int(row)}"
        if text in ("", ".", "..") or text.endswith(TWIN) or "\n" in text:
            return f"{page}?{urlencode({'name': text})}"
        return f"{page}/{quote(text, safe='')}"

    def query(self, index: str, row: int) -> tuple[str, str]:
        """What names an entity in a query or a form: `user=ann`, or `user.row=17`."""
        text = _sayable(self.fit.entities[index], int(row))
        return (f"{index}.row", str(int(row))) if text is None else (index, text)

    def cell_query(self, relation: str, cell: Sequence[int] | Rows, prefix: str = "") -> list[tuple[str, str]]:
        """What names a cell in a query or a form."""
        own = [self.query(i, int(row)) for i, row in zip(self.fit.model.equation(relation).indices, cell)]
        return [(prefix + key, value) for key, value in own]

    def cell_address(self, relation: str, cell: Sequence[int] | Rows) -> str:
        """The page of a cell."""
        query = urlencode(self.cell_query(relation, cell))
        return f"/relation/{quote(relation, safe='')}/cell" + (f"?{query}" if query else "")

    # --- text → numbers

    def axis(self, name: str) -> str:
        """An axis, or that of an index; others are refused."""
        known = (*self.fit.model.axes, *self.fit.model.visible)
        if name not in known:
            near = suggestion(shorten(name), known)
            hint = f"{near}Its axes are {', '.join(self.fit.model.axes) or 'none'}."
            raise Refused(404, f"the model has no axis {shorten(name)!r}.", hint)
        return self.fit.entities[name].axis

    def relation(self, name: str) -> str:
        """A relation; others are refused."""
        known = self.fit.model.relations
        if name not in known:
            hint = f"{suggestion(shorten(name), known)}Its relations are {', '.join(known)}."
            raise Refused(404, f"the model has no relation {shorten(name)!r}.", hint)
        return name

    def row(self, index: str, text: str | None, number: str | None = None) -> int:
        """The number of an entity, by its name as text, or by that number itself."""
        labels = self.fit.entities[index]
        if number is not None:
            return _numbered(labels, number)
        try:
            return row_named(labels, read_label(labels, text or "", index), index)
        except DataError as error:
            what = f"{shorten(text or '')!r} is no entity of axis {labels.axis}."
            raise Refused(404, what, error.hint or "") from None

    def rows_of_text(self, index: str, texts: pl.Series) -> Rows:
        """The numbers of entities of a table that has names as text, as polars writes them."""
        labels = self.fit.entities[index]
        own = kind(labels.names)
        if own in ("strings", "integers"):
            return labels.encode(texts if own == "strings" else texts.cast(labels.names.dtype))
        table = pl.DataFrame({"text": labels.names.cast(pl.String), "row": np.arange(len(labels))})
        return pl.DataFrame({"text": texts}).join(table, on="text", how="left", maintain_order="left")["row"].to_numpy()

    def cell(self, relation: str, fields: Mapping[str, str], prefix: str = "") -> Rows:
        """The row numbers of a cell that a query names."""
        indices, rows = self.fit.model.equation(relation).indices, []
        for index in indices:
            text, number = fields.get(prefix + index), fields.get(f"{prefix}{index}.row")
            if text is None and number is None:
                raise Refused(400, f"which {index}? A cell of {relation} needs {', '.join(indices)}.",
                              f"Add {prefix}{index}=… to the address.")  # fmt: skip
            rows.append(self.row(index, text, number))
        return np.array(rows, np.int64)

    def keys(self, relation: str, prefix: str = "") -> list[str]:
        """What a query may call the parts of a cell."""
        indices = self.fit.model.equation(relation).indices
        return [f"{prefix}{index}{way}" for index in indices for way in ("", ".row")]


def _sayable(labels: Labels, row: int) -> str | None:
    """A name as text that an address can hold and that means this name again; else None."""
    own = kind(labels.names)
    if own not in ("strings", "times without zone", *PARSERS):
        return None
    text = write_label(labels[row])
    return text if len(text) <= LONGEST and len(quote(text, safe="")) <= LONGEST else None


def _numbered(labels: Labels, number: str) -> int:
    try:
        return whole(number, f"the row of axis {labels.axis}", 0, len(labels) - 1)
    except Refused as refused:
        raise Refused(404, refused.what, refused.hint) from None


def _visible(text: str) -> str:
    """A name that can be clicked at."""
    return text if text.strip() else f"“{text}”"
