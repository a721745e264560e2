"""All numba policy in one file: flags, explicit vectors, the cache guard, and the scalar functions that kernels share.

Numba's auto-vectoriser does badly on short latent loops, so generated kernels name their vectors: `load`, `store`,
`splat`, `mul`, `fma`, `total`, `log8` compile to LLVM vector instructions of WIDTH doubles. Rows are padded to a
multiple of WIDTH.
"""

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import extending, njit, types
from numba.np.arrayobj import make_array

WIDTH = 8
LOGS = 256  # values of Xhat collected before their logarithms are taken, eight at a time
TINY = 1e-270  # a scaled Xhat below this cannot be divided by (1e38/TINY is finite): log-sum-exp takes over there

# Full fast-math would delete the tests for NaN and infinity; these four are safe and give the speed.
FLAGS = ("contract", "reassoc", "nsz", "arcp")

_DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
_LONGS = ir.VectorType(ir.IntType(64), WIDTH)

OWN_TEXT = hashlib.sha256(Path(__file__).read_bytes()).hexdigest() if Path(__file__).exists() else ""

Function = TypeVar("Function", bound=Callable[..., Any])


_njit: Any = njit
_make_array: Any = make_array
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": set(FLAGS), "boundscheck": False, "error_model": "numpy"}


def kernel(function: Function) -> Function:
    """Compile without the GIL and with a cache on disk; where no folder can be written, without the cache."""
    try:
        compiled = _njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba found no place for its cache
        return uncached(function)
    # Numba's cache looks at the kernel's own file only; machine code made with another version of this one is stale.
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
    return _njit(nogil=True, error_model="numpy", fastmath=False)(function)  # type: ignore[no-any-return]


class Vector(types.Type):
    """WIDTH doubles in registers."""

    def __init__(self) -> None:
        super().__init__(name=f"Vector{WIDTH}")


vector = Vector()


@extending.register_model(Vector)
class _VectorModel(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _DOUBLES)  # type: ignore[no-untyped-call]


def _address(context: Any, builder: Any, kind: Any, array: Any, row: Any, column: Any) -> Any:
    """Pointer to WIDTH doubles of a C-contiguous 2-d array; rows are unsigned, so no wrap-around test is emitted."""
    struct = _make_array(kind)(context, builder, array)
    i64 = ir.IntType(64)
    row = builder.zext(row, i64) if row.type.width < 64 else row
    column = builder.sext(column, i64) if column.type.width < 64 else column
    flat = builder.add(builder.mul(row, builder.extract_value(struct.shape, 1)), column)
    return builder.bitcast(builder.gep(struct.data, [flat]), _DOUBLES.as_pointer())


@intrinsic
def load(typingctx: Any, array: Any, row: Any, column: Any) -> Any:
    """Read WIDTH doubles from array[row, column:]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], *args), align=8)

    return vector(array, row, column), codegen


@intrinsic
def store(typingctx: Any, array: Any, row: Any, column: Any, value: Any) -> Any:
    """Write WIDTH doubles to array[row, column:]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[3], _address(context, builder, signature.args[0], *args[:3]), align=8)
        return context.get_dummy_value()

    return types.void(array, row, column, value), codegen


def _constant(kind: Any, value: Any) -> Any:
    return ir.Constant(kind, [value] * WIDTH)


@intrinsic
def splat(typingctx: Any, scalar: Any) -> Any:
    """WIDTH copies of one double."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        undefined = ir.Constant(_DOUBLES, ir.Undefined)
        first = builder.insert_element(undefined, args[0], ir.IntType(32)(0))
        picks = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        return builder.shuffle_vector(first, undefined, picks)

    return vector(types.float64), codegen


@intrinsic
def mul(typingctx: Any, x: Any, y: Any) -> Any:
    """x * y."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fmul(*args, flags=FLAGS)

    return vector(x, y), codegen


@intrinsic
def add(typingctx: Any, x: Any, y: Any) -> Any:
    """x + y."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(*args, flags=FLAGS)

    return vector(x, y), codegen


@intrinsic
def fma(typingctx: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(builder.fmul(args[0], args[1], flags=FLAGS), args[2], flags=FLAGS)

    return vector(x, y, z), codegen


@intrinsic
def total(typingctx: Any, x: Any) -> Any:
    """Sum of the WIDTH doubles."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, i32 = args[0], ir.IntType(32)
        while value.type.count > 1:
            half = value.type.count // 2
            undefined = ir.Constant(value.type, ir.Undefined)
            halves = [
                builder.shuffle_vector(
                    value, undefined, ir.Constant(ir.VectorType(i32, half), list(range(at, at + half)))
                )
                for at in (0, half)
            ]
            value = builder.fadd(*halves, flags=FLAGS)
        return builder.extract_element(value, i32(0))

    return types.float64(x), codegen


# log(1 + f) = f - (f²/2 - s (f²/2 + R(s²))), s = f / (2 + f): the polynomial R of FreeBSD's e_log.c (error below 1
# ulp).
_LOG_POLYNOMIAL = (
    0.6666666666666735130,
    0.3999999999940941908,
    0.2857142874366239149,
    0.2222219843214978396,
    0.1818357216161805012,
    0.1531383769920937332,
    0.1479819860511658591,
)


