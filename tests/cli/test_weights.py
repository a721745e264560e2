"""weight = "auto" in a config: found by a fit, shown by what describes one."""

import numpy as np
import polars as pl
import pytest

import plait

CONFIG = """
model = \"\"\"
X[i,j] = A[i,r] B[j,r]
Y[i,k] = A[i,r] C[k,r]
\"\"\"
rank = 3
[relations.X]
source = "x.csv"
[relations.Y]
source = "y.csv"
weight = "auto"
[fit]
seed = 0
adapt_prior = "factor"
max_iter = 20
"""


def listed(rates, *names):
    array = np.random.default_rng(0).poisson(rates)
    rows = np.argwhere(array > 0)
    return pl.DataFrame({name: rows[:, n] for n, name in enumerate(names)} | {"value": array[array > 0]})


def rates(total, shape, seed):
    rng = np.random.default_rng(seed)
    made = rng.gamma(0.1, 1.0, (shape[0], 3)) @ rng.gamma(0.1, 1.0, (3, shape[1]))
    return made * total / made.sum()


@pytest.mark.thorough
def test_a_config_finds_weights_that_info_and_check_show(scratch):
    scratch.write("sided.toml", CONFIG)
    listed(rates(500, (40, 30), 1), "i", "j").write_csv(scratch.folder / "x.csv")
    listed(rates(40000, (40, 60), 2), "i", "k").write_csv(scratch.folder / "y.csv")
    done = scratch.plait(["fit", "sided.toml", "-o", "sided"])
    found = plait.load(scratch.folder / "sided").settings["weights"]["Y"]
    words = f"Y {found:g} (by held-out links of X)"
    assert found < 1
    assert words in done.stdout
    assert words in scratch.stdout("info sided")
    assert words in scratch.plait("check sided.toml --no-time").stdout  # it warns on stderr
    assert scratch.json("check sided.toml --no-time")["weights"] == {"Y": found}
    scratch.stdout("resume sided --max-iter 25")
    assert plait.load(scratch.folder / "sided").settings["weights"]["Y"] == found
