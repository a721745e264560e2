"""Scalar and vector functions that kernels share: weighted logarithms, ψ with log Γ, the Bernoulli link."""

import math
from typing import Any

import numpy as np

from plait.jit.policy import inlined
from plait.jit.vectors import WIDTH, fma, load, load_flat, log8, splat, total

LOGS = 256  # values of Xhat collected before their logarithms are taken, eight at a time
TINY = 1e-270  # a scaled Xhat below this cannot be divided by (1e38/TINY is finite): log-sum-exp takes over there


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
