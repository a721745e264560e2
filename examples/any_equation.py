"""Fit four equations to one tensor, and compare them by the ELBO."""

import numpy as np

import plait

EQUATIONS = {
    "CP": "X[i,j,k] = A[i,r] B[j,r] C[k,r]",
    "Tucker": "X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]",
    "tensor train": "X[i,j,k] = A[i,p] B[p,j,q] C[q,k]",
    "independent axes": "X[i,j,k] = a[i] b[j] c[k]",
}

rng = np.random.default_rng(0)
factors = [rng.gamma(0.5, 2.0, (n, 3)) for n in (30, 20, 10)]
X = rng.poisson(np.einsum("ir,jr,kr->ijk", *factors)).astype(float)
X[rng.random(X.shape) < 0.3] = np.nan  # missing cells

for name, equation in EQUATIONS.items():
    model = plait.Model(equation)
    fit = plait.fit(model, {"X": X}, rank=3 if model.latent else None, seed=0, max_iter=100)
    print(f"{name:18} ELBO {fit.objective:12.1f}   {fit.stop}")
