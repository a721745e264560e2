"""Random starts: the expected totals are those of the data, each term of a sum starts with an equal share."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.data.binding.given import bind_exposures
from plait.inference.initialisation import parts_of

MODELS = {
    1: "X[i, j] = A[i, r] B[j, r]",
    2: "X[i, j] = A[i, r] B[j, r] + c[i] d[j]",
    3: "X[i, j] = A[i, r] B[j, r] + c[i] d[j] + E[i, s] F[j, s]",
}


@pytest.mark.parametrize("terms", MODELS)
@pytest.mark.parametrize("method", ["vb", "em"])
def test_each_term_of_a_sum_starts_with_an_equal_share_of_the_total(terms, method):
    X = np.random.default_rng(0).poisson(2.0, (9, 7)).astype(float)
    ranks = dict.fromkeys(plait.Model(MODELS[terms]).latent, 3)
    options = {"warmup": 0} if method == "vb" else {}
    fit = plait.fit(MODELS[terms], {"X": X}, rank=ranks, seed=0, max_iter=0, method=method, **options)
    for left, right in ("AB", "cd", "EF")[:terms]:
        rows, columns = (np.atleast_2d(fit.factors[name].mean.T).sum(axis=1) for name in (left, right))
        assert rows @ columns == pytest.approx(X.sum() / terms, rel=1e-9)


def test_links_on_disk_are_counted(tmp_path):
    model = plait.Model(MODELS[1])
    table = {"i": [0, 1, 2, 2], "j": [0, 1, 0, 1], "value": [1.0, 2.0, 0.0, 3.0]}
    plait.pack(model, {"X": pl.DataFrame(table)}, tmp_path / "x.blocks", progress=False)
    data = model.bind(tmp_path / "x.blocks")
    (part,) = parts_of(data, bind_exposures(data, {}))
    assert part.nonzeros.links == 3