def _log_codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    def long(value: int) -> Any:
        return _constant(_LONGS, value)

    def double(value: float) -> Any:
        return _constant(_DOUBLES, value)

    bits = builder.bitcast(args[0], _LONGS)
    # Centre the mantissa on 1 (√½ … √2): adding the distance to √½ carries into the exponent exactly when it must.
    shifted = builder.add(bits, long(0x3FF0000000000000 - 0x3FE6A09E667F3BCD))
    exponent = builder.lshr(shifted, long(52))
    mantissa = builder.add(builder.and_(shifted, long(0x000FFFFFFFFFFFFF)), long(0x3FE6A09E667F3BCD))
    f = builder.fsub(builder.bitcast(mantissa, _DOUBLES), double(1.0))
    # Integer to double by its bits: 2^52 + e, minus 2^52 and the bias. (Exact only where floats are not reassociated.)
    biased = builder.bitcast(builder.or_(exponent, long(0x4330000000000000)), _DOUBLES)
    e = builder.fsub(biased, double(4503599627370496.0 + 1023.0))
    s = builder.fdiv(f, builder.fadd(f, double(2.0)))
    z = builder.fmul(s, s)
    w = builder.fmul(z, z)

    def product_sum(x: Any, y: Any, more: Any) -> Any:  # one rounding instead of two, where the machine can
        return builder.fadd(builder.fmul(x, y, flags=("contract",)), more, flags=("contract",))

    # Odd and even coefficients apart: two short chains instead of a long one.
    odd, even = double(_LOG_POLYNOMIAL[6]), double(_LOG_POLYNOMIAL[5])
    for n in (4, 2, 0):
        odd = product_sum(odd, w, double(_LOG_POLYNOMIAL[n]))
    for n in (3, 1):
        even = product_sum(even, w, double(_LOG_POLYNOMIAL[n]))
    series = product_sum(odd, z, builder.fmul(even, w))
    half = builder.fmul(double(0.5), builder.fmul(f, f))
    low = product_sum(s, builder.fadd(half, series), builder.fmul(e, double(1.90821492927058770002e-10)))
    high = builder.fmul(e, double(6.93147180369123816490e-01))
    return builder.fsub(high, builder.fsub(builder.fsub(half, low), f))


@intrinsic
def log8(typingctx: Any, x: Any) -> Any:
    """Natural logarithms of WIDTH positive, finite, normal doubles; exact to an ulp inside an `inlined` function."""
    return vector(x), _log_codegen


@intrinsic
def load_flat(typingctx: Any, array: Any, position: Any) -> Any:
    """Read WIDTH doubles from a 1-d array at a position that is not negative."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        struct = _make_array(signature.args[0])(context, builder, args[0])
        return builder.load(builder.bitcast(builder.gep(struct.data, [args[1]]), _DOUBLES.as_pointer()), align=8)

    return vector(array, position), codegen


@inlined
def weighted_logs(values: Any, entries: Any, begin: int, end: int) -> float:
    """Σ entries[n] · log values[0, n mod LOGS] over n = begin … end − 1, within one block of LOGS."""
    sums = splat(0.0)
    while begin + WIDTH <= end:
        sums = fma(load_flat(entries, begin), log8(load(values, np.uint64(0), begin & (LOGS - 1))), sums)
        begin += WIDTH
    result = total(sums)
    while begin < end:
        result += entries[begin] * math.log(values[0, begin & (LOGS - 1)])
        begin += 1
    return result  # type: ignore[no-any-return]


@inlined
def digamma_lgamma(x: float) -> tuple[float, float]:
    """ψ(x) and log Γ(x) for x > 0, together, since they share the shift to x ≥ 10 and the logarithm there."""
    product, derivative, tail = 1.0, 0.0, 0.0
    if x < 1.0:  # split off 1/x: beside it the rest would lose digits
        tail = 1.0 / x
        product = x
        x += 1.0
    lead = 1.0
    while x < 10.0:
        derivative = derivative * x + lead
        lead *= x
        x += 1.0
    product *= lead
    y = 1.0 / x
    z = y * y
    logarithm = math.log(x)
    psi = logarithm - 0.5 * y
    psi -= z * (
        1.0 / 12.0
        - z
        * (1.0 / 120.0 - z * (1.0 / 252.0 - z * (1.0 / 240.0 - z * (1.0 / 132.0 - z * (691.0 / 32760.0 - z / 12.0)))))
    )
    gamma = (x - 0.5) * logarithm - x + 0.91893853320467274178
    gamma += y * (
        1.0 / 12.0
        - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z * (1.0 / 1188.0 - z * 691.0 / 360360.0))))
    )
    return psi - derivative / lead - tail, gamma - math.log(product)


@inlined
def bernoulli_link(log_rate: float) -> tuple[float, float]:
    """For an observed link with log rate log λ: E[n] = λ/(1 − e^−λ) and log(e^λ − 1), for any size of λ."""
    if log_rate < -37.0:  # λ is below rounding beside 1
        return 1.0, log_rate
    rate = math.exp(log_rate) if log_rate < 700.0 else math.exp(700.0)
    miss = -math.expm1(-rate)  # 1 − e^−λ
    return rate / miss, rate + math.log(miss)
