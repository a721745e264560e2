"""Runs of all kinds of equations are explored: every link of every page leads to a page."""

import numpy as np
import pytest

import plait
from tests.support.explore_run import serving

CASES = {
    "tucker": ("X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]", {}),
    "rank_one": ("X[i,j] = a[i] b[j]", {}),
    "no_index": ("X[] = c[] v[r] w[r]\nY[i,j] = A[i,r] B[j,r]", {}),
    "sum": ("X[i,j,k] = A[i,r] T[k,r] + B[j,s] W[k,s] + a[i] b[j] c[k]", {}),
    "symmetric": ("X[i,j] = A[i,r] A[j,r]\nj: i", {}),
    "two_visible": ("X[i,j,k] = H[i,k,r] B[j,r]", {}),
    "em": ("X[i,j] = A[i,r] B[j,r]", {"method": "em"}),
    "map": ("X[i,j] = A[i,r] B[j,r]", {"method": "map", "prior": plait.Gamma(2.0, 1.0)}),
    "page": ("X[page,value_] = A[page,r] B[value_,r]", {}),
}  # fmt: skip
SIZES = {"i": 5, "j": 4, "k": 3, "page": 5, "value_": 4}


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::plait.errors.PlaitWarning")
def test_every_page_of_every_kind_of_model_is_there(name, tmp_path):
    text, options = CASES[name]
    rng, model = np.random.default_rng(2), plait.Model(text)
    data = {}
    for equation in model.equations:
        shape = [SIZES["i" if name == "symmetric" else index] for index in equation.indices]
        X = rng.poisson(0.8, shape).astype(float)
        if name == "symmetric":
            X = np.triu(X, 1) + np.triu(X, 1).T
        data[equation.relation] = X if equation.indices else np.array(2.0)
    rank = {"rank": 2} if model.latent else {}
    plait.fit(model, data, seed=0, max_iter=20, **rank, **options).save(tmp_path / "run")
    with serving(tmp_path / "run") as own:
        assert own.crawl(60) > 5
