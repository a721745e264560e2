"""`fit.top` compared with all cells: equations, given indices, exposures, scores; kinds of tables; wrong arguments."""

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
from plait.errors import DataError, ModelError, ParameterError
from plait.executors import Reference
from tests.support import problems
from tests.support.every_cell import all_rates, check, subsets
from tests.support.manifests import seal
from tests.support.models import EXPOSED, MODELS, ONLY_EXPOSED, SIZES
from tests.support.searching import TABLES, exposed, predicted, random_exposure

# --- equations


@pytest.mark.quick(name=["matrix", "cp3", "tucker", "bias"])
@pytest.mark.parametrize(("name", "exposed"), [*((n, False) for n in MODELS), *((n, True) for n in EXPOSED)])
def test_best_cells_of_every_equation_for_any_given_indices(name, exposed, boxes):
    fit = problems.make(name, exposed=exposed).fit(max_iter=1, executor=Reference())
    for relation in fit.model.relations:
        scores = all_rates(fit, relation)
        for n, fixed in enumerate(subsets(fit.model.equation(relation).indices)):
            check(fit, relation, 4, fixed, known=(n + (boxes == "rows")) % 2 == 0, scores=scores)


@pytest.mark.parametrize("name", MODELS)
def test_best_cells_of_a_tiny_relation(name):
    fit = problems.make(name).fit("em", max_iter=1, executor=Reference())
    for relation in fit.model.relations:
        for known in (True, False):
            check(fit, relation, 5, {}, known=known)


# --- exposures


@pytest.mark.quick(kind=["zeros"])
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
@pytest.mark.filterwarnings("ignore::plait.errors.NoLinksWarning")  # an exposure of 0 leaves none
def test_exposures_above_and_below_their_default(kind, text, boxes):
    rng, model = np.random.default_rng(1), plait.Model(text)
    over = {name: model.factor(name).indices for name in ("V", "W") if name in model.factors}
    fit = exposed(text, {name: random_exposure(rng, indices, *TABLES[kind]) for name, indices in over.items()})
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
    table = fit.top("X", 100, include_known=True)
    assert len(table) == 10
    assert set(table["j"]) == {1, 3}
    with pytest.warns(plait.errors.NoCandidatesWarning, match="all requested cells are excluded by an exposure of 0"):
        assert len(fit.top("X", given={"j": 2})) == 0


# --- scores


