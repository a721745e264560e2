"""Compilation that gives memory back: LLVM's engine gets machine code, not the code that it was made from.

MCJIT keeps every module until the process ends. Numba hands it the optimised module of a function. Here the object code
is emitted first, and the engine gets an empty module with it, as when numba loads a function from its cache (decision
14). The optimised module then lives as long as its function.
"""

from typing import Any

import llvmlite.binding as llvm
from numba.core import compiler
from numba.core.codegen import JITCodeLibrary


class Library(JITCodeLibrary):
    """The code of one function."""

    def _finalize_final_module(self) -> None:
        full, codegen = self._final_module, self._codegen
        code = codegen._tm.emit_object(full)
        self._final_module = llvm.parse_assembly(str(codegen._create_empty_module(self.name)))
        self._compiled_object = code  # the engine takes it for that of the empty module
        super()._finalize_final_module()
        self._final_module, self._compiled_object, self._compiled = full, code, True
        codegen._engine._load_defined_symbols(full)
        self._finalize_dynamic_globals()


class Compiler(compiler.Compiler):
    """Numba's compiler with a `Library` for its result."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a Python function."""
        self.state.library = Library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


def strip(dispatcher: Any) -> None:
    """Drop all of a compiled function but its machine code; no other compiled function can call it then."""
    for types, result in dispatcher.overloads.items():
        dispatcher.overloads[types] = result._replace(type_annotation="", metadata=None)
        library = result.library
        library._final_module = library._shared_module = library._compiled_object = None
        library._linking_libraries = []
