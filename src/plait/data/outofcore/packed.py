"""Folder of blocks, open for reading: labels, manifest of every relation, and its blocks as CSF tensors."""

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

from plait import manifests
from plait._typing import AnyArray, Array
from plait.data.encoding.columns import kind
from plait.data.encoding.names import Labels
from plait.data.outofcore.block_file import READ_AHEAD_BLOCKS, Bytes, ReadPool, aligned, count_falls, from_bytes, shared
from plait.data.outofcore.block_folder import (
    AGAIN,
    MANIFEST,
    check_content,
    check_size,
    damaged,
    read_file,
    read_manifest,
)
from plait.data.sparse.csf import CSFTensor
from plait.data.sparse.csf_index import find_cells
from plait.errors import FileLocation, ParameterError, PlaitError, StorageError
from plait.likelihood import Likelihood, Sums, from_words
from plait.model.model import Model


class BlockLookup(NamedTuple):
    """Looked-up cells: which are listed, their values (0 elsewhere), and their own weights (1 elsewhere)."""

    listed: NDArray[np.bool_]
    values: Array
    weights: Array


@dataclass(frozen=True, eq=False)
class PackedBlocks(Sequence[CSFTensor]):
    """Leaves of a relation's tree, one per file.

    `order` and `sizes`: its indices and their sizes, root first. `types`: of starts, of the rows of every level, of
    entries. `likelihood`: for checks of values. `has_weights`: whether every entry has a weight.
    """

    place: Path
    order: tuple[str, ...]
    sizes: tuple[int, ...]
    entries: int
    types: tuple[np.dtype[Any], ...]
    files: tuple[Mapping[str, Any], ...]
    likelihood: Likelihood
    has_weights: bool

    def __len__(self) -> int:
        return len(self.files)

    def __getstate__(self) -> dict[str, Any]:
        """The path becomes absolute: another process may have another working directory."""
        return self.__dict__ | {"place": self.place.absolute()}

    @property
    def largest(self) -> int:
        """Bytes of the largest block."""
        return max((int(entry["bytes"]) for entry in self.files), default=0)

    @property
    def nbytes(self) -> int:
        return sum(int(entry["bytes"]) for entry in self.files)

    @overload
    def __getitem__(self, number: int) -> CSFTensor: ...

    @overload
    def __getitem__(self, number: slice) -> list[CSFTensor]: ...

    def __getitem__(self, number: int | slice) -> CSFTensor | list[CSFTensor]:
        """A block in separate memory."""
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        return self.read(number, aligned(int(self.files[number]["bytes"])))

    def __iter__(self) -> Iterator[CSFTensor]:
        return (self[number] for number in range(len(self)))

    def read(self, number: int, buffer: Bytes) -> CSFTensor:
        """A block read into a buffer of at least `largest` bytes; its arrays are views.

        Kernels do not check bounds, so every block is checked here: its arrays at each read, its checksum and values at
        the first read of a process.
        """
        entry = self.files[number]
        content, is_new = read_file(self.place, entry, buffer)
        path = self.place / str(entry["file"])
        try:
            arrays = from_bytes(content)
            rows = tuple(arrays[f"rows{level}"] for level in range(len(self.order)))
            starts = tuple(arrays[f"starts{level}"] for level in range(len(self.order) - 1))
            side_values = (arrays["weights"],) if self.has_weights else ()
            tree = CSFTensor(self.order, self.sizes, rows, starts, arrays["entries"], None, side_values)
        except (ValueError, KeyError) as error:
            raise damaged(path, str(error)) from None
        fault = self._fault(tree, entry)
        if not fault and is_new and self.likelihood.bad(tree.entries).any():
            fault = f"it has invalid values for {self.likelihood}"
        if fault:
            raise damaged(path, fault)
        return tree

    def _fault(self, tree: CSFTensor, entry: Mapping[str, Any]) -> str:
        """Fault that would mislead a kernel or a lookup; "" without one."""
        if tree.types != self.types or any(starts.dtype != self.types[0] for starts in tree.starts):
            return "the types of its arrays differ from the manifest"
        lengths = [len(rows) for rows in tree.rows]
        if any(len(array) != entry["entries"] for array in (tree.rows[-1], tree.entries, *tree.side_values)):
            return "its number of entries is wrong"
        if [len(starts) for starts in tree.starts] != [length + 1 for length in lengths[:-1]] or not lengths[0]:
            return "the lengths of its arrays are wrong"
        for level, (rows, size) in enumerate(zip(tree.rows, self.sizes)):
            starts = tree.starts[level - 1] if level else np.array([0, len(rows)], np.uint32)
            if (int(starts[0]), int(starts[-1])) != (0, len(rows)) or count_falls(starts, NO_STARTS):
                return f"starts{level - 1} does not lead from 0 to {len(rows)} in steps"
            if int(rows.max()) >= size:
                return f"rows{level} has rows from {size} on"
            if count_falls(rows, starts):
                return f"rows{level} is not sorted"
        if [int(tree.rows[0][at]) for at in (0, -1)] != [entry["first"], entry["last"]]:
            return "its root rows differ from the manifest"
        if any(
            not 0 <= float(numbers.min()) <= float(numbers.max()) < np.inf
            for numbers in (tree.entries, *tree.side_values)
        ):
            return "it has numbers that are negative or not finite"
        return ""

    def stream(
        self, buffers: int = READ_AHEAD_BLOCKS, lo: int = 0, hi: int | None = None, pool: ReadPool | None = None
    ) -> Iterator[tuple[int, CSFTensor, Callable[[], None]]]:
        """Blocks in order, read ahead by a thread.

        The third item releases a block's buffer for the next read. At most `buffers` blocks are held at a time, so a
        caller that releases none waits without end. `pool`: pool of the buffers.
        """
        return _stream(self, range(len(self))[lo:hi], buffers, pool or shared())

    def verify(self) -> None:
        """Read and hash all blocks."""
        for entry in self.files:
            check_content(self.place, entry)

    # --- look-ups

    def find(self, cells: AnyArray) -> "BlockLookup":
        """Look up cells (m, order), in tree order; reads the blocks it needs."""
        cells = np.asarray(cells, np.int64)
        lookup = BlockLookup(np.zeros(len(cells), bool), np.zeros(len(cells)), np.ones(len(cells)))
        first, last = np.searchsorted(self._lasts, cells[:, 0]), np.searchsorted(self._firsts, cells[:, 0], "right")
        buffer = aligned(self.largest)
        for number in _needed(first, last):
            some = np.flatnonzero((first <= number) & (number < last))
            tree = self.read(number, buffer)
            places, there = find_cells(tree.rows, tree.starts, cells[some])
            some, places = some[there], places[there]
            lookup.listed[some], lookup.values[some] = True, tree.entries[places]
            if tree.side_values:
                lookup.weights[some] = tree.side_values[0][places]
        return lookup

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        return np.array([entry["first"] for entry in self.files], np.int64)

    @cached_property
    def _lasts(self) -> NDArray[np.int64]:
        return np.array([entry["last"] for entry in self.files], np.int64)


