"""All numba policy in one place: flags and caching, explicit vectors, and the functions that kernels share."""

from plait.jit.cache import fingerprint
from plait.jit.compiler import strip
from plait.jit.elementary import digamma_lgamma8, exp8, log_any8
from plait.jit.exact import cut, first, largest, maximum, root, rounded, where_positive
from plait.jit.flat import item, load_at, put, real, store_at
from plait.jit.policy import FLAGS, exact_kernel, inlined, intrinsic, kernel, outlined, uncached
from plait.jit.scalars import LOGS, TINY, TINY_SINGLE, bernoulli_link, log_minus_digamma, rate_of, weighted_logs
from plait.jit.vectors import WIDTH, add, fma, load, log1, log8, mul, splat, store, total, vector

__all__ = [
    "FLAGS",
    "LOGS",
    "TINY",
    "TINY_SINGLE",
    "WIDTH",
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
    "intrinsic",
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
    "strip",
    "total",
    "uncached",
    "vector",
    "weighted_logs",
    "where_positive",
]
