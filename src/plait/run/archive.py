"""A run as one file: a zip of what its folder would hold, nothing compressed (Parquet is, and numbers hardly can be).

Nothing is ever unpacked to disk, so that a name in a foreign archive leads nowhere.
"""

import zipfile
from pathlib import Path

ENDING = ".plait"


class DamagedError(Exception):
    """What should be an archive cannot be read as one."""


def in_one_file(place: Path) -> bool:
    """Whether the run at a place is one file, or would be."""
    return place.is_file() or (place.suffix == ENDING and not place.is_dir())


def pack(folder: Path, target: Path) -> None:
    """Write the files of a folder into a new archive."""
    with zipfile.ZipFile(target, "x", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, path.name)


def unpack(place: Path, name: str) -> bytes | None:
    """What a file of an archive holds; None where there is none of that name, or the place is no archive at all."""
    if not zipfile.is_zipfile(place):
        return None
    try:
        with zipfile.ZipFile(place) as archive:
            if name not in archive.namelist():
                return None
            if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:  # it might become larger than any memory
                raise DamagedError("it is compressed")
            return archive.read(name)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError) as error:
        raise DamagedError(str(error)) from error
