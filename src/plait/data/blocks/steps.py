"""Finished steps as files, and back: the names that the first pass found, and rows that were dealt."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from plait.data.blocks.collecting import Known
from plait.data.blocks.file import from_bytes, to_pieces
from plait.data.blocks.journal import COLLECTED, Journal, dealt_step
from plait.data.blocks.reader import Reader, Values
from plait.types import AnyArray

if TYPE_CHECKING:
    from plait.data.blocks.relation import Packing


# --- names


def note_names(journal: Journal, readers: Mapping[str, Reader]) -> None:
    """The first pass is over."""
    journal.spill.mkdir(exist_ok=True)
    files: list[Path] = []
    for number, reader in enumerate(readers.values()):
        files += [*reader.copied_files, *_write_names(journal, number, reader)]
    said = {
        name: {"rows": reader.rows, "copies": reader.copies, "values": reader.values.said()}
        for name, reader in readers.items()
    }
    journal.note(COLLECTED, said, files)


def _names_file(journal: Journal, number: int, place: int) -> Path:
    return journal.spill / f"names{number}-{place}.arrow"


def _write_names(journal: Journal, number: int, reader: Reader) -> list[Path]:
    import polars as pl

    paths = []
    for place, index in enumerate(reader.indices):
        found, path = reader.found[index], _names_file(journal, number, place)
        counts = found.counts
        columns = {"names": found.names} if counts is None else {"names": counts[0], "counts": pl.Series(counts[1])}
        pl.DataFrame(columns).write_ipc(path, compression="uncompressed")
        paths.append(path)
    return paths


def take_names(journal: Journal, readers: Mapping[str, Reader]) -> None:
    """What a first pass found that somebody else made."""
    import polars as pl

    for number, (name, reader) in enumerate(readers.items()):
        said = journal[COLLECTED][name]
        reader.rows, reader.copies, reader.values = said["rows"], said["copies"], Values(*said["values"])
        for place, index in enumerate(reader.indices):
            table = pl.read_ipc(_names_file(journal, number, place).read_bytes())
            names = table["names"]
            counts = (names, table["counts"].to_numpy()) if "counts" in table.columns else None
            reader.found[index] = Known(names, counts)


# --- rows


def note_dealt(journal: Journal, packing: "Packing") -> None:
    """All rows of a relation are in its spool, which from here on stays until its blocks are written."""
    spool = packing.spool
    spool.stay()
    arrays: dict[str, AnyArray] = {"counts": packing.counts.view(np.uint64), "own": packing.own.view(np.uint8)}
    arrays |= {f"seen/{axis}": seen.view(np.uint8) for axis, seen in packing.seen.items()}
    path = _dealt_file(journal, packing)
    with open(path, "wb") as stream:
        for piece in to_pieces(arrays):
            stream.write(piece.data)
    said = {
        "spool": spool.said(), "values": packing.values.said(), "loops": packing.loops,
        "self_links": packing.self_links,
    }  # fmt: skip
    journal.note(dealt_step(packing.reader.name), said, [path, *spool.files])


def _dealt_file(journal: Journal, packing: "Packing") -> Path:
    return journal.spill / f"dealt{packing.number}.safetensors"


def take_dealt(journal: Journal, packing: "Packing") -> None:
    """The rows that somebody else dealt."""
    said = journal[dealt_step(packing.reader.name)]
    arrays = from_bytes(np.fromfile(_dealt_file(journal, packing), np.uint8))
    packing.lay_out()
    packing.spool.take_over(said["spool"])
    packing.counts, packing.own = arrays["counts"].view(np.int64), arrays["own"].view(np.bool_)
    packing.seen = {axis: arrays[f"seen/{axis}"].view(np.bool_) for axis in packing.seen}
    packing.values, packing.loops, packing.self_links = Values(*said["values"]), said["loops"], said["self_links"]
