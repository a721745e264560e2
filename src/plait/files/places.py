"""Paths that users give: is there a file, and if not, which one was meant?"""

import os
from difflib import get_close_matches
from pathlib import Path

from plait.errors import DataError, FileLocation
from plait.machine import path_fault

CLOSE = 0.75  # of 1: from here on a name is likely a misspelling of another


def existing_file(path: str | os.PathLike[str]) -> str:
    """The path, its ``~`` expanded, once it is certain that a readable file is there."""
    given = os.fspath(path)
    found = Path(given).expanduser()
    if fault := path_fault(found):
        raise DataError(f"there can be no such file: {fault}.", location=FileLocation(given), hint="Check the path.")
    if found.is_dir():
        raise DataError("this is a folder.", location=FileLocation(given), hint=f"Name a file in it{_examples(found)}.")
    if not found.exists():
        raise _no_file(given, found)
    if not os.access(found, os.R_OK):
        raise DataError(
            "the file may not be read by this user.",
            location=FileLocation(given),
            hint="Change its permissions.",
        )
    return str(found)


def _no_file(given: str, path: Path) -> DataError:
    folder = path.parent
    if not folder.is_dir():
        return DataError(
            f"there is no such file, nor a folder {str(folder)!r}.",
            location=FileLocation(given),
            hint="Check the path.",
        )
    near = _similar(path, _names(folder))
    where = "the current folder" if str(folder) == "." else repr(str(folder))
    return DataError(f"there is no such file in {where}.", location=FileLocation(given), hint=near or "Check the path.")


def _similar(path: Path, names: list[str]) -> str:
    """The file that was meant; without their endings, which make any two names alike."""
    names = sorted(names, key=lambda name: Path(name).suffix == path.suffix)  # of equal stems the last one stays
    stems = {Path(name).stem.casefold(): name for name in names}
    close = get_close_matches(path.stem.casefold(), stems, n=1, cutoff=CLOSE)
    return f"Did you mean {stems[close[0]]!r}?" if close else ""


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError:  # a folder that may be entered but not listed
        return []


def _examples(folder: Path) -> str:
    names = _names(folder)
    return f": {', '.join(map(repr, names[:3]))}{', …' if len(names) > 3 else ''}" if names else ""
