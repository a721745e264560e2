"""The listed cells of one relation: hidden ones dropped, checked, sorted, each once.

Most often a cell and its value fit into one word, and words are made piece by piece and sorted where they stand
(`sparse.words`). All else goes the long way, by entries as they came: cells with weights or without a direction, values
that are nearly all different; and tables in which something is to be refused, for only entries know their rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.binding.entries import Entries, checked, entries_of, refuse_values, settled, without_hidden
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
from plait.data.sparse.parallel import MANY, by_pieces
from plait.data.sparse.sorting import is_uniform
from plait.data.sparse.words import MOST_CODES, CellWords, Codes, WordFormat
from plait.machine import in_range

if TYPE_CHECKING:
    from plait.likelihood import Likelihood


class ListedValues(Protocol):
    """What is known of all values: the largest one, and whether all are whole."""

    most: float
    whole: bool


class Stream(Protocol):
    """A table that has been gone through once, and is so again, batch by batch; value, weight: columns that it has."""

    rows: int
    value: str | None
    weight: str | None

    @property
    def values(self) -> ListedValues:
        """What its values are like."""

    @property
    def source(self) -> TableSource:
        """The table without its rows: labels are each name once."""

    def entries(
        self, names: Mapping[str, Labels], hidden: Tables, apart: Pairs, groups: Groups
    ) -> Iterator[tuple[Entries, int, int]]:
        """All rows as entries: those that are not hidden, checked; with each some number, and self-links dropped."""


@dataclass(frozen=True, eq=False)
class ListingRequest:
    """What is to be listed: the cells of a source that no table covers. stream: where its rows are, if not in it.

    apart: pairs of indices between which there are no self-links. put_aside: tables of cells that are to be predicted.
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
        """The same with all rows of the source."""
        if self.stream is None:
            return self
        source = self.relation.read(self.source.name, self.indices, self.groups)
        return replace(self, source=source, stream=None)

    @property
    def likelihood(self) -> "Likelihood":
        """Words were made one."""
        return cast("Likelihood", self.relation.likelihood)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(len(self.names[index]) for index in self.indices)

    @property
    def sums(self) -> bool:
        """Whether what is listed twice is added up: in sparse arrays it always is."""
        return self.relation.duplicates == "sum" or isinstance(self.source, ArraySource)

    def diagonal(self) -> Diagonal:
        """That of two indices on one axis, of which nothing is known yet."""
        axes = [self.names[index].axis for index in self.indices]
        dense = isinstance(self.source, ArraySource) and self.source.dense
        return Diagonal(self.relation.self_links, self.indices, axes, self.shape, self.doubled, dense=dense)


@dataclass(frozen=True, eq=False)
class Listing:
    """Cells in order and each once; values (n,), weights (n,) or None; seen: which entities occur, by index.

    dropped_self_links: links that were dropped, summed: entries that were added to another one.
    """

    cells: CSFIndex
    values: NDArray[Any]
    weights: Array | None
    seen: dict[str, NDArray[np.bool_]]
    diagonal: Diagonal
    dropped_self_links: int
    summed: int


def list_cells(asked: ListingRequest) -> Listing:
    """The listed cells of a relation."""
    found = None if asked.stream is None else _by_stream(asked, asked.stream)
    if found is None:
        asked = asked.in_memory()
        found = _by_words(asked)
    return _by_entries(asked) if found is None else found


class _Mentioned:
    """Which entities occur: all those of an array; the nodes of a graph; those that an unhidden row mentions.

    Indices that share an axis share this too: who is only ever a friend, and never a user, is here none the less.
    """

    def __init__(self, asked: ListingRequest) -> None:
        self.asked, self._labels = asked, [asked.names[index] for index in asked.indices]
        self._by_axis = {labels.axis: np.zeros(len(labels), bool) for labels in self._labels}

    def add(self, coords: AnyArray) -> None:
        """Mark those of some cells (n, order)."""
        for k, labels in enumerate(self._labels):
            self._by_axis[labels.axis][coords[:, k]] = True

    def by_index(self) -> dict[str, NDArray[np.bool_]]:
        """By index those of its axis; none of an array."""
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
    entries, summed = settled(entries, asked.relation.duplicates)
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
    if dense or weights is not None or asked.groups or not asked.indices or count < MANY:
        return None
    codes = _codes(source, count)
    if codes is None or not (how := WordFormat(asked.shape, codes.bits)).fits:
        return None
    dealt = _Dealt(asked, CellWords(how, count), codes)
    by_pieces(dealt.take, count)
    return dealt.listing()


