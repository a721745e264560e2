"""MATLAB files of version 5: the array of one variable, after a check of its elements.

SciPy crashes on unknown number types, so the elements are checked first. A file is a sequence of elements, each a tag
(type and size) and its bytes; a variable is a nested element, possibly compressed: flags, dimensions, name, and the
numbers (of a sparse array after its rows and columns).
"""

import io
import struct
import warnings
import zlib
from typing import Any, BinaryIO, cast

from plait.errors import DataError, FileLocation, suggestion
from plait.files.tensors import as_coordinates

COMPRESSED, MATRIX = 15, 14
NUMERIC_TYPES = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13}  # the types of numbers in an element
SPARSE, NUMERIC = 5, range(6, 16)  # the classes of a variable that SciPy reads as arrays of numbers
COMPLEX_BIT = 0x800
CHUNK_BYTES = 1 << 16  # read at a time


def check_elements(path: str) -> None:
    """Refuse a version 5 file with numbers of unknown type."""
    with open(path, "rb") as file:
        start = file.read(128)
        if 0 in start[:4]:  # version 4
            return
        order = "<" if start[126:128] == b"IM" else ">"
        while len(tag := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", tag)
            end = file.tell() + size
            unknown = _unknown(_inflated(file) if kind == COMPRESSED else file, order, inside=kind == MATRIX)
            if unknown is not None:
                raise DataError(
                    "the file is damaged, or not a MATLAB file of version 5: a variable has numbers of type "
                    f"{unknown}.",
                    location=FileLocation(path),
                    hint="Save it again with -v7.",
                )
            file.seek(end)


def _unknown(file: BinaryIO, order: str, inside: bool) -> int | None:
    """First unknown number type of a variable; truncated files are left to SciPy."""
    head = file.read(16 if inside else 24)[-16:]
    if len(head) < 16:
        return None
    flags = struct.unpack(f"{order}4I", head)[2]
    if (flags & 0xFF) not in (SPARSE, *NUMERIC):
        return None
    parts = 1 + 2 * ((flags & 0xFF) == SPARSE) + bool(flags & COMPLEX_BIT)
    for part in range(2 + parts):  # dimensions and name first
        tag = file.read(8)
        if len(tag) < 8:
            return None
        kind, size = struct.unpack(f"{order}II", tag)
        small = kind >> 16  # a short element has size and bytes in the tag
        if part >= 2 and kind & (0xFFFF if small else 0xFFFFFFFF) not in NUMERIC_TYPES:
            return cast(int, kind & (0xFFFF if small else 0xFFFFFFFF))
        _skip(file, 0 if small else -(-size // 8) * 8)
    return None


def _skip(file: BinaryIO, size: int) -> None:
    if file.seekable():
        file.seek(size, io.SEEK_CUR)
        return
    while size > 0 and (chunk := file.read(min(size, CHUNK_BYTES))):
        size -= len(chunk)


class _Inflated(io.RawIOBase):
    """Bytes of a compressed element."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._zlib = file, zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, room: memoryview) -> int:  # type: ignore[override]
        while not self._zlib.eof:
            packed = self._zlib.unconsumed_tail or self._file.read(CHUNK_BYTES)
            data = self._zlib.decompress(packed, len(room))
            if data or not packed:
                room[: len(data)] = data
                return len(data)
        return 0


def _inflated(file: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_Inflated(file), CHUNK_BYTES))


NUMBERS = ("double", "single", "logical", "sparse", "int8", "int16", "int32", "int64")
# Shape and type of a file's variables, by name.
Variables = dict[str, tuple[tuple[int, ...], str]]

ARRAYS = NUMBERS + tuple(f"u{kind}" for kind in NUMBERS if kind.startswith("int"))


def read_matlab(path: str, name: str | None = None) -> Any:
    """The variable `name`, or the only array: a NumPy array, or a two-dimensional SciPy sparse array."""
    import scipy.io

    _check_version(path)
    try:
        check_elements(path)
        variables: Variables = {each: (tuple(map(int, shape)), kind) for each, shape, kind in scipy.io.whosmat(path)}
        chosen = _choose_variable(path, variables, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about other parts of the file
            data: Any = scipy.io.loadmat(path, variable_names=[chosen], spmatrix=False)[chosen]
        if variables[chosen][1] == "sparse":
            return as_coordinates(data)
    except DataError:
        raise
    except Exception as error:  # loadmat raises anything on a damaged file
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DataError(
            f"the file is damaged, or not a MATLAB file of version 5: {reason}.",
            location=FileLocation(path),
            hint="Save it again with -v7.",
        ) from None
    if data.dtype.kind not in "biuf":
        raise DataError(
            f"variable {chosen!r} must contain real numbers, got type {data.dtype}.",
            location=FileLocation(path),
            hint="Save it as real numbers.",
        )
    return data


def _check_version(path: str) -> None:
    with open(path, "rb") as file:
        start = file.read(16)
    if not start:
        raise DataError("the file is empty.", location=FileLocation(path), hint="Save it again with -v7.")
    if start.startswith((b"MATLAB 7.3", b"\x89HDF")):
        raise DataError(
            "the file has MATLAB's format 7.3 (HDF5), which is not supported.",
            location=FileLocation(path),
            hint=f"Save it with save('{path}', '-v7'), or read it with h5py.",
        )


def _choose_variable(path: str, variables: Variables, name: str | None) -> str:
    """The variable to read; errors list numeric arrays."""
    arrays = [each for each, (_, kind) in variables.items() if kind in ARRAYS]
    listed = ", ".join(f"{each} ({' × '.join(map(str, variables[each][0]))})" for each in arrays) or "none"
    if name is None:
        if len(arrays) == 1:
            return arrays[0]
        if not arrays:
            raise DataError("the file contains no array of numbers.", location=FileLocation(path), hint="Save one.")
        raise DataError(
            f"the file has {len(arrays)} arrays: {listed}.",
            location=FileLocation(path),
            hint=f"Give `name={arrays[0]!r}`.",
        )
    if name not in variables:
        raise DataError(
            f"the file has no variable {name!r}.",
            location=FileLocation(path),
            hint=f"{suggestion(name, arrays)}The arrays are {listed}.",
        )
    if name not in arrays:
        raise DataError(
            f"variable {name!r} is a {variables[name][1]} array.",
            location=FileLocation(path),
            hint=f"The arrays of numbers are {listed}.",
        )
    return name
