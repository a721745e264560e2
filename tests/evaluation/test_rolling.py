"""Forecasts by rolling origins, against a loop over `forecast` and `update`."""

import numpy as np
import polars as pl
import pytest

import plait

MONTHLY = "visits[user, place, month] = U[user, r] P[place, r] T[month, r]; month: ordered"
QUICK = {"rank": 2, "seed": 0, "warmup": 0, "max_iter": 5, "tol": 0.0, "threads": 1}


def visits(months, likelihood="poisson"):
    rng = np.random.default_rng(1)
    rates = rng.gamma(0.5, 1.5, (7, 2)) @ rng.gamma(0.5, 1.5, (2, 6))
    X = rng.poisson(rates[:, :, None] * np.ones(9))
    cells = np.argwhere(X > 0)
    cells = cells[np.isin(cells[:, 2], months)]
    values = X[tuple(cells.T)] if likelihood == "poisson" else np.ones(len(cells))
    return pl.DataFrame(dict(zip(("user", "place", "month"), cells.T)) | {"value": values})


def fit(likelihood="poisson"):
    relation = plait.Relation(visits(range(5), likelihood), likelihood=likelihood)
    return plait.fit(MONTHLY, {"visits": relation}, entities={"user": range(7), "place": range(6)}, **QUICK)


def rank_of(row, scores, links):
    """Rank of a link among all places, without other links of its user."""
    own = scores[row["user"], row["place"]]
    rivals = [scores[row["user"], p] for p in range(6) if p != row["place"] and (row["user"], p) not in links]
    return 1 + sum(s > own for s in rivals) + sum(s == own for s in rivals) / 2


@pytest.mark.parametrize("months", [[5, 6, 7, 8], pytest.param([5, 8], marks=pytest.mark.thorough)])
def test_reciprocal_ranks_are_those_of_forecasts_and_updates(months):
    early, ranks = fit(), {1: [], 2: []}
    table = plait.evaluate_forecast(early, "visits", visits(months), steps=2, target="place", iterations=3)
    for month in months:
        first = len(early.entities["month"])
        later = early.forecast("visits", steps=2, per=["user", "place"])
        for near in (n for n in months if first <= n < first + 2):
            links = {(u, p) for u, p in visits([near]).select("user", "place").rows()}
            own = later.filter(month=near)
            scores = dict(zip(own.select("user", "place").rows(), own["mean"]))
            ranks[near - first + 1] += [1 / rank_of({"user": u, "place": p}, scores, links) for u, p in links]
        early = early.update({"visits": visits([month])}, iterations=3)
    for horizon, own in ranks.items():
        found = table.filter(horizon=horizon, metric="mrr")
        if own:
            assert found["value"][0] == pytest.approx(np.mean(own))
            assert found["links"][0] == len(own)
        else:
            assert not len(found)


def test_baselines_are_last_links_and_decayed_occurrences():
    table = plait.evaluate_forecast(fit(), "visits", visits([5]), target="place", last=2, half_life=1.5)
    links, known = {(u, p) for u, p in visits([5]).select("user", "place").rows()}, visits(range(5))
    last = known.filter(pl.col("month") >= 3)
    popular = {(u, p): float(len(last.filter(user=u)) * len(last.filter(place=p))) for u in range(7) for p in range(6)}
    again = dict.fromkeys(popular, 0.0)
    for u, p, month, x in known.rows():
        again[u, p] += x * 0.5 ** ((5 - month) / 1.5)
    found = table.filter(metric="mrr")
    for word, scores in (("popularity", popular), ("recurrence", again)):
        wanted = np.mean([1 / rank_of({"user": u, "place": p}, scores, links) for u, p in links])
        assert found[word][0] == pytest.approx(wanted)


@pytest.mark.thorough
def test_the_log_likelihood_is_that_of_all_cells():
    early = fit("bernoulli")
    table = plait.evaluate_forecast(early, "visits", visits([5], "bernoulli"), negatives=4000)
    known, links = visits(range(5)), set(visits([5]).select("user", "place").rows())
    later = early.forecast("visits", per=["user", "place"])
    every = later.filter(pl.col("user").is_in(known["user"].implode()), pl.col("place").is_in(known["place"].implode()))
    every = every.select("user", "place", "probability").rows()
    logs = [np.log(p if (user, place) in links else 1 - p) for user, place, p in every]
    assert table.filter(metric="log_likelihood")["value"][0] == pytest.approx(sum(logs) / len(links), rel=0.02)
    assert "coverage" not in table["metric"]


def test_what_cannot_be_evaluated_is_refused():
    early = fit()
    for test, words in (
        (visits([4, 5]), "is a period of the fit"),
        (visits([5]).with_columns(value=0), "no links"),
        (visits([5]).with_columns(user=99), "known entities only"),
    ):
        with pytest.raises(plait.errors.DataError, match=words):
            plait.evaluate_forecast(early, "visits", test)
    with pytest.raises(plait.errors.ParameterError, match="`steps` must be"):
        plait.evaluate_forecast(early, "visits", visits([5]), steps=0)
