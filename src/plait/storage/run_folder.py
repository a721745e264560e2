"""Run folders with atomic replacement, and runs in one file: new files, then the manifest that names them, then removal
of old files.

A crash leaves the old manifest with its files or the new one with its own. The manifest has size and checksum of every
file, so damage is detected. A run in one file, `model.plait`, is an uncompressed zip archive of such a folder (Parquet
is compressed already), written next to the old one and renamed. Archives are never unpacked to disk, so file names in
them are harmless.
"""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from plait.errors import FileLocation, StorageError, suggestion
from plait.machine import folder_lock, path_fault, replacing
from plait.manifests import check, damaged, dumps, inside, is_read_fault, loads, read_bytes
from plait.storage.manifest_schema import schema_of, upgrade

ENDING = ".plait"


class DamagedError(Exception):
    """An archive that cannot be read."""


def in_one_file(place: Path) -> bool:
    """Whether the run at a path is one file."""
    return place.is_file() or (place.suffix == ENDING and not place.is_dir())


def pack(folder: Path, target: Path) -> None:
    """Write the files of a folder into a new archive."""
    with zipfile.ZipFile(target, "x", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, path.name)


def unpack(place: Path, name: str) -> bytes | None:
    """Content of a file in an archive; None without such a file or archive."""
    if not zipfile.is_zipfile(place):
        return None
    try:
        with zipfile.ZipFile(place) as archive:
            if name not in archive.namelist():
                return None
            if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:  # decompressed size is unbounded
                raise DamagedError("it is compressed")
            return archive.read(name)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError) as error:
        raise DamagedError(str(error)) from error


MANIFEST = "manifest.json"
# 2: fingerprints made in another way, arrays may be floats; 3: several members; 4: a stop has a reason;
# 5: how cells are observed, for fold-in and updates; 6: the manifest has a checksum.
FORMAT, VERSION = "plait-run", 7  # 7: today's public names
CHECKSUM_SINCE = 6
# Files that an interrupted save may leave: files, drafts of manifests, drafts of safetensors.
OURS = re.compile(r".+-[0-9a-f]{8}\.(safetensors|parquet|json|part)|\.tmp\w{6}")
NOT_OURS = "Choose a folder or a .plait file of a saved run."
AGAIN = "Restore it from a copy, or fit again."


class File(NamedTuple):
    """A file to write: its name without the suffix, the suffix, the key of its content, and its writer."""

    name: str
    ending: str
    key: str | None  # a file of this name and key is not written again
    write: Callable[[Path], None]


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a run's folder, or of the folder of an archive."""
    place = Path(path)
    _check_path(place)
    folder = place.parent if in_one_file(place) else place
    with _naming_refusals(place):
        folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder):
        yield


def publish(path: str | os.PathLike[str], header: Mapping[str, Any], files: list[File]) -> None:
    """Replace the content of a `locked` folder, or of one file, by these files and a manifest with the header."""
    place = Path(path)
    with _naming_refusals(place):
        old = saved_files(place)
        if in_one_file(place):
            _write_file(place, header, files)
        else:
            entries = _write_folder(place, header, files, old)
        _sync(place if place.is_dir() else place.parent)
    with contextlib.suppress(OSError):  # files of earlier saves are harmless
        if place.is_dir():
            _sweep(place, {entry["file"] for entry in entries.values()})
        else:
            _sweep_drafts(place)


