"""Last.fm: who will tag which artist with what? 186,479 links in a tensor of 2 · 10^11 cells; most are hidden.

Non-links are drawn in two ways. Uniformly: any cell. Corrupted: another artist in place of that of a hidden link. The
best score for the first is the rate of a cell. It is not for the second: there the user and the tag are those of a
true link, and only the artist may be wrong, so that how active the user is and how common the tag says nothing. What
counts is the artist's *share*: its rate, divided by the sum of the rates of all artists for that user and tag.
"""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import plait
from lab.harness.results import Cell, Figures
from lab.paper.corrupted import corrupted
from lab.paper.experiment import Experiment, Lab, Value
from lab.paper.settings import engine
from lab.paper.sources.lastfm import LastFM, load
from plait.evaluation.metrics import average_precision, roc_auc

SINGLE = "tags[user, artist, tag] = U[user, r] A[artist, r] T[tag, r]"

SIDES = """
    plays[user, artist]     = U[user, r] A[artist, r] d[r]
    friends[user, friend]   = U[user, r] F[friend, r]
    friend: user
"""

# What one plays one is more likely to tag: V is 1 where the user played the artist, less elsewhere.
EXPOSED = "tags[user, artist, tag] = V[user, artist] U[user, r] A[artist, r] T[tag, r]"

MODELS = {
    "popularity": (SINGLE, "em"),  # of rank 1: the product of how many links the user, the artist and the tag have
    "PLTF-EM": (SINGLE, "em"),
    "PLTF-VB": (SINGLE, "vb"),
    "GCTF-EM": (SINGLE + SIDES, "em"),
    "GCTF-VB": (SINGLE + SIDES, "vb"),
    "PLTF-VB, from EM": (SINGLE, "vb"),  # VB that starts where EM ends
    "GCTF-VB, from EM": (SINGLE + SIDES, "vb"),
    "PLTF-VB, exposed": (EXPOSED, "vb"),
    "GCTF-EM, exposed": (EXPOSED + SIDES, "em"),
    "GCTF-VB, exposed": (EXPOSED + SIDES, "vb"),
}
MISSING = (0.6, 0.8, 0.9)
CHOICE_MISSING = 0.8
RUNS = 3
SWEEPS = 100

# Chosen by links that are hidden from the training part (the cells with part="choice"), and used everywhere.
RANK, ELSEWHERE = 20, 0.03
RANKS, ELSEWHERES = (5, 10, 20, 40), (0.3, 0.1, 0.03, 0.01)

# What else might help PLTF-VB to tell the artist, tried on the same hidden links: other arguments of the fit.
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "300 sweeps": {"max_iter": 300},
    "prior means user × component": {"adapt_prior": "rank-one"},
    "a prior for each user, artist, tag": {"adapt_prior": "entity"},
    "artists of few components": {"prior": {"A": plait.Gamma(0.005)}, "adapt_prior": {"U": "factor", "T": "factor"}},
}


def cells(lab: Lab) -> list[Cell]:
    """The choice of rank and exposure first, then every model at every share of missing links."""
    if lab.quick:
        return [case(method, 0.8, 0, rank=5) for method in MODELS]
    choice: list[Cell] = [case("GCTF-VB", CHOICE_MISSING, 0, part="choice", rank=rank) for rank in RANKS]
    choice += [case("GCTF-VB, exposed", CHOICE_MISSING, 0, part="choice", elsewhere=low) for low in ELSEWHERES]
    choice += [case("GCTF-VB, from EM", CHOICE_MISSING, 0, part="choice")]
    choice += [case("PLTF-VB", CHOICE_MISSING, 0, part="change") | {"change": change} for change in CHANGES]
    return choice + [case(method, missing, run) for run in range(RUNS) for missing in MISSING for method in MODELS]


def case(
    method: str, missing: float, run: int, *, part: str = "test", rank: int = RANK, elsewhere: float = ELSEWHERE
) -> dict[str, Value]:
    """One fit; elsewhere is V where a user has not played an artist: 1 without exposure."""
    return {
        "part": part,
        "method": method,
        "missing": missing,
        "rank": 1 if method == "popularity" else rank,
        "elsewhere": elsewhere if "exposed" in method else 1.0,
        "run": run,
    }


def measure(lab: Lab, cell: Cell) -> Figures:
    """Hide links, fit the rest, and look for the hidden ones."""
    data, about = load(lab), dict[str, Any](cell)
    train, test, links = hidden(data, about)
    fit, seconds = fitted(data, train, about, max_iter=10 if lab.quick else SWEEPS)
    metrics = plait.evaluate(fit, "tags", test, seed=about["run"])
    figures = {short(name): figure for name, figure in metrics.items() if name.startswith(("roc_auc", "average"))}
    shares = another_artist(fit, data, (links, test), about["elsewhere"], about["run"])
    return figures | shares | {"seconds": seconds, "sweeps": fit.history[-1].sweep, "bound": fit.objective}


