"""Which user opens which app at which hour: a factor of pairs stores habits of single users; groups cannot."""

import numpy as np
import polars as pl

import plait

GROUPS = "opened[user, app, hour] = U[user, r] A[app, r] H[hour, r]"
HABITS = GROUPS + " + M[user, app, z] C[hour, z]"

rng = np.random.default_rng(0)
rhythms = rng.dirichlet([0.4] * 8, 3)
groups = np.einsum("ur,ar,rh->uah", rng.gamma(0.3, 1.0, (90, 3)), rng.gamma(0.3, 1.0, (60, 3)), rhythms)
habits = (rng.random((90, 60)) < 0.06) * rng.gamma(1.0, 4.0, (90, 60))  # of single users
counts = rng.poisson(0.4 * groups + habits[:, :, None] * rhythms[rng.integers(0, 3, (90, 60))])
cells = np.argwhere(counts)
opened = pl.DataFrame(cells, schema=["user", "app", "hour"]).with_columns(value=counts[tuple(cells.T)])

train, test = plait.train_test_split({"opened": opened}, "opened", fraction=0.2, seed=0, model=GROUPS)
for name, (equation, rank) in {"groups": (GROUPS, {"r": 6}), "and habits": (HABITS, {"r": 6, "z": 3})}.items():
    fit = plait.fit(equation, train, rank=rank, seed=0)
    metrics = plait.evaluate(fit, "opened", test, target="app")
    print(f"{name:10} ELBO {fit.objective:8.0f}, MRR of the app {metrics['mrr']:.3f}")
M = fit.factors["M"]
print(f"{len(M.pairs)} pairs of {len(fit.entities['user'])} × {len(fit.entities['app'])} have their own rows")
