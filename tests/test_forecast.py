"""Forecasts: the moments of the chain, names of later periods, searches, and what is refused."""

import datetime
import json

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.command_line import plait_command

MONTHLY = "visits[user, place, month] = U[user, r] P[place, r] T[month, r]; month: ordered"
DRIFTING = "visits[user, place, month] = U[user, month, r] P[place, r] + b[month]; month: ordered"
QUICK = {"rank": 2, "seed": 0, "warmup": 0, "max_iter": 5, "tol": 0.0, "threads": 1}


def visits(months=range(1, 6), seed=0):
    X = np.random.default_rng(seed).poisson(1.5, (6, 5, len(months)))
    cells = np.argwhere(X > 0)
    columns = dict(zip(("user", "place"), cells.T)) | {"month": pl.Series(list(months)).gather(cells[:, 2])}
    return pl.DataFrame(columns | {"value": X[tuple(cells.T)]})


@pytest.fixture(scope="module")
def fit():
    return plait.fit(MONTHLY, {"visits": visits()}, **QUICK)


@pytest.fixture(scope="module")
def series():
    """One chain, b[month]."""
    table = pl.DataFrame({"month": range(8), "value": [3.0, 4.0, 2.0, 5.0, 6.0, 4.0, 3.0, 5.0]})
    settings = QUICK | {"rank": None, "max_iter": 50, "prior": {"b": plait.GammaChain(12.0)}}
    return plait.fit("visits[month] = b[month]; month: ordered", {"visits": table}, **settings)


def test_a_forecast_has_the_moments_of_the_chain_run_on(series):
    table, a, start = series.forecast("visits", steps=3), 12.0, series.prior["b"].start
    rng, n = np.random.default_rng(0), 400_000
    theta = rng.gamma(start.concentration, start.mean / start.concentration, n)
    counts = [3.0, 4.0, 2.0, 5.0, 6.0, 4.0, 3.0, 5.0]
    for t, x in enumerate(counts):  # a particle filter
        theta = rng.gamma(a, 1 / (a * rng.gamma(a + 1, 1 / (a * theta)))) if t else theta
        weight = theta**x * np.exp(-theta)
        theta = theta[rng.choice(n, n, p=weight / weight.sum())]
    theta *= series.factors["b"].mean[-1] / theta.mean()
    for row in table.iter_rows(named=True):
        theta = rng.gamma(a, 1 / (a * rng.gamma(a + 1, 1 / (a * theta))))
        assert row["mean"] == pytest.approx(theta.mean(), rel=0.02)
        assert row["sd"] == pytest.approx(theta.std(), rel=0.06)
        assert row["probability"] == pytest.approx(1 - np.exp(-theta).mean(), abs=0.02)
        counts = rng.poisson(theta)
        assert 0.9 <= ((counts >= row["lower"]) & (counts <= row["upper"])).mean() <= 0.97


@pytest.mark.parametrize("text", [MONTHLY, pytest.param(DRIFTING, marks=pytest.mark.thorough)])
def test_uncertainty_grows_with_the_horizon(text):
    fit = plait.fit(text, {"visits": visits()}, **QUICK)
    table = fit.forecast("visits", steps=4, cells={"user": [0, 1], "place": [2, 2]})
    assert table["month"].to_list() == [6, 7, 8, 9] * 2
    for user in (0, 1):
        own = table.filter(user=user)
        assert own["mean"].max() == pytest.approx(own["mean"].min())
        assert (own["sd"].diff().drop_nulls() > 0).all()
        assert own["upper"][-1] >= own["upper"][0]


day = datetime.date


