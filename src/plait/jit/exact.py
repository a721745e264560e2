"""Vectors in exact arithmetic, so that equal inputs give equal bits wherever they are computed.

Operators on vectors (`x + y`, `x - y`, `x * y`, `x / y`) are rounded one by one and never reordered, unlike `add`,
`mul` and `fma`; this needs a caller without float flags (`exact_kernel` or `inlined`).
"""

import operator
from typing import Any

from llvmlite import ir
from numba import extending, types

from plait.jit.constants import WIDTH
from plait.jit.policy import intrinsic
from plait.jit.vectors import Vector, folded, vector

DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
LONGS = ir.VectorType(ir.IntType(64), WIDTH)


class Exact:
    """Writes vector arithmetic into LLVM code."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.add, self.sub, self.mul, self.div = builder.fadd, builder.fsub, builder.fmul, builder.fdiv

    def number(self, value: float) -> Any:
        """WIDTH copies of a constant double."""
        return ir.Constant(DOUBLES, [value] * WIDTH)

    def whole(self, value: int) -> Any:
        """WIDTH copies of a constant integer."""
        return ir.Constant(LONGS, [value] * WIDTH)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """x * y + z, in one rounding wherever the machine can; the same everywhere on one machine."""
        name = f"llvm.fmuladd.v{WIDTH}f64"
        module = self.builder.module
        function = module.globals.get(name) or ir.Function(module, ir.FunctionType(DOUBLES, [DOUBLES] * 3), name)
        return self.builder.call(function, [x, y, z])

    def polynomial(self, x: Any, coefficients: tuple[float, ...]) -> Any:
        """Σ coefficients[n] xⁿ, the even and odd powers apart: two short chains instead of a long one."""
        square = self.mul(x, x)
        even, odd = (self._horner(square, coefficients[parity::2]) for parity in (0, 1))
        return self.fma(odd, x, even)

    def _horner(self, x: Any, coefficients: tuple[float, ...]) -> Any:
        value = self.number(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = self.fma(value, x, self.number(coefficient))
        return value

    def where(self, sign: str, x: Any, y: float, yes: Any, no: Any) -> Any:
        """Of each entry `yes` where x compares so with y, else `no`."""
        return self.builder.select(self.builder.fcmp_ordered(sign, x, self.number(y)), yes, no)


def _operator(symbol: Any, instruction: str) -> None:
    def typed(context: Any) -> Any:
        return lambda x, y: vector if isinstance(x, Vector) and isinstance(y, Vector) else None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)

    declare: Any = extending
    declare.type_callable(symbol)(typed)
    declare.lower_builtin(symbol, Vector, Vector)(codegen)


_operator(operator.add, "fadd")
_operator(operator.sub, "fsub")
_operator(operator.mul, "fmul")
_operator(operator.truediv, "fdiv")


@intrinsic
def maximum(typingctx: Any, x: Any, y: Any) -> Any:
    """The larger of each pair."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return vector(x, y), codegen


@intrinsic
def root(typingctx: Any, x: Any) -> Any:
    """Square roots."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        name, module = f"llvm.sqrt.v{WIDTH}f64", builder.module
        function = module.globals.get(name) or ir.Function(module, ir.FunctionType(DOUBLES, [DOUBLES]), name)
        return builder.call(function, args)

    return vector(x), codegen


@intrinsic
def rounded(typingctx: Any, x: Any, array: Any) -> Any:
    """The numbers as an array will hold them."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if signature.args[1].dtype == types.float64:
            return args[0]
        return builder.fpext(builder.fptrunc(args[0], ir.VectorType(ir.FloatType(), WIDTH)), DOUBLES)

    return vector(x, array), codegen


@intrinsic
def first(typingctx: Any, x: Any) -> Any:
    """The first of the WIDTH doubles."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], ir.IntType(32)(0))

    return types.float64(x), codegen


@intrinsic
def largest(typingctx: Any, x: Any) -> Any:
    """The largest of the WIDTH doubles."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def larger(low: Any, high: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", low, high), low, high)

        return folded(builder, args[0], larger)

    return types.float64(x), codegen


@intrinsic
def where_positive(typingctx: Any, x: Any, yes: Any, no: Any) -> Any:
    """Of each entry `yes` where x > 0, else `no`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return Exact(builder).where(">", args[0], 0.0, *args[1:])

    return vector(x, yes, no), codegen


@intrinsic
def cut(typingctx: Any, x: Any, count: Any, rest: Any) -> Any:
    """The first `count` entries of x, and the number `rest` in place of the others."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, count, rest = args
        i32, undefined = ir.IntType(32), ir.Undefined
        picks = ir.Constant(ir.VectorType(i32, WIDTH), [0] * WIDTH)

        def spread(scalar: Any, kind: Any) -> Any:
            blank = ir.Constant(kind, undefined)
            return builder.shuffle_vector(builder.insert_element(blank, scalar, i32(0)), blank, picks)

        lanes = ir.Constant(LONGS, [*range(WIDTH)])
        return builder.select(builder.icmp_signed("<", lanes, spread(count, LONGS)), value, spread(rest, DOUBLES))

    return vector(x, types.int64, types.float64), codegen
