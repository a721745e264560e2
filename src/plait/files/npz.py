"""NumPy files: .npy, archives of arrays (.npz), and sparse arrays of SciPy and `sparse` in such archives.

Pickles are never loaded: a foreign file must not run code.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from plait.errors import DataError, FileLocation, suggestion
from plait.files.tensors import as_coordinates

ZIP, NPY = b"PK", b"\x93NUMPY"
COO = {"coords", "data", "shape"}


def read_npy(path: str) -> Any:
    if _check_magic(path) == ZIP:
        raise DataError("the file is an archive.", location=FileLocation(path), hint="Rename it to .npz.")
    with _numpy_errors(path), open(path, "rb") as file:
        return _numeric(path, np.load(file, allow_pickle=False), "the array")


def read_npz(path: str, name: str | None = None) -> Any:
    """The array `name`, or the only one; or a sparse array of SciPy or `sparse`."""
    if _check_magic(path) == NPY:
        raise DataError("the file is a single array.", location=FileLocation(path), hint="Rename it to .npy.")
    with _numpy_errors(path), open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        names = list(archive.files)
        if name is None and set(names) >= COO:
            return _coordinates(path, archive)
        if name is None and "compressed_axes" in names:
            raise DataError(
                "compressed arrays of the package sparse are not supported.",
                location=FileLocation(path),
                hint="Save it as coordinates: array.asformat('coo').",
            )
        if name is None and "format" in names:
            return _scipy_sparse(path)
        chosen = _choose_array(path, names, name)
        return _numeric(path, archive[chosen], f"array {chosen!r}")


def write_npz(file: Any, data: Any, fill: float = 0.0) -> None:
    """Write a dense array (as ``array``), or the coordinates of a sparse one in the layout of ``sparse.save_npz``."""
    if isinstance(data, np.ndarray):
        np.savez_compressed(file, array=data)
        return
    matrix = data.asformat("coo")
    coords = np.stack(matrix.coords if hasattr(matrix, "coords") else (matrix.row, matrix.col)).astype(np.int64)
    # "format" is for SciPy and for newer versions of sparse.
    np.savez_compressed(
        file, format=np.array("coo"), shape=np.array(data.shape), data=matrix.data, coords=coords, fill_value=fill
    )


def _scipy_sparse(path: str) -> Any:
    from scipy.sparse import load_npz

    return as_coordinates(load_npz(path))


def _coordinates(path: str, archive: Any) -> Any:
    """Layout of ``sparse.save_npz``: coords (order, n), data (n,), shape (order,), fill_value."""
    coords, data = archive["coords"], archive["data"]
    shape = tuple(int(size) for size in archive["shape"])
    fill = float(archive["fill_value"]) if "fill_value" in archive.files else 0.0
    if coords.shape != (len(shape), len(data)):
        raise DataError(
            f"`coords` has shape {coords.shape}, expected ({len(shape)}, {len(data)}).",
            location=FileLocation(path),
            hint="Save the array again with sparse.save_npz.",
        )
    if len(data) and ((coords < 0).any() or (coords >= np.array(shape)[:, None]).any()):
        raise DataError(
            f"some coordinates are outside the shape {shape}.",
            location=FileLocation(path),
            hint="Save the array again.",
        )
    if fill != 0:  # not supported by SciPy
        return _with_fill(path, coords, data, shape, fill)
    from scipy.sparse import coo_array

    return coo_array((_numeric(path, data, "the array"), tuple(coords)), shape=shape)


def _with_fill(path: str, coords: Any, data: Any, shape: tuple[int, ...], fill: float) -> Any:
    try:
        import sparse
    except ImportError:
        raise DataError(
            f"cells that are not stored are {fill:g}, not 0.",
            location=FileLocation(path),
            hint="Install sparse to read it: pip install sparse.",
        ) from None
    return sparse.COO(coords, data, shape=shape, fill_value=fill)


def _choose_array(path: str, names: list[str], name: str | None) -> str:
    listed = ", ".join(names) or "none"
    if name is None and len(names) != 1:
        hint = f"Give `name={names[0]!r}`." if names else "Save one."
        raise DataError(f"the archive has {len(names)} arrays: {listed}.", location=FileLocation(path), hint=hint)
    if name is not None and name not in names:
        raise DataError(
            f"the archive has no array {name!r}.",
            location=FileLocation(path),
            hint=f"{suggestion(name, names)}The arrays are {listed}.",
        )
    return names[0] if name is None else name


def _numeric(path: str, data: Any, what: str) -> Any:
    if data.dtype.kind not in "biuf":
        raise DataError(
            f"{what} must contain real numbers, got type {data.dtype}.",
            location=FileLocation(path),
            hint="Save it as real numbers.",
        )
    return data


def _check_magic(path: str) -> bytes:
    """First bytes of the file. NumPy takes unknown ones for pickles."""
    with open(path, "rb") as file:
        start = file.read(len(NPY))
    magic = next((magic for magic in (ZIP, NPY) if start.startswith(magic)), b"")
    if not magic:
        what = "the file is not a NumPy file" if start else "the file is empty"
        raise DataError(f"{what}.", location=FileLocation(path), hint="Save it again with numpy.save or numpy.savez.")
    return magic


@contextmanager
def _numpy_errors(path: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # NumPy raises anything on a damaged file
        if "allow_pickle" in str(error) or "pickle" in str(error):
            raise DataError(
                "the file contains Python objects, which Plait does not read because they can execute code.",
                location=FileLocation(path),
                hint="Save arrays of numbers.",
            ) from None
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise DataError(
            f"the file is damaged, or not a NumPy file: {reason}.",
            location=FileLocation(path),
            hint="Save it again.",
        ) from None
