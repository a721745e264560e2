"""A folder of blocks, open for reading: labels, what is known of every relation, and its blocks as fibre trees."""

import hashlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from plait.data.blocks.buffers import BUFFERS, Buffers, shared
from plait.data.blocks.file import Bytes, aligned, from_bytes
from plait.data.blocks.folder import AGAIN, check_content, check_size, damaged, fill, read_manifest
from plait.data.cells.fibres import find_cells
from plait.data.cells.trees import FibreTree
from plait.data.labels.names import Labels
from plait.errors import PlaitError, StoreError
from plait.likelihood import Likelihood, Sums, from_words
from plait.saying import FilePlace
from plait.types import AnyArray, Array


class Found(NamedTuple):
    """Cells that were looked up: which are listed, their values (0 elsewhere), and their own weights (1 elsewhere)."""

    listed: NDArray[np.bool_]
    values: Array
    weights: Array


@dataclass(frozen=True, eq=False)
class PackedBlocks(Sequence[FibreTree]):
    """The leaves of a relation's tree, one a file.

    order and sizes: its indices and their sizes, root first. types: of starts, of the rows of every level, of entries.
    """

    place: Path
    order: tuple[str, ...]
    sizes: tuple[int, ...]
    entries: int
    types: tuple[np.dtype[Any], ...]
    files: tuple[Mapping[str, Any], ...]

    def __len__(self) -> int:
        return len(self.files)

    def __getstate__(self) -> dict[str, Any]:
        """Another process may be at work in another folder."""
        return self.__dict__ | {"place": self.place.absolute()}

    @property
    def largest(self) -> int:
        """Bytes of the largest block: a buffer of this size takes any."""
        return max((int(entry["bytes"]) for entry in self.files), default=0)

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks on disk."""
        return sum(int(entry["bytes"]) for entry in self.files)

    @overload
    def __getitem__(self, number: int) -> FibreTree: ...

    @overload
    def __getitem__(self, number: slice) -> list[FibreTree]: ...

    def __getitem__(self, number: int | slice) -> FibreTree | list[FibreTree]:
        """A block in memory of its own."""
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        return self.read(number, aligned(int(self.files[number]["bytes"])))

    def __iter__(self) -> Iterator[FibreTree]:
        return (self[number] for number in range(len(self)))

    def read(self, number: int, buffer: Bytes) -> FibreTree:
        """A block read into a buffer (of `largest` bytes, say), of which its arrays are views."""
        entry = self.files[number]
        path = self.place / str(entry["file"])
        content = fill(path, int(entry["bytes"]), buffer)
        try:
            arrays = from_bytes(content)
            rows = tuple(arrays[f"rows{level}"] for level in range(len(self.order)))
            starts = tuple(arrays[f"starts{level}"] for level in range(len(self.order) - 1))
            entries = arrays["entries"]
        except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
            raise damaged(path, str(error)) from None
        if len(entries) != entry["entries"] or len(rows[-1]) != len(entries):
            raise damaged(path, "it has another number of entries")
        beside = (arrays["weights"],) if "weights" in arrays else ()
        return FibreTree(self.order, self.sizes, rows, starts, entries, None, beside)

    def stream(
        self, buffers: int = BUFFERS, lo: int = 0, hi: int | None = None, room: Buffers | None = None
    ) -> Iterator[tuple[int, FibreTree, Callable[[], None]]]:
        """All blocks in order, or some of them, read ahead by a thread.

        Call the third when a block is done with, so that its buffer is filled anew: at most so many blocks are held at
        a time, and whoever keeps them all waits for ever. room: whose buffers these are.
        """
        return _stream(self, range(len(self))[lo:hi], buffers, room or shared())

    def verify(self) -> None:
        """Check that no block has changed: reads and hashes all of them."""
        for entry in self.files:
            check_content(self.place, entry)

    # --- look-ups

    def find(self, cells: AnyArray) -> "Found":
        """Some cells (m, order), in tree order; reads the blocks it needs."""
        cells = np.asarray(cells, np.int64)
        found = Found(np.zeros(len(cells), bool), np.zeros(len(cells)), np.ones(len(cells)))
        first, last = np.searchsorted(self._lasts, cells[:, 0]), np.searchsorted(self._firsts, cells[:, 0], "right")
        buffer = aligned(self.largest)
        for number in _needed(first, last):
            some = np.flatnonzero((first <= number) & (number < last))
            tree = self.read(number, buffer)
            places, there = find_cells(tree.rows, tree.starts, cells[some])
            some, places = some[there], places[there]
            found.listed[some], found.values[some] = True, tree.entries[places]
            if tree.beside:
                found.weights[some] = tree.beside[0][places]
        return found

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        return np.array([entry["first"] for entry in self.files], np.int64)

    @cached_property
    def _lasts(self) -> NDArray[np.int64]:
        return np.array([entry["last"] for entry in self.files], np.int64)


def _needed(first: NDArray[np.int64], last: NDArray[np.int64]) -> list[int]:
    """The numbers in any of some ranges."""
    some = {(int(a), int(b)) for a, b in zip(first, last) if a < b}
    return sorted({number for a, b in some for number in range(a, b)})


def _stream(
    blocks: PackedBlocks, numbers: range, buffers: int, room: Buffers
) -> Iterator[tuple[int, FibreTree, Callable[[], None]]]:
    size, slots, ended = blocks.largest, threading.Semaphore(buffers), threading.Event()
    ready: queue.SimpleQueue[tuple[int, FibreTree, Bytes] | BaseException | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            for number in numbers:
                slots.acquire()
                if ended.is_set():  # nobody reads on
                    return
                buffer = room.take(size)
                ready.put((number, blocks.read(number, buffer), buffer))
        except BaseException as error:
            ready.put(error)
        else:
            ready.put(None)

    def once(buffer: Bytes) -> Callable[[], None]:
        """Give a buffer back, once."""
        left = [buffer]

        def release() -> None:
            if left:
                room.give(left.pop())
                slots.release()

        return release

    thread = threading.Thread(target=run, name="plait-blocks", daemon=True)
    thread.start()
    try:
        while True:
            found = ready.get()
            if found is None:
                return
            if isinstance(found, BaseException):
                raise found
            number, tree, buffer = found
            yield number, tree, once(buffer)
    finally:
        ended.set()
        slots.release()
        thread.join()


@dataclass(frozen=True, eq=False)
class PackedRelation:
    """What a manifest says of one relation.

    shape: by indices, as in the equation; entries: listed cells, links: those with a value over 0 that weigh something,
    zeros: listed ones with the value 0. options: those of `plait.Relation`. sums: `likelihood.sums` of all links.
    marginals: by index ΣMX and ΣM over the entries of every row. seen: which entities a row mentions. missing, hidden:
    row numbers by some of the indices. diagonal, summed, self_links, observed_cells: as in `BoundRelation`.
    """

    name: str
    indices: tuple[str, ...]
    shape: tuple[int, ...]
    order: tuple[str, ...]
    entries: int
    links: int
    zeros: int
    likelihood: Likelihood
    options: Mapping[str, Any]
    columns: Mapping[str, str]
    sums: Sums
    marginals: Mapping[str, tuple[Array, Array]]
    seen: Mapping[str, NDArray[np.bool_]]
    missing: Mapping[tuple[str, ...], AnyArray]
    hidden: Mapping[tuple[str, ...], AnyArray]
    diagonal: str
    summed: int
    self_links: int
    observed_cells: int
    has_weights: bool
    blocks: PackedBlocks

    def sized(self, shape: tuple[int, ...]) -> "PackedRelation":
        """The same among more entities, which come after those that it knows."""
        if shape == self.shape:
            return self
        sizes = dict(zip(self.indices, shape))
        marginals = {
            index: (_longer(value, sizes[index]), _longer(weight, sizes[index]))
            for index, (value, weight) in self.marginals.items()
        }
        seen = {index: _longer(vector, sizes[index]) for index, vector in self.seen.items()}
        blocks = replace(self.blocks, sizes=tuple(sizes[index] for index in self.order))
        return replace(self, shape=shape, marginals=marginals, seen=seen, blocks=blocks)

    @property
    def fingerprint(self) -> str:
        """A hash of the hashes of all blocks."""
        hashes = "\n".join(str(entry["sha256"]) for entry in self.blocks.files)
        return hashlib.sha256(hashes.encode()).hexdigest()

    @property
    def weight(self) -> float:
        """What its links weighed when they were packed."""
        given = self.options["weight"]
        return 1.0 if isinstance(given, str) else float(given)

    def find(self, cells: AnyArray) -> "Found":
        """Some cells (m, order of indices)."""
        return self.blocks.find(np.asarray(cells)[:, [self.indices.index(index) for index in self.order]])


@dataclass(frozen=True, eq=False)
class Packed:
    """A folder of blocks: the model's text, labels by axis, relations by name; fingerprint: a hash of all hashes."""

    path: Path
    model: str
    labels: Mapping[str, Labels]
    relations: Mapping[str, PackedRelation]
    fingerprint: str
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, path: str | PathLike[str]) -> "Packed":
        """Open a folder: small files are read and checked, and all blocks must be there with their sizes."""
        place = Path(path)
        found = read_manifest(place)
        try:
            for relation in found["relations"].values():
                for entry in relation["blocks"]:
                    check_size(place, entry)
            labels = {axis: _labels(place, axis, entry) for axis, entry in found["labels"].items()}
            relations = {name: _relation(place, name, said) for name, said in found["relations"].items()}
            return cls(place, found["model"], labels, relations, found["fingerprint"], found)
        except PlaitError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"the manifest is damaged: {type(error).__name__} {error}.", where=FilePlace(place), cure=AGAIN
            ) from None

    def verify(self) -> None:
        """Check that nothing in the folder has changed: reads and hashes all of it."""
        for entry in self.manifest["labels"].values():
            check_content(self.path, entry)
        for relation in self.relations.values():
            relation.blocks.verify()

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks on disk."""
        return sum(relation.blocks.nbytes for relation in self.relations.values())

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.nbytes:,} bytes of blocks"]
        for name, one in self.relations.items():
            shape = " × ".join(f"{size:,}" for size in one.shape)
            lines.append(
                f"{name}[{', '.join(one.indices)}]: {shape}, {one.links:,} links in {len(one.blocks):,} blocks"
            )
        return "\n  ".join(lines)


def _longer(array: AnyArray, size: int) -> AnyArray:
    """An array with zeros after it."""
    return np.concatenate([array, np.zeros(size - len(array), array.dtype)])


def _labels(place: Path, axis: str, entry: Mapping[str, Any]) -> Labels:
    import polars as pl

    return Labels(axis, pl.read_parquet(check_content(place, entry)).to_series())


def _relation(place: Path, name: str, said: Mapping[str, Any]) -> PackedRelation:
    path = check_content(place, said["totals"])
    totals = from_bytes(fill(path, int(said["totals"]["bytes"]), aligned(int(said["totals"]["bytes"]))))
    indices, order = tuple(said["indices"]), tuple(said["order"])
    shape = tuple(said["shape"])
    sizes = dict(zip(indices, shape))
    tables = {
        kind: {tuple(over): totals[f"{kind}/{n}"].reshape(-1, len(over)) for n, over in enumerate(said[kind])}
        for kind in ("missing", "hidden")
    }
    return PackedRelation(
        name=name,
        indices=indices,
        shape=shape,
        order=order,
        entries=said["entries"],
        links=said["links"],
        zeros=said["zeros"],
        likelihood=from_words(said["likelihood"]),
        options=said["options"],
        columns=said["columns"],
        sums=Sums(*said["sums"]),
        marginals={index: (totals[f"value/{index}"], totals[f"weight/{index}"]) for index in indices},
        seen={index: totals[f"seen/{index}"].view(np.bool_) for index in indices if f"seen/{index}" in totals},
        missing=tables["missing"],
        hidden=tables["hidden"],
        diagonal=said["diagonal"],
        summed=said["summed"],
        self_links=said["self_links"],
        observed_cells=said["observed_cells"],
        has_weights=said["types"]["weights"],
        blocks=PackedBlocks(
            place,
            order,
            tuple(sizes[index] for index in order),
            said["entries"],
            tuple(
                np.dtype(kind) for kind in (said["types"]["starts"], *said["types"]["rows"], said["types"]["entries"])
            ),
            tuple(said["blocks"]),
        ),
    )