def _by_stream(asked: ListingRequest, stream: Stream) -> Listing | None:
    """The same of a table that is not in memory, and need not be as a whole."""
    most = stream.values.most if stream.values.whole else np.inf
    if most >= MOST_CODES:
        return None
    codes = Codes(0 if stream.value is None else max(int(most).bit_length(), 1))
    how = WordFormat(asked.shape, codes.bits)
    if stream.weight is not None or asked.groups or not asked.indices or stream.rows < MANY or not how.fits:
        return None
    dealt, at = _Dealt(asked, CellWords(how, stream.rows), codes), 0
    for entries, _, dropped in stream.entries(asked.names, asked.covered, asked.apart, asked.groups):
        dealt.put(at, entries, dropped)
        at += len(entries)
    return dealt.listing()


def _codes(source: Source, count: int) -> Codes | None:
    """How values are written; None where they cannot be."""
    numbers = source.values if isinstance(source, ArraySource) else source.numbers
    if isinstance(numbers, np.ndarray) and is_uniform(numbers) and numbers[0] == 1:
        return Codes(0)
    codes = Codes.of(source.values.__getitem__ if isinstance(source, ArraySource) else source.values_in, count)
    # What is written as it is is whole and small; what is listed may be to be refused.
    return None if codes is None or (codes.listed is not None and not in_range(codes.listed).all()) else codes


class _Dealt:
    """Rows of a source on their way into words, a piece at a time and on threads."""

    def __init__(self, asked: ListingRequest, words: CellWords, codes: Codes) -> None:
        self.asked, self.words, self.codes = asked, words, codes
        self.mentioned, self.diagonal = _Mentioned(asked), asked.diagonal()
        self.dropped, self.stretches = list[int](), list[tuple[int, int]]()

    def take(self, rows: slice) -> None:
        """Write some rows."""
        asked, dropped = self.asked, 0
        entries = entries_of(asked.source, asked.indices, asked.names, rows)
        if asked.covered:
            entries = without_hidden(entries, asked.covered)
        if asked.apart:
            entries, dropped = without_self_links(entries, asked.apart)
        self.put(rows.start, entries, dropped)

    def put(self, at: int, entries: Entries, dropped: int) -> None:
        """Write some entries from a place on; dropped: self-links that were among them."""
        self.mentioned.add(entries.coords)
        self.diagonal.look(entries.coords, entries.values)
        self.words.write(at, columns_of(entries.coords), self.codes.encode(entries.values))
        self.stretches.append((at, len(entries)))
        self.dropped.append(dropped)

    def listing(self) -> Listing | None:
        """All that was written, sorted; None where something is to be refused."""
        self.words.close(sorted(self.stretches))
        if len(self.words) == 0:
            return None
        self.words.sort()
        found = self.words.read(self.asked.indices)
        if found.summed and (self.codes.listed is not None or not self.asked.sums):
            return None
        values = narrow(self.codes.decode(found.values))
        if self._are_bad(values):
            return None
        seen, dropped = self.mentioned.by_index(), sum(self.dropped)
        return Listing(found.cells, values, None, seen, self.diagonal, dropped, found.summed)

    def _are_bad(self, values: NDArray[Any]) -> bool:
        """Whether the likelihood does not know one of them."""
        bad: list[bool] = []

        def look(rows: slice) -> None:
            bad.append(bool(self.asked.likelihood.bad(values[rows].astype(np.float64)).any()))

        by_pieces(look, len(values))
        return any(bad)
