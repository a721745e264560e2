"""Recurrence: decayed counts of earlier periods, as evidence of fits, updates and forecasts."""

import datetime

import numpy as np
import polars as pl
import pytest

import plait

MODEL = "visits[user, place, month] = U[user, r] P[place, r] + w[] N[user, place, month]; month: ordered"
QUICK = {"rank": 2, "seed": 0, "warmup": 0, "max_iter": 5, "tol": 0.0, "threads": 1}
ENTITIES = {"user": range(6), "place": range(5)}


def visits(months, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.poisson(rng.gamma(0.2, 3.0, (6, 5, 1)) * np.ones(8))
    cells = np.argwhere(X > 0)
    cells = cells[np.isin(cells[:, 2], months)]
    return pl.DataFrame(dict(zip(("user", "place", "month"), cells.T)) | {"value": X[tuple(cells.T)]})


def dense(table, half_life, periods):
    """The same by its definition."""
    rows = {}
    for user, place, month, x in table.select("user", "place", "month", "value").iter_rows():
        for period in periods:
            if period > month:
                key = user, place, period
                rows[key] = rows.get(key, 0.0) + x * 0.5 ** ((period - month) / half_life)
    return {key: value for key, value in rows.items() if value >= 0.01}


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Int32])
@pytest.mark.parametrize("periods", [None, [5, 7], [7, 9, 9]])
def test_values_are_decayed_sums_of_earlier_periods(periods, dtype):
    table = visits(range(8)).with_columns(pl.col("month").cast(dtype))
    found = plait.evidence.recurrence(table, "month", half_life=0.7, periods=periods)
    wanted = dense(table, 0.7, sorted(set(range(8) if periods is None else periods)))
    assert {row[:3]: row[3] for row in found.rows()} == pytest.approx(wanted)


def test_periods_may_be_dates_and_links_may_lack_values():
    day = datetime.date
    dated = pl.DataFrame({"user": ["a", "a", "b"], "day": [day(2026, 1, 30), day(2026, 2, 1), day(2026, 1, 31)]})
    found = plait.evidence.recurrence(dated.to_pandas(), "day", half_life=1.0, periods=[day(2026, 2, 1)])
    assert type(found).__module__.startswith("pandas")
    assert found[["user", "value"]].values.tolist() == [["a", 0.25], ["b", 0.5]]


@pytest.mark.parametrize(
    ("options", "words"),
    [({"time": "mnth"}, "no column 'mnth'"), ({"half_life": 0.0}, "`half_life` must be a positive number")],
)
def test_wrong_options_are_refused(options, words):
    with pytest.raises(plait.PlaitError, match=words):
        plait.evidence.recurrence(visits([0, 1]), **{"time": "month"} | options)


@pytest.fixture(scope="module")
def fit():
    table = visits(range(5))
    evidence = plait.Exposure(plait.evidence.recurrence(table, "month", half_life=2.0), default=0.0)
    return plait.fit(MODEL, {"visits": table}, fixed={"N": evidence}, entities=ENTITIES, **QUICK)


def later(months, periods):
    return plait.evidence.recurrence(visits(months), "month", half_life=2.0, periods=periods)


def test_a_forecast_uses_the_evidence_of_its_periods(fit):
    rows = later(range(5), [5, 6])
    table = fit.forecast("visits", steps=2, per=["user", "place"], fixed={"N": rows})
    U, P, w = (fit.factors[name].mean for name in "UPw")
    N = {row[:3]: row[3] for row in rows.rows()}
    for user, place, month, mean in table.select("user", "place", "month", "mean").rows():
        assert mean == pytest.approx(U[user] @ P[place] + w * N.get((user, place, month), 0.0))
    with pytest.raises(plait.errors.ParameterError, match="exposure N over month"):
        fit.forecast("visits")
    with pytest.raises(plait.errors.ParameterError, match="'M' is not a fixed factor"):
        fit.forecast("visits", steps=2, fixed={"N": rows, "M": rows})
    with pytest.raises(plait.errors.DataError, match="known entities only"):
        fit.forecast("visits", fixed={"N": later(range(5), [4])})


def test_an_update_learns_with_the_evidence_of_a_later_period(fit, tmp_path):
    updated = fit.update({"visits": visits([5])}, fixed={"N": later(range(5), [5])})
    whole = plait.evidence.recurrence(visits(range(6)), "month", half_life=2.0)
    V = updated.exposures.of("visits", 1)
    cells = np.argwhere(np.ones((6, 5, 6)))
    wanted = {row[:3]: row[3] for row in whole.rows()}
    np.testing.assert_allclose(V.at(cells), [wanted.get(tuple(cell), 0.0) for cell in cells.tolist()])
    updated.save(tmp_path / "run")
    rows = {"N": later(range(6), [6])}
    found = plait.load(tmp_path / "run").forecast("visits", k=3, fixed=rows)
    assert found.rows() == updated.forecast("visits", k=3, fixed=rows).rows()
    prior, total = updated.prior["w"], sum(wanted.values())
    rate = float(np.asarray(prior.concentration)) / float(np.asarray(prior.mean))
    assert updated.factors["w"].scale == pytest.approx(1.0 / (rate + total))
