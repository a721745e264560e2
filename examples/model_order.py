"""Start with too many components and prune: components that explain nothing are removed, and the ELBO does not fall."""

import numpy as np

import plait

rng = np.random.default_rng(0)
factors = [rng.gamma(0.3, 1.0, (n, 4)) for n in (60, 50, 30)]
X = rng.poisson(np.einsum("ir,jr,kr->ijk", *factors)).astype(float)

fit = plait.fit(
    "X[i,j,k] = A[i,r] B[j,r] C[k,r]", {"X": X}, rank=10, adapt_prior="rank-one", prune=True, seed=0, max_iter=300
)
for record in [record for record in fit.history if not record.warm_up][::20]:
    print(f"sweep {record.sweep:3}: ELBO {record.objective:12.1f}, {record.rank['r']} components")
print(f"true rank 4, started with 10, kept {fit.rank['r']}; {fit.stop}")
