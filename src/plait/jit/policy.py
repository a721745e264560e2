"""Compilation policy: numba flags, functions cached on disk, and release of LLVM's memory.

MCJIT keeps every module until the process ends, and numba gives it the optimised module of a function. Here object code
is emitted first, and the engine gets an empty module with it, as when numba loads a function from its cache (decision
14). The optimised module then lives as long as its function.
"""

import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from numba import extending, njit
from numba.core import compiler
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import CPUDispatcher

from plait.jit.cache import FileCache
from plait.jit.deferred import Function
from plait.machine import no_collections

# Full fast-math would delete tests for NaN and infinity; these four are safe and fast.
FLAGS = ("contract", "reassoc", "nsz", "arcp")


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


def kernel(function: Function, source: str = "") -> Function:
    """Compile without the GIL and with a cache on disk, in which generated functions count by their source."""
    return _cached(function, _OPTIONS, source)


def exact_kernel(function: Function) -> Function:
    """Compile like `kernel`, but in exact arithmetic: what cancels in theory cancels to 0."""
    return _cached(function, _OPTIONS | {"fastmath": False})


def _cached(function: Function, options: dict[str, Any], source: str = "") -> Function:
    compiled: Any = _njit(pipeline_class=Compiler, no_cfunc_wrapper=True, **options)(function)
    # Numba loads machine code by the name of its module. NUMBA_DISABLE_JIT gives the function itself.
    if compiled is not function and function.__module__ in sys.modules:
        compiled._cache = FileCache(compiled, source)
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
    return _callable(function, forceinline=True)


def outlined(function: Function) -> Function:
    """Compile a function of four arguments that kernels call, like `inlined`, but never in the midst of their code.

    For what a hot loop calls now and then: inlined, its constants would take the registers that the loop needs.
    """
    dispatcher: Any = _callable(function)

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


class Library(JITCodeLibrary):
    """The code of one function."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leave optimisation to the final module, which has all of the code in it."""
        ll_module.data_layout = self._codegen._data_layout

    def _finalize_final_module(self) -> None:
        full, codegen = self._final_module, self._codegen
        code = codegen._tm.emit_object(full)
        self._final_module = llvm.parse_assembly(str(codegen._create_empty_module(self.name)))
        self._compiled_object = code  # the engine takes it for that of the empty module
        super()._finalize_final_module()
        self._final_module, self._compiled_object, self._compiled = full, code, True
        codegen._engine._load_defined_symbols(full)
        self._finalize_dynamic_globals()


class CallableLibrary(JITCodeLibrary):
    """The code of a function that is compiled as part of others: neither optimised nor translated by itself."""

    _optimize_functions = Library._optimize_functions

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


class Compiler(compiler.Compiler):
    """Numba's compiler with a `Library` for its result."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a Python function."""
        self.state.library = Library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        with no_collections():
            return super().compile_extra(func)


class InlinedCompiler(compiler.Compiler):
    """Numba's compiler for functions that only compiled functions call: no machine code of their own, no wrappers."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a Python function to LLVM's language."""
        self.state.library = CallableLibrary(self.state.targetctx.codegen(), func.__qualname__)
        self.state.flags.no_compile = True
        with no_collections():
            result = super().compile_extra(func)
        entry = object()  # numba's key of these types
        self.state.targetctx.insert_user_function(entry, result.fndesc, [result.library])
        return result._replace(entry_point=entry)


class Inlined(CPUDispatcher):
    """A function that kernels call; Python runs its text, without compiling it."""

    def __call__(self, *args: Any) -> Any:
        return self.py_func(*args)

    def add_overload(self, cres: Any) -> None:
        """Keep a compile result for callers that are compiled; there is no machine code to call."""
        self.overloads[tuple(cres.signature.args)] = cres


def _callable(function: Function, **options: Any) -> Function:
    """Compile a function for kernels that call it, in exact arithmetic."""
    compiled = _njit(
        nogil=True, error_model="numpy", fastmath=False, pipeline_class=InlinedCompiler, no_cpython_wrapper=True,
        no_cfunc_wrapper=True, **options,
    )(function)  # fmt: skip
    if compiled is not function:  # as it is under NUMBA_DISABLE_JIT
        compiled.__class__ = Inlined
    return compiled  # type: ignore[no-any-return]


def strip(dispatcher: Any) -> None:
    """Drop all of a compiled function but its machine code; no other compiled function can call it then."""
    for types, result in dispatcher.overloads.items():
        dispatcher.overloads[types] = result._replace(type_annotation="", metadata=None)
        library = result.library
        library._final_module = library._shared_module = library._compiled_object = None
        library._linking_libraries = []
