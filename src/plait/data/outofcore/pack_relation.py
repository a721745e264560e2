"""Packing of one relation into blocks: rows are partitioned by ranges of the root axis, each range is sorted and cut
into leaves.

Where duplicates are summed, the number of entries is known only after sorting, so sorted ranges are spilled again
before leaves are cut. Else every row is an entry, and blocks are written as ranges are sorted.

Sorted cells do not know their rows. So faulty cells are collected, and a second pass over their rows lets binding raise
the error that data in memory would raise.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.binding.bind import missing_of, together, unlisted_weight
from plait.data.binding.entries import Entries, merge_duplicates, refuse_values
from plait.data.binding.self_links import all_of, is_square, refuse_nothing_else, refuse_senseless
from plait.data.dispersion import (
    MAX_POISSON_VALUE,
    MIN_EXCESS_NATS,
    MIN_LINKS,
    SAMPLE_LINKS,
    excess,
    likelihood_of,
    written,
)
from plait.data.encoding.names import Labels
from plait.data.observation.links import LinkArrays
from plait.data.observation.observed import observe, open_weights
from plait.data.observation.structural_zeros import Tables
from plait.data.observation.symmetry import groups_of, mirrored
from plait.data.observation.weights import along
from plait.data.outofcore.batches import BatchValues, Reader
from plait.data.outofcore.block_file import count_rows, to_pieces
from plait.data.outofcore.block_folder import Draft
from plait.data.outofcore.memory_budget import MAX_RANGES, held_bytes, range_count, range_entries
from plait.data.outofcore.spill import Columns, SortedCells, Spill, Words
from plait.data.outofcore.write_blocks import BlockWriter, cut, parted
from plait.data.sources.relation import AUTO, Relation
from plait.data.sparse.csf_index import CSFIndex, distinct
from plait.data.sparse.keys import Lookup
from plait.data.sparse.leaves import packed_order
from plait.errors import PlaitError
from plait.model.model import Equation

if TYPE_CHECKING:
    from plait.likelihood import Likelihood

MAX_FAULTS = 1 << 20  # collected; beyond, an earlier row may be faulty too


class Faults:
    """Cells (n, order of the relation) that are repeated, or have values that the likelihood refuses."""

    def __init__(self) -> None:
        self._cells: list[AnyArray] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, cells: AnyArray) -> None:
        if self._count < MAX_FAULTS:
            self._cells.append(cells[: MAX_FAULTS - self._count])
        self._count += len(cells)

    def refuse(
        self,
        reader: Reader,
        entries: Iterator[tuple[Entries, int, int]],
        duplicates: str,
        likelihood: "Likelihood | None",
    ) -> None:
        """Raise the error; `entries`: all entries again, as the reader gives them."""
        faulty = _gathered(np.concatenate(self._cells), entries)
        try:
            once, summed = merge_duplicates(faulty, duplicates)
            refuse_values(once, likelihood, summed=summed > 0)
        except PlaitError as error:
            with reader.naming():
                raise error


def _gathered(cells: AnyArray, entries: Iterator[tuple[Entries, int, int]]) -> Entries:
    """All entries of some cells, with their rows in the table."""
    chunks: list[Entries] = []
    lookup: Lookup | None = None
    for batch, first, _ in entries:
        lookup = lookup or Lookup(distinct(cells, batch.sizes), batch.sizes)
        rows = np.arange(len(batch)) if batch.rows is None else batch.rows
        here = np.flatnonzero(lookup.contain(batch.coords))
        chosen = batch.chosen(here)
        object.__setattr__(chosen, "rows", rows[here] + first)
        chunks.append(chosen)
    parts: dict[str, Any] = {
        name: None if getattr(chunks[0], name) is None else np.concatenate([getattr(one, name) for one in chunks])
        for name in ("coords", "values", "weights", "rows", "writing")
    }
    return Entries(chunks[0].source, chunks[0].labels, **parts)


class LinkSample:
    """Links that are evenly spread over entries in tree order, and the number of entries of every row, by level.

    `places`: of the levels among the indices.
    """

    def __init__(self, total: int, sizes: Sequence[int], places: Sequence[int]) -> None:
        self._step, self._places, self._at = max(1, -(-total // SAMPLE_LINKS)), places, 0
        self._found = [LinkArrays.none(len(places))]
        self.counts = [np.zeros(size, np.int64) for size in sizes]

    def add(self, piece: SortedCells) -> None:
        for level, count in enumerate(self.counts):
            count_rows(piece.coords[:, level], count)
        at = np.arange(-self._at % self._step, len(piece), self._step)
        self._at += len(piece)
        at = at[piece.values[at] > 0]
        cells = np.stack(self.by_place(list(piece.coords[at].T)), axis=1)
        self._found.append(LinkArrays(cells, piece.values[at].astype(np.float64), np.ones(len(at))))

    def by_place(self, by_level: Sequence[AnyArray]) -> list[AnyArray]:
        """Arrays by level in the order of the indices."""
        return [by_level[level] for level in np.argsort(self._places)]

    @property
    def links(self) -> LinkArrays:
        return LinkArrays(*map(np.concatenate, zip(*self._found)))


Report = Callable[[int], None]


class Packing:
    """A relation being packed."""

    def __init__(
        self,
        draft: Draft,
        number: int,
        relation: Relation,
        reader: Reader,
        equation: Equation,
        names: Mapping[str, Labels],
        budget: int,
    ) -> None:
        self.draft, self.number, self.relation, self.reader, self.names = draft, number, relation, reader, names
        self.budget, self.equation = budget, equation
        self.indices, self.groups, self.doubled = equation.indices, groups_of(equation), equation.doubled
        self.axes = [names[index].axis for index in self.indices]
        self.shape = tuple(len(names[index]) for index in self.indices)
        self.order = packed_order(self.indices, dict(zip(self.indices, self.shape)))
        self.places = [self.indices.index(index) for index in self.order]
        self.sizes = [self.shape[place] for place in self.places]
        self.likelihood, self.likelihood_by = relation.named_likelihood, relation._likelihood_by
        self.values, self.faults = BatchValues(), Faults()
        self.summed = self.dropped_self_links = self.dropped = 0
        self._observe()
        self.format = self._format()
        self.most = range_entries(budget, self.format.sorting_bytes)  # of entries in a range

    def _observe(self) -> None:
        """Cells that are hidden by name, as in binding."""
        refuse_senseless(self.relation, self.reader.name, self.axes, self.doubled)
        self.source = self.reader.source
        self.missing, self.put_aside = (
            mirrored(tables, self.indices, self.shape, self.groups)
            for tables in missing_of(self.relation, self.source, self.indices, self.names)
        )
        self.covered = together(self.missing, self.put_aside, self.names)
        pair = ((self.indices[0], self.indices[1]),) if self.relation.self_links == "missing" else ()
        self.apart = self.doubled or pair
        self.seen = {axis: np.zeros(len(self.names[axis]), bool) for axis in set(self.axes)}
        self.square = is_square(self.axes)
        self.own = np.zeros(self.shape[0] if self.square else 0, bool)  # entities with a listed self-link
        self.loops = False  # whether one of them is a link

    def _format(self) -> Columns:
        values = self.reader.values
        plain = self.reader.weight is None and not self.groups and values.whole and 0 <= values.most < 2**16
        words = Words(self.places, self.sizes, int(values.most)) if plain else None
        return words if words is not None and words.format.fits else Columns(self.places, self.sizes)

    # --- partitioning

    def entries(self) -> Iterator[tuple[Entries, int, int]]:
        return self.reader.entries(self.names, self.covered, self.apart, self.groups)

    def partition(self, report: Report) -> None:
        """Read all rows and partition them by ranges of the root axis."""
        count = max(min(range_count(self.reader.rows, self.most), self.sizes[0]), 1)
        self.spill, self.edges, parts = self._split(
            f"relation{self.number}", 0, self.sizes[0], count, held_bytes(self.budget)
        )
        plain = not self.covered and not self.apart  # then all rows are kept
        self.counts = np.zeros(self.sizes[0], np.int64)
        kept = 0
        for entries, _, dropped in self.entries():
            self.dropped_self_links += dropped
            kept += len(entries)
            self._look(entries, plain)
            root = entries.coords[:, self.places[0]]
            count_rows(root, self.counts)
            self.spill.add(self.format.of_entries(entries), parts[root] if count > 1 else 0)
            report(len(entries))
        if plain and self.reader.weight is None:
            self.values = self.reader.values
        if plain:
            for index in self.indices:
                self.seen[self.names[index].axis][self.names[index].encode(self.reader.names[index])] = True
        nothing = Entries(self.source, (), np.zeros((kept, 0)), np.zeros(kept), None)
        with self.reader.naming():
            refuse_nothing_else(nothing, self.dropped_self_links, self.doubled)

    def _split(self, name: str, lo: int, hi: int, count: int, held: int) -> tuple[Spill, list[int], NDArray[np.uint16]]:
        """Ranges of the rows lo … hi of a level: a spill for them, their ends, and the range of every row."""
        edges = lo + (hi - lo) * np.arange(count + 1) // count
        parts = np.repeat(np.arange(count), np.diff(edges)).astype(np.uint16)
        return Spill(self.draft.spill, name, count, held), edges.tolist(), parts

    def _look(self, entries: Entries, plain: bool) -> None:
        """Record entities, values and self-links. `plain`: whether all rows are kept, so the first pass has seen names
        and values.
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
        """Sort all ranges and write the blocks; return the relation's part of the manifest."""
        sums = self.relation.duplicates == "sum" or bool(self.groups)
        pieces = self._deduplicated(report) if sums else self._pieces(report)
        writer, sample = self._writer(), LinkSample(int(self.counts.sum()), self.sizes, self.places)
        cuts = cut(self.counts, self.sizes, self._children)
        for piece, end in parted(pieces, cuts):
            if self.faults:
                continue
            writer.add(piece)
            if self.likelihood_by:
                sample.add(piece)
            if end is not None:
                writer.end(end)
        if self.faults:
            self.faults.refuse(self.reader, self.entries(), self.relation.duplicates, self.likelihood)
        if self.likelihood_by:
            self._choose(writer, sample)
        return self._as_manifest(writer)

    def _writer(self) -> BlockWriter:
        observed, likelihood = self.relation.observed, self.likelihood
        if likelihood is None:  # the test of counts, which Poisson and negbin sum up alike, comes last
            likelihood, self.likelihood_by = likelihood_of(
                self.values.most, self.values.whole, self.equation, lambda: False
            )
        self.likelihood = likelihood
        return BlockWriter(
            self.draft, f"relation{self.number}", self.order, self.sizes, likelihood, self.values.type,
            zero=1.0 if isinstance(observed, str) else float(observed), weight=self._weight(),
        )  # fmt: skip

    def _weight(self) -> float:
        return 1.0 if isinstance(self.relation.weight, str) else float(self.relation.weight)

    def _choose(self, writer: BlockWriter, sample: LinkSample) -> None:
        """Choose the likelihood of counts by their dispersion."""

        def is_uneven() -> bool:
            if writer.links < MIN_LINKS or writer.most <= MAX_POISSON_VALUE:
                return False
            marginals = [writer.marginals[index] for index in self.indices]
            exposures = self._exposures([weight for _, weight in marginals], sample.by_place(sample.counts))
            values = [value for value, _ in marginals]
            return excess(sample.links, self.shape, self.groups, exposures, values) >= MIN_EXCESS_NATS

        self.likelihood, self.likelihood_by = likelihood_of(writer.most, self.values.whole, self.equation, is_uneven)

    def _exposures(self, listed: Sequence[Array], counts: Sequence[Array]) -> list[Array]:
        """ΣM of every row, by index; `listed`: ΣM of its entries; `counts`: their number."""
        unlisted = unlisted_weight(self.relation, self.source) * self._weight()
        more = [own - unlisted * number for own, number in zip(listed, counts)]
        exposures = [written(self.groups, more, place) for place in range(len(self.indices))]
        if unlisted:
            universe = self._observed_entities() if self.relation.unseen == "missing" else {}
            M = open_weights(self.indices, self.shape, universe, self._diagonal()[2])
            exposures = [own + unlisted * along(M, (index,)) for own, index in zip(exposures, self.indices)]
        return exposures

    def _children(self, root: int) -> AnyArray:
        """Number of entries of each row of the second level under a root row."""
        counts = np.zeros(self.sizes[1], np.int64)
        part = int(np.searchsorted(self.edges, root, side="right")) - 1
        for piece in self.spill.pieces(part, self.most):
            count_rows(self.format.rows(piece, 1)[self.format.rows(piece, 0) == root], counts)
        return counts

    def _pieces(self, report: Report) -> Iterator[SortedCells]:
        """All entries in tree order, range by range."""
        for part, (lo, hi) in enumerate(pairwise(self.edges)):
            yield from self._sorted(self.spill, part, 0, lo, hi, report)

    def _sorted(self, spill: Spill, part: int, level: int, lo: int, hi: int, report: Report) -> Iterator[SortedCells]:
        """Sorted entries of a part, partitioned again if too large; they have the rows lo … hi of a level."""
        count = int(spill.counts[part])
        if count == 0:
            return
        if count <= self.most or (hi - lo == 1 and level + 1 == len(self.sizes)):
            cells = self._settle(self.format.sort(spill.take(part)))
            report(count)
            yield cells
            return
        if hi - lo == 1:  # a single row: partition by the next level
            level, lo, hi = level + 1, 0, self.sizes[level + 1]
        count = min(-(-2 * count // self.most), MAX_RANGES, hi - lo)
        finer, edges, parts = self._split(f"{spill.name}-{part}", lo, hi, count, held_bytes(self.budget) // 2)
        for piece in spill.pieces(part, self.most):
            finer.add(piece, parts[self.format.rows(piece, level).astype(np.int64) - lo])
        spill.drop(part)
        for one, (lo, hi) in enumerate(pairwise(edges)):
            yield from self._sorted(finer, one, level, lo, hi, report)

    def _settle(self, cells: SortedCells) -> SortedCells:
        """Entries without duplicates; duplicates and refused values are recorded as faults."""
        if cells.repeated:
            cells = self._each_once(cells)
        if self.likelihood is not None and (bad := self.likelihood.bad(cells.values)).any():
            self.faults.add(self._cells(cells.coords[bad]))
        return cells

    def _each_once(self, cells: SortedCells) -> SortedCells:
        same = np.concatenate([[False], (cells.coords[1:] == cells.coords[:-1]).all(axis=1)])
        if self.relation.duplicates == "error" and cells.writing is None:
            self.faults.add(self._cells(cells.coords[same]))
            return cells
        labelled = tuple((index, self.names[index]) for index in self.order)
        values = np.asarray(cells.values, np.float64)
        entries = Entries(self.source, labelled, cells.coords, values, cells.weights, None, cells.writing)
        if self.relation.duplicates == "error":
            self._note_unlike(cells, same)
            if self.faults:
                return cells
        once, summed = merge_duplicates(entries, self.relation.duplicates)
        self.summed += summed
        return SortedCells(once.coords, once.values, once.weights)

    def _note_unlike(self, cells: SortedCells, same: AnyArray) -> None:
        """Record cells whose orientations disagree, or repeat."""
        number = np.cumsum(~same)
        assert cells.writing is not None
        order = np.lexsort((cells.writing, number))
        again = same & (cells.writing[order] == np.roll(cells.writing[order], 1))
        unlike = np.zeros(len(cells), bool)
        for numbers in (cells.values, cells.weights):
            if numbers is not None:
                unlike |= same & (numbers != np.concatenate([numbers[:1], numbers[:-1]]))
        if (again | unlike).any():
            self.faults.add(self._cells(cells.coords[order][again | unlike]))

    def _cells(self, coords: AnyArray) -> AnyArray:
        """Cells in tree order as those of the relation."""
        return np.ascontiguousarray(coords[:, np.argsort(self.places)])

    def _deduplicated(self, report: Report) -> Iterator[SortedCells]:
        """Sort and deduplicate all ranges, count the entries, and spill them again, one part per range."""
        merged = Spill(self.draft.spill, f"merged{self.number}", len(self.edges) - 1, held_bytes(self.budget))
        self.values, counts = BatchValues(), np.zeros(self.sizes[0], np.int64)
        columns = Columns(self.places, self.sizes)
        for part, (lo, hi) in enumerate(pairwise(self.edges)):
            for cells in self._sorted(self.spill, part, 0, lo, hi, report):
                self.values.add(np.asarray(cells.values, np.float64))
                count_rows(cells.coords[:, 0], counts)
                merged.add(columns.of_sorted(cells), part)
        self.spill, self.counts, self.format = merged, counts, columns
        return self._spilled()

    def _spilled(self) -> Iterator[SortedCells]:
        """Entries that were sorted and spilled."""
        for part in range(len(self.edges) - 1):
            for piece in self.spill.pieces(part, self.most):
                yield self.format.read(piece)
            self.spill.drop(part)

    # --- the manifest

    def _as_manifest(self, writer: BlockWriter) -> dict[str, Any]:
        diagonal, missing, hidden = self._diagonal()
        seen = self._observed_entities()
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
            "likelihood": cast("Likelihood", self.likelihood).to_words(),
            "likelihood_by": self.likelihood_by,
            "options": {
                "observed": relation.observed, "unseen": relation.unseen, "weight": relation.weight,
                "duplicates": relation.duplicates, "self_links": relation.self_links, "value": relation.value,
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
            "self_links": diagonal,
            "summed": self.summed,
            "dropped_self_links": self.dropped_self_links if self.doubled else 0,
            "observed_cells": observed,
            "totals": totals,
            "blocks": writer.blocks,
        }  # fmt: skip

    def _observed_entities(self) -> dict[str, NDArray[np.bool_]]:
        """Entities with a row, by index."""
        return {index: self.seen[axis] for index, axis in zip(self.indices, self.axes)}

    def _diagonal(self) -> tuple[str, Tables, Tables]:
        """Observation of self-links; and all missing, and all hidden cells with it."""
        pairs: Tables = {pair: all_of(len(self.names[pair[0]])) for pair in self.apart}
        missing = together(self.missing, pairs, self.names)
        hidden = together(missing, self.put_aside, self.names)
        if self.doubled:
            return "missing", missing, hidden
        if not self.square:
            return "", missing, hidden
        said = self.relation.self_links
        diagonal = said if said != "auto" else "observed" if self.loops else "missing"
        if said == "auto" and diagonal == "missing":
            named = self.own.copy()
            aside = self.put_aside.get(self.indices)
            if aside is not None:
                named[aside[aside[:, 0] == aside[:, 1], 0]] = True
            never = {self.indices: all_of(len(named))[~named]}
            missing, hidden = together(missing, never, self.names), together(hidden, never, self.names)
        return diagonal, missing, hidden

    def _observed_cells(self, writer: BlockWriter, seen: Mapping[str, NDArray[np.bool_]], hidden: Tables) -> int:
        """Number of cells with M > 0: open ones, without listed ones of weight 0."""
        unlisted = unlisted_weight(self.relation, self.source)
        if self._weight() == 0:
            return 0
        if unlisted == 0:
            return writer.entries - writer.weightless
        nothing = CSFIndex.of(self.indices, self.shape, np.zeros((0, len(self.indices)), np.uint32))
        universe = seen if self.relation.unseen == "missing" else {}
        observed = observe(self.indices, self.shape, nothing, np.zeros(0), unlisted, universe, hidden, 1.0, self.groups)
        return observed.observed_cells - writer.weightless