@pytest.mark.quick(name=["matrix", "cp3", "tucker", "bias"])
@pytest.mark.parametrize("name", ["matrix", "cp3", "tucker", "two_visible", "bias"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_ranking_by_mean_rate_or_probability(name, likelihood, boxes):
    fit = problems.make(name, likelihood=likelihood).fit(max_iter=2, executor=Reference())
    for score in ("mean", "probability", "rate"):
        scores = predicted(fit, "X", score)
        for fixed in itertools.islice(subsets(fit.model.equation("X").indices), 4):
            check(fit, "X", 5, fixed, scores=scores, score=score)


def test_probabilities_under_an_exposure():
    V = random_exposure(np.random.default_rng(4), "ij", 0.05, [1.0])
    fit = exposed("X[i,j,k] = A[i,r] B[j,r] C[k,r] V[i,j]", {"V": V}, likelihood="bernoulli")
    check(fit, "X", 7, {}, scores=predicted(fit, "X", "mean"))


# --- answers and arguments


@pytest.fixture(scope="module")
def visits():
    """Visits of named users; two of six cells are links."""
    table = pl.DataFrame({"user": ["ann", "bob"], "place": ["zoo", "bar"], "value": [3.0, 1.0]})
    labels = {"user": ["ann", "bob", "eve"]}
    return plait.fit(
        "visits[user, place] = U[user, r] P[place, r]", {"visits": table}, rank=1, entities=labels, max_iter=5, seed=0
    )


def test_top_has_the_columns_of_predict_and_the_best_first(visits):
    table = visits.top("visits", 3)
    assert isinstance(table, pl.DataFrame)
    assert table.columns == ["user", "place", "mean", "sd", "probability", "lower", "upper"]
    assert table["mean"].is_sorted(descending=True)
    assert table.equals(visits.predict("visits", table.select("user", "place")))


def test_fewer_rows_if_fewer_cells_are_left(visits):
    known, empty = {"user": "ann", "place": "zoo"}, visits.top("visits", 0)
    assert (len(empty), empty.schema) == (0, visits.top("visits", 1).schema)
    assert len(visits.top("visits", 100)) == 4
    assert len(visits.top("visits", 100, include_known=True)) == 6
    assert visits.top("visits", 100, given={"user": "ann"})["place"].to_list() == ["bar"]
    cell = {"place": "zoo", "user": "eve"}
    assert visits.top("visits", 5, given=cell).select("user", "place").rows() == [("eve", "zoo")]
    assert visits.top("visits", 5, given=known).equals(empty)
    assert len(visits.top("visits", 5, given=known, include_known=True)) == 1


@pytest.mark.parametrize(
    "users", [["eve", "ann", "eve"], ("ann", "eve"), pl.Series(["ann", "eve"]), np.array(["eve", "ann"])]
)
def test_several_names_to_choose_among(visits, users):
    table = visits.top("visits", 10, given={"user": users})
    assert sorted(table.select("user", "place").rows()) == [("ann", "bar"), ("eve", "bar"), ("eve", "zoo")]
    assert len(visits.top("visits", 10, given={"user": ["eve"]})) == 2
    assert len(visits.top("visits", 10, given={"user": []})) == 0


def test_some_names_of_several_indices_under_an_exposure(boxes):
    V = random_exposure(np.random.default_rng(7), "ij", 0.5, [0.0, 2.0], share=0.5)
    fit = exposed("X[i,j,k] = A[i,r] B[j,r] C[k,r] V[i,j]", {"V": V})
    table = fit.top("X", 4, given={"i": [4, 1, 2], "j": [0, 3]}, include_known=True)
    rates = all_rates(fit, "X")[np.ix_([1, 2, 4], [0, 3])]
    np.testing.assert_allclose(table["mean"].to_numpy(), np.sort(rates[rates > 0])[::-1][:4], rtol=1e-9)
    assert set(table["i"]) <= {1, 2, 4}
    assert set(table["j"]) <= {0, 3}


MISTAKES = {
    "k below 0": ({"k": -1}, ParameterError, "`k` must be an integer of at least 0, got -1"),
    "k no number": ({"k": "ten"}, ParameterError, "got 'ten'"),
    "k a fraction": ({"k": 2.5}, ParameterError, "got 2.5"),
    "k a truth": ({"k": True}, ParameterError, "got True"),
    "score": ({"score": "probabilty"}, ParameterError, "`score` must .*'probabilty'.\nDid you mean 'probability'"),
    "score of predict": ({"score": "sd"}, ParameterError, "`score` must be one of 'mean', .* 'sd'.$"),
    "index": ({"given": {"usr": "ann"}}, ParameterError, "`given`: 'usr' .*\nDid you mean 'user'"),
    "no dict": ({"given": "ann"}, ParameterError, "`given` must be a dict .* got str.\nGive"),
    "name": ({"given": {"place": "zo"}}, DataError, "index 'place': 'zo' .*\nDid you mean 'zoo'"),
    "name among others": ({"given": {"user": ["ann", "ed"]}}, DataError, "index 'user': 'ed' .*'ann', 'bob', 'eve'.\n"),
    "kind of name": ({"given": {"user": 3}}, DataError, "index 'user': .* integers, .* strings"),
    "relation": ({"relation": "visit"}, ModelError, "visit"),
}


@pytest.mark.parametrize(("options", "error", "message"), MISTAKES.values(), ids=MISTAKES)
def test_wrong_arguments_are_named(visits, options, error, message):
    with pytest.raises(error, match=message):
        visits.top(**{"relation": "visits"} | options)


# --- the kind of table


MOMENTS = pl.Series(["2024-01-01T10:00", "2024-03-01T11:00", "2024-03-02T11:00"]).str.to_datetime(
    time_zone="Europe/Berlin"
)


@pytest.mark.parametrize("kind", [pd.DataFrame, pa.table, pl.DataFrame])
def test_the_answer_is_the_kind_of_table_that_came_in_also_after_saving(kind, tmp_path):
    columns = {"user": ["ann", "bob", "cem"], "day": [1, 2, 2]}
    data = {"X": kind(columns)}
    fit = plait.fit("X[user, day] = U[user, r] D[day, r]", data, rank=1, seed=0, max_iter=3)
    fit.save(tmp_path / "run")
    own = pl.DataFrame(columns)
    wanted = plait.fit("X[user, day] = U[user, r] D[day, r]", {"X": own}, rank=1, seed=0, max_iter=3).top("X", 3)
    for one in (fit, plait.load(tmp_path / "run")):
        answer = one.top("X", 3)
        assert isinstance(answer, type(data["X"]))
        found = (
            answer if kind is pl.DataFrame else pl.DataFrame({c: list(np.asarray(answer[c])) for c in wanted.columns})
        )
        assert found.columns == wanted.columns
        for column in wanted.columns:
            assert found[column].to_list() == wanted[column].to_list()


def test_labels_keep_their_types_in_pandas():
    table = pd.DataFrame({"i": MOMENTS.to_list(), "j": [True, False, True], "k": pd.to_datetime(["2024-01-01"] * 3)})
    fit = plait.fit("X[i, j, k] = A[i, r] B[j, r] C[k, r]", {"X": table}, rank=1, seed=0, max_iter=2)
    answer = fit.top("X", 2)
    assert str(answer["i"].dtype).endswith("Europe/Berlin]")
    assert answer["j"].dtype == bool
    assert str(answer["k"].dtype).startswith("datetime64")
    assert fit.top("X", 0).columns.tolist() == answer.columns.tolist()
    assert len(fit.predict("X", answer[["i", "j", "k"]])) == 2


@pytest.mark.parametrize("data", [np.eye(3), scipy.sparse.eye_array(3)], ids=["array", "sparse"])
def test_arrays_are_answered_by_polars_and_splits_of_pandas_by_pandas(data):
    fit = plait.fit("X[i, j] = A[i, r] B[j, r]", {"X": data}, rank=1, seed=0, max_iter=2)
    assert isinstance(fit.top("X", 2), pl.DataFrame)
    table = pd.DataFrame({"i": [f"u{n % 9}" for n in range(36)], "j": [f"p{n // 5}" for n in range(36)]})
    for by in ("cells", ("index", "i")):
        train, _ = plait.train_test_split(table.drop_duplicates(), fraction=0.3, by=by, seed=0)
        assert isinstance(plait.fit(fit.model, {"X": train}, rank=1, seed=0, max_iter=2).top("X", 1), pd.DataFrame)


def test_a_library_named_in_a_run_is_not_imported(tmp_path):
    fit = plait.fit(
        "X[i, j] = A[i, r] B[j, r]", {"X": pd.DataFrame({"i": [1, 2], "j": [1, 2]})}, rank=1, seed=0, max_iter=2
    )
    fit.save(tmp_path)
    path = tmp_path / "manifest.json"
    for kind in ("antigravity", "cudf"):
        header = json.loads(path.read_text())
        header["relations"]["X"]["kind"] = kind
        path.write_text(seal(header))
        assert isinstance(plait.load(tmp_path).top("X", 1), pl.DataFrame)
    assert "antigravity" not in sys.modules
