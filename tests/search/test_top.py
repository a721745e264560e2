"""`fit.top` against all cells: every equation, every set of given indices, exposures, scores; answers to mistakes."""

import itertools
import json
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import plait
from plait.answer.search import boxed, branch, form, tree
from plait.data.binding.given import bind_exposures
from plait.errors import DataError, ModelError, SettingError
from plait.execute import Reference
from tests import cases
from tests.models import EXPOSED, MODELS, ONLY_EXPOSED, RANKS, SIZES
from tests.sealed import seal
from tests.search.every_cell import all_rates, allowed, check, subsets


@pytest.fixture(params=["rows", "general"])
def boxes(request, monkeypatch):
    """Searches that split boxes down to single cells, on tiny problems too; by kernels, or by contractions."""
    monkeypatch.setattr(branch, "LEAF", 1)
    monkeypatch.setattr(branch, "BATCH", 8)
    monkeypatch.setattr(branch, "FIRST", 1)
    monkeypatch.setattr(tree, "FAN", 2 if request.param == "rows" else 3)
    if request.param == "general":
        monkeypatch.setattr(form, "ROOM", 0)
        monkeypatch.setattr(boxed, "as_rows", lambda form: None)
    return request.param


# --- equations


@pytest.mark.sampled(22)
@pytest.mark.parametrize("name", MODELS)
def test_the_best_cells_of_every_equation_whatever_is_given(name, boxes):
    fit = cases.make(name).fit(sweeps=1, executor=Reference())
    for relation in fit.model.relations:
        scores = all_rates(fit, relation)
        for n, fixed in enumerate(subsets(fit.model.equation(relation).indices)):
            check(fit, relation, 4, fixed, known=(n + (boxes == "rows")) % 2 == 0, scores=scores)


@pytest.mark.parametrize("name", MODELS)
def test_all_cells_of_a_tiny_relation_are_scored_at_once(name):
    fit = cases.make(name).fit("em", sweeps=1, executor=Reference())
    for relation in fit.model.relations:
        for known in (True, False):
            check(fit, relation, 5, {}, known=known)


@pytest.mark.sampled(21)
@pytest.mark.parametrize("name", EXPOSED)
def test_exposures_of_every_equation_count(name, boxes):
    fit = cases.make(name, exposed=True).fit(sweeps=1, executor=Reference())
    relation = fit.model.relations[0]
    scores = all_rates(fit, relation)
    for n, fixed in enumerate(subsets(fit.model.equation(relation).indices[:2])):
        check(fit, relation, 3, fixed, known=n % 2 == 0, scores=scores)


# --- exposures


def exposed(text, fixed, sizes=SIZES, likelihood="poisson", seed=0):
    """A fit of one relation X with given factors."""
    model, rng = plait.Model(text), np.random.default_rng(seed)
    shape = [sizes[index] for index in model.equation("X").indices]
    X = (rng.random(shape) < 0.3).astype(float)
    V = bind_exposures(model.bind({"X": X}), fixed).at("X", 0, np.argwhere(np.ones(shape)))
    links = plait.Relation(np.where(V.reshape(shape) > 0, X, 0.0), likelihood=likelihood)
    rank = {index: RANKS[index] for index in model.latent} or None
    return plait.fit(model, {"X": links}, rank=rank, fixed=fixed, sweeps=2, seed=0, executor=Reference())


def random_table(rng, indices, values, share=0.3, sizes=SIZES):
    """An exposure's table that lists some of the cells."""
    listed = np.argwhere(rng.random([sizes[index] for index in indices]) < share)
    columns = {index: listed[:, n] for n, index in enumerate(indices)}
    return pl.DataFrame({**columns, "value": rng.choice(values, len(listed))})


