"""Numbers of a C-contiguous array by their position in memory.

Positions are never negative, so no wrap-around test is emitted; and a row is found by a multiplication that the
kernel does once, with a width that the compiler knows. Floats are read as doubles, and so are integers wherever
numbers are wanted: `real` and `load_at` convert them, `item` hands out what they are.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.np.arrayobj import make_array

from plait.jit.policy import intrinsic
from plait.jit.vectors import WIDTH, vector

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
