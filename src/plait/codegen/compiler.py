"""Compilation of kernel source to functions, cached in memory and on disk (`plait.jit.cache`).

A kernel is compiled once, for the types of a table's arrays, and refuses others, which numba would compile at the call,
outside the lock. Its function belongs to this module under the hash of its text: numba stores the module's name with
the machine code and imports it on loading; code of a module that cannot be imported is stored as `<dynamic>` and never
loads.

Only the latest kernels stay in memory (decision 14). A kernel in use lives as long as its user holds it.
"""

import hashlib
import os
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from plait.codegen.emit import arguments, kernel_source
from plait.codegen.step import Step
from plait.jit.deferred import compilation

_PREAMBLE = """from plait.jit import bernoulli_link, item, put, real, weighted_logs
from plait.jit{vectors} import add, fma, load_at, mul, splat, store_at, total


"""


Types = tuple[np.dtype[Any], ...]


class Kernel(NamedTuple):
    """A compiled step: call `run` with the arguments of `plait.codegen.emit.arguments`."""

    run: Callable[..., None]
    scratch: int  # doubles of scratch per call
    gradients: np.dtype[Any]  # dtype of gradient sums


LOADED = 256  # kernels kept in memory; one that left is back from its file in 2 ms (decision 14)

_lock = threading.Lock()
# A child forked while another thread compiles would deadlock.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@lru_cache(LOADED)
def compiled(step: Step, types: Types | None = None) -> Kernel:
    """Kernel of a step, from memory, from the cache folder or freshly compiled.

    `types`: of starts, of the row numbers of every level, of the entries, then of every operand's stored array; by
    default those of a small table of doubles.
    """
    words = (np.dtype(np.uint32), *(np.dtype(np.uint8) for _ in step.order))
    doubles = (np.dtype(np.float64),) * (1 + len(step.operands))
    with _lock:
        return _alike(step.renamed(), types or words + doubles)


@lru_cache(LOADED)
def _alike(step: Step, types: Types) -> Kernel:
    """Kernel shared by all steps that are equal under standard names."""
    return _build(step, types)


def forget() -> None:
    """Drop all kernels in memory."""
    compiled.cache_clear()
    _alike.cache_clear()


def _gradients(step: Step, types: Types) -> np.dtype[Any]:
    """float32 where all operands are; but sums of weights stay in float64, since their differences may be exactly 0."""
    single = step.likelihood is not None and all(operand == np.float32 for operand in types[2 + len(step.order) :])
    return np.dtype(np.float32 if single else np.float64)


def _build(step: Step, types: Types) -> Kernel:
    gradients = _gradients(step, types)
    preamble = _PREAMBLE.format(vectors=".singles" if gradients == np.float32 else "")
    own = step.likelihood.preamble() if step.likelihood else ""
    preamble += f"{own}\n\n" if own else ""
    text = f"{preamble}{kernel_source(step)}"
    scope: dict[str, Any] = {"__name__": __name__}
    exec(text, scope)
    # Numba keeps the globals of compiled functions; a kernel among them would keep itself alive.
    run = scope.pop("run")
    run.__qualname__ = f"run_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    return Kernel(_warm(compilation().kernel(run, text), step, types), scope["SCRATCH"], gradients)


def _warm(run: Any, step: Step, types: Types) -> Callable[..., None]:
    """Compile for the only types of arguments: contiguous arrays, read-only where they are read."""
    from numba import float64, int64

    depth = len(step.order)
    starts, rows, entries, operands = types[0], types[1 : depth + 1], types[depth + 1], types[depth + 2 :]
    kinds: dict[str, Any] = {
        "lo": int64,
        "hi": int64,
        "size": int64,
        "starts": _read(starts, 1),
        **{f"rows{level}": _read(own, 1) for level, own in enumerate(rows)},
        "entries": _read(entries, 1),
        "values": _read(np.float64, 1),
        **{f"z{n}": _read(operand, 2) for n, operand in enumerate(operands)},
        "parameters": _read(np.float64, 1),
        "grad": _written(_gradients(step, types), 2),
        "scratch": _written(np.float64, 2),
        "tiny": float64,
        "value": _written(np.float64, 1),
        "underflow": _written(np.int64, 1),
        "given": _read(np.float64, 1),
        "number": _read(np.uint32, 1),
    }
    names = (name if name in kinds else name.rstrip("0123456789") for name in arguments(step))
    run.compile(tuple(kinds[name] for name in names))
    run.disable_compile()
    compilation().strip(run)
    return run  # type: ignore[no-any-return]


def _read(numbers: DTypeLike, dimensions: int) -> Any:
    from numba import from_dtype, types

    return types.Array(from_dtype(np.dtype(numbers)), dimensions, "C", readonly=True)


def _written(numbers: DTypeLike, dimensions: int) -> Any:
    from numba import from_dtype, types

    return types.Array(from_dtype(np.dtype(numbers)), dimensions, "C")
