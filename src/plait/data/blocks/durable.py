"""Files that are on the disk, and not on their way to it."""

import os
from pathlib import Path


def sync_folder(place: Path) -> None:
    """Wait until the disk has what a folder names."""
    if os.name != "nt":
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sync_file(path: Path) -> int:
    """Wait until the disk has a file; how many bytes it has."""
    with open(path, "rb+") as stream:
        os.fsync(stream.fileno())
        return os.fstat(stream.fileno()).st_size
