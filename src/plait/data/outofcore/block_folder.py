"""Folder of blocks with atomic replacement: new files, then the manifest that names them, then removal of the old
files.

Every file of a pack has the pack's token in its name. A crash leaves the old manifest with its files, or the new one
with its own; the next pack removes all other files. A lock file with the process id keeps two packs from one folder.
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
NOT_OURS = "Choose a folder that `plait pack` has written, or a new one to pack into."
AGAIN = "Restore the folder from a copy, or delete it and pack again."
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
    "likelihood_by?": str,
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
    """A folder while it is packed: files of one token, and their manifest entries."""

    def __init__(self, place: Path) -> None:
        self.place, self.token = place, secrets.token_hex(4)

    @property
    def spill(self) -> Path:
        """Folder for temporary files."""
        return self.place / f"{self.token}-spill"

    def put(self, name: str, *pieces: Bytes | bytes) -> dict[str, Any]:
        """Write a file from pieces; return its entry: name, size and checksum."""
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
        """Write the manifest, which makes the draft the content of the folder."""
        entry = self.put("manifest.json", dumps({"format": FORMAT, "version": VERSION, **manifest}))
        os.replace(self.place / entry["file"], self.place / MANIFEST)
        _sync_folder(self.place)
        sweep(self.place, keep=self.token)


def _sync_folder(place: Path) -> None:
    """fsync a folder."""
    if os.name != "nt":
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sweep(place: Path, keep: str) -> None:
    """Remove files of other packs; `keep`: token of the files that stay."""
    stay = f"{keep}-"
    for path in place.iterdir():
        if OURS.fullmatch(path.name) and not path.name.startswith(stay):
            is_folder = path.is_dir() and not path.is_symlink()
            shutil.rmtree(path, ignore_errors=True) if is_folder else path.unlink(missing_ok=True)
    shutil.rmtree(place / f"{keep}-spill", ignore_errors=True)


@contextlib.contextmanager
def drafting(path: str | os.PathLike[str]) -> Iterator[Draft]:
    """Context of a draft under the folder's lock.

    If it is not published, its files are removed, and the folder too if the draft created it.
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
                with contextlib.suppress(OSError):  # not empty
                    place.rmdir()


def _token(place: Path) -> str:
    """Token of the manifest's files; a new one without a manifest."""
    try:
        return str(read_manifest(place)["token"])
    except StorageError:
        return "none"


def _check(place: Path) -> None:
    """Refuse a path that is not a folder of blocks and not empty."""
    if fault := path_fault(place):
        raise StorageError(
            f"this is not a valid path: {fault}.", location=FileLocation(place), hint="Choose another folder."
        )
    if place.exists() and not place.is_dir():
        raise StorageError("expected a folder of blocks, got a file.", location=FileLocation(place), hint=NOT_OURS)
    if place.is_dir():
        if (place / MANIFEST).exists():
            read_manifest(place)
        strange = [one.name for one in place.iterdir() if one.name != MANIFEST and not OURS.fullmatch(one.name)]
        if strange:
            raise StorageError(
                f"this folder contains other files, such as {strange[0]!r}.",
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
                "another process is packing into this folder.",
                location=FileLocation(place),
                hint="Wait until it ends, or choose another folder.",
            ) from None
        yield


@contextlib.contextmanager
def _naming_refusals(place: Path) -> Iterator[None]:
    """Turn system errors into errors that name the folder."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT) or "os error 28" in str(error)  # text of polars
        raise StorageError(
            f"the blocks cannot be written: {error.strerror or error}.",
            location=FileLocation(place),
            hint=f"{'Free some space, or pack into' if full else 'Pack into'} another folder. The old blocks "
            "are unchanged.",
        ) from error


# --- reading


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    place = Path(path)
    if fault := path_fault(place):
        raise StorageError(f"this is not a valid path: {fault}.", location=FileLocation(place), hint=NOT_OURS)
    if not (place / MANIFEST).exists():
        what = (
            "the folder does not exist"
            if not place.exists()
            else f"this is not a folder of blocks: {MANIFEST} is missing"
        )
        if any(place.glob("*-spill")):
            what = "packing into this folder has not finished"
        raise StorageError(f"{what}.", location=FileLocation(place), hint=NOT_OURS)
    path = place / MANIFEST
    content = loads(read_bytes(path, AGAIN), path, checksum_since=2, hint=AGAIN)
    if content.get("format") != FORMAT:
        raise StorageError("this is not the manifest of blocks.", location=FileLocation(path), hint=NOT_OURS)
    if not isinstance(content.get("version"), int) or not 1 <= content["version"] <= VERSION:
        raise StorageError(
            f"the blocks have format version {content.get('version')}, but this version of Plait reads "
            f"versions up to {VERSION}.",
            location=FileLocation(place),
            hint=f"Upgrade Plait (they were packed by {content.get('plait', 'a newer one')}).",
        )
    content = _upgrade(content)
    check(content, SCHEMA, path, hint=AGAIN)
    return content


def _upgrade(content: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest of format version 1 or 2 with the names of version 3; the schema refuses odd values later."""
    if content["version"] > 2 or not isinstance(content.get("relations"), dict):
        return content
    return content | {"relations": {name: _upgrade_relation(entry) for name, entry in content["relations"].items()}}


def _upgrade_relation(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    names = {"diagonal": "self_links", "self_links": "dropped_self_links"}
    entry = {names.get(key, key): value for key, value in entry.items()}
    if isinstance(options := entry.get("options"), dict):
        unseen = {"relation": "missing", "model": "zero"}.get(str(options.get("universe")))
        options = {names.get(key, key): value for key, value in options.items() if key != "universe"}
        entry["options"] = options | ({} if unseen is None else {"unseen": unseen})
    if isinstance(words := entry.get("likelihood"), dict) and words.get("name") == "amounts":
        entry["likelihood"] = words | {"name": "tweedie"}
    return entry


def check_size(place: Path, entry: Mapping[str, Any]) -> Path:
    """Path of a file of the manifest, after checking its size."""
    path = inside(place, entry["file"], hint=AGAIN)
    try:
        size = path.stat().st_size
    except OSError:
        raise StorageError("this file of the blocks is missing.", location=FileLocation(path), hint=AGAIN) from None
    if size != entry["bytes"]:
        raise damaged(path, f"it has {size:,} bytes, not {entry['bytes']:,}")
    return path


def check_content(place: Path, entry: Mapping[str, Any]) -> Path:
    """Path of a file of the manifest, after checking its checksum."""
    path = check_size(place, entry)
    with path.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != entry["sha256"]:
            raise damaged(path, "its checksum is wrong")
    return path


def damaged(path: Path, how: str) -> StorageError:
    """Error for a file that differs from the written one."""
    return StorageError(f"this file of the blocks is damaged: {how}.", location=FileLocation(path), hint=AGAIN)


# Files whose checksum this process has verified: device, inode, size, times of change, and the checksum.
_compared: set[tuple[int | str, ...]] = set()


def read_file(place: Path, entry: Mapping[str, Any], buffer: Bytes) -> tuple[Bytes, bool]:
    """Read a file of the manifest into a buffer, by one readinto (several beyond 2 GB, the limit of some systems).

    The checksum is verified at the first read by this process, and after changes. Returns the bytes, and whether they
    were verified now.
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
            raise damaged(path, "its checksum is wrong")
        _compared.add(mark)
    return np.asarray(buffer[:size]), is_new