TABLES = {
    "mostly closed": (0.01, [1.0]),
    "closed": (0.0, [0.5, 2.0]),
    "mostly open": (1.0, [0.0]),
    "either way": (1.0, [0.0, 0.3, 5.0]),
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    "text",
    [
        "X[i,j,k] = A[i,r] B[j,r] C[k,r] V[i,j]",
        "X[i,j,k] = A[i,r] B[j,r] C[k,r] V[i,j] W[k,j]",
        "X[i,j,k] = A[i,r] B[j,r] C[k,r] V[i,j] W[k]",
        "X[i,j,k] = A[i,r] B[j,r] C[k,r] V[i,j,k] W[k,i]",
        "X[i,j,k] = H[i,k,r] B[j,r] V[j,k]",
        "X[i,j,k,l] = A[i,r] B[j,r] C[k,s] D[l,s] V[i,j] W[k,l]",
    ],
)
@pytest.mark.filterwarnings("ignore::plait.NoLinksWarning")  # an exposure of 0 leaves none
def test_tables_of_exposures_above_and_below_the_default(kind, text, boxes, monkeypatch):
    monkeypatch.setattr(boxed, "GATHERED", 40)  # a few entries at a time
    rng, (default, values) = np.random.default_rng(1), TABLES[kind]
    model = plait.Model(text)
    over = {name: model.factor(name).indices for name in ("V", "W") if name in model.factors}
    given_factors = {n: plait.Exposure(random_table(rng, indices, values), default) for n, indices in over.items()}
    fit = exposed(text, given_factors)
    for n, fixed in enumerate(subsets(fit.model.equation("X").indices[1:3])):
        check(fit, "X", 6, fixed, known=n % 2 == 1)


@pytest.mark.parametrize("name", ONLY_EXPOSED)
def test_indices_that_only_an_exposure_has(name, boxes):
    rng, model = np.random.default_rng(2), plait.Model(ONLY_EXPOSED[name])
    V = rng.choice([0.2, 1.0, 3.0], [SIZES[index] for index in model.factor("V").indices])
    fit = exposed(ONLY_EXPOSED[name], {"V": V})
    for fixed in subsets(fit.model.equation("X").indices[1:3]):
        check(fit, "X", 5, fixed)


def test_cells_of_exposure_0_are_not_proposed():
    fit = exposed("X[i,j] = A[i,r] B[j,r] V[j]", {"V": np.array([0.0, 1.0, 0.0, 2.0])})
    table = fit.top("X", 100, known=True)
    assert len(table) == 10
    assert set(table["j"]) == {1, 3}
    with pytest.warns(plait.ClosedWarning, match="all cells asked for are closed by an exposure of 0"):
        assert len(fit.top("X", given={"j": 2})) == 0


# --- scores


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", ["matrix", "cp3", "tucker", "two_visible", "bias"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_ranking_by_mean_rate_or_probability(name, likelihood, boxes):
    fit = cases.make(name, likelihood=likelihood).fit(sweeps=2, executor=Reference())
    indices = fit.model.equation("X").indices
    cells = np.argwhere(allowed(fit, "X", True))
    every = fit.predict("X", pl.DataFrame({index: cells[:, n] for n, index in enumerate(indices)}))
    shape = allowed(fit, "X", True).shape
    rate = all_rates(fit, "X")
    for score in ("mean", "probability", "rate"):
        scores = rate if score == "rate" else every[score].to_numpy().reshape(shape)
        for fixed in itertools.islice(subsets(indices), 4):
            check(fit, "X", 5, fixed, scores=scores, score=score)


def test_probabilities_under_an_exposure():
    rng = np.random.default_rng(4)
    V = plait.Exposure(random_table(rng, "ij", [1.0]), default=0.05)
    fit = exposed("X[i,j,k] = A[i,r] B[j,r] C[k,r] V[i,j]", {"V": V}, likelihood="bernoulli")
    cells = np.argwhere(np.ones((5, 4, 3)))
    every = fit.predict("X", pl.DataFrame({index: cells[:, n] for n, index in enumerate("ijk")}))
    check(fit, "X", 7, {}, scores=every["mean"].to_numpy().reshape(5, 4, 3))


# --- answers and arguments


@pytest.fixture(scope="module")
def visits():
    """Visits of named users; two of six cells are links."""
    table = pl.DataFrame({"user": ["ann", "bob"], "place": ["zoo", "bar"], "value": [3.0, 1.0]})
    labels = {"user": ["ann", "bob", "eve"]}
    return plait.fit(
        "visits[user, place] = U[user, r] P[place, r]", {"visits": table}, rank=1, labels=labels, sweeps=5, seed=0
    )


def test_names_and_the_columns_of_predict_best_first(visits):
    table = visits.top("visits", 3)
    assert isinstance(table, pl.DataFrame)
    assert table.columns == ["user", "place", "mean", "sd", "probability", "low", "high"]
    assert table["mean"].is_sorted(descending=True)
    assert table.equals(visits.predict("visits", table.select("user", "place")))


def test_fewer_rows_where_fewer_cells_are_left(visits):
    assert len(visits.top("visits", 100)) == 4
    assert len(visits.top("visits", 100, known=True)) == 6
    assert visits.top("visits", 100, given={"user": "ann"})["place"].to_list() == ["bar"]