@pytest.mark.parametrize(
    ("periods", "later"),
    [
        ([2, 4, 8], [10, 12]),
        ([day(2025, 12, 30), day(2026, 1, 1)], [day(2026, 1, 3), day(2026, 1, 5)]),
        ([day(2025, 8, 31), day(2025, 10, 31), day(2025, 12, 31)], [day(2026, 2, 28), day(2026, 4, 30)]),
        (["2025-11-01", "2025-12-01"], ["2026-01-01", "2026-02-01"]),
        (["2025-12"], ["2026-01", "2026-02"]),
        ([202511, 202512], [202601, 202602]),
        (["2025-W52"], ["2026-W01", "2026-W02"]),
        ([datetime.datetime(2026, 1, 1, 6), datetime.datetime(2026, 1, 1, 12)],
         [datetime.datetime(2026, 1, 1, 18), datetime.datetime(2026, 1, 2)]),
    ],
    ids=["integers", "days", "ends of months", "text", "months", "integer months", "weeks", "hours"],
)  # fmt: skip
def test_names_of_later_periods_continue_the_steps_of_the_axis(periods, later):
    table = pl.DataFrame({"month": periods, "value": [2.0] * len(periods)})
    fit = plait.fit("visits[month] = b[month]; month: ordered", {"visits": table}, **QUICK | {"rank": None})
    assert fit.forecast("visits", steps=2)["month"].to_list() == later


def test_periods_that_are_words_are_named():
    table = pl.DataFrame({"month": ["mar", "apr"], "value": [2.0, 1.0]})
    settings = QUICK | {"rank": None, "entities": {"month": ["mar", "apr"]}}
    fit = plait.fit("visits[month] = b[month]; month: ordered", {"visits": table}, **settings)
    assert fit.forecast("visits", steps=["may", "jun"])["month"].to_list() == ["may", "jun"]
    with pytest.raises(plait.errors.ParameterError, match="names of later ones are unknown"):
        fit.forecast("visits", steps=2)
    with pytest.raises(plait.errors.DataError, match="'apr' is a period of the fit"):
        fit.forecast("visits", steps=["apr"])


def test_integers_in_an_order_of_their_own_have_no_next_period():
    table = pl.DataFrame({"month": [1, 2, 3], "value": [2.0, 1.0, 3.0]})
    settings = QUICK | {"rank": None, "entities": {"month": [3, 1, 2]}}
    fit = plait.fit("visits[month] = b[month]; month: ordered", {"visits": table}, **settings)
    with pytest.raises(plait.errors.ParameterError, match="an order of their own"):
        fit.forecast("visits")


def test_the_best_links_of_a_period_are_those_of_all_cells(fit):
    every = fit.forecast("visits", steps=2, per=["user", "place"])
    assert len(every) == 2 * 6 * 5
    best = fit.forecast("visits", steps=2, k=3)
    wanted = every.sort("month", "mean", descending=[False, True]).group_by("month", maintain_order=True).head(3)
    assert best.select("user", "place", "month").rows() == wanted.select("user", "place", "month").rows()
    mine = fit.forecast("visits", steps=2, k=1, per="user", given={"user": [0, 3]}, exclude={"place": [0]})
    wanted = every.filter(pl.col("user").is_in([0, 3]), pl.col("place") != 0)
    wanted = wanted.sort("user", "month", "mean", descending=[False, False, True])
    wanted = wanted.group_by("user", "month", maintain_order=True).head(1)
    assert mine.select("user", "place", "month").rows() == wanted.select("user", "place", "month").rows()


def test_a_forecast_after_an_update_begins_after_its_last_period(fit):
    later = fit.update({"visits": visits([6])})
    table = later.forecast("visits", steps=2, cells=pl.DataFrame({"user": [1], "place": [1]}).to_pandas())
    assert type(table).__module__.startswith("pandas")
    assert table["month"].to_list() == [7, 8]
    known = later.predict("visits", {"user": [1], "place": [1], "month": [6]})
    assert table["mean"][0] == pytest.approx(known["mean"][0])
    named = fit.forecast("visits", steps=3, cells={"user": [1], "place": [1], "month": [8]})
    assert named["month"].to_list() == [8]