def fitted(data: LastFM, train: plait.Relation, about: Mapping[str, Any], max_iter: int) -> tuple[plait.Fit, float]:
    """The fit, and its seconds; those of the EM fit that it starts from are among them."""
    model, method = MODELS[about["method"]]
    relations = {"tags": train} | (sides(data) if "plays" in model else {})
    arguments: dict[str, Any] = {"rank": about["rank"], "max_iter": max_iter, "seed": about["run"], "progress": False}
    is_warm = "from EM" in about["method"]
    if "V[" in model:
        arguments["fixed"] = {"V": plait.Exposure(played(data), default=about["elsewhere"])}
    begin = time.perf_counter()
    if is_warm:
        arguments["init"] = plait.fit(model, relations, method="em", **arguments | engine("em"))
    arguments |= engine(method, starts_at_random=not is_warm)
    fit = plait.fit(model, relations, method=method, **arguments | CHANGES.get(about.get("change", ""), {}))
    return fit, time.perf_counter() - begin


def hidden(data: LastFM, about: Mapping[str, Any]) -> tuple[plait.Relation, pl.DataFrame, pl.DataFrame]:
    """What to fit, the links to find, and all links of either. Too many cells to list: links are hidden, zeros thinned.

    Two in five hidden tags are by users who also play that artist, and `plays` stays known: it is the side information
    whose use is the question here. So `hide` is not asked to look for twins there.
    """
    train, test = plait.train_test_split(
        data.tags, "tags", fraction=about["missing"], by="thinned_links", seed=about["run"]
    )
    if about["part"] == "test":
        return train, test, data.tags
    links = data.tags.join(test, on=data.tags.columns, how="anti")  # to choose a setting, the test is not looked at
    train, test = plait.train_test_split(train, "tags", fraction=0.2, by="thinned_links", seed=about["run"])
    return train, test, links


def sides(data: LastFM) -> dict[str, plait.Relation]:
    """Plays as 0/1, and friends; self-links are impossible, so they are missing."""
    users = data.friends["user"].unique()
    alone = pl.DataFrame({"user": users, "friend": users})
    return {
        "plays": plait.Relation(data.plays, likelihood="poisson"),
        "friends": plait.Relation(data.friends, missing=alone, likelihood="poisson"),
    }


def played(data: LastFM) -> pl.DataFrame:
    """The plays among the users and artists of the tags."""
    return data.plays.join(data.tags, on="artist", how="semi").join(data.tags, on="user", how="semi")


def short(name: str) -> str:
    """The name of a figure of `plait.evaluate` in the results: auc_uniform, ap_corrupt_artist."""
    return name.replace("roc_auc", "auc").replace("average_precision", "ap")


def another_artist(
    fit: plait.Fit, data: LastFM, tested: tuple[pl.DataFrame, pl.DataFrame], elsewhere: float, seed: int
) -> dict[str, float]:
    """Hidden links against the same ones with another artist, ranked by share and in pairs; tested: all links, hidden.

    auc_share, ap_share: all of them, by the share of the artist. auc_pair: how often a link has a larger share than its
    own corruption. auc_warm: by the rate, as auc_corrupt_artist is, but without artists who have no known link.
    """
    links, others = corrupted(*tested, "artist", np.random.default_rng(seed))
    both = pl.concat([links, others])
    rate = fit.predict("tags", both)["mean"].to_numpy()
    share = shares(fit, data, both, rate, elsewhere)
    link = np.arange(len(both)) < len(links)
    warm = np.isin(fit.entities["artist"].encode(both["artist"]), fit.known["tags"].cells[:, 1])
    ours, theirs = share[link], share[~link]
    return {
        "auc_share": roc_auc(link, share),
        "ap_share": average_precision(link, share),
        "auc_pair": float(np.mean(ours > theirs) + np.mean(ours == theirs) / 2),
        "auc_warm": roc_auc(link[warm], rate[warm]),
    }


def shares(
    fit: plait.Fit, data: LastFM, cells: pl.DataFrame, rate: NDArray[np.float64], elsewhere: float
) -> NDArray[np.float64]:
    """The share of each cell's artist in the rates of all artists, for its user and tag.

    EM and popularity give a user or tag that nothing is known of a rate of 0 for every artist: there the artist's share
    in all users and tags together stands in, the best that such a model can say.
    """
    U, A, T = (fit.factors[name].mean for name in "UAT")
    artists = fit.entities["artist"].encode(data.tags["artist"].unique())
    overall = A @ (U.sum(axis=0) * T.sum(axis=0))
    overall = overall[fit.entities["artist"].encode(cells["artist"])] / overall[artists].sum()
    total = rate_of_all_artists(fit, data, cells, elsewhere)
    return np.asarray(np.divide(rate, total, out=overall, where=total > 0))


def rate_of_all_artists(fit: plait.Fit, data: LastFM, cells: pl.DataFrame, elsewhere: float) -> NDArray[np.float64]:
    """The rates of all artists together, for the user and tag of each cell: Σ_r U[user, r] T[tag, r] Σ_a V A[a, r]."""
    U, A, T = (fit.factors[name].mean for name in "UAT")
    artists = fit.entities["artist"].encode(data.tags["artist"].unique())
    reached = np.tile(elsewhere * A[artists].sum(axis=0), (len(U), 1))
    if elsewhere < 1:
        plays = played(data)
        users, own = (fit.entities[name].encode(plays[name]) for name in ("user", "artist"))
        np.add.at(reached, users, (1 - elsewhere) * A[own])
    user, tag = (fit.entities[name].encode(cells[name]) for name in ("user", "tag"))
    return np.asarray(np.sum(U[user] * reached[user] * T[tag], axis=1))


def source(lab: Lab) -> str:
    """Which data."""
    return load(lab).source


EXPERIMENT = Experiment("lastfm", "Last.fm: a large coupled tensor", cells, measure, source)
