"""Explicit vectors of WIDTH doubles, as LLVM instructions.

Numba's auto-vectoriser is poor on short latent loops, so kernels name their vectors: `load`, `store`, `splat`, `mul`,
`fma`, `total`, `log8`. Rows are padded to a multiple of WIDTH. `mul`, `add`, `fma` and `total` also take float32
vectors (`singles`).
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.np.arrayobj import make_array

from plait.jit.constants import WIDTH
from plait.jit.policy import FLAGS, intrinsic

_DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
_SINGLES = ir.VectorType(ir.FloatType(), WIDTH)
_make_array: Any = make_array


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
    """Pointer to WIDTH numbers of a C-contiguous 2-d array; rows are unsigned, so no wrap-around test is emitted."""
    struct = _make_array(kind)(context, builder, array)
    i64 = ir.IntType(64)
    row = builder.zext(row, i64) if row.type.width < 64 else row
    column = builder.sext(column, i64) if column.type.width < 64 else column
    flat = builder.add(builder.mul(row, builder.extract_value(struct.shape, 1)), column)
    return builder.bitcast(builder.gep(struct.data, [flat]), _stored(kind).as_pointer())


def _stored(array: Any) -> Any:
    """The vector type of an array's own numbers."""
    return _SINGLES if array.dtype == types.float32 else _DOUBLES


@intrinsic
def load(typingctx: Any, array: Any, row: Any, column: Any) -> Any:
    """Read WIDTH numbers from array[row, column:], as doubles."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        value = builder.load(_address(context, builder, kind, *args), align=kind.dtype.bitwidth // 8)
        return value if _stored(kind) is _DOUBLES else builder.fpext(value, _DOUBLES)

    return vector(array, row, column), codegen


@intrinsic
def store(typingctx: Any, array: Any, row: Any, column: Any, value: Any) -> Any:
    """Write WIDTH doubles to array[row, column:], rounded where it holds floats."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, value = signature.args[0], args[3]
        if _stored(kind) is not _DOUBLES:
            value = builder.fptrunc(value, _SINGLES)
        builder.store(value, _address(context, builder, kind, *args[:3]), align=kind.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, row, column, value), codegen


def _constant(kind: Any, value: Any) -> Any:
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


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

    return x(x, y), codegen


@intrinsic
def add(typingctx: Any, x: Any, y: Any) -> Any:
    """x + y."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(*args, flags=FLAGS)

    return x(x, y), codegen


@intrinsic
def fma(typingctx: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(builder.fmul(args[0], args[1], flags=FLAGS), args[2], flags=FLAGS)

    return x(x, y, z), codegen


def folded(builder: Any, value: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """One number from all of a vector: its halves are combined until one is left."""
    i32 = ir.IntType(32)
    while value.type.count > 1:
        half, undefined = value.type.count // 2, ir.Constant(value.type, ir.Undefined)
        picks = [ir.Constant(ir.VectorType(i32, half), list(range(at, at + half))) for at in (0, half)]
        value = combine(*(builder.shuffle_vector(value, undefined, pick) for pick in picks))
    return builder.extract_element(value, i32(0))


@intrinsic
def total(typingctx: Any, x: Any) -> Any:
    """Sum of all numbers of a vector, as a double."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        result = folded(builder, args[0], lambda low, high: builder.fadd(low, high, flags=FLAGS))
        return result if isinstance(result.type, ir.DoubleType) else builder.fpext(result, ir.DoubleType())

    return types.float64(x), codegen


# log(1 + f) = f - (f²/2 - s (f²/2 + R(s²))), s = f / (2 + f): the polynomial R of FreeBSD's e_log.c (error below 1
# ulp).
LOG_POLYNOMIAL = (
    0.6666666666666735130,
    0.3999999999940941908,
    0.2857142874366239149,
    0.2222219843214978396,
    0.1818357216161805012,
    0.1531383769920937332,
    0.1479819860511658591,
)


def exponent_mantissa(builder: Any, value: Any) -> tuple[Any, Any]:
    """e and m with value = 2^e m, e as doubles, m from √½ to √2; for positive, finite, normal doubles, or one."""
    doubles, longs = value.type, ir.IntType(64)
    if isinstance(doubles, ir.VectorType):
        longs = ir.VectorType(longs, doubles.count)

    def long(value: int) -> Any:
        return _constant(longs, value)

    # Adding the distance of √½ to 1 carries into the exponent exactly when it must.
    shifted = builder.add(builder.bitcast(value, longs), long(0x3FF0000000000000 - 0x3FE6A09E667F3BCD))
    exponent = builder.lshr(shifted, long(52))
    mantissa = builder.add(builder.and_(shifted, long(0x000FFFFFFFFFFFFF)), long(0x3FE6A09E667F3BCD))
    # Integer to double by its bits: 2^52 + e, minus 2^52 and the bias. (Exact only where floats are not reassociated.)
    biased = builder.bitcast(builder.or_(exponent, long(0x4330000000000000)), doubles)
    e = builder.fsub(biased, _constant(doubles, 4503599627370496.0 + 1023.0))
    return e, builder.bitcast(mantissa, doubles)


def log_codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """The LLVM code of `log8` and `log1`."""
    kind = args[0].type

    def double(value: float) -> Any:
        return _constant(kind, value)

    e, mantissa = exponent_mantissa(builder, args[0])
    f = builder.fsub(mantissa, double(1.0))
    s = builder.fdiv(f, builder.fadd(f, double(2.0)))
    z = builder.fmul(s, s)
    w = builder.fmul(z, z)

    def product_sum(x: Any, y: Any, more: Any) -> Any:  # one rounding instead of two, where the machine can
        return builder.fadd(builder.fmul(x, y, flags=("contract",)), more, flags=("contract",))

    # Odd and even coefficients apart: two short chains instead of a long one.
    odd, even = double(LOG_POLYNOMIAL[6]), double(LOG_POLYNOMIAL[5])
    for n in (4, 2, 0):
        odd = product_sum(odd, w, double(LOG_POLYNOMIAL[n]))
    for n in (3, 1):
        even = product_sum(even, w, double(LOG_POLYNOMIAL[n]))
    series = product_sum(odd, z, builder.fmul(even, w))
    half = builder.fmul(double(0.5), builder.fmul(f, f))
    low = product_sum(s, builder.fadd(half, series), builder.fmul(e, double(1.90821492927058770002e-10)))
    high = builder.fmul(e, double(6.93147180369123816490e-01))
    return builder.fsub(high, builder.fsub(builder.fsub(half, low), f))


@intrinsic
def log8(typingctx: Any, x: Any) -> Any:
    """Natural logarithms of WIDTH positive, finite, normal doubles; exact to an ulp inside an `inlined` function."""
    return vector(x), log_codegen


@intrinsic
def log1(typingctx: Any, x: Any) -> Any:
    """The same of one double. A call of log would have the kernel around it save its registers."""
    return types.float64(types.float64), log_codegen
