"""Elementary functions of WIDTH doubles: log, exp, ψ with log Γ; without loops and branches."""

from typing import Any

from numba import types

from plait.jit.exact import DOUBLES, LONGS, Exact
from plait.jit.policy import intrinsic
from plait.jit.vectors import LOG_POLYNOMIAL, exponent_mantissa, log_codegen, vector

# e^r for |r| ≤ ln 2 / 2 by a polynomial through Chebyshev's points (relative error 4e-18).
_EXP = (
    1.0,
    1.0,
    0.5000000000000019,
    0.1666666666666668,
    0.0416666666664881,
    0.008333333333319601,
    0.0013888888952314775,
    0.00019841269890047113,
    2.4801485482328494e-05,
    2.755724091857897e-06,
    2.763263963904103e-07,
    2.5110037605963777e-08,
)
_MIN_EXPONENT = -708.0  # e^x is a normal number down to here
_ROUNDER = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to an integer, which is in the low bits
_LN2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)  # the first part times n < 2^11 is exact

# With z = 1/x² and x ≥ 5:  ψ(x) = log x − 1/(2x) − z PSI(z),  log Γ(x) = (x − ½) log x − x + log √2π + LGAMMA(z)/x.
# Polynomials through Chebyshev's points of 0 ≤ z ≤ 1/25 (absolute errors 1.3e-16 and 5e-17).
_FROM = 5.0
_PSI = (
    0.08333333333332933,
    -0.00833333332349208,
    0.003968249984234236,
    -0.004166054533495108,
    0.00753011852454179,
    -0.019281635163028693,
    0.04442445631501012,
)
_LGAMMA = (
    0.08333333333333304,
    -0.002777777777064221,
    0.0007936505051684339,
    -0.0005951938894220408,
    0.0008384708154491549,
    -0.001788521804257058,
    0.0036903634280840815,
)
_LOG_ROOT_TAU = 0.91893853320467274178

_PAIR: Any = types.UniTuple(vector, 2)


@intrinsic
def exp8(typingctx: Any, x: Any) -> Any:
    """Exponentials of WIDTH doubles up to 709, within 2 ulp; 0 below −708, where e^x leaves the normal numbers."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        do, value = Exact(builder), args[0]
        inside = do.where("<", value, _MIN_EXPONENT, do.number(_MIN_EXPONENT), value)
        rounded = do.fma(inside, do.number(1.4426950408889634), do.number(_ROUNDER))
        n = do.sub(rounded, do.number(_ROUNDER))
        r = do.fma(n, do.number(-_LN2[1]), do.fma(n, do.number(-_LN2[0]), inside))
        exponent = builder.shl(builder.add(builder.bitcast(rounded, LONGS), do.whole(1023)), do.whole(52))
        result = do.mul(do.polynomial(r, _EXP), builder.bitcast(exponent, DOUBLES))
        return do.where("<", value, _MIN_EXPONENT, do.number(0.0), result)

    return vector(x), codegen


@intrinsic
def log_parts8(typingctx: Any, x: Any) -> Any:
    """n and t with log x = n log 2 + t, for sums of logarithms, which add up n and t apart; x as for `log8`.

    With the mantissa m from √½ to √2 and s = (m − 1)/(m + 1):  t = 2 artanh s = s (2 + s² LOG(s²)).
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        do = Exact(builder)
        n, m = exponent_mantissa(builder, args[0])
        s = do.div(do.sub(m, do.number(1.0)), do.add(m, do.number(1.0)))
        z = do.mul(s, s)
        t = do.mul(s, do.fma(z, do.polynomial(z, LOG_POLYNOMIAL), do.number(2.0)))
        return context.make_tuple(builder, signature.return_type, [n, t])

    return _PAIR(x), codegen


@intrinsic
def log_any8(typingctx: Any, x: Any) -> Any:
    """Natural logarithms of WIDTH doubles that may also be 0 (−∞) or subnormal."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        do, value = Exact(builder), args[0]
        tiny = 2.2250738585072014e-308
        normal = do.where("<", value, tiny, do.mul(value, do.number(2.0**54)), value)
        lowered = do.where("<", value, tiny, do.number(-54 * 0.6931471805599453), do.number(0.0))
        result = do.add(log_codegen(context, builder, signature, [normal]), lowered)
        return do.where(">", value, 0.0, result, do.number(float("-inf")))

    return vector(x), codegen


@intrinsic
def digamma_lgamma8(typingctx: Any, x: Any) -> Any:
    """ψ(x) and log Γ(x) of WIDTH doubles from 1e-300 to 1e300.

    Below 5, from x + 5:  ψ(x) = ψ(x+5) − P'/P and log Γ(x) = log Γ(x+5) − log P, with P = x (x+1) … (x+4).
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        do, value = Exact(builder), args[0]

        def log(v: Any) -> Any:
            return log_codegen(context, builder, signature, [v])

        product, derivative = _rising(do, value)
        product = do.where("<", value, _FROM, product, do.number(1.0))
        derivative = do.where("<", value, _FROM, derivative, do.number(0.0))
        x = do.where("<", value, _FROM, do.add(value, do.number(_FROM)), value)
        inverse = do.div(do.number(1.0), do.mul(x, product))  # one division for 1/x and 1/P
        y = do.mul(inverse, product)
        z, logarithm = do.mul(y, y), log(x)
        tail = do.fma(z, do.polynomial(z, _PSI), do.mul(do.number(0.5), y))
        psi = do.sub(do.sub(logarithm, tail), do.mul(derivative, do.mul(inverse, x)))
        start = do.add(do.sub(do.mul(do.sub(x, do.number(0.5)), logarithm), x), do.number(_LOG_ROOT_TAU))
        lgamma = do.sub(do.fma(y, do.polynomial(z, _LGAMMA), start), log(product))
        return context.make_tuple(builder, signature.return_type, [psi, lgamma])

    return _PAIR(x), codegen


def _rising(do: Exact, x: Any) -> tuple[Any, Any]:
    """P = x (x+1) (x+2) (x+3) (x+4) and its derivative: with u = x (x+4), P = (x+2) u (u+3)."""
    u = do.mul(x, do.add(x, do.number(4.0)))
    pairs = do.mul(u, do.add(u, do.number(3.0)))
    slope = do.mul(do.add(u, do.number(4.0)), do.fma(u, do.number(4.0), do.number(6.0)))
    return do.mul(pairs, do.add(x, do.number(2.0))), do.add(pairs, slope)
