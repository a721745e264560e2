"""``plait.pack``: tables of any size into a folder of blocks."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from plait.data.blocks.memory import bytes_of
from plait.data.blocks.pack import pack_blocks
from plait.data.blocks.packed import Packed
from plait.data.blocks.traps import packed_traps
from plait.fitting.progress import counting
from plait.model import Model
from plait.warn import warn_of

PARTS = 1000  # of a bar


def pack(
    model: Model | str,
    data: Mapping[str, Any],
    path: str | PathLike[str],
    *,
    memory: str | int = "4GB",
    labels: Mapping[str, Sequence[Any]] | None = None,
    progress: bool | None = None,
) -> Packed:
    """Sort tables that are larger than memory into blocks on disk.

    model     the equations, or their text
    data      relation -> table, most often a `plait.scan`; or a `plait.Relation` of one that says more
    path      the folder to make; one that holds blocks already is replaced as a whole, once the new ones are complete
    memory    how much to take beside Python and its libraries: "4GB", "500MB", or bytes; too little is refused
    labels    declared entities by axis, as in `plait.fit`
    progress  whether a bar is shown; by default on a terminal and in a notebook

    All is checked as in `plait.fit`, and warned of; errors name file and row. Killed at any moment, the folder is as it
    was, and the next pack removes the unfinished files. Besides the blocks, as much room on disk is taken meanwhile as
    entries need, about 12 bytes each.
    """
    model = model if isinstance(model, Model) else Model(model)
    budget = bytes_of(memory)
    with counting("packing", PARTS, progress, percent=True) as advance:
        done = 0

        def report(share: float) -> None:
            nonlocal done
            now = int(share * PARTS)
            if now > done:
                advance(now - done)
                done = now

        pack_blocks(model, data, path, budget, labels, report)
    packed = Packed.open(path)
    warn_of(packed_traps(model, packed))
    return packed
