"""`fit.top(per=…)` finds the links of one search for every entity; `exclude=`."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import plait
from plait.errors import DataError, ParameterError
from plait.executors import Reference
from tests.support import problems
from tests.support.every_cell import all_rates
from tests.support.models import EXPOSED, MODELS
from tests.support.posteriors import with_posteriors
from tests.support.problems import as_counts
from tests.support.searching import TABLES, check_per, exposed, made, predicted, random_exposure


def queries(indices):
    """Some choices of indices that leave one open."""
    return [indices[:1], indices[-1:], indices[1:], indices[::-1][:-1]][: 2 * max(len(indices) - 1, 0)]


@pytest.mark.quick(name=["matrix", "cp3", "tucker", "bias"])
@pytest.mark.parametrize(("name", "exposed"), [*((n, False) for n in MODELS), *((n, True) for n in EXPOSED)])
def test_each_of_every_equation(name, exposed, way):
    fit = problems.make(name, exposed=exposed).fit(max_iter=1, executor=Reference())
    for relation in fit.model.relations:
        for n, each in enumerate(queries(fit.model.equation(relation).indices)):
            check_per(fit, relation, 3, each, known=n % 2 == 0)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.filterwarnings("ignore::plait.errors.NoLinksWarning", "ignore::plait.errors.NoCandidatesWarning")
def test_each_under_tables_of_exposures(kind, way):
    rng = np.random.default_rng(1)
    given = {name: random_exposure(rng, over, *TABLES[kind]) for name, over in {"V": "ij", "W": "kj"}.items()}
    fit = exposed("X[i,j,k] = A[i,r] B[j,r] C[k,r] V[i,j] W[k,j]", given)
    for each in (("i",), ("k", "i"), ("j",)):
        check_per(fit, "X", 4, each)


@pytest.mark.parametrize("name", ["matrix", "cp3", "tucker", "two_visible"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_each_by_mean_rate_or_probability(name, likelihood, way):
    fit = problems.make(name, likelihood=likelihood).fit(max_iter=2, executor=Reference())
    for score in ("mean", "probability", "rate"):
        scores = predicted(fit, "X", score)
        check_per(fit, "X", 2, fit.model.equation("X").indices[:1], scores=scores, score=score)


def test_a_smaller_rate_of_larger_probability_is_found(way):
    # A certain rate of 1 is a link more probably than an uncertain rate of 2; the best by rate are not the best.
    fit = problems.make("matrix", likelihood="bernoulli").fit(max_iter=1, executor=Reference())
    fit = with_posteriors(fit, np.random.default_rng(0), 0.05, 3.0)
    rates, means = all_rates(fit, "X"), predicted(fit, "X", "mean")
    assert (np.argsort(-rates, axis=1) != np.argsort(-means, axis=1)).any()
    check_per(fit, "X", 1, ("i",), scores=means, known=True)
    check_per(fit, "X", 3, ("j",), scores=means)


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_each_of_an_ensemble(likelihood, way):
    X = plait.Relation((np.random.default_rng(2).random((9, 7)) < 0.3).astype(float), likelihood=likelihood)
    how = {"rank": 2, "restarts": 3, "max_iter": 3, "seed": 0, "executor": Reference()}
    fit = plait.fit("X[i, j] = A[i, r] B[j, r]", {"X": X}, **how)
    check_per(fit, "X", 2, ("i",), scores=predicted(fit, "X", "mean"))


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(5)
    table = pl.DataFrame(np.argwhere(rng.random((7, 9, 3)) < 0.2), schema=["user", "place", "day"]).with_columns(
        pl.format("u{}", "user").alias("user"), pl.format("p{}", "place").alias("place")
    )
    model = "visits[user, place, day] = U[user, r] P[place, r] D[day, r]"
    return plait.fit(model, as_counts({"visits": table}), rank=2, max_iter=4, seed=0, executor=Reference())


def test_each_is_one_call_for_each_entity(visits, way):
    users = visits.entities["user"].names.to_list()
    loop = pl.concat([visits.top("visits", 4, given={"user": user}) for user in users])
    assert visits.top("visits", 4, per="user").equals(loop)
    some = visits.top("visits", 4, per=["user"], given={"user": ["u4", "u1"], "day": [0, 2]})
    loop = [visits.top("visits", 4, given={"user": user, "day": [0, 2]}) for user in users if user in ("u1", "u4")]
    assert some.equals(pl.concat(loop))
    pairs = visits.top("visits", 2, per=("day", "user"))
    loop = [visits.top("visits", 2, given={"user": u, "day": d}) for d in visits.entities["day"].names for u in users]
    assert pairs.equals(pl.concat(loop))


def test_each_of_one_entity_of_none_and_of_all_cells(visits):
    one = {"given": {"user": "u2"}}
    assert visits.top("visits", 3, per="user", **one).equals(visits.top("visits", 3, **one))
    assert visits.top("visits", 3, per="user", given={"user": []}).schema == visits.top("visits", 1).schema
    assert len(visits.top("visits", 0, per="user")) == 0
    assert len(visits.top("visits", 10**6, per="place", include_known=True)) == 7 * 9 * 3


def test_closed_cells_are_not_proposed_to_any_entity(way):
    rng = np.random.default_rng(3)
    means = [rng.gamma(0.5, size=(n, 3)) for n in (8, 5, 6)]
    masks = {
        ("i",): rng.random((8, 1, 1)) < 0.2,
        ("i", "k"): rng.random((8, 1, 6)) < 0.4,
        ("j", "k"): rng.random((1, 5, 6)) < 0.4,
    }
    rules = {over: np.argwhere(mask)[:, ["ijk".index(i) for i in over]] for over, mask in masks.items()}
    zeros = masks["i",] | masks["i", "k"] | masks["j", "k"]
    for each in (("i",), ("k",), ("j", "i")):
        check_per(made(means, zeros=rules), "X", 4, each, zeros=zeros)


# --- exclude


def masked(visits, over, seed):
    """A table over some indices with some of the entities and one that is unknown, and the same as a mask."""
    rng, indices = np.random.default_rng(seed), ("user", "place", "day")
    names = [visits.entities[i].names for i in indices]
    mask = rng.random([len(n) if i in over else 1 for i, n in zip(indices, names)]) < 0.3
    rows = np.argwhere(mask)
    table = {i: names[k].gather(rows[:, k]).to_list() for k, i in enumerate(indices) if i in over}
    unknown = {"user": "nobody", "place": "nowhere", "day": 99}
    return {i: [*column, unknown[i]] for i, column in table.items()}, mask


@pytest.mark.parametrize("over", [("user",), ("place", "day"), ("user", "place"), ("user", "place", "day")], ids=str)
@pytest.mark.parametrize("kind", [dict, pl.DataFrame, pd.DataFrame])
def test_excluded_cells_are_not_proposed(visits, over, kind):
    columns, mask = masked(visits, over, 0)
    zeros = np.broadcast_to(mask, (7, 9, 3))
    for each in (("user",), ("day", "place")):
        check_per(visits, "visits", 3, each, zeros=zeros, exclude=kind(columns))
    left = visits.top("visits", 10**6, include_known=True, exclude=kind(columns))
    assert len(left) == np.count_nonzero(~zeros)
    everything = visits.top("visits", 10**6, include_known=True)
    assert left.equals(everything.join(pl.DataFrame(columns), on=list(over), how="anti", maintain_order="left"))


def test_several_tables_exclude_all_of_their_cells(visits):
    found = [masked(visits, over, seed) for seed, over in enumerate([("place",), ("user", "day"), ("user", "day")])]
    zeros = np.broadcast_to(found[0][1] | found[1][1] | found[2][1], (7, 9, 3))
    check_per(visits, "visits", 5, ("user",), zeros=zeros, exclude=[columns for columns, _ in found])
    seen = pl.DataFrame({"place": ["p1", "p2"], "value": [3.0, 0.0]})  # values do not matter
    assert visits.top("visits", 9, exclude=seen).equals(visits.top("visits", 9, exclude=seen.drop("value")))


def test_exclude_takes_the_columns_of_the_data():
    table = pl.DataFrame({"who": ["a", "b", "b"], "what": ["x", "y", "x"], "plays": [1.0, 2.0, 1.0]})
    relation = plait.Relation(table, columns={"user": "who", "item": "what"}, value="plays")
    fit = plait.fit("X[user, item] = U[user, r] I[item, r]", {"X": relation}, rank=1, max_iter=2, seed=0)
    for exclude in (table, pl.DataFrame({"user": ["a"], "item": ["y"]})):
        found = fit.top("X", 9, include_known=True, exclude=exclude).select("user", "item").rows()
        assert (("a", "y") in found) == (exclude is table)


def test_a_warning_names_exclude_if_nothing_is_left(visits):
    with pytest.warns(
        plait.errors.NoCandidatesWarning, match="all requested cells are excluded by `exclude`, or are known links"
    ):
        assert len(visits.top("visits", given={"user": "u1"}, exclude={"user": ["u1"]})) == 0


MISTAKES = {
    "each unknown": ({"per": "usr"}, ParameterError, "'usr'.*\nDid you mean 'user'"),
    "each twice": ({"per": ("user", "user")}, ParameterError, r"`per` .* got \('user', 'user'\).\n"),
    "each none": ({"per": []}, ParameterError, r"`per` .* got \[\]"),
    "each a list of lists": ({"per": [["user"]]}, ParameterError, r"`per` .* got \[\["),
    "each all": ({"per": ("user", "place", "day")}, ParameterError, "`per`: user, place, day are all indices.*\n"),
    "exclude column": ({"exclude": {"usr": ["u1"]}}, DataError, "exclude: column 'usr'.*\nDid you mean 'user'"),
    "exclude second": ({"exclude": [{"user": ["u1"]}, {"color": [1]}]}, DataError, r"exclude\[1\]: column 'color'"),
    "exclude kind": ({"exclude": {"day": ["monday"]}}, DataError, "exclude, column 'day': .*strings.*integers"),
    "exclude no table": ({"exclude": "p1"}, DataError, "exclude: .* got str.\nGive a table"),
    "exclude ragged": ({"exclude": {"user": ["u1"], "place": ["p1", "p2"]}}, DataError, "exclude: the dict"),
}


@pytest.mark.parametrize(("options", "error", "message"), MISTAKES.values(), ids=MISTAKES)
def test_wrong_arguments_are_named(visits, options, error, message):
    with pytest.raises(error, match=message):
        visits.top("visits", **options)
