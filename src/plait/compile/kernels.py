"""Kernel source -> a real module in the cache folder -> a compiled function.

Numba caches machine code only for functions whose source is a file of an importable module. So every kernel becomes a
file, named by the hash of its text, registered in `sys.modules`. Processes that compile the same kernel at the same
time write equal files by atomic renames. Without a usable folder, kernels are compiled in memory: slower to start,
never an error.

A kernel is compiled once, here, for the types that its text names in the first line, and refuses all others. Numba
would compile for them at the call: outside the lock, when its module may have left `sys.modules`, so that the entry it
writes names no module and can never be read again.

A process that meets many models keeps the kernels of the latest only (decision 14). One that is in use lives as long as
somebody holds it.
"""

import hashlib
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import DTypeLike

from plait import jit
from plait.compile.source import arguments, kernel_source
from plait.compile.step import Step
from plait.machine import replacing

_PREAMBLE = """from plait.jit import bernoulli_link, item, kernel, put, real, weighted_logs
from plait.jit{vectors} import add, fma, load_at, mul, splat, store_at, total


"""


Types = tuple[np.dtype[Any], ...]


class Kernel(NamedTuple):
    """A compiled step: call `run` with the arguments that `plait.compile.source.arguments` lists."""

    run: Callable[..., None]
    scratch: int  # doubles of scratch that a call needs
    gradients: np.dtype[Any]  # the numbers that it adds gradients up in


def cache_folder() -> Path:
    """Where compiled kernels are kept: $PLAIT_CACHE_DIR, else the user's cache folder."""
    if chosen := os.environ.get("PLAIT_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "plait"


def _toolchain() -> str:
    """What besides its own text decides a kernel's machine code; numba itself looks at the processor."""
    return f"jit {jit.OWN_TEXT[:16]}, numba {numba.__version__}, numpy {np.__version__}"


# What reading files raises that a crash, another program or an older Plait damaged: pickles of numba's cache above all.
DAMAGE = (
    *(EOFError, UnicodeError, SyntaxError, ValueError, AttributeError, ImportError, LookupError),
    pickle.UnpicklingError,
)

LOADED = 256  # kernels kept in memory, of about a megabyte each; one that left is back from its file in 10 ms

_lock = threading.Lock()
# A child forked while another thread compiles would wait for ever for a lock that nobody holds.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@lru_cache(LOADED)
def compiled(step: Step, types: Types | None = None) -> Kernel:
    """The kernel of a step, from memory, from the cache folder or freshly compiled.

    types: of starts, of the row numbers of every level, of the entries, then of every operand's stored array; unless
    given, those of a small table of doubles.
    """
    words = (np.dtype(np.uint32), *(np.dtype(np.uint8) for _ in step.order))
    doubles = (np.dtype(np.float64),) * (1 + len(step.operands))
    with _lock:
        return _alike(step.renamed(), types or words + doubles)


@lru_cache(LOADED)
def _alike(step: Step, types: Types) -> Kernel:
    """The kernel that all steps share that are this one under standard names."""
    return _build(step, types)


def forget() -> None:
    """Let go of every kernel in memory."""
    compiled.cache_clear()
    _alike.cache_clear()


def _gradients(step: Step, types: Types) -> np.dtype[Any]:
    """Floats where all operands are; but sums of weights stay in doubles, for their differences may be exactly 0."""
    single = step.likelihood is not None and all(operand == np.float32 for operand in types[2 + len(step.order) :])
    return np.dtype(np.float32 if single else np.float64)


def _build(step: Step, types: Types) -> Kernel:
    gradients = _gradients(step, types)
    preamble = _PREAMBLE.format(vectors=".singles" if gradients == np.float32 else "")
    own = step.likelihood.preamble() if step.likelihood else ""
    preamble += f"{own}\n\n" if own else ""
    named = ", ".join(map(str, types))
    text = f"# {named}; {_toolchain()}\n{preamble}{kernel_source(step)}"
    name = "plait_kernel_" + hashlib.sha256(text.encode()).hexdigest()[:24]
    for _ in range(2):
        try:
            return _cached(name, text, step, types)
        except (OSError, RuntimeError):  # no folder, read-only, full, gone in between; no home for one
            break
        except DAMAGE:
            _discard(name)  # made anew
    module = ModuleType(name)
    exec(compile(text.replace("@kernel\n", ""), name, "exec"), module.__dict__)
    return Kernel(_warm(jit.uncached(module.run), step, types), module.SCRATCH, gradients)


def _cached(name: str, text: str, step: Step, types: Types) -> Kernel:
    module = _load(name, _write(name, text))
    run = _warm(module.run, step, types)
    # Numba keeps the globals of what it compiled; a kernel that stood among them would keep itself alive.
    del module.run
    weakref.finalize(run, _leave, name, module).atexit = False
    return Kernel(run, module.SCRATCH, _gradients(step, types))


def _leave(name: str, module: ModuleType) -> None:
    """Take a module whose kernel is gone from the list of all modules; a later one of the same name stays."""
    if sys.modules.get(name) is module:
        del sys.modules[name]


def _discard(name: str) -> None:
    """Remove a kernel's files and module."""
    sys.modules.pop(name, None)
    for path in (*cache_folder().glob(f"{name}.*"), *cache_folder().glob(f"__pycache__/{name}.*")):
        path.unlink(missing_ok=True)


def _write(name: str, text: str) -> Path:
    """The module's file; an equal one is left alone, since numba's cache goes by its time stamp."""
    folder = cache_folder()
    path = folder / f"{name}.py"
    if path.exists() and path.read_bytes() == text.encode():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode())
    return path


def _load(name: str, path: Path) -> ModuleType:
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # numba's cache unpickles by module name
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _warm(run: Any, step: Step, types: Types) -> Callable[..., None]:
    """Compile for the only types that arguments have: arrays that are read may be read-only, and none is strided."""
    depth = len(step.order)
    starts, rows, entries, operands = types[0], types[1 : depth + 1], types[depth + 1], types[depth + 2 :]
    kinds: dict[str, Any] = {
        "lo": numba.int64,
        "hi": numba.int64,
        "size": numba.int64,
        "starts": _read(starts, 1),
        **{f"rows{level}": _read(own, 1) for level, own in enumerate(rows)},
        "entries": _read(entries, 1),
        "values": _read(np.float64, 1),
        **{f"z{n}": _read(operand, 2) for n, operand in enumerate(operands)},
        "parameters": _read(np.float64, 1),
        "grad": _written(_gradients(step, types), 2),
        "scratch": _written(np.float64, 2),
        "tiny": numba.float64,
        "value": _written(np.float64, 1),
        "rare": _written(np.int64, 1),
        "given": _read(np.float64, 1),
        "number": _read(np.uint32, 1),
    }
    names = (name if name in kinds else name.rstrip("0123456789") for name in arguments(step))
    run.compile(tuple(kinds[name] for name in names))
    run.disable_compile()
    return run  # type: ignore[no-any-return]


def _read(numbers: DTypeLike, dimensions: int) -> Any:
    return numba.types.Array(numba.from_dtype(np.dtype(numbers)), dimensions, "C", readonly=True)


def _written(numbers: DTypeLike, dimensions: int) -> Any:
    return numba.types.Array(numba.from_dtype(np.dtype(numbers)), dimensions, "C")
