"""Addresses of entities and cells, and search-as-you-type over names.

An entity's page is `/axis/<axis>/<name>`. Names that a path cannot carry use `?name=`: `.` and `..` are path steps,
`.json` is the page's JSON, and a path has one line and is not empty. Names too long for an address, and those that text
does not identify (times with a zone), use `?row=`.

Search scans one casefolded text of all names and titles of an axis, one per line; matches at the beginning of a name
come first. There is no work per entity, so a million names take milliseconds.
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
from plait.analysis.titled_tables import name_with_title
from plait.data.encoding.columns import kind
from plait.data.encoding.names import PARSERS, Labels, listed, read_label, write_label
from plait.errors import DataError, suggestion
from plait.explore.request import Refused, shorten, whole
from plait.rendering.document import Ref
from plait.result import Fit

LINE = b"\n"
MAX_SCANNED_MATCHES = 500  # before matches at beginnings of names are searched separately


@dataclass(frozen=True, eq=False)
class Index:
    """Names of an axis: text with a line break before, between and after them; `begins`: end of each line."""

    text: bytes
    begins: Rows
    size: int  # number of entities; titles follow them

    @classmethod
    def of(cls, names: pl.Series, titles: pl.Series | None = None) -> "Index":
        """Index of names in row order, and their titles by row."""
        columns = [names.cast(pl.String)] + ([] if titles is None else [titles.fill_null("")])
        plain = pl.concat([column.str.replace_all("[\r\n]", " ").rename("name") for column in columns])
        text = b"\n" + fold("\n".join(plain.to_list())).encode() + b"\n"
        return cls(text, np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")), len(names))

    def find(self, query: str, most: int) -> tuple[list[int], bool]:
        """First rows whose name or title contains the query, prefixes first; and whether there are more."""
        wanted = fold(query).replace("\n", " ").replace("\r", " ").encode()
        if not wanted:
            return [], False
        places, everything = self._lines(wanted, 0, max(MAX_SCANNED_MATCHES, most + 1))
        if everything:
            first = [line for place, line in places if place == self.begins[line] + 1]
        else:  # names further down may begin with it
            first = [line for _, line in self._lines(LINE + wanted, 1, most + 1)[0]]
        rows = dict.fromkeys(line % self.size for line in (*first, *(line for _, line in places)))
        matches = list(rows)
        return matches[:most], len(matches) > most

    def _lines(self, sought: bytes, ahead: int, most: int) -> tuple[list[tuple[int, int]], bool]:
        """Positions in the text and their lines, the first in each line, at most `most`; and whether these are all.

        `ahead`: number of letters of `sought` before the line.
        """
        spans: list[tuple[int, int]] = []
        place = self.text.find(sought)
        while place >= 0 and len(spans) < most:
            line = int(np.searchsorted(self.begins, place + ahead, "right")) - 1
            spans.append((place, line))
            place = self.text.find(sought, int(self.begins[line + 1]) + 1 - ahead)
        return spans, place < 0


def fold(text: str) -> str:
    """Casefolded text for comparison."""
    return unicodedata.normalize("NFC", text).casefold()


def indices_of(fit: Fit) -> dict[str, Index]:
    """Search index by axis."""
    titles = {axis: fit.titles[axis].column for axis in fit.model.axes if axis in fit.titles}
    return {axis: Index.of(fit.entities[axis].names, titles.get(axis)) for axis in fit.model.axes}


MAX_NAME_BYTES = 1500  # in an address
MAX_NAME_CHARACTERS = 100  # in a table
TWIN = ".json"


class EntityUrls:
    """Entities of a fit, by number, by text, and by address."""

    def __init__(self, fit: Fit) -> None:
        self.fit = fit

    # --- numbers → text

    def label(self, index: str, row: int) -> Any:
        return self.fit.entities[index][int(row)]

    def title(self, index: str, row: int) -> str | None:
        """Title, if any."""
        own = self.fit.titles.get(index)
        return None if own is None else own.column[int(row)]

    def text(self, index: str, row: int) -> str:
        """Name with its title."""
        return name_with_title(write_label(self.label(index, row)), self.title(index, row))

    def ref(self, index: str, row: int) -> Ref:
        """Name as a link to its page."""
        return Ref(_visible(shorten(self.text(index, row), MAX_NAME_CHARACTERS)), self.address(index, row))

    def of_cell(self, relation: str, cell: Sequence[int] | Rows) -> dict[str, Any]:
        """A cell by names."""
        indices = self.fit.model.equation(relation).indices
        return {index: self.label(index, int(row)) for index, row in zip(indices, cell)}

    def cell_text(self, relation: str, cell: Sequence[int] | Rows) -> str:
        """A cell as text: ``visits(ann, cafe)``."""
        indices = self.fit.model.equation(relation).indices
        own = [_visible(shorten(self.text(index, int(row)), 60)) for index, row in zip(indices, cell)]
        return f"{relation}({', '.join(own)})"

    # --- numbers → addresses

    def address(self, index: str, row: int, kind: str = "axis") -> str:
        """Page of an entity; `kind`: "map" for the map around it."""
        labels = self.fit.entities[index]
        page = f"/{kind}/{quote(labels.axis, safe='')}"
        text = _sayable(labels, int(row))
        if text is None:
            return f"{page}?row={int(row)}"
        if text in ("", ".", "..") or text.endswith(TWIN) or "\n" in text:
            return f"{page}?{urlencode({'name': text})}"
        return f"{page}/{quote(text, safe='')}"

    def query(self, index: str, row: int) -> tuple[str, str]:
        """Query parameter of an entity: `user=ann`, or `user.row=17`."""
        text = _sayable(self.fit.entities[index], int(row))
        return (f"{index}.row", str(int(row))) if text is None else (index, text)

    def cell_query(self, relation: str, cell: Sequence[int] | Rows, prefix: str = "") -> list[tuple[str, str]]:
        """Query parameters of a cell."""
        own = [self.query(i, int(row)) for i, row in zip(self.fit.model.equation(relation).indices, cell)]
        return [(prefix + key, value) for key, value in own]

    def cell_address(self, relation: str, cell: Sequence[int] | Rows) -> str:
        """Page of a cell."""
        query = urlencode(self.cell_query(relation, cell))
        return f"/relation/{quote(relation, safe='')}/cell" + (f"?{query}" if query else "")

    # --- text → numbers

    def axis(self, name: str) -> str:
        """An axis, or that of an index; others are refused."""
        known = (*self.fit.model.axes, *self.fit.model.visible)
        if name not in known:
            near = suggestion(shorten(name), known)
            hint = f"{near}The axes are {', '.join(self.fit.model.axes) or 'none'}."
            raise Refused(404, f"the model has no axis {shorten(name)!r}.", hint)
        return self.fit.entities[name].axis

    def relation(self, name: str) -> str:
        """A relation; others are refused."""
        known = self.fit.model.relations
        if name not in known:
            hint = f"{suggestion(shorten(name), known)}The relations are {', '.join(known)}."
            raise Refused(404, f"the model has no relation {shorten(name)!r}.", hint)
        return name

    def row(self, index: str, text: str | None, number: str | None = None) -> int:
        """Row number of an entity, from its name as text, or from that number."""
        labels = self.fit.entities[index]
        if number is not None:
            return _numbered(labels, number)
        try:
            return row_named(labels, read_label(labels, text or "", index), index)
        except DataError as error:
            have = shorten(listed(labels.names), 300)
            what = f"{shorten(text or '')!r} is not an entity of axis {labels.axis}, which has {have}."
            raise Refused(404, what, error.hint or "") from None

    def rows_of_text(self, index: str, texts: pl.Series) -> Rows:
        """Row numbers of names as text, in the format of polars."""
        labels = self.fit.entities[index]
        own = kind(labels.names)
        if own in ("strings", "integers"):
            return labels.encode(texts if own == "strings" else texts.cast(labels.names.dtype))
        table = pl.DataFrame({"text": labels.names.cast(pl.String), "row": np.arange(len(labels))})
        return pl.DataFrame({"text": texts}).join(table, on="text", how="left", maintain_order="left")["row"].to_numpy()

    def cell(self, relation: str, fields: Mapping[str, str], prefix: str = "") -> Rows:
        """Row numbers of a cell, from query parameters."""
        indices, rows = self.fit.model.equation(relation).indices, []
        for index in indices:
            text, number = fields.get(prefix + index), fields.get(f"{prefix}{index}.row")
            if text is None and number is None:
                raise Refused(400, f"the index {index} is missing: a cell of {relation} needs {', '.join(indices)}.",
                              f"Add {prefix}{index}=… to the address.")  # fmt: skip
            rows.append(self.row(index, text, number))
        return np.array(rows, np.int64)

    def keys(self, relation: str, prefix: str = "") -> list[str]:
        """Possible query parameters of a cell."""
        indices = self.fit.model.equation(relation).indices
        return [f"{prefix}{index}{way}" for index in indices for way in ("", ".row")]


def _sayable(labels: Labels, row: int) -> str | None:
    """Text of a name that fits an address and identifies the name; else None."""
    own = kind(labels.names)
    if own not in ("strings", "times without zone", *PARSERS):
        return None
    text = write_label(labels[row])
    return text if len(text) <= MAX_NAME_BYTES and len(quote(text, safe="")) <= MAX_NAME_BYTES else None


def _numbered(labels: Labels, number: str) -> int:
    try:
        return whole(number, f"the row of axis {labels.axis}", 0, len(labels) - 1)
    except Refused as refused:
        raise Refused(404, refused.what, refused.hint) from None


def _visible(text: str) -> str:
    """A name that can be clicked."""
    return text if text.strip() else f"“{text}”"
