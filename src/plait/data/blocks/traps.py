"""What packed data say that was hardly meant: the traps of data in memory, from the manifest and a few blocks."""

from collections.abc import Iterator
from typing import cast

import numpy as np

from plait.data.blocks.binding import OnDisk
from plait.data.blocks.links_on_disk import LinksOnDisk
from plait.data.blocks.packed import Packed, PackedRelation
from plait.data.bound import BoundRelation
from plait.data.cells.fibres import find_cells
from plait.data.cells.trees import FibreTree
from plait.data.traps.doubts import SEVERAL, axis_traps, events, listed_one_way, no_zeros
from plait.data.traps.mirror import EXPECTED, MANY, SAMPLE, mostly_observed, one_way
from plait.errors import PlaitWarning
from plait.model.model import Model
from plait.types import AnyArray


def packed_traps(model: Model, packed: Packed) -> Iterator[PlaitWarning]:
    """All traps in a folder that was packed for a model."""
    names = {index: packed.labels[model.axis(index)] for index in model.visible}
    yield from axis_traps(model, packed.labels, {name: one.seen for name, one in packed.relations.items()})
    for name, said in packed.manifest["relations"].items():
        relation = OnDisk(packed, name).bound(model.equation(name), names)
        least, most = said["values"]
        if said["options"]["observed"] == "listed" and said["links"] >= SEVERAL:
            yield from no_zeros(relation, most if least == most else None)
        yield from events(relation, said["rows"], model)
        yield from listed_one_way(relation, model, one_way(relation, model, _lonely))


def _lonely(relation: BoundRelation, k: int, other: int) -> int:
    """How many links have a mirror image that is an observed zero, if (nearly) all do and that is no chance; else 0.

    Most often links of the first block have mirror images in the first blocks, and no more are read.
    """
    packed = cast(LinksOnDisk, relation.links).disk.packed
    cells = relation.total_cells - relation.total_cells // relation.shape[k]
    if not packed.links or (min(packed.links, SAMPLE) * packed.links < EXPECTED * cells and packed.links < MANY):
        return 0
    places = [packed.order.index(packed.indices[one]) for one in (k, other)]
    if _mirrored(packed, _sample(packed.blocks[0], places, -(-packed.blocks.files[0]["entries"] // SAMPLE))):
        return 0
    step = max(1, -(-packed.entries // SAMPLE))
    sampled, count = [], 0
    for tree in packed.blocks:
        sampled.append(_sample(tree, places, step))
        first, second = (tree.column(tree.order[place], len(tree.order) - 1) for place in places)
        count += int(np.count_nonzero((first != second) & (tree.entries > 0)))
    turned = np.concatenate(sampled)
    if (len(turned) * count < EXPECTED * cells and count < MANY) or _mirrored(packed, turned):
        return 0
    return count if mostly_observed(relation, turned[:, [packed.order.index(one) for one in packed.indices]]) else 0


def _sample(tree: FibreTree, places: list[int], step: int) -> AnyArray:
    """The mirror images, in tree order, of every so manieth entry that is a link between two entities."""
    some = np.arange(0, len(tree), max(step, 1))
    cells = tree.cells(some[tree.entries[some] > 0]).astype(np.int64)
    cells = cells[cells[:, places[0]] != cells[:, places[1]]]
    cells[:, places] = cells[:, places[::-1]]
    return np.asarray(cells)


def _mirrored(packed: PackedRelation, cells: AnyArray) -> bool:
    """Whether one of some cells, in tree order, is a link; blocks are read until one is."""
    for number, said in enumerate(packed.blocks.files):
        here = cells[(cells[:, 0] >= said["first"]) & (cells[:, 0] <= said["last"])]
        if len(here):
            tree = packed.blocks[number]
            places, there = find_cells(tree.rows, tree.starts, here)
            if (tree.entries[places[there]] > 0).any():
                return True
    return False
