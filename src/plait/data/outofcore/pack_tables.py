"""Packing of tables larger than memory into a folder of blocks: an external sort.

There are two passes over every table: the first collects the names of all axes, the second turns them into row numbers
and partitions entries by ranges of the root axis. Then each range is sorted and written as blocks.
"""

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

from plait.data.binding.bind import declared_names, labels_of, relations_of
from plait.data.encoding.names import Labels
from plait.data.outofcore.batches import Reader
from plait.data.outofcore.block_folder import Draft, drafting
from plait.data.outofcore.memory_budget import PackShape, working_bytes
from plait.data.outofcore.pack_relation import Packing
from plait.data.sources.arrays import is_array
from plait.data.sources.relation import Relation
from plait.data.sparse.leaves import packed_order
from plait.errors import DataError, TableLocation
from plait.forked import refuse_in_fork
from plait.model.model import Model
from plait.version import __version__

Report = Callable[[float], None]
COLLECT_SHARE, PARTITION_SHARE = 0.25, 0.35  # of the work, measured; the rest is sorting and writing


def pack_blocks(
    model: Model,
    data: Mapping[str, Any],
    path: str | PathLike[str],
    memory: int,
    labels: Mapping[str, Sequence[Any]] | None = None,
    report: Report = lambda share: None,
) -> None:
    """Pack the tables of a model into a folder; `report` gets the share of work done."""
    refuse_in_fork("plait.pack")
    relations = relations_of(model, data)
    for name, relation in relations.items():
        _refuse(model, name, relation)
    declared = declared_names(model, labels or {})
    with drafting(path) as draft:
        _pack(model, relations, draft, memory, declared, report)
    report(1.0)


def _pack(
    model: Model,
    relations: Mapping[str, Relation],
    draft: Draft,
    memory: int,
    declared: Mapping[str, Any],
    report: Report,
) -> None:
    """All passes, then the manifest."""
    readers = {
        name: Reader(one, name, model.equation(name).indices, draft.spill / f"copy{n}", memory)
        for n, (name, one) in enumerate(relations.items())
    }
    _collect(readers, report)
    names = _names(model, readers, declared)
    budget = _working_bytes(model, readers, names, memory)
    rows = sum(reader.rows for reader in readers.values())
    share = _Share(report, COLLECT_SHARE, max(rows, 1))
    said: dict[str, Any] = {}
    for n, (name, relation) in enumerate(relations.items()):
        packing = Packing(draft, n, relation, readers[name], model.equation(name), names, budget)
        packing.partition(lambda more: share.add(more * PARTITION_SHARE))
        said[name] = packing.write(lambda more: share.add(more * (1 - COLLECT_SHARE - PARTITION_SHARE)))
    written = {axis: _write_labels(draft, n, names[axis]) for n, axis in enumerate(model.axes)}
    draft.publish(_manifest(model, draft, said, written))


def _working_bytes(model: Model, readers: Mapping[str, Reader], names: Mapping[str, Labels], memory: int) -> int:
    """Bytes for rows between reading and writing; refused where memory is too small."""
    shapes = []
    for name, reader in readers.items():
        sizes = {index: len(names[index]) for index in model.equation(name).indices}
        order = packed_order(tuple(sizes), sizes)
        value = reader.values.type.itemsize + (0 if reader.weight is None else 8)
        shapes.append(PackShape(reader.rows, [sizes[index] for index in order], value))
    rows = sum(reader.rows for reader in readers.values())
    return working_bytes(memory, rows, [names[axis] for axis in model.axes], shapes)


class _Share:
    """Rows done as a share of all work."""

    def __init__(self, report: Report, done: float, rows: int) -> None:
        self.report, self.done, self.rows = report, done, rows

    def add(self, more: float) -> None:
        self.done += more / self.rows
        self.report(min(self.done, 1.0))


def _refuse(model: Model, name: str, relation: Relation) -> None:
    """Refuse relations that cannot be packed."""
    if is_array(relation.data):
        raise DataError(
            "an array cannot be packed, because it is already in memory.",
            location=TableLocation(name),
            hint="Give its entries as a table, or fit without packing.",
        )
    if not model.equation(name).indices:
        raise DataError(
            "a relation without indices cannot be packed.",
            location=TableLocation(name),
            hint="Remove it from the model, or fit without packing.",
        )


def _collect(readers: Mapping[str, Reader], report: Report) -> None:
    """First pass over all tables; the number of rows is not known before."""
    for n, reader in enumerate(readers.values()):
        done = 0
        for rows in reader.collect():
            done += rows
            report(COLLECT_SHARE * (n + done / (done + 50 * reader.batch)) / len(readers))


def _names(model: Model, readers: Mapping[str, Reader], declared: Mapping[str, Any]) -> dict[str, Labels]:
    return labels_of(model, {name: reader.source for name, reader in readers.items()}, declared)


def _write_labels(draft: Draft, number: int, labels: Labels) -> dict[str, Any]:
    buffer = io.BytesIO()
    labels.names.alias(labels.axis).to_frame().write_parquet(buffer)
    return draft.put(f"labels{number}.parquet", buffer.getvalue())


def _manifest(model: Model, draft: Draft, relations: Mapping[str, Any], labels: Mapping[str, Any]) -> dict[str, Any]:
    hashes = [entry["sha256"] for entry in labels.values()]
    for one in relations.values():
        hashes += [one["totals"]["sha256"], *(entry["sha256"] for entry in one["blocks"])]
    fingerprint = hashlib.sha256("\n".join([str(model), *hashes]).encode()).hexdigest()
    return {
        "plait": __version__,
        "token": draft.token,
        "model": str(model),
        "fingerprint": fingerprint,
        "labels": dict(labels),
        "relations": dict(relations),
    }
