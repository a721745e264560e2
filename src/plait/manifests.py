"""Manifests: JSON files with a checksum that name the files of a folder.

A folder may be damaged or malicious. So nothing in a manifest is used before its checksum and schema are checked, and
no file outside of its folder is opened.
"""

import hashlib
import json
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from plait.errors import FileLocation, PlaitError, StorageError

CHECKSUM = "checksum"
MAX_BYTES = 1 << 27  # a manifest of 10⁶ files of 130 bytes each
TOO_LONG = f"it has more than {MAX_BYTES:,} bytes"
AGAIN = "Restore the folder from a copy, or create it again."


def dumps(header: Mapping[str, Any], indent: int | None = None) -> bytes:
    """Return a header as JSON with a checksum of all its content as the last entry."""
    text = json.dumps({**header, CHECKSUM: _checksum(header)}, indent=indent, ensure_ascii=False, allow_nan=False)
    return text.encode()


def read_bytes(path: Path, hint: str = AGAIN) -> bytes:
    """Read a small regular file; anything else of this name (a link, a pipe) is refused."""
    inside(path.parent, path.name, hint=hint)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise damaged(path, TOO_LONG, hint)
        return path.read_bytes()
    except OSError as error:
        raise StorageError(
            f"the manifest cannot be read: {error.strerror}.", location=FileLocation(path), hint=hint
        ) from error


def loads(content: bytes, path: Path, *, checksum_since: int = 0, hint: str = AGAIN) -> dict[str, Any]:
    """Parse a manifest and compare its checksum.

    Parameters
    ----------
    content : bytes
        The file.
    path : Path
        Where it is, for error messages.
    checksum_since : int, default 0
        The first ``version`` that has a checksum; 0: all have. A manifest of another version may lack it, which
        callers check after the format.
    hint : str
        What to do with a damaged folder.

    Returns
    -------
    dict
        The content without the checksum.

    Raises
    ------
    StorageError
        If the content is no JSON object, has a key twice, or differs from its checksum.
    """
    try:
        if len(content) > MAX_BYTES:
            raise ValueError(TOO_LONG)
        parsed = json.loads(content.decode(), object_pairs_hook=_once)
        if not isinstance(parsed, dict):
            raise ValueError("it is not a JSON object")
        stated, version = parsed.pop(CHECKSUM, None), parsed.get("version")
        needed = checksum_since == 0 or (isinstance(version, int) and version >= checksum_since)
        if stated != _checksum(parsed) and (needed or stated is not None):
            raise ValueError("its checksum is wrong" if stated is not None else "it has no checksum")
        return parsed
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise damaged(path, reason, hint) from None


def inside(folder: Path, name: Any, *, hint: str = AGAIN) -> Path:
    """Return the path of a file directly in a folder; refuse other paths, symbolic links and special files.

    A file that is missing is not refused.
    """
    plain = isinstance(name, str) and name not in ("", "..") and "\0" not in name
    if not plain or any(kind(name).name != name for kind in (PurePosixPath, PureWindowsPath)):
        raise damaged(folder, f"{name!r:.200} is not the name of a file in this folder", hint)
    path = folder / str(name)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return path
    except OSError as error:
        raise StorageError(
            f"this file cannot be read: {error.strerror}.", location=FileLocation(path), hint=hint
        ) from error
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "not a regular file"
        raise StorageError(
            f"the file is {kind}; files must be inside the folder.", location=FileLocation(path), hint=hint
        )
    return path


def check(value: Any, schema: Any, path: Path, *, hint: str = AGAIN) -> None:
    """Compare a parsed manifest with a schema.

    A schema is a type (``int`` does not take booleans, ``float`` takes finite numbers, ``object`` takes all); a
    function from a value to a boolean; a tuple of alternatives, each a schema, a string or None; a list of one schema
    for all items; a dict ``{str: schema}`` for all values; or a dict by key, in which the names of optional keys end
    in "?". Keys that a schema does not name are allowed.
    """
    if fault := _fault(value, schema, ""):
        raise damaged(path, fault, hint)


def damaged(path: Path, what: str, hint: str = AGAIN) -> StorageError:
    """Return the error about a manifest."""
    return StorageError(f"the manifest is damaged: {what}.", location=FileLocation(path), hint=hint)


def is_read_fault(error: BaseException) -> bool:
    """Whether reading a file that is not what it should be raises this; a panic of polars is no Exception."""
    return isinstance(error, _FAULTS) or type(error).__module__.startswith(_READERS)


_FAULTS = (PlaitError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError, OSError)
_READERS = ("polars", "pyo3_runtime", "safetensors")


def natural(value: Any) -> bool:
    """Whether a value is an integer from 0 that fits 63 bits."""
    return type(value) is int and 0 <= value < 1 << 63


def hex64(value: Any) -> bool:
    """Whether a value is a SHA-256 as text."""
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


# A file that a manifest names.
FILE = {"file": str, "bytes": natural, "sha256": hex64}


def _checksum(header: Mapping[str, Any]) -> str:
    """The SHA-256 of the content as compact ASCII JSON, its keys in their order."""
    return hashlib.sha256(json.dumps(header, separators=(",", ":"), allow_nan=False).encode()).hexdigest()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key occurs twice")
    return content


def _fault(value: Any, schema: Any, at: str) -> str:
    """The first fault and its place; empty if there is none."""
    if isinstance(schema, tuple):
        return "" if any(not _fault(value, one, at) for one in schema) else _wrong(value, at)
    if isinstance(schema, list):
        if not isinstance(value, list):
            return _wrong(value, at)
        return next((fault for n, item in enumerate(value) if (fault := _fault(item, schema[0], f"{at}[{n}]"))), "")
    if isinstance(schema, dict):
        return _fault_of_dict(value, schema, at)
    return "" if _fits(value, schema) else _wrong(value, at)


def _fault_of_dict(value: Any, schema: Mapping[Any, Any], at: str) -> str:
    if not isinstance(value, dict):
        return _wrong(value, at)
    if str in schema:
        items = [(key, schema[str]) for key in value]
    else:
        named = {key.removesuffix("?"): one for key, one in schema.items()}
        missing = [key for key in schema if not key.endswith("?") and key not in value]
        if missing:
            return f"{at or 'it'} has no {missing[0]!r}"
        items = [(key, one) for key, one in named.items() if key in value]
    return next((fault for key, one in items if (fault := _fault(value[key], one, f"{at}.{key}".lstrip(".")))), "")


def _fits(value: Any, schema: type | Callable[[Any], bool] | str | None) -> bool:
    if schema is None or isinstance(schema, str):
        return bool(value == schema and type(value) is type(schema))
    if schema is float:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    if isinstance(schema, type):
        return isinstance(value, schema) and (schema in (bool, object) or type(value) is not bool)
    return schema(value)


def _wrong(value: Any, at: str) -> str:
    return f"{at or 'it'} cannot be {value!r:.60}"
