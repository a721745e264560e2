"""Comparison of a resumed fit with an uninterrupted one."""

import numpy as np


def same_bits(left, right):
    """Assert that two fits have bitwise identical factors, priors, history and stop reason."""
    for name, factor in left.factors.items():
        for word in ("concentration", "scale", "mean", "exp_mean_log"):
            assert np.array_equal(getattr(factor, word), getattr(right.factors[name], word)), (name, word)
        if name in left.prior:
            assert np.array_equal(left.prior[name].concentration, right.prior[name].concentration)
            assert np.array_equal(left.prior[name].mean, right.prior[name].mean)
    assert [record[:3] for record in left.history] == [record[:3] for record in right.history]
    assert left.objective == right.objective
    assert left.stop == right.stop
