"""One relation into blocks: its rows are dealt into ranges of the root axis, each is sorted, and cut into leaves.

Where cells may be listed twice and are added up, how many entries there are is known only when all are sorted: sorted
ranges then wait until the leaves can be cut. Else every row is an entry, and blocks are written as ranges are sorted.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from plait.data.binding.bind import missing_of, together, unlisted_weight
from plait.data.binding.entries import Entries, settled
from plait.data.binding.self_links import (
    all_of,
    is_square,
    refuse_nothing_else,
    refuse_senseless,
)
from plait.data.blocks.cutting import cut
from plait.data.blocks.faults import Faults
from plait.data.blocks.file import to_pieces
from plait.data.blocks.folder import Draft
from plait.data.blocks.loops import count_rows
from plait.data.blocks.memory import MOST_PARTS, range_count, range_entries, spool_bytes
from plait.data.blocks.reader import Reader, Values
from plait.data.blocks.records import AsColumns, AsWords, Keeping, Sorted, SortedColumns
from plait.data.blocks.spool import Spool
from plait.data.blocks.writing import Writer, parted
from plait.data.cells.fibres import Fibres
from plait.data.cells.orders import packed_order
from plait.data.labels.names import Labels
from plait.data.observing.closed import Tables
from plait.data.observing.observed import observe
from plait.data.observing.undirected import groups_of, mirrored
from plait.data.reading.relation import AUTO, Relation
from plait.likelihood import Likelihood
from plait.model.model import Equation
from plait.types import AnyArray

Report = Callable[[int], None]


class Packing:
    """A relation while it is packed."""

    def __init__(
        self,
        draft: Draft,
        number: int,
        relation: Relation,
        reader: Reader,
        equation: Equation,
        names: Mapping[str, Labels],
        room: int,
    ) -> None:
        self.draft, self.number, self.relation, self.reader, self.names = draft, number, relation, reader, names
        self.room, self.equation = room, equation
        self.indices, self.groups, self.doubled = equation.indices, groups_of(equation), equation.doubled
        self.axes = [names[index].axis for index in self.indices]
        self.shape = tuple(len(names[index]) for index in self.indices)
        self.order = packed_order(self.indices, dict(zip(self.indices, self.shape)))
        self.places = [self.indices.index(index) for index in self.order]
        self.sizes = [self.shape[place] for place in self.places]
        self.likelihood = cast("Likelihood", relation.likelihood)
        self.values, self.faults = Values(), Faults()
        self.summed = self.self_links = self.dropped = 0
        self._observe()
        self.keeping = self._keeping()
        self.most = range_entries(room, self.keeping.sorting_bytes)  # entries of a range

    def _observe(self) -> None:
        """What is hidden by name, as binding has it."""
        refuse_senseless(self.relation, self.reader.name, self.axes, self.doubled)
        self.source = self.reader.source
        self.missing, self.put_aside = (
            mirrored(tables, self.indices, self.shape, self.groups)
            for tables in missing_of(self.relation, self.source, self.indices, self.names)
        )
        self.covered = together(self.missing, self.put_aside, self.names)
        pair = ((self.indices[0], self.indices[1]),) if self.relation.diagonal == "missing" else ()
        self.apart = self.doubled or pair
        self.seen = {axis: np.zeros(len(self.names[axis]), bool) for axis in set(self.axes)}
        self.square = is_square(self.axes)
        self.own = np.zeros(self.shape[0] if self.square else 0, bool)  # entities with a listed self-link
        self.loops = False  # whether one of these is a link

    def _keeping(self) -> Keeping:
        found = self.reader.values
        plain = self.reader.weight is None and not self.groups and found.whole and 0 <= found.most < 2**16
        if plain and AsWords.have_room(self.sizes, int(found.most)):
            return AsWords(self.places, self.sizes, int(found.most))
        return AsColumns(self.places, self.sizes)

    # --- dealing

    def entries(self) -> Iterator[tuple[Entries, int, int]]:
        """All rows as entries."""
        return self.reader.entries(self.names, self.covered, self.apart, self.groups)

    def deal(self, report: Report) -> None:
        """Read all rows and deal them into ranges of the root axis."""
        self.lay_out()
        table = np.concatenate([np.full(hi - lo, part, np.uint16) for part, (_, lo, hi) in enumerate(self.spans)])
        plain = not self.covered and not self.apart  # then all names are of rows that are kept
        self.counts = np.zeros(self.sizes[0], np.int64)
        kept = 0
        for entries, _, dropped in self.entries():
            self.self_links += dropped
            kept += len(entries)
            self._look(entries, plain)
            root = entries.coords[:, self.places[0]]
            count_rows(root, self.counts)
            records = self.keeping.keep(entries)
            if self.spool.parts == 1:
                self.spool.put(0, records)
            else:
                self.spool.deal(records, root, table)
            self.spool.settle()
            report(len(entries))
        if plain and self.reader.weight is None:
            self.values = self.reader.values
        if plain:
            for index in self.indices:
                self.seen[self.names[index].axis][self.names[index].encode(self.reader.names[index])] = True
        nothing = Entries(self.source, (), np.zeros((kept, 0)), np.zeros(kept), None)
        with self.reader.naming():
            refuse_nothing_else(nothing, self.self_links, self.doubled)

    def lay_out(self) -> None:
        """The ranges, with nothing in them."""
        edges = self._edges()
        self.spool = Spool(self.draft.spill, len(edges) - 1, spool_bytes(self.room), f"relation{self.number}")
        self.spans = [((), int(lo), int(hi)) for lo, hi in pairwise(edges)]

    def _edges(self) -> NDArray[np.int64]:
        """Root rows at which ranges end."""
        parts = min(range_count(self.reader.rows, self.most), self.sizes[0])
        return np.linspace(0, self.sizes[0], max(parts, 1) + 1).astype(np.int64)

    def _look(self, entries: Entries, plain: bool) -> None:
        """Remember who is there, what values are like, and which self-links there are.

        plain: whether all rows are kept, so that the first pass has seen the names and values that there are.
        """
        if not plain or self.reader.weight is not None:
            self.values.add(entries.values)
        if not plain:
            for k, axis in enumerate(self.axes):
                self.seen[axis][entries.coords[:, k]] = True
        if self.square:
            on = entries.coords[:, 0] == entries.coords[:, 1]
            self.own[entries.coords[on, 0]] = True
            self.loops = self.loops or bool((entries.values[on] > 0).any())

    # --- sorting

    def write(self, report: Report) -> dict[str, Any]:
        """Sort all ranges and write the blocks; what the manifest says of the relation."""
        sums = self.relation.duplicates == "sum" or bool(self.groups)
        pieces = self._settled_first(report) if sums else partial(self._pieces, report)
        writer = self._writer()
        cuts = cut(self.counts, self.sizes, self._children)
        for piece, end in parted(pieces(), cuts):
            if self.faults:
                continue
            writer.add(piece)
            if end is not None:
                writer.end(end)
        if self.faults:
            self.faults.refuse(self.reader, self.entries(), self.relation.duplicates, self.likelihood)
        return self._said(writer)

    def _writer(self) -> Writer:
        observed = self.relation.observed
        return Writer(
            self.draft, f"relation{self.number}", self.order, self.sizes, self.likelihood, self.values.type,
            zero=1.0 if isinstance(observed, str) else float(observed), weight=self._weight(),
        )  # fmt: skip

    def _weight(self) -> float:
        return 1.0 if isinstance(self.relation.weight, str) else float(self.relation.weight)

    def _children(self, root: int) -> AnyArray:
        """Entries of each row of the second level under a root row."""
        counts = np.zeros(self.sizes[1], np.int64)
        for part, (_, lo, hi) in enumerate(self.spans):
            if lo <= root < hi:
                for piece in self.spool.pieces(part, self.most):
                    below = self.keeping.rows(piece, 1)[self.keeping.rows(piece, 0) == root]
                    count_rows(below, counts)
        return counts

    def _pieces(self, report: Report) -> Iterator[Sorted]:
        """All entries in tree order, a range at a time."""
        for part in range(self.spool.parts):
            yield from self._sorted(self.spool, part, (), self.spans[part][1:], report)

    def _sorted(
        self, spool: Spool, part: int, above: tuple[int, ...], span: tuple[int, int], report: Report
    ) -> Iterator[Sorted]:
        """A part sorted, split before where it is too large; above: the rows that all its entries have."""
        count, level, (lo, hi) = int(spool.counts[part]), len(above), span
        if count == 0:
            return
        if count <= self.most or (hi - lo == 1 and level + 1 == len(self.sizes)):
            found = self._settle(self.keeping.sort(spool.take(part)))
            report(count)
            yield found
            return
        if hi - lo == 1:  # the same row in all: split by the next level
            above, (lo, hi) = (*above, lo), (0, self.sizes[level + 1])
            level += 1
        parts = min(-(-2 * count // self.most), MOST_PARTS, hi - lo)
        edges = lo + (hi - lo) * np.arange(parts + 1) // parts
        table = np.repeat(np.arange(parts), np.diff(edges)).astype(np.uint16)
        finer = Spool(self.draft.spill, parts, spool_bytes(self.room) // 2)
        for piece in spool.pieces(part, self.most):
            rows = self.keeping.rows(piece, level).astype(np.int64) - lo
            finer.deal(piece, rows, table)
            finer.settle()
        spool.drop(part)
        for one in range(parts):
            yield from self._sorted(finer, one, above, (int(edges[one]), int(edges[one + 1])), report)

    def _settle(self, found: Sorted) -> Sorted:
        """Each cell once, or noted as a fault; values that the likelihood does not know are, too."""
        if found.repeats():
            found = self._each_once(found)
        bad = self.likelihood.bad(found.values)
        if bad.any():
            self.faults.add(self._cells(found.coords[bad]))
        return found

    def _each_once(self, found: Sorted) -> Sorted:
        same = np.concatenate([[False], (found.coords[1:] == found.coords[:-1]).all(axis=1)])
        if self.relation.duplicates == "error" and found.writing is None:
            self.faults.add(self._cells(found.coords[same]))
            return found
        labelled = tuple((index, self.names[index]) for index in self.order)
        values = np.asarray(found.values, np.float64)
        entries = Entries(self.source, labelled, found.coords, values, found.weights, None, found.writing)
        if self.relation.duplicates == "error":
            self._note_unlike(found, same)
            if self.faults:
                return found
        once, summed = settled(entries, self.relation.duplicates)
        self.summed += summed
        return SortedColumns(tuple(self.sizes), once.coords, once.values, once.weights)

    def _note_unlike(self, found: Sorted, same: AnyArray) -> None:
        """Cells written in several ways that do not say the same, or twice in one."""
        number = np.cumsum(~same)
        assert found.writing is not None
        order = np.lexsort((found.writing, number))
        again = same & (found.writing[order] == np.roll(found.writing[order], 1))
        unlike = np.zeros(len(found), bool)
        for numbers in (found.values, found.weights):
            if numbers is not None:
                unlike |= same & (numbers != np.concatenate([numbers[:1], numbers[:-1]]))
        if (again | unlike).any():
            self.faults.add(self._cells(found.coords[order][again | unlike]))

    def _cells(self, coords: AnyArray) -> AnyArray:
        """Cells in tree order as those of the relation."""
        return np.ascontiguousarray(coords[:, np.argsort(self.places)])

    def _settled_first(self, report: Report) -> Callable[[], Iterator[Sorted]]:
        """Sort and settle all ranges, and count what is left; they wait in another spool."""
        waiting = Spool(self.draft.spill, len(self.spans), spool_bytes(self.room))
        spans = list(self.spans)
        self.values, counts = Values(), np.zeros(self.sizes[0], np.int64)
        keeping = AsColumns(self.places, self.sizes)
        for part, (_, *span) in enumerate(spans):
            for found in self._sorted(self.spool, part, (), (span[0], span[1]), report):
                self.values.add(np.asarray(found.values, np.float64))
                count_rows(found.coords[:, 0], counts)
                waiting.put(part, keeping.back(found))
                waiting.settle()
        self.spool, self.counts, self.keeping = waiting, counts, keeping

        def pieces() -> Iterator[Sorted]:
            for part in range(waiting.parts):
                for piece in waiting.pieces(part, self.most):
                    yield keeping.read(piece)
                waiting.drop(part)

        return pieces

    # --- the manifest

    def _said(self, writer: Writer) -> dict[str, Any]:
        diagonal, missing, hidden = self._diagonal()
        seen = {index: self.seen[axis] for index, axis in zip(self.indices, self.axes)}
        observed = self._observed_cells(writer, seen, hidden)
        relation = self.relation
        arrays: dict[str, AnyArray] = {}
        for index in self.indices:
            arrays[f"value/{index}"], arrays[f"weight/{index}"] = writer.marginals[index]
            arrays[f"seen/{index}"] = seen[index].view(np.uint8)
        for kind, tables in (("missing", missing), ("hidden", self.put_aside)):
            for n, coords in enumerate(tables.values()):
                arrays[f"{kind}/{n}"] = (
                    np.ascontiguousarray(coords)
                    .reshape(-1)
                    .astype(np.uint32 if coords.dtype.itemsize <= 4 else np.uint64)
                )
        totals = self.draft.put(f"relation{self.number}-totals.safetensors", *to_pieces(arrays))
        return {
            "indices": list(self.indices),
            "shape": list(self.shape),
            "order": list(self.order),
            "entries": writer.entries,
            "links": writer.links,
            "zeros": writer.zeros,
            "rows": self.reader.rows,
            "likelihood": self.likelihood.to_words(),
            "options": {
                "observed": relation.observed, "universe": relation.universe, "weight": relation.weight,
                "duplicates": relation.duplicates, "diagonal": relation.diagonal, "value": relation.value,
                "strip": relation.strip,
            },
            "open_weight": relation.weight == AUTO,
            "columns": dict(relation.columns or {}),
            "types": {
                "rows": [kind.name for kind in writer.rows], "starts": "uint32", "entries": writer.kind.name,
                "weights": self.reader.weight is not None,
            },
            "sums": list(writer.sums),
            "values": [writer.least if writer.links else 0.0, writer.most],
            "missing": [list(over) for over in missing],
            "hidden": [list(over) for over in self.put_aside],
            "diagonal": diagonal,
            "summed": self.summed,
            "self_links": self.self_links if self.doubled else 0,
            "observed_cells": observed,
            "totals": totals,
            "blocks": writer.blocks,
        }  # fmt: skip

    def _diagonal(self) -> tuple[str, Tables, Tables]:
        """What became of the diagonal; and with it, all that is missing, and all that is hidden."""
        pairs: Tables = {pair: all_of(len(self.names[pair[0]])) for pair in self.apart}
        missing = together(self.missing, pairs, self.names)
        hidden = together(missing, self.put_aside, self.names)
        if self.doubled:
            return "missing", missing, hidden
        if not self.square:
            return "", missing, hidden
        said = self.relation.diagonal
        diagonal = said if said != "auto" else "observed" if self.loops else "missing"
        if said == "auto" and diagonal == "missing":
            named = self.own.copy()
            aside = self.put_aside.get(self.indices)
            if aside is not None:
                named[aside[aside[:, 0] == aside[:, 1], 0]] = True
            never = {self.indices: all_of(len(named))[~named]}
            missing, hidden = together(missing, never, self.names), together(hidden, never, self.names)
        return diagonal, missing, hidden

    def _observed_cells(self, writer: Writer, seen: Mapping[str, NDArray[np.bool_]], hidden: Tables) -> int:
        """How many cells have M > 0: those that are open, but for listed ones that weigh nothing."""
        unlisted = unlisted_weight(self.relation, self.source)
        if self._weight() == 0:
            return 0
        if unlisted == 0:
            return writer.entries - writer.weightless
        nothing = Fibres.of(self.indices, self.shape, np.zeros((0, len(self.indices)), np.uint32))
        universe = seen if self.relation.universe == "relation" else {}
        found = observe(self.indices, self.shape, nothing, np.zeros(0), unlisted, universe, hidden, 1.0, self.groups)
        return found.observed_cells - writer.weightless
