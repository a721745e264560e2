"""MATLAB files of version 5: the array of one variable."""

import warnings
from typing import Any

from plait.errors import DataError, FileLocation, suggestion
from plait.files.elements import check_elements
from plait.files.tensors import as_coordinates

NUMBERS = ("double", "single", "logical", "sparse", "int8", "int16", "int32", "int64")
# Shape and type of a file's variables, by name.
Variables = dict[str, tuple[tuple[int, ...], str]]

ARRAYS = NUMBERS + tuple(f"u{kind}" for kind in NUMBERS if kind.startswith("int"))


def read_matlab(path: str, name: str | None = None) -> Any:
    """The variable called name, or the only array: a NumPy array, or a SciPy sparse array of two dimensions."""
    import scipy.io

    _check_version(path)
    try:
        check_elements(path)
        variables: Variables = {each: (tuple(map(int, shape)), kind) for each, shape, kind in scipy.io.whosmat(path)}
        chosen = _chosen(path, variables, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of parts of the file that nobody asked for
            data: Any = scipy.io.loadmat(path, variable_names=[chosen], spmatrix=False)[chosen]
        if variables[chosen][1] == "sparse":
            return as_coordinates(data)
    except DataError:
        raise
    except Exception as error:  # loadmat trusts the file: a damaged one fails in any way
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DataError(
            f"this is no MATLAB file of version 5, or a damaged one: {reason}.",
            location=FileLocation(path),
            hint="Save it again, with -v7.",
        ) from None
    if data.dtype.kind not in "biuf":
        raise DataError(
            f"variable {chosen!r} is of type {data.dtype}.",
            location=FileLocation(path),
            hint="Save it as real numbers.",
        )
    return data


def _check_version(path: str) -> None:
    with open(path, "rb") as file:
        start = file.read(16)
    if not start:
        raise DataError("the file is empty.", location=FileLocation(path), hint="Save it again, with -v7.")
    if start.startswith((b"MATLAB 7.3", b"\x89HDF")):
        raise DataError(
            "the file is of MATLAB's version 7.3, which is HDF5.",
            location=FileLocation(path),
            hint=f"Save it with -v7: save('{path}', '-v7'); or read it with h5py.",
        )


def _chosen(path: str, variables: Variables, name: str | None) -> str:
    """The variable to take; listed are those that are arrays of numbers."""
    arrays = [each for each, (_, kind) in variables.items() if kind in ARRAYS]
    listed = ", ".join(f"{each} ({' × '.join(map(str, variables[each][0]))})" for each in arrays) or "none"
    if name is None:
        if len(arrays) == 1:
            return arrays[0]
        if not arrays:
            raise DataError("the file has no array of numbers.", location=FileLocation(path), hint="Save one.")
        raise DataError(
            f"the file has {len(arrays)} arrays: {listed}.",
            location=FileLocation(path),
            hint=f"Give `name={arrays[0]!r}`.",
        )
    if name not in variables:
        raise DataError(
            f"there is no variable {name!r}.",
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