NO_STARTS = np.zeros(0, np.uint32)


def _needed(first: NDArray[np.int64], last: NDArray[np.int64]) -> list[int]:
    """Numbers in any of the ranges."""
    some = {(int(a), int(b)) for a, b in zip(first, last) if a < b}
    return sorted({number for a, b in some for number in range(a, b)})


def _stream(
    blocks: PackedBlocks, numbers: range, buffers: int, pool: ReadPool
) -> Iterator[tuple[int, CSFTensor, Callable[[], None]]]:
    size, slots, ended = blocks.largest, threading.Semaphore(buffers), threading.Event()
    ready: queue.SimpleQueue[tuple[int, CSFTensor, Bytes] | BaseException | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            for number in numbers:
                slots.acquire()
                if ended.is_set():  # the consumer has stopped
                    return
                buffer = pool.take(size)
                ready.put((number, blocks.read(number, buffer), buffer))
        except BaseException as error:
            ready.put(error)
        else:
            ready.put(None)

    def once(buffer: Bytes) -> Callable[[], None]:
        """Return a buffer, once."""
        left = [buffer]

        def release() -> None:
            if left:
                pool.give(left.pop())
                slots.release()

        return release

    thread = threading.Thread(target=run, name="plait-blocks", daemon=True)
    thread.start()
    try:
        while True:
            block = ready.get()
            if block is None:
                return
            if isinstance(block, BaseException):
                raise block
            number, tree, buffer = block
            yield number, tree, once(buffer)
    finally:
        ended.set()
        slots.release()
        thread.join()


@dataclass(frozen=True, eq=False)
class PackedRelation:
    """Manifest of one relation.

    `shape`: by indices, as in the equation; `entries`: listed cells, `links`: those with positive value and weight,
    `zeros`: listed zeros. `options`: those of `plait.Relation`. `sums`: `likelihood.sums` of all links. `marginals`:
    ΣMX and ΣM over the entries of every row, by index. `seen`: entities with a row. `missing`, `hidden`: row numbers by
    index set. Others: as in `BoundRelation`.
    """

    name: str
    indices: tuple[str, ...]
    shape: tuple[int, ...]
    order: tuple[str, ...]
    entries: int
    links: int
    zeros: int
    likelihood: Likelihood
    likelihood_by: str
    options: Mapping[str, Any]
    columns: Mapping[str, str]
    sums: Sums
    marginals: Mapping[str, tuple[Array, Array]]
    seen: Mapping[str, NDArray[np.bool_]]
    missing: Mapping[tuple[str, ...], AnyArray]
    hidden: Mapping[tuple[str, ...], AnyArray]
    self_links: str
    summed: int
    dropped_self_links: int
    observed_cells: int
    has_weights: bool
    blocks: PackedBlocks

    def sized(self, shape: tuple[int, ...]) -> "PackedRelation":
        """The relation among more entities, which follow its own."""
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
        """Hash of the hashes of all blocks."""
        hashes = "\n".join(str(entry["sha256"]) for entry in self.blocks.files)
        return hashlib.sha256(hashes.encode()).hexdigest()

    @property
    def weight(self) -> float:
        """Weight of the relation when it was packed."""
        given = self.options["weight"]
        return 1.0 if isinstance(given, str) else float(given)

    def find(self, cells: AnyArray) -> "BlockLookup":
        """Look up cells (m, order of indices)."""
        return self.blocks.find(np.asarray(cells)[:, [self.indices.index(index) for index in self.order]])


@dataclass(frozen=True, eq=False)
class Packed:
    """Folder of blocks: the model's text, labels by axis, relations by name; `fingerprint`: hash of all hashes."""

    path: Path
    model: str
    entities: Mapping[str, Labels]
    relations: Mapping[str, PackedRelation]
    fingerprint: str
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, path: str | PathLike[str]) -> "Packed":
        """Open a folder: small files are read and checked, blocks must exist with their sizes."""
        place = Path(path)
        content = read_manifest(place)
        try:
            for relation in content["relations"].values():
                for entry in relation["blocks"]:
                    check_size(place, entry)
            model = Model(content["model"])
            labels = {
                axis: _labels(place, axis, content["labels"][axis], _size(model, content, axis)) for axis in model.axes
            }
            for name, said in content["relations"].items():
                _check_relation(model, labels, name, said)
            relations = {name: _relation(place, name, said) for name, said in content["relations"].items()}
            return cls(place, content["model"], labels, relations, content["fingerprint"], content)
        except StorageError:
            raise
        except ParameterError as error:  # e.g. a likelihood whose module is not imported
            raise StorageError(error.message, location=FileLocation(place / MANIFEST), hint=error.hint) from None
        except (PlaitError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise manifests.damaged(place / MANIFEST, f"{type(error).__name__} {error}", AGAIN) from None

    def verify(self) -> None:
        """Read and hash all files of the folder."""
        for entry in self.manifest["labels"].values():
            check_content(self.path, entry)
        for relation in self.relations.values():
            relation.blocks.verify()

    @property
    def nbytes(self) -> int:
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
    """An array padded with zeros."""
    return np.concatenate([array, np.zeros(size - len(array), array.dtype)])


def _size(model: Model, content: Mapping[str, Any], axis: str) -> int | None:
    """Number of entities of an axis, by the shape of the first relation with it."""
    shapes = (
        size
        for said in content["relations"].values()
        for index, size in zip(said["indices"], said["shape"])
        if model.axis(index) == axis
    )
    return next(shapes, None)


def _labels(place: Path, axis: str, entry: Mapping[str, Any], size: int | None) -> Labels:
    import polars as pl

    path = check_content(place, entry)
    try:
        # A small file may decompress to many rows.
        count = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
        if size is not None and count != size:
            raise ValueError(f"it has {count:,} names, not the {size:,} of {axis}")
        names = pl.read_parquet(path, glob=False).to_series()
        if names.null_count() or (len(names) and kind(names) == "nothing"):
            raise ValueError("it has no names")
        if names.n_unique() < len(names):
            raise ValueError("it contains a name twice")
    except BaseException as error:
        if not manifests.is_read_fault(error):
            raise
        raise damaged(path, str(error).partition("\n")[0]) from None
    return Labels(axis, names)


def _relation(place: Path, name: str, said: Mapping[str, Any]) -> PackedRelation:
    indices, order = tuple(said["indices"]), tuple(said["order"])
    shape = tuple(said["shape"])
    sizes, types = dict(zip(indices, shape)), said["types"]
    likelihood = from_words(said["likelihood"])
    totals = _totals(place, said, sizes)
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
        likelihood=likelihood,
        likelihood_by=said.get("likelihood_by", ""),
        options=said["options"],
        columns=said["columns"],
        sums=Sums(*said["sums"]),
        marginals={index: (totals[f"value/{index}"], totals[f"weight/{index}"]) for index in indices},
        seen={index: totals[f"seen/{index}"].view(np.bool_) for index in indices if f"seen/{index}" in totals},
        missing=tables["missing"],
        hidden=tables["hidden"],
        self_links=said["self_links"],
        summed=said["summed"],
        dropped_self_links=said["dropped_self_links"],
        observed_cells=said["observed_cells"],
        has_weights=types["weights"],
        blocks=PackedBlocks(
            place,
            order,
            tuple(sizes[index] for index in order),
            said["entries"],
            tuple(np.dtype(kind) for kind in (types["starts"], *types["rows"], types["entries"])),
            tuple(said["blocks"]),
            likelihood,
            types["weights"],
        ),
    )


