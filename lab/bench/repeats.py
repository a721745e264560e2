"""Shapes for pairs that repeat: MRR of held-out links under factors of pairs (decision 37).

Simulated app usage: 500 users, 1,500 apps, 7 daytimes and weekdays, 45,000 events. Each user has some apps of her
groups, each with a rate and a daily rhythm. Real data: who tagged which artist with what, and who replied to whom on
Digg in which part of the day. A fifth of the links is held out; they are ranked among all entities of one index.
"""

import math
import time
import warnings
from collections.abc import Iterator

import numpy as np
import polars as pl

import plait
from lab.harness import sources
from lab.harness.table import show

TESTED = 2000  # links whose rank is taken
RANKS = {"r": 32, "z": 3}
OLD_PRIOR = plait.Gamma(0.5, 10.0)  # of pairs, before decision 37
TIE = 1e-6  # of counts that only decide among equals
Rows = list[object]


def compare() -> None:
    """MRR of every shape, with the share of known links that the term of pairs explains."""
    warnings.simplefilter("ignore", plait.PlaitWarning)
    lines = [row for name, target, table in _data() for row in _rows(name, target, table)]
    show("Pairs that repeat", ["data", "shape", "MRR", "share of pairs", "seconds"], lines)


def _data() -> Iterator[tuple[str, str, pl.DataFrame]]:
    for seed in (1, 2):
        yield f"simulated usage {seed}", "app", app_usage(seed)
    if not sources.absent("lastfm"):
        yield "Last.fm tags", "tag", _tags()
    if not sources.absent("digg_replies"):
        yield "Digg replies", "to", _replies()


def app_usage(seed: int, n_users: int = 500, n_apps: int = 1500, n_events: int = 45_000) -> pl.DataFrame:
    """Counts of user × app × daytime × weekday."""
    rng = np.random.default_rng([seed, 77])
    groups, apps = rng.dirichlet([0.3] * 8, n_users), rng.gamma(0.3, 1.0, (8, n_apps)) / np.arange(1, n_apps + 1) ** 0.9
    apps /= apps.sum(axis=1, keepdims=True)
    rhythms = np.einsum("kd,kw->kdw", rng.dirichlet([0.6] * 7, 5), rng.dirichlet([3.0] * 7, 5))
    usual, activity = rng.dirichlet([0.3] * 5, n_apps), rng.lognormal(0.0, 0.7, n_users)
    pairs, rates = [], []
    for user in range(n_users):
        chance, count = groups[user] @ apps, max(3, rng.poisson(14 * math.sqrt(activity[user])))
        for app in rng.choice(n_apps, count, replace=False, p=chance / chance.sum()):
            rhythm = rng.choice(5, p=usual[app]) if rng.random() < 0.6 else rng.integers(5)
            pairs.append((user, app))
            rates.append(rng.lognormal(0.0, 1.5) * activity[user] * rhythms[rhythm])
    counts = rng.poisson(np.array(rates) * (n_events / np.sum(rates)))
    at = np.nonzero(counts)
    return pl.DataFrame(
        {
            "user": np.array(pairs)[at[0], 0],
            "app": np.array(pairs)[at[0], 1],
            "daytime": at[1],
            "weekday": at[2],
            "value": counts[at],
        }
    )


def _tags() -> pl.DataFrame:
    table = pl.read_parquet(sources.SHARED / "lastfm" / "user_tag_artist_rels.parquet")
    names = {"sourceNodeId": "user", "tagID": "tag", "targetNodeId": "artist"}
    return table.select(*names).rename(names).unique(maintain_order=True).with_columns(value=1)


def _replies() -> pl.DataFrame:
    table = pl.read_parquet(sources.SHARED / "digg_replies" / "replies.parquet")
    cells = table.select("user", "to", part=pl.col("time") // 14_400 % 6).filter(pl.col("user") != pl.col("to"))
    return cells.group_by("user", "to", "part", maintain_order=True).len("value")


def _rows(name: str, target: str, table: pl.DataFrame) -> Iterator[Rows]:
    split = plait.train_test_split({"X": table}, "X", fraction=0.2, by="links", seed=0, leakage="ignore")
    train, test = split.train["X"], split.test
    indices = [column for column in table.columns if column != "value"]
    seen = table.join(test, on=indices, how="anti", maintain_order="left")
    others = [index for index in indices if index not in ("user", target)]
    components = " ".join(f"{index.upper()}[{index},r]" for index in indices)
    rhythm = " ".join(f"{index.upper()}2[{index},z]" for index in others)
    sampled = test.sample(min(TESTED, len(test)), seed=0)
    shapes = {
        "CP": components,
        "CP + pairs": f"{components} + M[user,{target},z] {rhythm}",
        "pairs × CP": f"M[user,{target}] {components}",
    }
    for shape, text in shapes.items():
        model = plait.Model(f"X[{','.join(indices)}] = {text}")
        for word, prior in (("", None), (", prior 0.5", {"M": OLD_PRIOR})) if "M" in model.factors else (("", None),):
            began = time.process_time()
            rank = {index: RANKS[index] for index in model.latent}
            fit = plait.fit(model, {"X": train}, rank=rank, prior=prior, seed=0, progress=False)
            seconds = time.process_time() - began
            known = plait.evaluate(fit, "X", sampled, target=target, known=test)
            yield [name, shape + word, known["mrr"], _share(fit), seconds]
    yield [name, "pair counts", _by_counts(seen, test, sampled, indices, target), "–", "–"]


def _share(fit: plait.Fit) -> object:
    if len(fit.model.equations[0].terms) == 1:
        return "–"
    terms = fit.coupling().filter(pl.col("term").str.starts_with("M"))
    return float(terms["share"].sum())


def _by_counts(
    train: pl.DataFrame, test: pl.DataFrame, sampled: pl.DataFrame, indices: list[str], target: str
) -> float:
    """MRR by the count of the user with the target; among equals, by the target's counts with the other indices."""
    entities = train[target].unique().sort()
    number = {entity: n for n, entity in enumerate(entities)}
    counts = {index: _counted(train, index, target, number) for index in indices if index != target}
    closed: dict[tuple[object, ...], list[int]] = {}
    rest = [index for index in indices if index != target]
    for *cell, entity in pl.concat([t.select(*rest, target) for t in (train, test)]).iter_rows():
        closed.setdefault(tuple(cell), []).append(number.get(entity, -1))
    total = 0.0
    for *cell, entity in sampled.select(*rest, target).iter_rows():
        if entity in number:
            score = sum(
                (counts[i].get(e, 0.0) * (1.0 if i == "user" else TIE) for i, e in zip(rest, cell)),
                np.zeros(len(number)),
            )
            own, allowed = score[number[entity]], np.ones(len(number), bool)
            allowed[[n for n in closed[tuple(cell)] if n >= 0]] = False
            total += 1 / (1 + np.sum((score > own) & allowed) + np.sum((score == own) & allowed) / 2)
    return total / len(sampled)


def _counted(train: pl.DataFrame, index: str, target: str, number: dict[object, int]) -> dict[object, np.ndarray]:
    found: dict[object, np.ndarray] = {}
    for entity, other, count in train.group_by(index, target).agg(pl.col("value").sum()).iter_rows():
        found.setdefault(entity, np.zeros(len(number)))[number[other]] = math.log1p(count)
    return found
