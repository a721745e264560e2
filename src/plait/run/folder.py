"""A folder that changes as a whole: new files first, then the manifest that names them, then the old files go.

A crash at any moment leaves the old manifest with its files or the new one with its own. Every file has its size and
a checksum in the manifest, so that damage is found when the folder is read.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from plait.errors import StoreError
from plait.machine import path_fault

MANIFEST = "manifest.json"
# 2: fingerprints made in another way, arrays may be floats; 3: several members; 4: a stop has a reason.
FORMAT, VERSION = "plait-run", 4
OURS = re.compile(r".+-[0-9a-f]{8}\.(safetensors|parquet|json)")  # what a save that was cut off may leave behind
NOT_OURS = "Name a run that plait made, or another folder."


class File(NamedTuple):
    """A file to be: its name without the ending, the ending, what its content depends on, and who writes it."""

    name: str
    ending: str
    key: str | None  # where the folder has a file of this name and key already, that one stays
    write: Callable[[Path], None]


def publish(folder: str | os.PathLike[str], header: Mapping[str, Any], files: list[File]) -> None:
    """Make these files, and a manifest of them and the header, the content of a folder."""
    place = Path(folder)
    old = _earlier(place)
    written: list[Path] = []
    try:
        place.mkdir(parents=True, exist_ok=True)
        entries = {file.name: _placed(place, file, old, written) for file in files}
        manifest = {"format": FORMAT, "version": VERSION, **header, "files": entries}
        draft = place / f"manifest-{secrets.token_hex(4)}.json"
        written.append(draft)
        draft.write_text(json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")
        _sync(draft)
        os.replace(draft, place / MANIFEST)
    except BaseException as error:
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        if (reason := _refusal(error)) is None:
            raise
        cure = "Make room, or save into" if reason.errno == errno.ENOSPC else "Save into"
        raise StoreError(
            f"{place}: the run cannot be saved: {reason.strerror or reason}.\n"
            f"{cure} another folder; what was there is as it was."
        ) from error
    _sync(place)
    _sweep(place, {entry["file"] for entry in entries.values()})


def _refusal(error: BaseException) -> OSError | None:
    """What the system refused, also where polars or safetensors say it in words of their own."""
    if isinstance(error, OSError):
        return error
    number = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else None


def _earlier(place: Path) -> dict[str, Any]:
    """The file entries of the run that the folder holds now; refuse a folder that holds anything else."""
    _check_path(place)
    if not place.exists():
        return {}
    if not place.is_dir():
        raise StoreError(f"{place}: a run is a folder, but this is a file.\n{NOT_OURS}")
    if not (place / MANIFEST).exists():
        strange = [path.name for path in place.iterdir() if not OURS.fullmatch(path.name)]
        if strange:
            raise StoreError(f"{place}: this folder holds other things, such as {strange[0]!r}.\n{NOT_OURS}")
        return {}
    return dict(manifest(place)["files"])


def _check_path(place: Path) -> None:
    if fault := path_fault(place):
        raise StoreError(f"{place}: there can be no such folder: {fault}.\nName another folder.")


def _placed(place: Path, file: File, old: Mapping[str, Any], written: list[Path]) -> dict[str, Any]:
    """Write a file unless it is there already; its entry in the manifest."""
    known = old.get(file.name)
    if file.key is not None and known is not None and known["key"] == file.key and _fits(place, known):
        return dict(known)
    path = place / f"{file.name}-{secrets.token_hex(4)}{file.ending}"
    written.append(path)
    path.touch()
    mode = path.stat().st_mode  # as this user's files are: safetensors would keep others from reading its own
    file.write(path)
    path.chmod(mode)
    _sync(path)
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": _checksum(path), "key": file.key}


def _fits(place: Path, entry: Mapping[str, Any]) -> bool:
    path = place / str(entry["file"])
    return path.is_file() and path.stat().st_size == int(entry["bytes"])


def _checksum(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Wait until the disk has it: else a power cut could keep the manifest and lose what it names."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sweep(place: Path, needed: set[str]) -> None:
    """Remove files of earlier saves. What cannot be removed does no harm."""
    for path in place.iterdir():
        if OURS.fullmatch(path.name) and path.name not in needed:
            with contextlib.suppress(OSError):
                path.unlink()


def manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest of a run; its `extra` is what was saved beside the fit."""
    place = Path(folder)
    path = place / MANIFEST
    _check_path(place)
    if not path.is_file():
        what = "there is no such folder" if not place.exists() else f"this is no run of Plait: it has no {MANIFEST}"
        raise StoreError(f"{place}: {what}.\n{NOT_OURS}")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise StoreError(f"{path}: the manifest is damaged: {error}.\nFetch a copy, or fit again.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise StoreError(f"{path}: this is not the manifest of a run of Plait.\n{NOT_OURS}")
    version = found.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise StoreError(
            f"{place}: the run has format version {version}, but this Plait knows versions up to {VERSION}.\n"
            f"Upgrade Plait (the run was saved by {found.get('plait', 'a newer one')})."
        )
    return found


def intact(folder: str | os.PathLike[str], header: Mapping[str, Any], name: str) -> Path:
    """The path of one of the run's files, after checking that it is as it was written."""
    place, entry = Path(folder), header.get("files", {}).get(name)
    if entry is None:
        raise StoreError(
            f"{place / MANIFEST}: the manifest is damaged: it names no {name}.\nFetch a copy, or fit again."
        )
    path = place / str(entry["file"])
    if not path.is_file():
        raise StoreError(f"{path}: this file of the run is missing.\nFetch a copy of the folder, or fit again.")
    if path.stat().st_size != entry["bytes"] or _checksum(path) != entry["sha256"]:
        raise StoreError(f"{path}: this file of the run is damaged.\nFetch a copy of the folder, or fit again.")
    return path
