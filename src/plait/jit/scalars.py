"""Scalar and vector functions shared by kernels: weighted logarithms, log x − ψ(x), rates, the Bernoulli link; and
access to arrays by position in memory.

Positions are never negative, so no wrap-around test is emitted, and a row is found by one multiplication with a width
known to the compiler. `real` and `load_at` convert floats and integers to doubles, `item` does not.
"""

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.np.arrayobj import make_array

from plait.jit.constants import WIDTH
from plait.jit.elementary import exp8, log_parts8
from plait.jit.exact import first
from plait.jit.policy import inlined, intrinsic, outlined
from plait.jit.vectors import fma, splat, total, vector

_make_array: Any = make_array


def _pointer(context: Any, builder: Any, kind: Any, array: Any, position: Any) -> Any:
    return builder.gep(_make_array(kind)(context, builder, array).data, [position])


def _vector_pointer(context: Any, builder: Any, kind: Any, array: Any, position: Any) -> Any:
    pointer = _pointer(context, builder, kind, array, position)
    element = pointer.type.pointee
    return builder.bitcast(pointer, ir.VectorType(element, WIDTH).as_pointer())


@intrinsic
def item(typingctx: Any, array: Any, position: Any) -> Any:
    """The number at a position: an int64 or a double."""
    whole = isinstance(array.dtype, types.Integer)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_pointer(context, builder, signature.args[0], *args))
        if whole:
            return builder.zext(value, ir.IntType(64)) if value.type.width < 64 else value
        return builder.fpext(value, ir.DoubleType()) if isinstance(value.type, ir.FloatType) else value

    return (types.int64 if whole else types.float64)(array, types.int64), codegen


@intrinsic
def real(typingctx: Any, array: Any, position: Any) -> Any:
    """The number at a position as a double, whatever the array holds."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_pointer(context, builder, signature.args[0], *args))
        return as_doubles(builder, value, signature.args[0].dtype, ir.DoubleType())

    return types.float64(array, types.int64), codegen


def as_doubles(builder: Any, value: Any, kind: Any, doubles: Any) -> Any:
    """A number, or a vector of numbers, of an array's kind as doubles."""
    if isinstance(kind, types.Integer):
        return builder.uitofp(value, doubles)  # all integers that are read as numbers are unsigned
    return builder.fpext(value, doubles) if kind == types.float32 else value


@intrinsic
def put(typingctx: Any, array: Any, position: Any, value: Any) -> Any:
    """Write a double to a position, rounded where the array holds floats."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, value = signature.args[0], args[2]
        value = builder.fptrunc(value, ir.FloatType()) if kind.dtype == types.float32 else value
        builder.store(value, _pointer(context, builder, kind, *args[:2]))
        return context.get_dummy_value()

    return types.void(array, types.int64, types.float64), codegen


@intrinsic
def load_at(typingctx: Any, array: Any, position: Any) -> Any:
    """Read WIDTH numbers from a position on, as doubles."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        value = builder.load(_vector_pointer(context, builder, kind, *args), align=kind.dtype.bitwidth // 8)
        return as_doubles(builder, value, kind.dtype, ir.VectorType(ir.DoubleType(), WIDTH))

    return vector(array, types.int64), codegen


@intrinsic
def store_at(typingctx: Any, array: Any, position: Any, value: Any) -> Any:
    """Write WIDTH doubles to an array of doubles, from a position on."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _vector_pointer(context, builder, signature.args[0], *args[:2]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), codegen


LOG_2 = math.log(2.0)
MAX_RATE = math.exp(700.0)  # of a link


@outlined
def weighted_logs(values: Any, entries: Any, begin: int, end: int) -> float:
    """Σ entries[begin + n] · log values[n] over n = 0 … end − begin − 1, at most LOGS of them."""
    at, count, twos, sums = 0, end - begin, splat(0.0), splat(0.0)
    while at + WIDTH <= count:
        weights, (n, t) = load_at(entries, begin + at), log_parts8(load_at(values, at))
        twos, sums = fma(weights, n, twos), fma(weights, t, sums)
        at += WIDTH
    result = total(twos) * LOG_2 + total(sums)
    while at < count:
        result += real(entries, begin + at) * math.log(item(values, at))
        at += 1
    return result  # type: ignore[no-any-return]


@inlined
def log_minus_digamma(x: float) -> tuple[float, float]:
    """log x − ψ(x) and its derivative for x > 0, without the cancellation that large x have in the difference."""
    begin, steps, slopes = x, 0.0, 0.0
    while x < 10.0:
        steps += 1.0 / x
        slopes -= 1.0 / (x * x)
        x += 1.0
    y = 1.0 / x
    z = y * y
    value = y * 0.5 + z * (
        1.0 / 12.0 - z * (1.0 / 120.0 - z * (1.0 / 252.0 - z * (1.0 / 240.0 - z * (1.0 / 132.0 - z * 691.0 / 32760.0))))
    )
    slope = -z * (
        0.5 + y * (1.0 / 6.0 - z * (1.0 / 30.0 - z * (1.0 / 42.0 - z * (1.0 / 30.0 - z * (5.0 / 66.0 - z * 0.2531)))))
    )
    if begin == x:
        return value, slope
    return value + (steps - math.log(x / begin)), slope + (slopes + 1.0 / begin - y)


@inlined
def rate_of(xhat: float, log_scale: float) -> float:
    """λ = xhat · e^log_scale for xhat > 0, at most e^700; 0 where it underflows."""
    if abs(log_scale) < 690.0:
        # Eight at a time, for one: a call of exp would have the kernel around it save its registers.
        return min(xhat * first(exp8(splat(log_scale))), MAX_RATE)  # type: ignore[no-any-return]
    return math.exp(min(math.log(xhat) + log_scale, 700.0))


@inlined
def bernoulli_link(xhat: float, log_scale: float) -> tuple[float, float, float]:
    """For an observed link of rate λ = xhat · e^log_scale, of any size: E[n], and log(e^λ − 1) in two parts.

    E[n] = λ/(1 − e^−λ); the parts are a term and a number whose logarithm is to be added to it.
    """
    rate = rate_of(xhat, log_scale)
    if rate < 1e-290:
        return 1.0, math.log(xhat) + log_scale, 1.0
    miss = -math.expm1(-rate)
    return rate / miss, rate, miss
