"""Listed cells of one relation: without hidden ones, checked, sorted, each once.

Usually a cell and its value fit into one integer; these are written in chunks and sorted in place (`sparse.words`).
Otherwise cells are sorted as `Entries`: with weights, in undirected relations, where values are nearly all different,
and where something is to be refused, since only entries know their rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.binding.entries import Entries, checked, entries_of, merge_duplicates, refuse_values, without_hidden
from plait.data.binding.self_links import Diagonal, Pairs, refuse_nothing_else, without_self_links
from plait.data.encoding.names import Labels
from plait.data.observation.structural_zeros import Tables
from plait.data.observation.symmetry import Groups
from plait.data.sources.arrays import ArraySource
from plait.data.sources.relation import Relation, Source
from plait.data.sources.tables import TableSource
from plait.data.sparse.csf import narrow
from plait.data.sparse.csf_index import CSFIndex
from plait.data.sparse.keys import columns_of
from plait.data.sparse.parallel import by_pieces
from plait.data.sparse.sorting import is_uniform
from plait.data.sparse.words import MAX_CODES, CellWords, Codes, WordFormat
from plait.machine import in_range
from plait.tuning import TUNING

if TYPE_CHECKING:
    from plait.likelihood import Likelihood


class ListedValues(Protocol):
    """The largest value, and whether all are integers."""

    most: float
    whole: bool


class Stream(Protocol):
    """A table that is read twice in batches; `value`, `weight`: its columns."""

    rows: int
    value: str | None
    weight: str | None

    @property
    def values(self) -> ListedValues: ...

    @property
    def source(self) -> TableSource:
        """The table without its rows; labels are the distinct names."""

    def entries(
        self, names: Mapping[str, Labels], hidden: Tables, apart: Pairs, groups: Groups
    ) -> Iterator[tuple[Entries, int, int]]:
        """All rows as checked entries without hidden ones; with each its position, and the number of
        dropped self-links.
        """


@dataclass(frozen=True, eq=False)
class ListingRequest:
    """Cells of a source to list, except those of hidden tables. `stream`: its rows, if they are not in the source.

    `apart`: pairs of indices without self-links. `put_aside`: tables of held-out cells.
    """

    relation: Relation
    source: Source
    indices: tuple[str, ...]
    names: Mapping[str, Labels]
    covered: Tables
    put_aside: Tables
    apart: Pairs
    doubled: Pairs
    groups: Groups
    stream: Stream | None = None

    def in_memory(self) -> "ListingRequest":
        """The request with all rows of the source."""
        if self.stream is None:
            return self
        source = self.relation.read(self.source.name, self.indices, self.groups)
        return replace(self, source=source, stream=None)

    @property
    def likelihood(self) -> "Likelihood | None":
        return self.relation.named_likelihood

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(self.names[index]) for index in self.indices)

    @property
    def sums(self) -> bool:
        """Whether duplicates are summed; in sparse arrays always."""
        return self.relation.duplicates == "sum" or isinstance(self.source, ArraySource)

    def diagonal(self) -> Diagonal:
        """The self-links of two indices on one axis, before any entry."""
        axes = [self.names[index].axis for index in self.indices]
        dense = isinstance(self.source, ArraySource) and self.source.dense
        return Diagonal(self.relation.self_links, self.indices, axes, self.shape, self.doubled, dense=dense)


@dataclass(frozen=True, eq=False)
class Listing:
    """Sorted distinct cells; values (n,), weights (n,) or None; `seen`: which entities occur, by index.

    `summed`: number of entries that were added to another one.
    """

    cells: CSFIndex
    values: NDArray[Any]
    weights: Array | None
    seen: dict[str, NDArray[np.bool_]]
    diagonal: Diagonal
    dropped_self_links: int
    summed: int


def list_cells(asked: ListingRequest) -> Listing:
    listing = None if asked.stream is None else _by_stream(asked, asked.stream)
    if listing is None:
        asked = asked.in_memory()
        listing = _by_words(asked)
    return _by_entries(asked) if listing is None else listing


class _Mentioned:
    """Entities that occur: all of an array, the nodes of a graph, those of unhidden rows of a table.

    Indices on one axis share them: an entity that is only ever a friend, and never a user, is included.
    """

    def __init__(self, asked: ListingRequest) -> None:
        self.asked, self._labels = asked, [asked.names[index] for index in asked.indices]
        self._by_axis = {labels.axis: np.zeros(len(labels), bool) for labels in self._labels}

    def add(self, coords: AnyArray) -> None:
        """Mark the entities of cells (n, order)."""
        for k, labels in enumerate(self._labels):
            self._by_axis[labels.axis][coords[:, k]] = True

    def by_index(self) -> dict[str, NDArray[np.bool_]]:
        """Entities by index; empty for an array."""
        source = self.asked.source
        if isinstance(source, ArraySource):
            return {}
        for index, nodes in source.entities.items():
            labels = self.asked.names[index]
            self._by_axis[labels.axis][labels.encode(nodes)] = True
        return {index: self._by_axis[labels.axis] for index, labels in zip(self.asked.indices, self._labels)}


# --- by entries


def _by_entries(asked: ListingRequest) -> Listing:
    entries = without_hidden(entries_of(asked.source, asked.indices, asked.names), asked.covered)
    entries, dropped = without_self_links(entries, asked.apart)
    refuse_nothing_else(entries, dropped, asked.doubled)
    entries = checked(entries).in_one_way(asked.groups)
    mentioned, diagonal = _Mentioned(asked), asked.diagonal()
    by_pieces(partial(_mark, mentioned, entries), 0 if isinstance(asked.source, ArraySource) else len(entries))
    diagonal.look(entries.coords, entries.values)
    entries = without_hidden(entries, diagonal.never(asked.put_aside))
    entries, summed = merge_duplicates(entries, asked.relation.duplicates)
    refuse_values(entries, asked.likelihood, summed=summed > 0)
    cells = CSFIndex.of(asked.indices, asked.shape, entries.coords)
    return Listing(
        cells, narrow(entries.values), entries.weights, mentioned.by_index(), diagonal, dropped, summed
    )  # fmt: skip


def _mark(mentioned: _Mentioned, entries: Entries, rows: slice) -> None:
    mentioned.add(entries.coords[rows])


# --- by words


def _by_words(asked: ListingRequest) -> Listing | None:
    """None where words do not hold cells and values, or where something is to be refused."""
    source = asked.source
    dense, weights = (source.dense, None) if isinstance(source, ArraySource) else (False, source.weights)
    count = len(source.values) if isinstance(source, ArraySource) else source.rows
    if dense or weights is not None or asked.groups or not asked.indices or count < TUNING.min_threaded_rows:
        return None
    codes = _codes(source, count)
    if codes is None or not (how := WordFormat(asked.shape, codes.bits)).fits:
        return None
    encoded = _EncodedRows(asked, CellWords(how, count), codes)
    by_pieces(encoded.take, count)
    return encoded.listing()


def _by_stream(asked: ListingRequest, stream: Stream) -> Listing | None:
    """The same for a table that is read in batches."""
    most = stream.values.most if stream.values.whole else np.inf
    if most >= MAX_CODES:
        return None
    codes = Codes(0 if stream.value is None else max(int(most).bit_length(), 1))
    how = WordFormat(asked.shape, codes.bits)
    if (
        stream.weight is not None
        or asked.groups
        or not asked.indices
        or stream.rows < TUNING.min_threaded_rows
        or not how.fits
    ):
        return None
    encoded, at = _EncodedRows(asked, CellWords(how, stream.rows), codes), 0
    for entries, _, dropped in stream.entries(asked.names, asked.covered, asked.apart, asked.groups):
        encoded.put(at, entries, dropped)
        at += len(entries)
    return encoded.listing()


def _codes(source: Source, count: int) -> Codes | None:
    """Encoding of values; None where they cannot be encoded."""
    numbers = source.values if isinstance(source, ArraySource) else source.numbers
    if isinstance(numbers, np.ndarray) and is_uniform(numbers) and numbers[0] == 1:
        return Codes(0)
    codes = Codes.of(source.values.__getitem__ if isinstance(source, ArraySource) else source.values_in, count)
    # Values written without a list are small integers; listed ones may have to be refused.
    return None if codes is None or (codes.listed is not None and not in_range(codes.listed).all()) else codes


class _EncodedRows:
    """Rows of a source being written into words, in chunks and on threads."""

    def __init__(self, asked: ListingRequest, words: CellWords, codes: Codes) -> None:
        self.asked, self.words, self.codes = asked, words, codes
        self.mentioned, self.diagonal = _Mentioned(asked), asked.diagonal()
        self.dropped, self.stretches = list[int](), list[tuple[int, int]]()

    def take(self, rows: slice) -> None:
        asked, dropped = self.asked, 0
        entries = entries_of(asked.source, asked.indices, asked.names, rows)
        if asked.covered:
            entries = without_hidden(entries, asked.covered)
        if asked.apart:
            entries, dropped = without_self_links(entries, asked.apart)
        self.put(rows.start, entries, dropped)

    def put(self, at: int, entries: Entries, dropped: int) -> None:
        """Write entries from a position on; `dropped`: number of self-links left out."""
        self.mentioned.add(entries.coords)
        self.diagonal.look(entries.coords, entries.values)
        self.words.write(at, columns_of(entries.coords), self.codes.encode(entries.values))
        self.stretches.append((at, len(entries)))
        self.dropped.append(dropped)

    def listing(self) -> Listing | None:
        """Sorted cells; None where something is to be refused."""
        self.words.close(sorted(self.stretches))
        if len(self.words) == 0:
            return None
        self.words.sort()
        listing = self.words.read(self.asked.indices)
        if listing.summed and (self.codes.listed is not None or not self.asked.sums):
            return None
        values = narrow(self.codes.decode(listing.values))
        if self._are_bad(values):
            return None
        seen, dropped = self.mentioned.by_index(), sum(self.dropped)
        return Listing(listing.cells, values, None, seen, self.diagonal, dropped, listing.summed)

    def _are_bad(self, values: NDArray[Any]) -> bool:
        """Whether the likelihood refuses one of the values."""
        likelihood = self.asked.likelihood
        if likelihood is None:  # it will be chosen to suit them
            return False
        bad: list[bool] = []

        def look(rows: slice) -> None:
            bad.append(bool(likelihood.bad(values[rows].astype(np.float64)).any()))

        by_pieces(look, len(values))
        return any(bad)