def test_no_links_wanted_is_an_empty_table_with_all_columns(visits):
    table = visits.top("visits", 0)
    assert len(table) == 0
    assert table.schema == visits.top("visits", 1).schema


def test_a_cell_given_in_full_is_there_unless_it_is_known(visits):
    cell = {"place": "zoo", "user": "eve"}
    assert visits.top("visits", 5, given=cell).select("user", "place").rows() == [("eve", "zoo")]
    known = {"user": "ann", "place": "zoo"}
    assert len(visits.top("visits", 5, given=known)) == 0
    assert len(visits.top("visits", 5, given=known, known=True)) == 1
    assert visits.top("visits", 5, given=known).schema == visits.top("visits", 1).schema


@pytest.mark.parametrize(
    "users", [["eve", "ann", "eve"], ("ann", "eve"), pl.Series(["ann", "eve"]), np.array(["eve", "ann"])]
)
def test_several_names_to_choose_among(visits, users):
    table = visits.top("visits", 10, given={"user": users})
    assert sorted(table.select("user", "place").rows()) == [("ann", "bar"), ("eve", "bar"), ("eve", "zoo")]
    assert len(visits.top("visits", 10, given={"user": ["eve"]})) == 2
    assert len(visits.top("visits", 10, given={"user": []})) == 0


def test_some_names_of_several_indices_under_an_exposure(boxes):
    rng = np.random.default_rng(7)
    V = plait.Exposure(random_table(rng, "ij", [0.0, 2.0], share=0.5), default=0.5)
    fit = exposed("X[i,j,k] = A[i,r] B[j,r] C[k,r] V[i,j]", {"V": V})
    table = fit.top("X", 4, given={"i": [4, 1, 2], "j": [0, 3]}, known=True)
    rates = all_rates(fit, "X")[np.ix_([1, 2, 4], [0, 3])]
    wanted = np.sort(rates[rates > 0])[::-1][:4]
    np.testing.assert_allclose(table["mean"].to_numpy(), wanted, rtol=1e-9)
    assert set(table["i"]) <= {1, 2, 4}
    assert set(table["j"]) <= {0, 3}


def test_hidden_cells_are_candidates():
    X = np.ones((4, 4))
    X[1, 2] = np.nan
    table = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=1, sweeps=3, seed=0).top("X", 5)
    assert table.select("i", "j").rows() == [(1, 2)]


def test_an_axis_under_two_names():
    text = "X[user, friend] = U[user, r] F[friend, r]; friend: user"
    rng = np.random.default_rng(0)
    fit = plait.fit(text, {"X": rng.poisson(0.5, (6, 6)).astype(float)}, rank=2, sweeps=3, seed=0)
    for fixed in subsets(("user", "friend")):
        check(fit, "X", 4, fixed)


