"""plait.compare: the figures of plait.evaluate, differences unit by unit, fits that number entities differently."""

import json

import numpy as np
import polars as pl
import pytest

import plait
from plait.errors import DataError, ParameterError
from tests.support.evaluating import INDICES, MODEL, check_refused, fit_counts

OTHER = "X[i, j, k] = a[i] b[j] c[k]"


@pytest.fixture(scope="module")
def pair():
    """Two fits of the same links, and the cells that were hidden from both."""
    rng = np.random.default_rng(0)
    A, B, C = (rng.gamma(0.7, 1.0, (n, 2)) for n in (8, 7, 5))
    cells = np.argwhere(rng.poisson(np.einsum("ir,jr,kr", A, B, C)))
    table = pl.DataFrame({i: [f"{i}{n}" for n in cells[:, k]] for k, i in enumerate(INDICES)})
    counts = plait.Relation(table, likelihood="poisson")
    train, test = plait.train_test_split(counts, fraction=0.3, by="cells", seed=0)
    fits = {"CP": plait.fit(MODEL, {"X": train}, rank=2, max_iter=20, seed=0)}
    return fits | {"popularity": plait.fit(OTHER, {"X": train}, max_iter=20, seed=0)}, test


OPTIONS = {"target": True, "k": (1, 3), "negatives": 2, "seed": 3}


def test_figures_are_those_of_evaluate(pair):
    fits, test = pair
    found = plait.compare(fits, "X", test, **OPTIONS)
    assert list(found) == ["CP", "popularity"]
    for name, fit in fits.items():
        alone = plait.evaluate(fit, "X", test, **OPTIONS)
        assert dict(found[name]) == pytest.approx(dict(alone))
        assert dict(found[name].errors) == pytest.approx(dict(alone.errors))
        assert found[name].notes == alone.notes


def test_differences_are_those_of_the_figures_and_their_errors_are_paired(pair):
    fits, test = pair
    found = plait.compare(fits, "X", test, **OPTIONS)
    for figure, difference in found.differences["popularity"].items():
        assert difference.value == found["popularity"][figure] - found["CP"][figure]
        apart = np.hypot(found["popularity"].errors[figure], found["CP"].errors[figure])
        assert difference.error <= np.sqrt(2) * apart
    link = (test["value"] > 0).to_numpy()
    p, q = (fit.predict("X", test.drop("value"))["probability"].to_numpy() for fit in fits.values())
    by_cell = (q - link) ** 2 - (p - link) ** 2
    assert found.differences["popularity"]["brier"].error == pytest.approx(by_cell.std(ddof=1) / np.sqrt(len(link)))


def test_a_fit_does_not_differ_from_itself(pair):
    fits, test = pair
    found = plait.compare({"one": fits["CP"], "two": fits["CP"]}, "X", test, **OPTIONS)
    assert all(difference == (0, 0) for difference in found.differences["two"].values())


def test_fits_may_number_their_entities_differently(pair):
    fits, test = pair
    names = {i: fits["CP"].entities[i].names.to_list() for i in INDICES}
    shuffled = {i: np.random.default_rng(1).permutation(own).tolist() for i, own in names.items()}
    more = {i: [*own, f"{i} more"] for i, own in shuffled.items()}
    cells = fits["CP"].known["X"].cells
    table = pl.DataFrame({i: [names[i][n] for n in cells[:, k]] for k, i in enumerate(INDICES)})
    other = plait.fit(OTHER, {"X": plait.Relation(table, likelihood="poisson")}, max_iter=20, seed=0, entities=more)
    assert other.entities["i"].names.to_list() != names["i"]
    one = plait.compare({"CP": fits["CP"], "other": other}, "X", test, **OPTIONS)
    two = plait.compare({"other": other, "CP": fits["CP"]}, "X", test, **OPTIONS)
    assert dict(one["CP"]) == pytest.approx(dict(plait.evaluate(fits["CP"], "X", test, **OPTIONS)))
    for figure, difference in one.differences["other"].items():
        assert (-two.differences["CP"][figure].value, two.differences["CP"][figure].error) == pytest.approx(difference)
    mean = other.predict("X", test.drop("value"))["mean"].to_numpy()
    assert one["other"]["mae"] == pytest.approx(np.abs(mean - test["value"].to_numpy()).mean())
    assert one["other"]["mean_rank"] == pytest.approx(two["other"]["mean_rank"])


