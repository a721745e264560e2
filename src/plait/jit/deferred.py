"""Functions for numba, which is imported at the first use of one of them.

So a saved run is loaded, described and queried without numba, whose import and loaded kernels take longer than most
answers. Kernels refer to each other and to intrinsics by name: numba asks a `Deferred` for its type while it compiles.
"""

from collections.abc import Callable
from functools import update_wrapper
from importlib import import_module
from inspect import signature
from typing import Any, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

# What Python and NumPy do in the time that numba takes for its import and some kernels of the cache, 0.3 s
# (decision 48).
MAX_TEXT_NUMBERS = 1 << 16
MAX_ARRAY_NUMBERS = 1 << 23


def compilation() -> Any:
    """Import `plait.jit.policy`, and all intrinsics."""
    for name in ("scalars", "singles"):
        import_module(f"plait.jit.{name}")
    return import_module("plait.jit.policy")


class Deferred:
    """A function of numba; `make` returns it, and imports numba."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @property
    def compiled(self) -> Any:
        """Numba's dispatcher or intrinsic."""
        compiled = self.__dict__.get("_compiled")
        # Two threads may make one; both take the first.
        return self.__dict__.setdefault("_compiled", self._make()) if compiled is None else compiled

    @property
    def py_func(self) -> Any:
        """The text as a Python function."""
        return self.compiled.py_func

    @property
    def _numba_type_(self) -> Any:
        from numba.core.registry import cpu_target

        context: Any = cpu_target.typing_context
        compiled = self.compiled
        context.refresh()  # for an intrinsic that is new
        return context.resolve_value_type(compiled)

    def __call__(self, *args: Any) -> Any:
        return self.compiled(*args)


class _Decorated(Deferred):
    """A function with a decorator of `policy`."""

    def __init__(self, function: Callable[..., Any], decorator: str, *options: Any) -> None:
        update_wrapper(self, function)
        self._function, self._decorator, self._options = function, decorator, options

    def _make(self) -> Any:
        return getattr(compilation(), self._decorator)(self._function, *self._options)

    @property
    def py_func(self) -> Any:
        return self._function


class _Inlined(_Decorated):
    """A function that kernels call; Python runs its text."""

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)


class _Tiered(_Decorated):
    """An exact kernel that Python, or NumPy, runs at first; `size`: the argument whose size measures the work."""

    def __init__(self, function: Callable[..., Any], size: str, array_function: Callable[..., Any] | None) -> None:
        super().__init__(function, "exact_kernel")
        self._at = list(signature(function).parameters).index(size)
        self._first = array_function or function
        self._left = MAX_TEXT_NUMBERS if array_function is None else MAX_ARRAY_NUMBERS

    def __call__(self, *args: Any) -> Any:
        if self._left <= 0:
            return self.compiled(*args)
        self._left -= args[self._at].size
        if self._left <= 0:
            return self.compiled(*args)
        with np.errstate(all="ignore"):
            return self._first(*args)


def kernel(function: Function, source: str = "") -> Function:
    """Compile without the GIL and with a cache on disk, in which generated functions count by their source."""
    return _Decorated(function, "kernel", source)  # type: ignore[return-value]


def exact_kernel(function: Function) -> Function:
    """Compile like `kernel`, but in exact arithmetic: what cancels in theory cancels to 0."""
    return _Decorated(function, "exact_kernel")  # type: ignore[return-value]


def tiered_kernel(size: str, array_function: Callable[..., Any] | None = None) -> Callable[[Function], Function]:
    """Compile like `exact_kernel`, but not before a number of small calls: Python runs the text with the same bits.

    `size`: name of the array whose size measures the work. `array_function`: the same in NumPy, for elementwise
    kernels. To compile, or to import numba for compiled code, takes longer than most answers of a new process.
    """
    return lambda function: _Tiered(function, size, array_function)  # type: ignore[return-value]


def uncached(function: Function) -> Function:
    """Compile without the GIL, in memory only."""
    return _Decorated(function, "uncached")  # type: ignore[return-value]


def inlined(function: Function) -> Function:
    """Compile a function that kernels call, in exact arithmetic whatever the kernel's flags are."""
    return _Inlined(function, "inlined")  # type: ignore[return-value]


def outlined(function: Function) -> Function:
    """Compile a function of four arguments that kernels call, like `inlined`, but never in the midst of their code."""
    return _Decorated(function, "outlined")  # type: ignore[return-value]


def imported(module: str, name: str) -> Callable[..., Any]:
    """A function of a module of `plait.jit`, which is imported at its first use."""
    return Deferred(lambda: getattr(import_module(f"plait.jit.{module}"), name))
