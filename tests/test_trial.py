"""Predictions after a change of one cell, compared with refits of changed data."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.analysis.explain.counterfactual import try_change
from plait.errors import DataError

MODEL = """
visits[user, place] = U[user, r] P[place, r]
friends[user, friend] = U[user, r] F[friend, r]
friend: user
"""
CELL, LINK = {"user": "u1", "place": "p4"}, {"user": "u1", "place": "p2"}


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(4)
    rows = [(f"u{i}", f"p{j}", int(1 + rng.poisson(1))) for i in range(8) for j in range(6) if (i * j + i) % 3 != 1]
    return pl.DataFrame(rows, ["user", "place", "value"], orient="row").filter(
        (pl.col("user") != "u1") | (pl.col("place") != "p4")
    )


@pytest.fixture(scope="module")
def friends():
    return pl.DataFrame([(f"u{i}", f"u{(2 * i + 1) % 8}") for i in range(8)], ["user", "friend"], orient="row")


@pytest.fixture(scope="module")
def fitted(visits, friends):
    return plait.fit(MODEL, _data(visits, friends), rank=2, seed=1, max_iter=120)


def _data(visits, friends, **more):
    both = plait.Relation(friends, likelihood="bernoulli", self_links="observed")
    return {"visits": plait.Relation(visits, **more), "friends": both}


def _refitted(fit, data):
    """The mean of the cell when all is fitted again by `plait.fit` from there, under the same priors."""
    again = plait.fit(MODEL, data, rank=2, init=fit, prior=fit.prior, adapt_prior=None, max_iter=4000, tol=1e-13)
    return again.predict("visits", {name: [own] for name, own in CELL.items()})


def _without(visits):
    return visits.filter((pl.col("user") != LINK["user"]) | (pl.col("place") != LINK["place"]))


@pytest.mark.parametrize("value", [0.0, None, 5.0, 1.0])
def test_a_change_is_a_refit_of_changed_data(fitted, visits, friends, value):
    rest, hidden = _without(visits), None
    if value is None:
        hidden = pl.DataFrame([LINK])
    elif value:
        rest = pl.concat([rest, pl.DataFrame([{**LINK, "value": int(value)}])])
    wanted = _refitted(fitted, _data(rest, friends, hidden=hidden))
    found = try_change(fitted, _data(visits, friends), "visits", CELL, "visits", LINK, value)
    for name in ("mean", "sd", "probability"):
        assert found.after[name] == pytest.approx(wanted[name][0], rel=1e-4)
    before = _refitted(fitted, _data(visits, friends))
    assert found.before["mean"] == pytest.approx(before["mean"][0], rel=1e-4)
    assert found.loss == pytest.approx(1 - wanted["mean"][0] / before["mean"][0], abs=2e-4)


def test_an_observed_zero_becomes_a_link(fitted, visits, friends):
    new = {"user": "u1", "place": "p0"}
    assert not fitted.known["visits"].contain(np.array([[1, 0]]))[0]
    wanted = _refitted(fitted, _data(pl.concat([visits, pl.DataFrame([{**new, "value": 3}])]), friends))
    found = try_change(fitted, _data(visits, friends), "visits", CELL, "visits", new, 3.0)
    assert found.after["mean"] == pytest.approx(wanted["mean"][0], rel=1e-4)
    assert found.after["mean"] != pytest.approx(found.before["mean"], rel=1e-3)


def test_a_change_of_another_relation(fitted, visits, friends):
    link = {"user": "u1", "friend": "u3"}
    hidden = plait.Relation(friends, likelihood="bernoulli", self_links="observed", hidden=pl.DataFrame([link]))
    wanted = _refitted(fitted, {**_data(visits, friends), "friends": hidden})
    found = try_change(fitted, _data(visits, friends), "visits", CELL, "friends", link, None)
    assert found.after["mean"] == pytest.approx(wanted["mean"][0], rel=1e-4)
    assert found.after["mean"] != pytest.approx(found.before["mean"], rel=1e-4)


def test_a_change_of_an_undirected_link():
    model = "knows[a, b] = A[a, r] A[b, r]\nb: a"
    rows = [(f"n{i}", f"n{j}") for i in range(7) for j in range(i) if (i + 2 * j) % 3]
    pairs = pl.DataFrame(rows, ["a", "b"], orient="row")
    fit = plait.fit(model, {"knows": pairs}, rank=2, seed=0, max_iter=60)
    cell = {"a": "n0", "b": "n3"}
    link = dict(zip("ab", pairs.row(0)))
    ways = [link, {"a": link["b"], "b": link["a"]}]
    one, other = (try_change(fit, {"knows": pairs}, "knows", cell, "knows", way, None) for way in ways)
    assert one == other
    exact = fit.explain("knows", cell, top=30, exact="missing", data={"knows": pairs})
    told = {frozenset(reason.cell.values()): reason.exact for reason in exact.reasons}
    assert told[frozenset(link.values())] == pytest.approx(one.loss, abs=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{"restarts": 2}, {"restarts": 2, "bootstrap": True}], ids=["plain", "bootstrap"])
def test_an_ensemble_is_fitted_again_member_by_member(visits, friends, options):
    data = _data(visits, friends)
    fit = plait.fit(MODEL, data, rank=2, seed=1, max_iter=60, **options)
    exact = fit.explain("visits", CELL, top=50, exact="zero", data=data)
    reason = next(link for link in exact.reasons if link.relation == "visits")
    found = try_change(fit, data, "visits", CELL, "visits", reason.cell, 0.0)
    assert found.loss == pytest.approx(reason.exact, abs=1e-9)
    assert 1 - found.after["mean"] / found.before["mean"] == pytest.approx(found.loss, abs=1e-9)


def test_a_callable_hears_of_every_sweep_and_may_end_it(fitted, visits, friends):
    class Enough(Exception):
        pass

    heard = []

    def told(phase, sweep):
        heard.append((phase, sweep))
        if phase == "after" and sweep == 3:
            raise Enough

    with pytest.raises(Enough):
        try_change(fitted, _data(visits, friends), "visits", CELL, "visits", LINK, 0.0, on_sweep=told)
    assert heard[0] == ("before", 0)
    assert heard[-1] == ("after", 3)


def test_wrong_values_are_refused(fitted, visits, friends):
    for relation, link, value in (("visits", LINK, -1.0), ("visits", LINK, float("inf")),
                                  ("friends", {"user": "u1", "friend": "u3"}, 2.0)):  # fmt: skip
        with pytest.raises(DataError, match="not a valid value of a link"):
            try_change(fitted, _data(visits, friends), "visits", CELL, relation, link, value)