def _totals(place: Path, said: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, AnyArray]:
    """Arrays of a relation other than its blocks."""
    check_size(place, said["totals"])
    content, _ = read_file(place, said["totals"], aligned(said["totals"]["bytes"]))
    try:
        totals = from_bytes(content)
        for index, size in sizes.items():
            for array in (totals[f"value/{index}"], totals[f"weight/{index}"]):
                if array.dtype != np.float64 or len(array) != size or not (np.isfinite(array) & (array >= 0)).all():
                    raise ValueError(f"the sums of {index} are not {size} numbers")
            seen = totals.get(f"seen/{index}", np.zeros(size, np.uint8))
            if seen.dtype != np.uint8 or len(seen) != size or seen.max(initial=0) > 1:
                raise ValueError(f"seen/{index} is not boolean")
        for kind in ("missing", "hidden"):
            for n, over in enumerate(said[kind]):
                rows = totals[f"{kind}/{n}"].reshape(-1, len(over))
                if rows.dtype.kind != "u" or (rows >= np.array([sizes[index] for index in over], np.uint64)).any():
                    raise ValueError(f"{kind}/{n} has invalid rows")
                first = (rows[1:] != rows[:-1]).argmax(axis=1)[:, None]  # the column in which a row differs
                if not (np.take_along_axis(rows[1:], first, 1) > np.take_along_axis(rows[:-1], first, 1)).all():
                    raise ValueError(f"{kind}/{n} is not sorted")
    except (ValueError, KeyError) as error:
        raise damaged(place / said["totals"]["file"], str(error)) from None
    return totals


