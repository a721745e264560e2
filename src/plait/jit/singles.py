"""Vectors of WIDTH float32, with the functions of vectors of doubles, so kernels have one text for both.

Arrays of doubles are rounded when read and extended when written; sums over a vector are doubles.
"""

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.np.arrayobj import make_array

from plait.jit.constants import WIDTH
from plait.jit.policy import intrinsic
from plait.jit.vectors import add, fma, mul, total

__all__ = ["add", "fma", "load_at", "mul", "splat", "store_at", "total"]

_SINGLES = ir.VectorType(ir.FloatType(), WIDTH)
_DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
_make_array: Any = make_array


class Singles(types.Type):
    """WIDTH floats in registers."""

    def __init__(self) -> None:
        super().__init__(name=f"Singles{WIDTH}")


singles = Singles()


@extending.register_model(Singles)
class _SinglesModel(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _SINGLES)  # type: ignore[no-untyped-call]


def _pointer(context: Any, builder: Any, kind: Any, array: Any, position: Any) -> Any:
    own = _SINGLES if kind.dtype == types.float32 else _DOUBLES
    data = _make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [position]), own.as_pointer())


@intrinsic
def load_at(typingctx: Any, array: Any, position: Any) -> Any:
    """Read WIDTH numbers from a position on."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        value = builder.load(_pointer(context, builder, kind, *args), align=kind.dtype.bitwidth // 8)
        return value if kind.dtype == types.float32 else builder.fptrunc(value, _SINGLES)

    return singles(array, types.int64), codegen


@intrinsic
def store_at(typingctx: Any, array: Any, position: Any, value: Any) -> Any:
    """Write WIDTH numbers from a position on."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        value = args[2] if kind.dtype == types.float32 else builder.fpext(args[2], _DOUBLES)
        builder.store(value, _pointer(context, builder, kind, *args[:2]), align=kind.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), codegen


@intrinsic
def splat(typingctx: Any, scalar: Any) -> Any:
    """WIDTH copies of one double, rounded."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        undefined, i32 = ir.Constant(_SINGLES, ir.Undefined), ir.IntType(32)
        first = builder.insert_element(undefined, builder.fptrunc(args[0], ir.FloatType()), i32(0))
        return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(i32, WIDTH), [0] * WIDTH))

    return singles(types.float64), codegen