@pytest.mark.thorough
def test_an_ensemble_forecasts_the_mixture_of_its_members():
    fit = plait.fit(MONTHLY, {"visits": visits()}, restarts=3, **QUICK)
    cells = {"user": [0, 1], "place": [2, 3]}
    table = fit.forecast("visits", steps=2, cells=cells)
    each = [member.forecast("visits", steps=2, cells=cells) for member in fit.members]
    np.testing.assert_allclose(table["mean"], np.mean([own["mean"] for own in each], axis=0), rtol=1e-12)
    second = np.mean([own["sd"] ** 2 + own["mean"] ** 2 for own in each], axis=0)
    np.testing.assert_allclose(table["sd"], np.sqrt(second - table["mean"] ** 2), rtol=1e-9)


@pytest.mark.thorough
def test_map_keeps_the_last_period():
    factors = plait.Model(MONTHLY).factors
    prior = {name: plait.Gamma(1.5) for name in factors} | {"T": plait.GammaChain(10.0, plait.Gamma(1.5))}
    fit = plait.fit(MONTHLY, {"visits": visits()}, method="map", prior=prior, **QUICK | {"warmup": None})
    table = fit.forecast("visits", steps=3, cells={"user": [0], "place": [0]})
    last = fit.predict("visits", {"user": [0], "place": [0], "month": [5]})
    assert table["mean"].to_list() == pytest.approx([last["mean"][0]] * 3)
    assert (table["sd"] == 0).all()


EXPOSED = "visits[user, place, month] = U[user, r] P[place, r] T[month, r] V[place, month]; month: ordered"


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        (MONTHLY.split(";")[0], {}, "no index of an ordered axis"),
        (MONTHLY, {"prior": {"T": plait.Gamma()}}, "T has no chain along month"),
        (MONTHLY, {"fixed": {"T": np.ones((5, 2))}}, "fixed factor T has no row for 6"),
        (EXPOSED, {"fixed": {"V": np.arange(1.0, 26.0).reshape(5, 5)}}, "exposure V over month"),
    ],
)
def test_what_has_no_later_periods_is_refused(text, settings, words):
    fit = plait.fit(text, {"visits": visits()}, **QUICK | settings)
    with pytest.raises(plait.errors.ParameterError, match=words):
        fit.forecast("visits")


def test_later_periods_are_for_forecast(fit):
    for ask in (
        lambda: fit.predict("visits", {"user": [0], "place": [0], "month": [6]}),
        lambda: fit.top("visits", given={"month": 6}),
    ):
        with pytest.raises(plait.errors.DataError, match="`forecast` for the next ones"):
            ask()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 0}, "`steps` must be an integer of at least 1"),
        ({"steps": "3"}, "`steps` must be"),
        ({"cells": {"user": [0], "place": [0]}, "per": "user"}, "`per` has no effect with `cells`"),
        ({"per": "time"}, "'time' is not an index"),
        ({"cells": {"user": [99], "place": [0]}}, "cells of the forecast.*99 is not an entity of axis user"),
        ({"given": {"month": 3}}, "3 is not an entity of axis month"),
    ],
)
def test_wrong_options_are_refused(fit, options, words):
    with pytest.raises(plait.PlaitError, match=words) as raised:
        fit.forecast("visits", **options)
    assert "handle_unknown" not in str(raised.value)  # an option of predict


def test_the_command_says_what_the_library_does(fit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit.save("run")
    pl.DataFrame({"user": [0, 3], "place": [1, 2]}).write_csv("cells.csv")

    def said(words):
        done = plait_command("forecast", "run", "visits", *words.split())
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assert said("--steps 2 -k 3 --json") == fit.forecast("visits", steps=2, k=3).to_dicts()
    cells = {"user": [0, 3], "place": [1, 2]}
    assert said("--steps 2 --cells cells.csv --json") == fit.forecast("visits", steps=2, cells=cells).to_dicts()
    assert (
        said("--per user --given user=3 -k 1 --json")
        == fit.forecast("visits", per="user", given={"user": 3}, k=1).to_dicts()
    )
    done = plait_command("forecast", "run", "visits", "--steps", "2", "-o", "later.parquet")
    assert done.exit_code == 0
    assert pl.read_parquet("later.parquet").columns == fit.forecast("visits").columns