MISTAKES = {
    "k below 0": (
        {"k": -1},
        SettingError,
        "`k` must be a whole number, 0 or more, got -1.",
    ),
    "k no number": ({"k": "ten"}, SettingError, "`k` must be a whole number, 0 or more, got 'ten'."),
    "k a fraction": ({"k": 2.5}, SettingError, "`k` must be a whole number, 0 or more, got 2.5."),
    "k a truth": ({"k": True}, SettingError, "`k` must be a whole number, 0 or more, got True."),
    "score": (
        {"score": "probabilty"},
        SettingError,
        "`score`: there is no ranking by 'probabilty'.\n"
        "Did you mean 'probability'? It is one of mean, probability, rate.",
    ),
    "score of predict": ({"score": "sd"}, SettingError, "`score`: there is no ranking by 'sd'.\nIt is one of mean, "),
    "index": (
        {"given": {"usr": "ann"}},
        SettingError,
        "`given`: 'usr' is no index of visits.\nDid you mean 'user'? It has user, place.",
    ),
    "no dict": (
        {"given": "ann"},
        SettingError,
        "`given` must be a dict of names by index, got str.\nGive `given={'user': …}`.",
    ),
    "name": (
        {"given": {"place": "zo"}},
        DataError,
        "given, index 'place': 'zo' is no entity of axis place, which has 'bar', 'zoo'.\n"
        "Did you mean 'zoo'? Take one of them, or leave 'place' open.",
    ),
    "name among others": (
        {"given": {"user": ["ann", "ed"]}},
        DataError,
        "given, index 'user': 'ed' is no entity of axis user, which has 'ann', 'bob', 'eve'.\n",
    ),
    "kind of name": (
        {"given": {"user": 3}},
        DataError,
        "given, index 'user': the labels are integers, but axis user has strings: 'ann', 'bob', 'eve'.\n",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_says_what_and_how_to_mend_it(visits, mistake):
    arguments, error, message = MISTAKES[mistake]
    with pytest.raises(error) as caught:
        visits.top("visits", **arguments)
    assert str(caught.value).startswith(message)


def test_an_unknown_relation_is_named(visits):
    with pytest.raises(ModelError, match="visit"):
        visits.top("visit")


# --- the kind of table


MOMENTS = pl.Series(["2024-01-01T10:00", "2024-03-01T11:00", "2024-03-02T11:00"]).str.to_datetime(
    time_zone="Europe/Berlin"
)


@pytest.mark.parametrize("kind", [pd.DataFrame, pa.table, pl.DataFrame])
def test_the_answer_is_the_kind_of_table_that_came_in_also_after_saving(kind, tmp_path):
    columns = {"user": ["ann", "bob", "cem"], "day": [1, 2, 2]}
    data = {"X": kind(columns)}
    fit = plait.fit("X[user, day] = U[user, r] D[day, r]", data, rank=1, seed=0, sweeps=3)
    fit.save(tmp_path / "run")
    own = pl.DataFrame(columns)
    wanted = plait.fit("X[user, day] = U[user, r] D[day, r]", {"X": own}, rank=1, seed=0, sweeps=3).top("X", 3)
    for one in (fit, plait.load(tmp_path / "run")):
        answer = one.top("X", 3)
        assert isinstance(answer, type(data["X"]))
        found = (
            answer if kind is pl.DataFrame else pl.DataFrame({c: list(np.asarray(answer[c])) for c in wanted.columns})
        )
        assert found.columns == wanted.columns
        for column in wanted.columns:
            assert found[column].to_list() == wanted[column].to_list()


def test_labels_of_every_kind_go_over_to_pandas():
    table = pd.DataFrame({"i": MOMENTS.to_list(), "j": [True, False, True], "k": pd.to_datetime(["2024-01-01"] * 3)})
    fit = plait.fit("X[i, j, k] = A[i, r] B[j, r] C[k, r]", {"X": table}, rank=1, seed=0, sweeps=2)
    answer = fit.top("X", 2)
    assert str(answer["i"].dtype).endswith("Europe/Berlin]")
    assert answer["j"].dtype == bool
    assert str(answer["k"].dtype).startswith("datetime64")
    assert fit.top("X", 0).columns.tolist() == answer.columns.tolist()
    assert len(fit.predict("X", answer[["i", "j", "k"]])) == 2


@pytest.mark.parametrize("data", [np.eye(3), scipy.sparse.eye_array(3)], ids=["array", "sparse"])
def test_what_was_no_table_is_answered_by_polars(data):
    fit = plait.fit("X[i, j] = A[i, r] B[j, r]", {"X": data}, rank=1, seed=0, sweeps=2)
    assert isinstance(fit.top("X", 2), pl.DataFrame)


def test_a_library_that_is_not_here_is_never_imported_and_polars_answers(tmp_path, monkeypatch):
    fit = plait.fit(
        "X[i, j] = A[i, r] B[j, r]", {"X": pd.DataFrame({"i": [1, 2], "j": [1, 2]})}, rank=1, seed=0, sweeps=2
    )
    fit.save(tmp_path)
    path = tmp_path / "manifest.json"
    for kind in ("antigravity", "cudf"):
        header = json.loads(path.read_text())
        header["relations"]["X"]["kind"] = kind
        path.write_text(seal(header))
        assert isinstance(plait.load(tmp_path).top("X", 1), pl.DataFrame)
    assert "antigravity" not in sys.modules


def test_a_relation_that_something_was_hidden_from_is_still_one_of_pandas():
    table = pd.DataFrame({"user": [f"u{n % 9}" for n in range(36)], "place": [f"p{n // 5}" for n in range(36)]})
    for by in ("cells", ("index", "user")):
        train, _ = plait.hide(table.drop_duplicates(), fraction=0.3, by=by, seed=0)
        fit = plait.fit("X[user, place] = U[user, r] P[place, r]", {"X": train}, rank=1, seed=0, sweeps=2)
        assert isinstance(fit.top("X", 1), pd.DataFrame)
