"""Cold start: predict visits of users without visits from their friends; both relations share the factor U."""

import numpy as np
import polars as pl

import plait

rng = np.random.default_rng(1)
groups = 4
member = rng.integers(0, groups, 80)  # users
place_of = rng.integers(0, groups, 60)
X = (rng.random((80, 60)) < np.where(member[:, None] == place_of, 0.4, 0.02)).astype(float)
Y = np.triu(rng.random((80, 80)) < np.where(member[:, None] == member, 0.3, 0.01), 1).astype(float)

cold = np.arange(0, 80, 10)  # users whose visits are hidden
visits = plait.Relation(X, missing=pl.DataFrame({"user": cold}), likelihood="bernoulli")
friends = plait.Relation(Y + Y.T, likelihood="bernoulli")  # friendship has no direction

alone = plait.fit("visits[user, place] = U[user, r] P[place, r]", {"visits": visits}, rank=6, seed=0)
coupled = plait.fit(
    """
    visits[user, place]   = U[user, r] P[place, r]
    friends[user, friend] = U[user, r] U[friend, r]
    friend: user
    """,
    {"visits": visits, "friends": friends},
    rank=6,
    seed=0,
)
user, place = np.meshgrid(cold, np.arange(60), indexing="ij")
cells = pl.DataFrame({"user": user.ravel(), "place": place.ravel()})
link = X[cold].ravel() > 0
for name, fit in {"visits alone": alone, "with friends": coupled}.items():
    mean = fit.predict("visits", cells)["mean"].to_numpy()
    above = (mean[link][:, None] > mean[~link]).mean() + 0.5 * (mean[link][:, None] == mean[~link]).mean()
    print(f"{name}: AUC {above:.3f} for users without visits")
