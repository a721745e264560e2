"""Numba: compilation flags, cache, explicit vectors, and functions shared by kernels. Imported at the first use."""

from collections.abc import Callable
from typing import Any

from plait.jit.constants import LOGS, TINY, TINY_SINGLE, WIDTH
from plait.jit.deferred import Deferred, exact_kernel, imported, inlined, kernel, outlined, tiered_kernel, uncached

add = imported("vectors", "add")
fma = imported("vectors", "fma")
load = imported("vectors", "load")
log1 = imported("vectors", "log1")
log8 = imported("vectors", "log8")
mul = imported("vectors", "mul")
splat = imported("vectors", "splat")
store = imported("vectors", "store")
total = imported("vectors", "total")
cut = imported("exact", "cut")
first = imported("exact", "first")
largest = imported("exact", "largest")
maximum = imported("exact", "maximum")
root = imported("exact", "root")
rounded = imported("exact", "rounded")
where_positive = imported("exact", "where_positive")
digamma_lgamma8 = imported("elementary", "digamma_lgamma8")
exp8 = imported("elementary", "exp8")
log_any8 = imported("elementary", "log_any8")
bernoulli_link = imported("scalars", "bernoulli_link")
item = imported("scalars", "item")
load_at = imported("scalars", "load_at")
log_minus_digamma = imported("scalars", "log_minus_digamma")
put = imported("scalars", "put")
rate_of = imported("scalars", "rate_of")
real = imported("scalars", "real")
store_at = imported("scalars", "store_at")
weighted_logs = imported("scalars", "weighted_logs")


def fingerprint(function: Callable[..., Any]) -> str:
    """Hash a function with all that numba compiles into it: see `plait.jit.cache`."""
    from plait.jit.cache import fingerprint as own

    return own(function)


__all__ = [
    "LOGS",
    "TINY",
    "TINY_SINGLE",
    "WIDTH",
    "Deferred",
    "add",
    "bernoulli_link",
    "cut",
    "digamma_lgamma8",
    "exact_kernel",
    "exp8",
    "fingerprint",
    "first",
    "fma",
    "inlined",
    "item",
    "kernel",
    "largest",
    "load",
    "load_at",
    "log1",
    "log8",
    "log_any8",
    "log_minus_digamma",
    "maximum",
    "mul",
    "outlined",
    "put",
    "rate_of",
    "real",
    "root",
    "rounded",
    "splat",
    "store",
    "store_at",
    "tiered_kernel",
    "total",
    "uncached",
    "weighted_logs",
    "where_positive",
]
