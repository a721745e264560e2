"""The folder of blocks: new files first, then the manifest that names them, then the old files go.

Every file that a pack writes has the pack's own token in its name. A crash at any moment leaves the old manifest with
its files, or the new one with its own. The next pack removes all other files. A lock, with the process that holds it,
keeps two packs from one folder.
"""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.outofcore.block_file import Bytes
from plait.errors import FileLocation, StorageError
from plait.machine import folder_lock, path_fault
from plait.manifests import FILE, check, dumps, inside, loads, natural, read_bytes

MANIFEST = "manifest.json"
FORMAT, VERSION = "plait-blocks", 3  # 2: the manifest has a checksum; 3: today's public names
OURS = re.compile(r"[0-9a-f]{8}-.+\.(safetensors|parquet|json)|[0-9a-f]{8}-spill")
NOT_OURS = "Name a folder that plait.pack made, or a new one."
AGAIN = "Fetch a copy of the folder, or remove it and pack again."
TOKEN = re.compile(r"[0-9a-f]{8}")


def _is_weight(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= sys.float_info.max


_UNSIGNED = "uint8", "uint16", "uint32", "uint64"
_RELATION = {
    "indices": [str],
    "shape": [natural],
    "order": [str],
    "entries": natural,
    "links": natural,
    "zeros": natural,
    "rows": natural,
    "likelihood": {"name": str},
    "options": {
        "observed": ("all", "listed", _is_weight), "unseen": ("missing", "zero"), "weight": (str, _is_weight),
        "duplicates": ("error", "sum"), "self_links": ("auto", "missing", "observed"), "value": (str, None),
        "strip": bool,
    },
    "open_weight": bool,
    "columns": {str: str},
    "types": {
        "rows": [_UNSIGNED], "starts": ("uint32", "uint64"), "entries": ("uint8", "uint16", "float32", "float64"),
        "weights": bool,
    },
    "sums": [float],
    "values": [_is_weight],
    "missing": [[str]],
    "hidden": [[str]],
    "self_links": ("", "missing", "observed"),
    "summed": natural,
    "dropped_self_links": natural,
    "observed_cells": int,
    "totals": FILE,
    "blocks": [{**FILE, "entries": natural, "first": natural, "last": natural, "inside": bool}],
}  # fmt: skip
SCHEMA = {
    "plait": str,
    "token": lambda value: isinstance(value, str) and TOKEN.fullmatch(value) is not None,
    "model": str,
    "fingerprint": str,
    "labels": {str: FILE},
    "relations": {str: _RELATION},
}


class Draft:
    """What becomes of a folder while it is packed: files of one token, and the entries of a manifest for them."""

    def __init__(self, place: Path) -> None:
        self.place, self.token = place, secrets.token_hex(4)

    @property
    def spill(self) -> Path:
        """A folder of its own for what is sorted later; nothing in it is ever part of the result."""
        return self.place / f"{self.token}-spill"

    def put(self, name: str, *pieces: Bytes | bytes) -> dict[str, Any]:
        """Write a file, piece by piece; its entry: name, size and checksum."""
        path = self.place / f"{self.token}-{name}"
        digest, size = hashlib.sha256(), 0
        with open(path, "wb", buffering=0) as stream:
            for piece in pieces:
                view = memoryview(piece)  # type: ignore[arg-type]
                digest.update(view)
                size += len(view)
                done = 0
                while done < len(view):
                    done += stream.write(view[done:]) or 0
            os.fsync(stream.fileno())
        return {"file": path.name, "bytes": size, "sha256": digest.hexdigest()}

    def publish(self, manifest: Mapping[str, Any]) -> None:
        """Make the manifest that of the folder: from here on it holds this, and nothing else."""
        entry = self.put("manifest.json", dumps({"format": FORMAT, "version": VERSION, **manifest}))
        os.replace(self.place / entry["file"], self.place / MANIFEST)
        _sync_folder(self.place)
        sweep(self.place, keep=self.token)


def _sync_folder(place: Path) -> None:
    """Wait until the disk has the names of a folder's files."""
    if os.name != "nt":
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sweep(place: Path, keep: str) -> None:
    """Remove the files that other packs left; keep: the token whose files stay."""
    stay = f"{keep}-"
    for path in place.iterdir():
        if OURS.fullmatch(path.name) and not path.name.startswith(stay):
            is_folder = path.is_dir() and not path.is_symlink()
            shutil.rmtree(path, ignore_errors=True) if is_folder else path.unlink(missing_ok=True)
    shutil.rmtree(place / f"{keep}-spill", ignore_errors=True)


@contextlib.contextmanager
def drafting(path: str | os.PathLike[str]) -> Iterator[Draft]:
    """A draft of a folder that no other process packs meanwhile.

    If it is not published, its files are removed, and the folder as well if the draft made it.
    """
    place = Path(path)
    _check(place)
    made = not place.exists()
    with _naming_refusals(place):
        place.mkdir(parents=True, exist_ok=True)
        try:
            with _locked(place):
                sweep(place, _token(place))
                try:
                    yield Draft(place)
                finally:
                    sweep(place, _token(place))
        finally:
            if made:
                with contextlib.suppress(OSError):  # it is not empty
                    place.rmdir()


def _token(place: Path) -> str:
    """The token of the files that the folder's manifest names; any other where there is none."""
    try:
        return str(read_manifest(place)["token"])
    except StorageError:
        return "none"


def _check(place: Path) -> None:
    """Refuse a path that cannot be one of blocks, and what holds anything else."""
    if fault := path_fault(place):
        raise StorageError(
            f"there can be no such folder: {fault}.", location=FileLocation(place), hint="Name another folder."
        )
    if place.exists() and not place.is_dir():
        raise StorageError(
            "blocks are kept in a folder, but this is a file.", location=FileLocation(place), hint=NOT_OURS
        )
    if place.is_dir():
        if (place / MANIFEST).exists():
            read_manifest(place)
        strange = [one.name for one in place.iterdir() if one.name != MANIFEST and not OURS.fullmatch(one.name)]
        if strange:
            raise StorageError(
                f"this folder holds other things, such as {strange[0]!r}.",
                location=FileLocation(place),
                hint=NOT_OURS,
            )


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Hold the folder's lock."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(folder_lock(place, wait=False))
        except BlockingIOError:
            raise StorageError(
                "the folder is being packed by another process.",
                location=FileLocation(place),
                hint="Wait for it, or pack into another folder.",
            ) from None
        yield


@contextlib.contextmanager
def _naming_refusals(place: Path) -> Iterator[None]:
    """What the system refuses, as an error that says of which folder."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT) or "os error 28" in str(error)  # so says polars
        raise StorageError(
            f"the blocks cannot be written: {error.strerror or error}.",
            location=FileLocation(place),
            hint=f"{'Make room, or pack into' if full else 'Pack into'} another folder; what was there is as it was.",
        ) from error


# --- reading


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest of a folder of blocks."""
    place = Path(path)
    if fault := path_fault(place):
        raise StorageError(f"there can be no such folder: {fault}.", location=FileLocation(place), hint=NOT_OURS)
    if not (place / MANIFEST).exists():
        what = "there is no such folder" if not place.exists() else f"these are no blocks: there is no {MANIFEST}"
        if any(place.glob("*-spill")):
            what = "the folder is being packed, or its pack was cut off"
        raise StorageError(f"{what}.", location=FileLocation(place), hint=NOT_OURS)
    path = place / MANIFEST
    found = loads(read_bytes(path, AGAIN), path, checksum_since=2, hint=AGAIN)
    if found.get("format") != FORMAT:
        raise StorageError("this is not the manifest of blocks.", location=FileLocation(path), hint=NOT_OURS)
    if not isinstance(found.get("version"), int) or not 1 <= found["version"] <= VERSION:
        raise StorageError(
            f"the blocks have format version {found.get('version')}, but this Plait knows versions up to {VERSION}.",
            location=FileLocation(place),
            hint=f"Upgrade Plait (they were packed by {found.get('plait', 'a newer one')}).",
        )
    found = _upgrade(found)
    check(found, SCHEMA, path, hint=AGAIN)
    return found


def _upgrade(found: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest of format version 1 or 2 with the names of version 3; the schema refuses odd values later."""
    if found["version"] > 2 or not isinstance(found.get("relations"), dict):
        return found
    return found | {"relations": {name: _upgrade_relation(told) for name, told in found["relations"].items()}}


def _upgrade_relation(told: Any) -> Any:
    if not isinstance(told, dict):
        return told
    names = {"diagonal": "self_links", "self_links": "dropped_self_links"}
    told = {names.get(key, key): value for key, value in told.items()}
    if isinstance(options := told.get("options"), dict):
        unseen = {"relation": "missing", "model": "zero"}.get(str(options.get("universe")))
        options = {names.get(key, key): value for key, value in options.items() if key != "universe"}
        told["options"] = options | ({} if unseen is None else {"unseen": unseen})
    if isinstance(words := told.get("likelihood"), dict) and words.get("name") == "amounts":
        told["likelihood"] = words | {"name": "tweedie"}
    return told


def check_size(place: Path, entry: Mapping[str, Any]) -> Path:
    """A file that the manifest names, once it is certain that it is there with its size."""
    path = inside(place, entry["file"], hint=AGAIN)
    try:
        size = path.stat().st_size
    except OSError:
        raise StorageError("this file of the blocks is missing.", location=FileLocation(path), hint=AGAIN) from None
    if size != entry["bytes"]:
        raise damaged(path, f"it has {size:,} bytes, not {entry['bytes']:,}")
    return path


def check_content(place: Path, entry: Mapping[str, Any]) -> Path:
    """The same, once it is certain that nothing in it has changed."""
    path = check_size(place, entry)
    with path.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != entry["sha256"]:
            raise damaged(path, "its checksum is another one")
    return path


def damaged(path: Path, how: str) -> StorageError:
    """A file that is not what was written."""
    return StorageError(f"this file of the blocks is damaged: {how}.", location=FileLocation(path), hint=AGAIN)


# Files whose checksum this process has compared: device, inode, size, times of change, and the checksum.
_compared: set[tuple[int | str, ...]] = set()


def read_file(place: Path, entry: Mapping[str, Any], buffer: Bytes) -> tuple[Bytes, bool]:
    """Read a file that the manifest names into a buffer, by one readinto (several beyond 2 GB, the most of a system).

    Its checksum is compared when this process reads it for the first time, or for the first time since it changed.
    Returns its bytes, and whether they were compared now.
    """
    path, size = inside(place, entry["file"], hint=AGAIN), int(entry["bytes"])
    try:
        with open(path, "rb", buffering=0) as stream:
            status = os.fstat(stream.fileno())
            if status.st_size != size:
                raise damaged(path, f"it has {status.st_size:,} bytes, not {size:,}")
            done, view = 0, memoryview(buffer)[:size]  # type: ignore[arg-type]
            while done < size:
                more = stream.readinto(view[done:])
                if not more:
                    raise damaged(path, "it ends too early")
                done += more
    except FileNotFoundError:
        raise StorageError("this file of the blocks is missing.", location=FileLocation(path), hint=AGAIN) from None
    except OSError as error:
        raise StorageError(
            f"this file of the blocks cannot be read: {error.strerror}.", location=FileLocation(path), hint=AGAIN
        ) from error
    times = status.st_mtime_ns, status.st_ctime_ns
    mark = (status.st_dev, status.st_ino, size, *times, str(entry["sha256"]))
    is_new = mark not in _compared
    if is_new:
        if hashlib.sha256(view).hexdigest() != entry["sha256"]:
            raise damaged(path, "its checksum is another one")
        _compared.add(mark)
    return np.asarray(buffer[:size]), is_new