def _write_folder(
    place: Path, header: Mapping[str, Any], files: list[File], old: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Write new files, then the manifest, whose entries are returned; `old`: entries of files that may stay."""
    written: list[Path] = []
    try:
        place.mkdir(parents=True, exist_ok=True)
        entries = {file.name: _placed(place, file, old, written) for file in files}
        with replacing(place / MANIFEST) as file:
            file.write(dumps({"format": FORMAT, "version": VERSION, **header, "files": entries}, indent=1))
    except BaseException:
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        raise
    return entries


def _write_file(place: Path, header: Mapping[str, Any], files: list[File]) -> None:
    """Write a folder next to the file, pack it, and rename it."""
    draft = place.with_name(f".{place.name}-{secrets.token_hex(4)}")
    try:
        _write_folder(draft / "run", header, files, {})
        pack(draft / "run", draft / "packed")
        _sync(draft / "packed")
        os.replace(draft / "packed", place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextlib.contextmanager
def _naming_refusals(place: Path) -> Iterator[None]:
    """Turn system errors into errors that name the run."""
    try:
        yield
    except BaseException as error:
        if (reason := _refusal(error)) is None:
            raise
        hint = "Free some space, or save into" if reason.errno == errno.ENOSPC else "Save into"
        raise StorageError(
            f"the run cannot be saved: {reason.strerror or reason}.",
            location=FileLocation(place),
            hint=f"{hint} another folder. The old run is unchanged.",
        ) from reason


def _refusal(error: BaseException) -> OSError | None:
    """The system error, also from texts of polars or safetensors."""
    if isinstance(error, OSError):
        return error
    number = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else None


def saved_files(place: Path) -> dict[str, Any]:
    """File entries of the run that is there, if any; refuses a path with anything else."""
    _check_path(place)
    if not place.exists():
        return {}
    if not place.is_dir() and not holds_run(place):
        raise StorageError(
            f"expected a folder or a {ENDING} file, got another file.",
            location=FileLocation(place),
            hint="Choose another path.",
        )
    if not holds_run(place):
        strange = [path.name for path in place.iterdir() if not OURS.fullmatch(path.name)]
        if strange:
            raise StorageError(
                f"this folder contains other files, such as {strange[0]!r}.",
                location=FileLocation(place),
                hint="Choose another path.",
            )
        return {}
    return dict(manifest(place)["files"])


def _check_path(place: Path) -> None:
    if fault := path_fault(place):
        raise StorageError(
            f"this is not a valid path: {fault}.",
            location=FileLocation(place),
            hint="Choose another folder.",
        )


def _placed(place: Path, file: File, old: Mapping[str, Any], written: list[Path]) -> dict[str, Any]:
    """Write a file unless it exists; return its entry in the manifest."""
    known = old.get(file.name)
    if file.key is not None and known is not None and known["key"] == file.key and _fits(place, known):
        return dict(known)
    path = place / f"{file.name}-{secrets.token_hex(4)}{file.ending}"
    written.append(path)
    path.touch()
    mode = path.stat().st_mode  # by the umask; safetensors would make it private
    file.write(path)
    path.chmod(mode)
    _sync(path)
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": _checksum(path), "key": file.key}


def _fits(place: Path, entry: Mapping[str, Any]) -> bool:
    path = place / str(entry["file"])
    return path.is_file() and not path.is_symlink() and path.stat().st_size == entry["bytes"]


def _checksum(content: Path | bytes) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """fsync: else a power failure could keep the manifest and lose its files."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sweep(place: Path, needed: set[str]) -> None:
    """Remove files of earlier saves."""
    for path in place.iterdir():
        if OURS.fullmatch(path.name) and path.name not in needed:
            with contextlib.suppress(OSError):
                path.unlink()


def _sweep_drafts(place: Path) -> None:
    """Remove drafts of interrupted saves of this file."""
    draft = re.compile(re.escape(f".{place.name}-") + "[0-9a-f]{8}")
    for path in place.parent.iterdir():
        if draft.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


def holds_run(path: str | os.PathLike[str]) -> bool:
    """Whether a run is there, whole or damaged: a folder with a manifest, or an archive with one."""
    place = Path(path)
    _check_path(place)
    try:
        return unpack(place, MANIFEST) is not None if place.is_file() else (place / MANIFEST).exists()
    except DamagedError:
        return True


def _runs_in(folder: Path) -> list[str]:
    """Names of the runs in a folder."""
    try:
        return [one.name for one in folder.iterdir() if one.suffix == ENDING or (one / MANIFEST).exists()]
    except OSError:
        return []


def manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Manifest of a run; `extra` was saved with the fit."""
    place = Path(path)
    path = place / MANIFEST
    if not holds_run(place):
        if place.exists():
            what, near = f"this is not a run of Plait: {MANIFEST} is missing.", ""
        else:
            what, near = "the folder does not exist.", suggestion(place.name, _runs_in(place.parent))
        raise StorageError(what, location=FileLocation(place), hint=f"{near}{NOT_OURS}")
    try:
        content = unpack(place, MANIFEST) if place.is_file() else read_bytes(path, AGAIN)
    except DamagedError as error:
        raise damaged(path, str(error), AGAIN) from None
    parsed = loads(content or b"", path, checksum_since=CHECKSUM_SINCE, hint=AGAIN)
    if parsed.get("format") != FORMAT:
        raise StorageError("this is not the manifest of a run of Plait.", location=FileLocation(path), hint=NOT_OURS)
    version = parsed.get("version")
    if isinstance(version, int) and version > VERSION:
        raise StorageError(
            f"the run has format version {version}, but this version of Plait reads versions up to {VERSION}.",
            location=FileLocation(place),
            hint=f"Upgrade Plait (the run was saved by {parsed.get('plait', 'a newer one')}).",
        )
    parsed = upgrade(parsed)
    check(parsed, schema_of(parsed), path, hint=AGAIN)
    return parsed


def refuse_older(path: str | os.PathLike[str], header: Mapping[str, Any]) -> None:
    """Refuse to continue a run of an earlier format version, whose options have other names."""
    if header["version"] < VERSION:
        raise StorageError(
            f"the run has format version {header['version']}; only runs of version {VERSION} can be continued.",
            location=FileLocation(path),
            hint=f"Fit again. To start from its factors: plait.fit(…, init=plait.load({os.fspath(path)!r})).",
        )


class Content(NamedTuple):
    """A file of a run after its checksum was verified: its path or bytes, and its name in messages."""

    data: Path | bytes
    path: Path

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """Context in which errors about the content name the file."""
        try:
            yield
        except StorageError:
            raise
        except BaseException as error:
            if not is_read_fault(error):
                raise
            words = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise StorageError(
                f"this file of the run is damaged: {words.removeprefix('ValueError: ').rstrip('.')}.",
                location=FileLocation(self.path),
                hint=AGAIN,
            ) from error


def intact(path: str | os.PathLike[str], header: Mapping[str, Any], name: str) -> Content:
    """A file of the run, after verifying its checksum."""
    place, entry = Path(path), header.get("files", {}).get(name)
    if entry is None:
        raise StorageError(
            f"the manifest is damaged: {name} is missing.",
            location=FileLocation(place / MANIFEST),
            hint=AGAIN,
        )
    file = place / entry["file"]
    hint = "Restore the folder from a copy, or fit again." if place.is_dir() else AGAIN
    try:
        content = inside(place, file.name, hint=hint) if place.is_dir() else unpack(place, file.name)
    except DamagedError:
        raise StorageError("this file of the run is damaged.", location=FileLocation(file), hint=hint) from None
    if content is None or (isinstance(content, Path) and not content.is_file()):
        raise StorageError("this file of the run is missing.", location=FileLocation(file), hint=hint)
    try:
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        whole = size == entry["bytes"] and _checksum(content) == entry["sha256"]
    except OSError as error:
        raise StorageError(
            f"this file of the run cannot be read: {error.strerror}.", location=FileLocation(file), hint=hint
        ) from error
    if not whole:
        raise StorageError("this file of the run is damaged.", location=FileLocation(file), hint=hint)
    return Content(content, file)
