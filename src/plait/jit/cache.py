"""Cache of machine code on disk: one checksummed file for each function and its argument types.

The name of a file holds the SHA-256 of its key: the function's source, the versions, the processor, the flags and the
types. So neither times nor paths matter, and a copied folder stays valid. A file is a line with the SHA-256 of all that
follows, the key as text, a zero byte, and numba's pickled compile result. One that fails to load for any reason is
removed, and the function is compiled again. Processes that compile the same function write equal files by atomic
renames. Without a folder that can be used, functions are compiled in memory: slower to start, never an error.

Machine code from the folder is executed. So the folder has mode 0700, and one that others can write is not used.
"""

import contextlib
import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from stat import S_ISDIR
from types import CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature

from plait.errors import CacheFolderWarning, warn_of
from plait.jit.deferred import Deferred
from plait.machine import replacing


def _own_text() -> str:
    """Hash the files of this package: machine code made with other ones is stale."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


VERSIONS = (
    f"python {sys.version.split()[0]}{getattr(sys, 'abiflags', '')}, numba {numba.__version__}, "
    f"llvmlite {llvmlite.__version__}, numpy {np.__version__}, jit {_own_text()}"
)


class FileCache(NullCache):
    """The overloads of one dispatcher on disk, in numba's protocol.

    source: the text of a generated function; others count by their `fingerprint`.
    """

    def __init__(self, dispatcher: Any, source: str = "") -> None:
        self._function, self._options, self._given = dispatcher.py_func, dispatcher.targetoptions, source

    @cached_property
    def _source(self) -> str:
        return self._given or fingerprint(self._function)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the compile result for these types; None where there is none, or a damaged one."""
        # All that machine code needs. `refresh` would import what numba compiles with, half of a first fit.
        rtsys.initialize(target_context)
        folder = usable_folder()
        if folder is None:
            return None
        key = self._key(sig, target_context.codegen())
        path = folder / self._file(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        try:
            checksum, text = data[:64], memoryview(data)[65:]
            if hashlib.sha256(text).hexdigest().encode() != checksum or text[: len(key)] != key:
                raise ValueError("checksum")
            return CompileResult._rebuild(target_context, *pickle.loads(text[len(key) :]))
        except Exception:  # damage, whatever it raises
            with contextlib.suppress(OSError):
                path.unlink()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a compile result; a folder that cannot be written is no error."""
        folder = usable_folder(make=True)
        if folder is None or data.lifted or data.library.has_dynamic_globals:
            return
        key = self._key(sig, data.codegen)
        text = key + dumps(data._reduce())
        with contextlib.suppress(OSError), replacing(folder / self._file(key), sync=False, mode=0o600) as file:
            file.write(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)

    def _file(self, key: bytes) -> str:
        return f"{self._function.__name__}-{hashlib.sha256(key).hexdigest()[:32]}.kernel"

    def _key(self, sig: Any, codegen: Any) -> bytes:
        function = f"{self._function.__module__}.{self._function.__qualname__}"
        types = ", ".join(map(str, normalize_signature(sig)[0]))
        processor = " ".join(codegen.magic_tuple())
        lines = f"{function}({types})", VERSIONS, processor, _flags(self._options), self._source
        return "\n".join(lines).encode() + b"\0"


def cache_folder() -> Path:
    """Return the folder of compiled functions: $PLAIT_CACHE_DIR, else the user's cache folder."""
    if chosen := os.environ.get("PLAIT_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "plait"


def usable_folder(make: bool = False) -> Path | None:
    """Return the cache folder if it exists and only its owner (this user or root) can write to it."""
    try:
        folder = cache_folder()
        if make:
            folder.mkdir(0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):  # not there, cannot be made; no home
        return None
    if not S_ISDIR(status.st_mode):
        return None
    if sys.platform == "win32":
        return folder
    if status.st_uid not in (os.geteuid(), 0):
        _warn(folder, "it belongs to another user", "Set PLAIT_CACHE_DIR to a folder of your own.")
        return None
    if status.st_mode & 0o022:
        _warn(
            folder,
            "other users can write to it",
            f"Run `chmod go-w {folder}`, or set PLAIT_CACHE_DIR to another folder.",
        )
        return None
    return folder


@lru_cache
def _warn(folder: Path, why: str, hint: str) -> None:
    """Warn once that a folder is not used."""
    what = f"{why}. The folder is not used, because its files are executed; every process compiles its kernels again."
    warn_of([CacheFolderWarning(what, location=f"cache folder {folder}", hint=hint)])


def fingerprint(function: Callable[..., Any]) -> str:
    """Hash a function with all that numba compiles into it: its own bytecode, the functions it calls, global constants.

    Functions of `plait.jit` count by name; `VERSIONS` has their text.
    """
    return hashlib.sha256("\n".join(_parts(function, set())).encode()).hexdigest()


def _parts(value: Any, seen: set[int]) -> Iterator[str]:
    value = value.compiled if isinstance(value, Deferred) else value
    if isinstance(value, Dispatcher):
        yield _flags(value.targetoptions)
        value = value.py_func
    value = getattr(value, "_defn", value)  # of an intrinsic
    if isinstance(value, FunctionType):
        yield f"{value.__module__}.{value.__qualname__}"
        if id(value) in seen or str(value.__module__).startswith("plait.jit."):
            return
        seen.add(id(value))
        names: set[str] = set()
        for code in _codes(value.__code__):
            yield repr((code.co_code, code.co_names, code.co_freevars, getattr(code, "co_exceptiontable", b"")))
            names.update(code.co_names)
            for constant in code.co_consts:
                yield from _parts(constant, seen)
        for name in sorted(names & value.__globals__.keys()):
            yield from _parts(value.__globals__[name], seen)
        for reached in (*(cell.cell_contents for cell in value.__closure__ or ()), *(value.__defaults__ or ())):
            yield from _parts(reached, seen)
    elif isinstance(value, tuple):
        for each in value:
            yield from _parts(each, seen)
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    elif isinstance(value, frozenset):
        yield repr(sorted(map(repr, value)))
    elif not isinstance(value, CodeType):
        yield value.__name__ if isinstance(value, (ModuleType, type)) else repr(value)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _flags(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={sorted(v) if isinstance(v, set) else v}" for name, v in sorted(options.items()))
