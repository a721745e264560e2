"""`fit.top(each=…)`: the same links as one search for every entity, whatever way they are found; and `exclude=`."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest

import plait
from plait.answer.search import by_entity
from plait.errors import DataError, SettingError
from plait.execute import Reference
from tests import cases
from tests.models import EXPOSED, MODELS
from tests.search.every_cell import all_rates, allowed
from tests.search.test_candidates import with_closed
from tests.search.test_search import made, watched
from tests.search.test_top import TABLES, exposed, random_table


@pytest.fixture(params=["blocks", "lines", "boxes"])
def way(request, monkeypatch):
    """All at once, one query at a time, or by branch and bound."""
    if request.param == "lines":
        monkeypatch.setattr(by_entity, "BLOCK", 1)
    if request.param == "boxes":
        monkeypatch.setattr(by_entity, "FEW", 0)
    return request.param


def check_each(fit, relation, k, each, *, scores=None, score="mean", known=False, closed=None, **options):
    """For every combination of the indices `each` the best scores of its allowed cells, in order."""
    indices = fit.model.equation(relation).indices
    scores = all_rates(fit, relation) if scores is None else scores
    table = fit.top(relation, k, each=each, score=score, known=known, **options)
    cells = np.stack([fit.labels[i].encode(table[i]) for i in indices], axis=1)
    open_cells = allowed(fit, relation, known, closed)
    places = [indices.index(index) for index in each]
    own = [tuple(cell[places]) for cell in cells]
    assert own == sorted(own)  # by the order of the entities
    shape = [scores.shape[place] for place in places]
    for query in np.ndindex(*shape):
        at = tuple(query[places.index(n)] if n in places else slice(None) for n in range(len(indices)))
        wanted = np.sort(scores[at][open_cells[at]].ravel())[::-1][:k]
        mine = cells[[q == query for q in own]] if len(cells) else cells
        np.testing.assert_allclose(scores[tuple(mine.T)], wanted, rtol=1e-9)
        assert len(np.unique(mine, axis=0)) == len(mine)
        assert all(open_cells[tuple(cell)] for cell in mine)


def queries(indices):
    """Some choices of indices that leave one open."""
    return [indices[:1], indices[-1:], indices[1:], indices[::-1][:-1]][: 2 * max(len(indices) - 1, 0)]


@pytest.mark.sampled(22)
@pytest.mark.parametrize("name", MODELS)
def test_each_of_every_equation(name, way):
    fit = cases.make(name).fit(sweeps=1, executor=Reference())
    for relation in fit.model.relations:
        indices = fit.model.equation(relation).indices
        for n, each in enumerate(queries(indices)):
            check_each(fit, relation, 3, each, known=n % 2 == 0)


@pytest.mark.sampled(21)
@pytest.mark.parametrize("name", EXPOSED)
def test_each_under_the_exposures_of_every_equation(name, way):
    fit = cases.make(name, exposed=True).fit(sweeps=1, executor=Reference())
    relation = fit.model.relations[0]
    for n, each in enumerate(queries(fit.model.equation(relation).indices)):
        check_each(fit, relation, 3, each, known=n % 2 == 0)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.filterwarnings("ignore::plait.NoLinksWarning", "ignore::plait.ClosedWarning")
def test_each_under_tables_of_exposures(kind, way):
    rng, (default, values) = np.random.default_rng(1), TABLES[kind]
    given = {
        name: plait.Exposure(random_table(rng, over, values), default) for name, over in {"V": "ij", "W": "kj"}.items()
    }
    fit = exposed("X[i,j,k] = A[i,r] B[j,r] C[k,r] V[i,j] W[k,j]", given)
    for each in (("i",), ("k", "i"), ("j",)):
        check_each(fit, "X", 4, each)


@pytest.mark.parametrize("name", ["matrix", "cp3", "tucker", "two_visible"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_each_by_mean_rate_or_probability(name, likelihood, way):
    fit = cases.make(name, likelihood=likelihood).fit(sweeps=2, executor=Reference())
    indices = fit.model.equation("X").indices
    rate = all_rates(fit, "X")
    every = fit.predict("X", pl.DataFrame(dict(zip(indices, np.argwhere(np.ones(rate.shape)).T))))
    for score in ("mean", "probability", "rate"):
        scores = rate if score == "rate" else every[score].to_numpy().reshape(rate.shape)
        check_each(fit, "X", 2, indices[:1], scores=scores, score=score)


def test_a_cell_of_smaller_rate_and_larger_probability_is_found(way):
    # A certain rate of 1 is a link more probably than an uncertain rate of 2; the best by rate are not the best.
    fit = cases.make("matrix", likelihood="bernoulli").fit(sweeps=1, executor=Reference())
    rng = np.random.default_rng(0)
    from tests.predict.posteriors import with_posteriors

    fit = with_posteriors(fit, rng, 0.05, 3.0)
    rate = all_rates(fit, "X")
    every = fit.predict("X", pl.DataFrame(dict(zip("ij", np.argwhere(np.ones(rate.shape)).T))))["mean"].to_numpy()
    assert (np.argsort(-rate, axis=1) != np.argsort(-every.reshape(rate.shape), axis=1)).any()
    check_each(fit, "X", 1, ("i",), scores=every.reshape(rate.shape), known=True)
    check_each(fit, "X", 3, ("j",), scores=every.reshape(rate.shape))


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_each_of_an_ensemble(likelihood, way):
    X = (np.random.default_rng(2).random((9, 7)) < 0.3).astype(float)
    relation = plait.Relation(X, likelihood=likelihood)
    fit = plait.fit(
        "X[i, j] = A[i, r] B[j, r]", {"X": relation}, rank=2, restarts=3, sweeps=3, seed=0, executor=Reference()
    )
    every = fit.predict("X", pl.DataFrame(dict(zip("ij", np.argwhere(np.ones(X.shape)).T))))
    check_each(fit, "X", 2, ("i",), scores=every["mean"].to_numpy().reshape(X.shape))


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(5)
    table = pl.DataFrame(np.argwhere(rng.random((7, 9, 3)) < 0.2), schema=["user", "place", "day"]).with_columns(
        pl.format("u{}", "user").alias("user"), pl.format("p{}", "place").alias("place")
    )
    model = "visits[user, place, day] = U[user, r] P[place, r] D[day, r]"
    return plait.fit(model, {"visits": table}, rank=2, sweeps=4, seed=0, executor=Reference())


def test_the_table_is_that_of_one_call_for_each_entity(visits, way):
    users = visits.labels["user"].names.to_list()
    loop = pl.concat([visits.top("visits", 4, given={"user": user}) for user in users])
    assert visits.top("visits", 4, each="user").equals(loop)
    some = visits.top("visits", 4, each=["user"], given={"user": ["u4", "u1"], "day": [0, 2]})
    loop = [visits.top("visits", 4, given={"user": user, "day": [0, 2]}) for user in users if user in ("u1", "u4")]
    assert some.equals(pl.concat(loop))
    pairs = visits.top("visits", 2, each=("day", "user"))
    loop = [visits.top("visits", 2, given={"user": u, "day": d}) for d in visits.labels["day"].names for u in users]
    assert pairs.equals(pl.concat(loop))


def test_each_of_one_entity_and_of_none(visits):
    assert visits.top("visits", 3, each="user", given={"user": "u2"}).equals(
        visits.top("visits", 3, given={"user": "u2"})
    )
    assert visits.top("visits", 3, each="user", given={"user": []}).schema == visits.top("visits", 1).schema
    assert len(visits.top("visits", 0, each="user")) == 0


def test_fewer_than_k_where_an_entity_has_fewer_cells(visits):
    table = visits.top("visits", 10**6, each="place", known=True)
    assert len(table) == len(visits.labels["user"]) * len(visits.labels["place"]) * len(visits.labels["day"])


def test_closed_pairs_and_slices_hold_for_each(way):
    rng = np.random.default_rng(3)
    means = [rng.gamma(0.5, size=(n, 3)) for n in (8, 5, 6)]
    masks = {
        ("i",): rng.random((8, 1, 1)) < 0.2,
        ("i", "k"): rng.random((8, 1, 6)) < 0.4,
        ("j", "k"): rng.random((1, 5, 6)) < 0.4,
    }
    tables = {over: np.argwhere(mask)[:, ["ijk".index(i) for i in over]] for over, mask in masks.items()}
    closed = np.zeros((8, 5, 6), bool)
    for mask in masks.values():
        closed |= mask
    for each in (("i",), ("k",), ("j", "i")):
        check_each(with_closed(means, tables), "X", 4, each, closed=closed)


def test_each_of_large_relations_shares_the_trees_and_looks_at_few_cells():
    rng = np.random.default_rng(0)
    means = [rng.gamma(0.3, size=(n, 6)) * rng.lognormal(size=(n, 1)) for n in (5, 2000, 3000)]
    fit = made(means)
    with watched() as seen:
        table = fit.top("X", 3, each="i")
    assert seen.cells < 1_000_000  # of 3e7
    for row in range(5):
        best = np.sort(((means[0][row] * means[1]) @ means[2].T).ravel())[::-1][:3]
        np.testing.assert_allclose(table.filter(pl.col("i") == row)["mean"].to_numpy(), best, rtol=1e-9)


def test_memory_does_not_grow_with_the_entities():
    rng = np.random.default_rng(0)
    peaks = []
    for count in (3000, 30_000):
        fit = made([rng.gamma(0.3, size=(n, 2)) for n in (count, 2000)])
        fit.top("X", 1, each="i", given={"i": [0, 1]})
        tracemalloc.start()
        fit.top("X", 1, each="i")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]  # of 10 times as many cells; the answer itself grows


# --- exclude


def masked(visits, over, seed):
    """A table over some indices with some of the entities and one that is unknown, and the same as a mask."""
    rng, indices = np.random.default_rng(seed), ("user", "place", "day")
    names = [visits.labels[i].names for i in indices]
    mask = rng.random([len(n) if i in over else 1 for i, n in zip(indices, names)]) < 0.3
    rows = np.argwhere(mask)
    table = {i: names[k].gather(rows[:, k]).to_list() for k, i in enumerate(indices) if i in over}
    unknown = {"user": "nobody", "place": "nowhere", "day": 99}
    return {i: [*column, unknown[i]] for i, column in table.items()}, mask


@pytest.mark.parametrize("over", [("user",), ("place", "day"), ("user", "place"), ("user", "place", "day")], ids=str)
@pytest.mark.parametrize("kind", [dict, pl.DataFrame, pd.DataFrame])
def test_what_a_table_excludes_is_not_proposed(visits, over, kind):
    columns, mask = masked(visits, over, 0)
    closed = np.broadcast_to(mask, (7, 9, 3))
    for each in (("user",), ("day", "place")):
        check_each(visits, "visits", 3, each, closed=closed, exclude=kind(columns))
    left = visits.top("visits", 10**6, known=True, exclude=kind(columns))
    assert len(left) == np.count_nonzero(~closed)
    everything = visits.top("visits", 10**6, known=True)
    assert left.equals(everything.join(pl.DataFrame(columns), on=list(over), how="anti", maintain_order="left"))


def test_several_tables_exclude_all_that_any_of_them_names(visits):
    found = [masked(visits, over, seed) for seed, over in enumerate([("place",), ("user", "day"), ("user", "day")])]
    closed = np.broadcast_to(found[0][1] | found[1][1] | found[2][1], (7, 9, 3))
    check_each(visits, "visits", 5, ("user",), closed=closed, exclude=[columns for columns, _ in found])


def test_a_column_of_values_is_not_looked_at(visits):
    seen = pl.DataFrame({"place": ["p1", "p2"], "value": [3.0, 0.0]})
    assert visits.top("visits", 9, exclude=seen).equals(visits.top("visits", 9, exclude=seen.drop("value")))


def test_columns_may_be_called_as_in_the_data():
    table = pl.DataFrame({"who": ["a", "b", "b"], "what": ["x", "y", "x"], "plays": [1.0, 2.0, 1.0]})
    relation = plait.Relation(table, columns={"user": "who", "item": "what"}, value="plays")
    fit = plait.fit("X[user, item] = U[user, r] I[item, r]", {"X": relation}, rank=1, sweeps=2, seed=0)
    for exclude in (table, pl.DataFrame({"user": ["a"], "item": ["y"]})):
        found = fit.top("X", 9, known=True, exclude=exclude).select("user", "item").rows()
        assert (("a", "y") in found) == (exclude is table)


def test_nothing_left_names_exclude(visits):
    with pytest.warns(plait.ClosedWarning, match="all cells asked for are closed by `exclude`, or known already"):
        assert len(visits.top("visits", given={"user": "u1"}, exclude={"user": ["u1"]})) == 0


MISTAKES = {
    "each unknown": (
        {"each": "usr"},
        SettingError,
        "`each`: 'usr' is no index of visits.\nDid you mean 'user'? It has user, place, day.",
    ),
    "each twice": (
        {"each": ("user", "user")},
        SettingError,
        "`each` must be one index or several, each once, got ('user', 'user').\nThe indices are user, place, day.",
    ),
    "each none": ({"each": []}, SettingError, "`each` must be one index or several, each once, got []."),
    "each a number": ({"each": 3}, SettingError, "`each` must be one index or several, each once, got 3."),
    "each a list of lists": (
        {"each": [["user"]]},
        SettingError,
        "`each` must be one index or several, each once, got [[",
    ),
    "each all": (
        {"each": ("user", "place", "day")},
        SettingError,
        "`each`: user, place, day are all indices of visits, so there is nothing to choose.\n",
    ),
    "exclude column": (
        {"exclude": {"usr": ["u1"]}},
        DataError,
        "exclude: column 'usr' is no index of the relation.\n"
        "Did you mean 'user'? Its columns are among 'user', 'place', 'day'.",
    ),
    "exclude second": (
        {"exclude": [{"user": ["u1"]}, {"color": [1]}]},
        DataError,
        "exclude[1]: column 'color' is no index of the relation.",
    ),
    "exclude kind": (
        {"exclude": {"day": ["monday"]}},
        DataError,
        "exclude, column 'day': the labels are strings, but axis day has integers",
    ),
    "exclude no table": (
        {"exclude": "p1"},
        DataError,
        "exclude: wanted a table, got str.\nGive a table or a dict of columns",
    ),
    "exclude ragged": (
        {"exclude": {"user": ["u1"], "place": ["p1", "p2"]}},
        DataError,
        "exclude: the dict is no table: ",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_answered(visits, mistake):
    options, error, message = MISTAKES[mistake]
    with pytest.raises(error) as caught:
        visits.top("visits", **options)
    assert str(caught.value).startswith(message)
