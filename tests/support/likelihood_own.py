"""The likelihood that the docstring of the interface defines, made from its text; brute force over the events."""

import math
import re
import textwrap

import numpy as np
import pytest

from plait.likelihood import interface


def example():
    text = re.search(r"\n\n((?:    .*\n|\n)+)", interface.__doc__[interface.__doc__.index("Aeppli") :]).group(1)
    scope = {"__name__": "another.module"}
    exec(textwrap.dedent(text), scope)
    return scope["Geometric"]


Geometric = example()


def is_brute_force(likelihood, state, x, rate, n, joint, rel=1e-10, variance_rel=1e-5):
    """Events and probability of a value x at a rate are those of joint, P(n and x) for every n."""
    at, log = (np.array([float(x)]), np.log([rate])), math.log(joint.sum())
    posterior = joint / joint.sum()
    mean = posterior @ n
    expected, term = likelihood.expect(*at, state)
    assert expected[0] == pytest.approx(mean, rel=rel)
    assert term[0] + likelihood.constants(at[0], state)[0] - rate == pytest.approx(log, rel=rel)
    variance = posterior @ (n - mean) ** 2
    assert likelihood.variance(*at, state)[0] == pytest.approx(variance, rel=variance_rel, abs=1e-4 * variance_rel)
    assert likelihood.log_probability(at[0], np.array([[rate, rate]]), state)[0] == pytest.approx(log, rel=1e-9)
