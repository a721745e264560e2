"""How everything is compiled: flags, the cache on disk and its guard."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding as llvm
from numba import extending, njit

# Full fast-math would delete the tests for NaN and infinity; these four are safe and give the speed.
FLAGS = ("contract", "reassoc", "nsz", "arcp")


def _own_text() -> str:
    """A hash of this package's files: machine code made with other ones is stale."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


OWN_TEXT = _own_text()

Function = TypeVar("Function", bound=Callable[..., Any])


def _mend_disposal() -> None:
    """Let LLVM's pass managers be freed after each compilation: half of what a compiled kernel takes.

    In llvmlite (0.50 at least) a base class that does nothing comes before the one that frees them.
    """
    base: Any = getattr(getattr(llvm, "newpassmanagers", None), "NewPassManager", None)
    for manager in base.__subclasses__() if base else ():
        if manager._dispose is llvm.ffi.ObjectRef._dispose:
            manager._dispose = base._dispose


_mend_disposal()

_njit: Any = njit
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": set(FLAGS), "boundscheck": False, "error_model": "numpy"}


def kernel(function: Function) -> Function:
    """Compile without the GIL and with a cache on disk; where no folder can be written, without the cache."""
    return _cached(function, _OPTIONS)


def exact_kernel(function: Function) -> Function:
    """Compile like `kernel`, but in exact arithmetic: what cancels in theory cancels to 0."""
    return _cached(function, _OPTIONS | {"fastmath": False})


def _cached(function: Function, options: dict[str, Any]) -> Function:
    try:
        compiled = _njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no place for its cache
        return _njit(**options)(function)  # type: ignore[no-any-return]
    # Numba's cache looks at the kernel's own file only, not at this package's.
    file: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = (file._source_stamp, OWN_TEXT)
    return compiled  # type: ignore[no-any-return]


def uncached(function: Function) -> Function:
    """Compile without the GIL, in memory only."""
    return _njit(**_OPTIONS)(function)  # type: ignore[no-any-return]


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that numba replaces by the LLVM code that it returns."""
    return extending.intrinsic(function)


def inlined(function: Function) -> Function:
    """Compile a function that kernels call, in exact arithmetic whatever the kernel's flags are.

    Numba would hand the caller's flags down, and reassociating would undo the careful parts of `log8`.
    """
    return _njit(nogil=True, error_model="numpy", fastmath=False, forceinline=True)(function)  # type: ignore[no-any-return]


def outlined(function: Function) -> Function:
    """Compile a function of four arguments that kernels call, like `inlined`, but never in the midst of their code.

    For what a hot loop calls now and then: inlined, its constants would take the registers that the loop needs.
    """
    dispatcher = _njit(nogil=True, error_model="numpy", fastmath=False)(function)

    def call(typingctx: Any, first: Any, second: Any, third: Any, fourth: Any) -> Any:
        dispatcher.compile((first, second, third, fourth))
        compiled = dispatcher.overloads[first, second, third, fourth]

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            context.active_code_library.add_linking_library(compiled.library)
            callee = context.declare_function(builder.module, compiled.fndesc)
            types = signature.return_type, signature.args
            return context.call_conv.call_function(builder, callee, *types, args, attrs=("noinline",))[1]

        return compiled.signature, codegen

    return intrinsic(call)  # type: ignore[return-value]
