"""All numba policy in one place: flags and caching, explicit vectors, and the functions that kernels share."""

from plait.jit.policy import FLAGS, OWN_TEXT, inlined, intrinsic, kernel, uncached
from plait.jit.special import LOGS, TINY, bernoulli_link, digamma_lgamma, weighted_logs
from plait.jit.vectors import WIDTH, add, fma, load, load_flat, log8, mul, splat, store, total, vector

__all__ = [
    "FLAGS",
    "LOGS",
    "OWN_TEXT",
    "TINY",
    "WIDTH",
    "add",
    "bernoulli_link",
    "digamma_lgamma",
    "fma",
    "inlined",
    "intrinsic",
    "kernel",
    "load",
    "load_flat",
    "log8",
    "mul",
    "splat",
    "store",
    "total",
    "uncached",
    "vector",
    "weighted_logs",
]
