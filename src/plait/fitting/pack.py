"""`plait.pack`: tables of any size into a folder of blocks."""

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, cast

import numpy as np

from plait._typing import AnyArray
from plait.checks import (
    MIN_DIRECTED_LINKS,
    MIN_EQUAL_LINKS,
    MIN_EXPECTED_MIRRORS,
    MIRROR_SAMPLE_LINKS,
    check_axes,
    check_direction,
    check_dispersion,
    check_unique_axes,
    check_zeros,
    find_asymmetric_indices,
    mostly_observed,
)
from plait.data.bound import BoundRelation
from plait.data.dispersion import (
    MAX_POISSON_VALUE,
    MIN_EXCESS_NATS,
    MIN_LINKS,
    SAMPLE_LINKS,
    excess,
    has_pair_factor,
)
from plait.data.observation.links import LinkArrays
from plait.data.observation.weights import along
from plait.data.outofcore.bind_blocks import OnDisk
from plait.data.outofcore.block_table import LinksOnDisk
from plait.data.outofcore.memory_budget import bytes_of
from plait.data.outofcore.pack_tables import pack_blocks
from plait.data.outofcore.packed import Packed, PackedRelation
from plait.data.sparse.csf import CSFTensor
from plait.data.sparse.csf_index import find_cells
from plait.errors import PlaitWarning, warn_of
from plait.model.model import Model
from plait.progress import counting

BAR_STEPS = 1000  # of a bar


def pack(
    model: Model | str,
    data: Mapping[str, Any],
    path: str | PathLike[str],
    *,
    memory: str | int = "4GB",
    entities: Mapping[str, Sequence[Any]] | None = None,
    progress: bool | None = None,
) -> Packed:
    """Sort tables that are larger than memory into blocks on disk.

    Parameters
    ----------
    model : Model or str
        The model, or its equations as text.
    data : dict of str to table, Scan or Relation
        One entry per relation, usually from `plait.scan`.
    path : path
        The folder to write. Existing blocks are replaced when the new ones are complete.
    memory : str or int, default "4GB"
        Memory to use in addition to Python and its libraries: ``"4GB"``, ``"500MB"`` or bytes.
    entities : dict of str to sequence, default None
        Entities per axis, as in `plait.fit`.
    progress : bool or None, default None
        Whether to show a bar. ``None`` shows it on a terminal and in a notebook.

    Returns
    -------
    Packed
        A summary of the blocks. Pass ``path`` as data to `plait.fit`.

    Raises
    ------
    plait.errors.DataError
        If the data are wrong; the message names file and row.
    plait.errors.ParameterError
        If ``memory`` is too small.

    Notes
    -----
    Data are checked as in `plait.fit`. After a crash the folder is unchanged. Packing takes
    about 12 bytes of disk per entry in addition to the blocks.

    Guide: <https://tensorplait.github.io/tensorplait/large-data.html>.

    Examples
    --------
    >>> plait.write(visits, "visits.parquet")
    >>> packed = plait.pack(model, {"visits": plait.scan("visits.parquet")}, "blocks")
    >>> plait.fit(model, "blocks", **quick).rank
    {'r': 2}
    """
    model = model if isinstance(model, Model) else Model(model)
    budget = bytes_of(memory)
    with counting("packing", BAR_STEPS, progress, percent=True) as advance:
        done = 0

        def report(share: float) -> None:
            nonlocal done
            now = int(share * BAR_STEPS)
            if now > done:
                advance(now - done)
                done = now

        pack_blocks(model, data, path, budget, entities, report)
    packed = Packed.open(path)
    warn_of(check_packed(model, packed))
    return packed


def check_packed(model: Model, packed: Packed) -> Iterator[PlaitWarning]:
    """All traps in a folder that was packed for a model."""
    names = {index: packed.entities[model.axis(index)] for index in model.visible}
    yield from check_axes(model, packed.entities, {name: one.seen for name, one in packed.relations.items()})
    for name, said in packed.manifest["relations"].items():
        equation = model.equation(name)
        relation = OnDisk(packed, name).bound(equation, names)
        least, most = said["values"]
        if said["options"]["observed"] == "listed" and said["links"] >= MIN_EQUAL_LINKS:
            yield from check_zeros(relation, most if least == most else None)
        yield from check_unique_axes(relation, said["rows"], model)
        yield from check_direction(relation, model, find_asymmetric_indices(relation, model, _count_unmirrored))
        is_named = relation.likelihood.name == "poisson" and not relation.likelihood_by
        if is_named and most > MAX_POISSON_VALUE and not has_pair_factor(equation):
            yield from _check_dispersion(relation)


def _check_dispersion(relation: BoundRelation) -> Iterator[PlaitWarning]:
    """The warning about counts; never where M is on disk."""
    if len(relation.links) < MIN_LINKS or not all(term.in_memory for term in relation.weights.terms):
        return
    own = cast(LinksOnDisk, relation.links).disk.packed
    sample, marginals = _choose_links(own), [own.marginals[index][0] for index in relation.indices]
    exposures = [along(relation.weights, (index,)) for index in relation.indices]
    exceeds = excess(sample, relation.shape, relation.groups, exposures, marginals) >= MIN_EXCESS_NATS
    yield from check_dispersion(relation, exceeds, sample.values)


def _choose_links(packed: PackedRelation) -> LinkArrays:
    """Some links, evenly spread; one block after the other is in memory."""
    step, places = max(1, -(-packed.entries // SAMPLE_LINKS)), [packed.order.index(one) for one in packed.indices]
    links = [LinkArrays.none(len(places))]
    for tree in packed.blocks:
        at = np.arange(0, len(tree), step)
        at = at[tree.entries[at] > 0]
        weights = np.asarray(tree.side_values[0][at]) if tree.side_values else np.ones(len(at))
        links.append(LinkArrays(tree.cells(at)[:, places], tree.entries[at].astype(np.float64), weights))
    return LinkArrays(*map(np.concatenate, zip(*links)))


def _count_unmirrored(relation: BoundRelation, k: int, other: int) -> int:
    """How many links have a mirror image that is an observed zero, if (nearly) all do and that is no chance; else 0.

    Most often links of the first block have mirror images in the first blocks, and no more are read.
    """
    packed = cast(LinksOnDisk, relation.links).disk.packed
    cells = relation.total_cells - relation.total_cells // relation.shape[k]
    if not packed.links or (
        min(packed.links, MIRROR_SAMPLE_LINKS) * packed.links < MIN_EXPECTED_MIRRORS * cells
        and packed.links < MIN_DIRECTED_LINKS
    ):
        return 0
    places = [packed.order.index(packed.indices[one]) for one in (k, other)]
    if _mirrored(
        packed, _sample(packed.blocks[0], places, -(-packed.blocks.files[0]["entries"] // MIRROR_SAMPLE_LINKS))
    ):
        return 0
    step = max(1, -(-packed.entries // MIRROR_SAMPLE_LINKS))
    sampled, count = [], 0
    for tree in packed.blocks:
        sampled.append(_sample(tree, places, step))
        first, second = (tree.column(tree.order[place], len(tree.order) - 1) for place in places)
        count += int(np.count_nonzero((first != second) & (tree.entries > 0)))
    turned = np.concatenate(sampled)
    if (len(turned) * count < MIN_EXPECTED_MIRRORS * cells and count < MIN_DIRECTED_LINKS) or _mirrored(packed, turned):
        return 0
    return count if mostly_observed(relation, turned[:, [packed.order.index(one) for one in packed.indices]]) else 0


def _sample(tree: CSFTensor, places: list[int], step: int) -> AnyArray:
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