def _check_relation(model: Model, labels: Mapping[str, Labels], name: str, said: Mapping[str, Any]) -> None:
    """Raise ValueError where the numbers of a manifest contradict each other."""
    indices, blocks = said["indices"], said["blocks"]
    if name not in model.relations or tuple(indices) != model.equation(name).indices:
        raise ValueError(f"{name}[{', '.join(indices)}] is not a relation of its model")
    if said["shape"] != [len(labels[model.axis(index)]) for index in indices]:
        raise ValueError(f"{name} has the wrong shape")
    depth, sizes = len(indices), dict(zip(indices, said["shape"]))
    if sorted(said["order"]) != sorted(indices) or len(said["types"]["rows"]) != depth:
        raise ValueError(f"the order of {name} is not a permutation of its indices")
    over_all = said["missing"] + said["hidden"]
    if any(not set(over) <= set(indices) or len(set(over)) < len(over) or not over for over in over_all):
        raise ValueError(f"the missing cells of {name} have other indices")
    if len(said["sums"]) != len(Sums._fields) or len(said["values"]) != 2 or said["observed_cells"] < 0:
        raise ValueError(f"the sums of {name} are wrong")
    if sum(one["entries"] for one in blocks) != said["entries"] or said["links"] + said["zeros"] > said["entries"]:
        raise ValueError(f"the number of entries in the blocks of {name} is wrong")
    last, is_inside = -1, False
    for one in blocks:  # root rows ascend from block to block; blocks of one giant row share it
        goes_on = is_inside and one["inside"] and one["first"] == last
        alone = (depth > 1 and one["first"] == one["last"]) or not one["inside"]
        if not (last < one["first"] or goes_on) or one["first"] > one["last"] or not alone or not one["entries"]:
            raise ValueError(f"the root rows of {one['file']} are out of order")
        last, is_inside = one["last"], one["inside"]
    if last >= sizes[said["order"][0]]:
        raise ValueError(f"the blocks of {name} have more root rows than their axis")