def test_fits_that_know_other_entities_are_refused(pair):
    fits, _ = pair
    table = pl.DataFrame({"i": ["i0", "i1"], "j": ["j0", "j1"], "k": ["k0", "k1"]})
    counts = plait.Relation(table, likelihood="poisson")
    small = plait.fit(OTHER, {"X": counts}, max_iter=2, seed=0, entities={"i": ["i0", "i1", "else"]})
    check_refused(
        DataError,
        lambda: plait.compare({"CP": fits["CP"], "small": small}, "X", table),
        "'CP' lacks 1 of 3 entities of i", "'else'", "`entities={'i': …}`",
    )  # fmt: skip


def test_what_one_fit_knows_is_no_rival_for_the_others():
    labels = {"h": [0, 1], "t": [0, 1, 2]}
    rates = {"A": np.eye(2), "B": np.array([[9.0, 5, 1], [1, 1, 1]]).T.copy()}

    def fitted(*cells):
        table = pl.DataFrame(cells, schema=["h", "t"], orient="row")
        data = {"R": plait.Relation(table, unseen="zero")}
        return plait.fit("R[h, t] = A[h, r] B[t, r]", data, rank=2, fixed=rates, entities=labels, seed=0)

    test = pl.DataFrame({"h": [0], "t": [1]})
    alone, knowing = fitted((1, 1), (0, 2)), fitted((0, 0), (1, 1))
    assert plait.evaluate(alone, "R", test, target="t")["mean_rank"] == 2
    found = plait.compare({"alone": alone, "knowing": knowing}, "R", test, target="t")
    assert found["alone"]["mean_rank"] == found["knowing"]["mean_rank"] == 1


def test_a_figure_that_one_fit_lacks_has_no_difference():
    labels = {"h": [0, 1], "t": [0, 1]}
    data = {"R": plait.Relation(pl.DataFrame({"h": [0, 1], "t": [0, 0]}), unseen="zero")}
    rates = {"sure": np.array([[1.0, 0], [1, 1]]), "unsure": np.array([[1.0, 1], [1, 1]])}
    given = {name: {"A": np.eye(2), "B": own.T.copy()} for name, own in rates.items()}
    text = "R[h, t] = A[h, r] B[t, r]"
    fits = {name: plait.fit(text, data, rank=2, fixed=own, entities=labels, seed=0) for name, own in given.items()}
    found = plait.compare(fits, "R", pl.DataFrame({"h": [0, 1], "t": [1, 1], "value": [1, 0]}))
    assert "log_likelihood" not in found.differences["unsure"]
    line = next(line for line in str(found).split("\n") if line.startswith("log_likelihood "))
    assert line.split()[1] == "–"
    assert "sure: no log_likelihood: 1 test cell has a predicted probability of 0" in found.notes


def test_a_comparison_prints_as_a_table_and_is_plain_for_json(pair):
    fits, test = pair
    found = plait.compare(fits, "X", test, against="popularity", target="j")
    difference = found.differences["CP"]["roc_auc"]
    lines = str(found).split("\n")
    assert lines[1].split() == ["popularity", "CP", "difference"]
    assert [line.split()[0] for line in lines[3 : 3 + len(found["CP"])]] == list(found["CP"])
    for shown in (lines[3], found._repr_html_()):
        assert f"{difference.value:+.4f}" in shown
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["against"] == "popularity"
    assert plain["fits"]["CP"] == found["CP"].to_dict()
    assert plain["differences"]["CP"]["roc_auc"] == {"difference": difference.value, "error": difference.error}
    row = found.table.filter(fit="CP", figure="roc_auc").row(0, named=True)
    assert (row["difference"], row["difference_error"]) == difference
    assert found.table.filter(fit="popularity")["difference"].null_count() == len(found["popularity"])


def test_links_that_a_fit_knows_are_warned_of_with_its_name(pair):
    fits, _ = pair
    seen = pl.DataFrame({i: [fits["CP"].entities[i][int(n)]] for i, n in zip(INDICES, fits["CP"].known["X"].cells[0])})
    with pytest.warns(
        plait.errors.LeakWarning, match=r"X: CP: 1 of 1 test links? is in the training data.*; popularity: 1 of 1"
    ):
        plait.compare(fits, "X", seen)


def test_what_cannot_be_compared_is_refused(pair):
    fits, test = pair
    two = "`fits` must be a dict of at least two fits"
    check_refused(ParameterError, lambda: plait.compare({"CP": fits["CP"]}, "X", test), two, "got 1")
    check_refused(ParameterError, lambda: plait.compare(list(fits.values()), "X", test), two, "got list")
    check_refused(ParameterError, lambda: plait.compare(fits, "X", test, against="CPP"), "'CPP'", "Did you mean 'CP'")
    binary = {"binary": fit_counts("bernoulli")[0]}
    check_refused(ParameterError, lambda: plait.compare(fits | binary, "X", test), "poisson, in 'CP'", "in 'binary'")
