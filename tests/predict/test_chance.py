"""P(x > 0) and the columns of a prediction, against sampling from the posterior."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import plait
from plait.answer.predict import draws, independent, pieces, prediction
from plait.answer.predict.operands import RateTerm, RowTable
from plait.answer.predict.prediction import columns, score
from plait.run.record import Posterior
from tests.cases import make
from tests.models import MODELS
from tests.predict.posteriors import all_rows, cp_fit, rate_draws, scaled, with_posteriors

CONCENTRATIONS = (0.05, 0.2, 1.0, 10.0, None)  # None: each entry another
MEANS = (0.01, 0.1, 0.5, 2.0, 5.0)


def grid(factors, rank, rng):
    """Concentrations and means of the entries of every cell of the grid, (cells, factors, rank)."""
    C, E = [], []
    for concentration in CONCENTRATIONS:
        for mean in MEANS:
            each = np.exp(rng.uniform(np.log(0.05), np.log(10.0), (factors, rank)))
            C.append(each if concentration is None else np.full((factors, rank), concentration))
            e = np.ones((factors, rank))
            e[0] = mean * rng.dirichlet(np.ones(rank))
            E.append(e)
    return np.array(C), np.array(E)


# --- probability


@pytest.mark.parametrize("factors", [1, 2, 3, 4])
@pytest.mark.parametrize("rank", [1, 2, 10])
def test_the_probability_of_a_cp_cell_is_that_of_sampling(factors, rank):
    rng = np.random.default_rng(10 * factors + rank)
    C, E = grid(factors, rank, rng)
    fit, rows = cp_fit(factors, C, E)
    found = columns(fit, "X", rows)["probability"]
    for n in range(len(rows)):
        sampled = -np.expm1(-rng.gamma(C[n], E[n] / C[n], (20_000, factors, rank)).prod(axis=1).sum(axis=1))
        assert abs(found[n] - sampled.mean()) < 0.01 + 4 * sampled.std() / np.sqrt(20_000), (C[n], E[n])


@pytest.mark.filterwarnings("ignore::plait.RankWarning")  # what is asked is the sum of many
def test_the_probability_of_many_cold_components_is_that_of_sampling():
    rng = np.random.default_rng(7)
    C, E = np.full((3, 3, 40), 0.3), np.ones((3, 3, 40))
    E[:, 0] = np.array([0.2, 1.0, 5.0])[:, None] / 40
    fit, rows = cp_fit(3, C, E)
    found = columns(fit, "X", rows)["probability"]
    for n in range(3):
        sampled = -np.expm1(-rng.gamma(C[n], E[n] / C[n], (20_000, 3, 40)).prod(axis=1).sum(axis=1))
        assert abs(found[n] - sampled.mean()) < 0.01


GENERAL = [name for name in MODELS if not name.startswith("coupled")]


@pytest.mark.sampled(22)
@pytest.mark.parametrize("name", GENERAL)
@pytest.mark.parametrize("between", [(0.05, 0.3), (0.3, 3.0), (0.05, 10.0)])
def test_the_probability_of_every_equation_is_that_of_sampling(name, between):
    rng = np.random.default_rng(len(name))
    fit = with_posteriors(make(name).fit(sweeps=1), rng, *between)
    equation = fit.model.equations[0]
    rows = rng.permutation(all_rows(equation))[:2]
    fit = scaled(
        fit, equation.factors[0], rng.choice([0.3, 2.0]) / columns(fit, equation.relation, rows)["mean"].mean()
    )
    found = columns(fit, equation.relation, rows)["probability"]
    for n, row in enumerate(rows):
        sampled = -np.expm1(-rate_draws(fit, equation.relation, row, 10_000, rng))
        assert abs(found[n] - sampled.mean()) < 0.012 + 4 * sampled.std() / 100


def test_one_uncertain_factor_needs_no_draws_to_be_exact():
    # With A given, the rate of Tucker-2 is a sum of Gammas: P(x = 0) = Π (1 + a D)^−C.
    rng = np.random.default_rng(0)
    text = "X[i,j] = A[i,p] G[p,q] B[j,q]"
    fixed = {"A": rng.gamma(1.0, 1.0, (3, 2)), "B": rng.gamma(1.0, 1.0, (4, 2))}
    fit = plait.fit(text, {"X": rng.poisson(1.0, (3, 4))}, rank=2, fixed=fixed, sweeps=1, seed=0)
    G = Posterior(("p", "q"), np.full((2, 2), 0.1), np.full((2, 2), 5.0), np.full((2, 2), 0.5), np.full((2, 2), 0.5))
    fit = replace(fit, factors=fit.factors | {"G": G})
    rows = np.array([[0, 1], [2, 3]])
    found = columns(fit, "X", rows)["probability"]
    for n, (i, j) in enumerate(rows):
        a = np.outer(fixed["A"][i], fixed["B"][j])
        assert found[n] == pytest.approx(1 - np.prod((1 + a * 5.0) ** -0.1), abs=1e-12)


@given(
    st.lists(st.tuples(st.floats(1e-3, 1e4), st.floats(1e-4, 1e4)), min_size=1, max_size=4),
    st.floats(1e-3, 1e3),
)
@settings(max_examples=80, deadline=None)
def test_a_probability_is_between_matched_moments_and_that_of_a_certain_rate(entries, more):
    C, E = np.array([[c for c, _ in entries]]), np.array([[e for _, e in entries]])
    parts = [RowTable(str(k), np.zeros(1, np.int64), (), E[:, k], E[:, k] / C[:, k]) for k in range(len(entries))]
    m = E.prod()
    v = m**2 * (np.prod(1 + 1 / C) - 1)
    miss = independent.misses([RateTerm(parts)], 0.0)[0]
    matched = m**2 / v * np.log1p(v / m)
    assert np.exp(-m) - 1e-9 <= np.exp(-miss) <= np.exp(-matched) + 1e-9
    # A longer exposure makes a link more probable, but for the rule's rounding.
    longer = independent.misses([RateTerm(parts, np.array([1 + more]))], 0.0)[0]
    assert np.exp(-longer) <= np.exp(-miss) + 0.003


def test_a_prediction_depends_on_nothing_but_its_cell():
    for name in ("cp3", "tucker", "lone_latent"):
        fit = with_posteriors(make(name).fit(sweeps=1), np.random.default_rng(3), 0.05, 5.0)
        rows = all_rows(fit.model.equations[0])
        whole = columns(fit, "X", rows)
        order = np.random.default_rng(4).permutation(len(rows))[:7]
        part = columns(fit, "X", rows[order])
        single = columns(fit, "X", rows[order[:1]])
        for column in whole:
            np.testing.assert_allclose(part[column], whole[column][order], rtol=1e-11)
            np.testing.assert_allclose(single[column], whole[column][order[:1]], rtol=1e-11)


@pytest.mark.parametrize("name", ["cp3", "tucker"])
def test_threads_do_not_change_a_prediction(name, monkeypatch):
    fit = with_posteriors(make(name).fit(sweeps=1), np.random.default_rng(5), 0.05, 5.0)
    cells = all_rows(fit.model.equations[0])
    rows = np.tile(cells, (1 + 8_000 // len(cells), 1)) if name == "cp3" else np.tile(cells, (4, 1))
    monkeypatch.setattr(pieces, "processors", lambda: 1)
    one = columns(fit, "X", rows)
    monkeypatch.setattr(pieces, "processors", lambda: 3)
    three = columns(fit, "X", rows)
    for column in one:
        np.testing.assert_allclose(one[column], three[column], rtol=1e-12)


def test_a_long_table_is_predicted_in_blocks(monkeypatch):
    fit = make("cp3", likelihood="bernoulli").fit(sweeps=1)
    rows = all_rows(fit.model.equations[0])
    whole = columns(fit, "X", rows)
    monkeypatch.setattr(prediction, "BLOCK", 7)
    for column, values in columns(fit, "X", rows).items():
        np.testing.assert_allclose(values, whole[column], rtol=1e-13)
        assert values.dtype == whole[column].dtype


def test_strata_have_the_mean_and_nearly_the_variance_of_their_gamma():
    table = draws.strata()
    np.testing.assert_allclose(table.mean(axis=1), 1.0, rtol=1e-9)
    for C in (0.5, 4.0, 64.0):
        row = int((np.log2(C) - draws.LOWEST) * 16)
        assert table[row].var() == pytest.approx(1 / C, rel=0.03)


# --- columns


def test_em_is_certain_of_its_rate():
    fit = make("cp3").fit("em", sweeps=3)
    found = columns(fit, "X", all_rows(fit.model.equations[0]))
    assert (found["sd"] == 0).all()
    np.testing.assert_allclose(found["probability"], -np.expm1(-found["mean"]), rtol=1e-12)
    np.testing.assert_array_equal(found["high"], stats.poisson.ppf(0.95, found["mean"]))


def test_under_bernoulli_the_mean_is_the_probability_and_the_rate_is_kept():
    fit = make("cp3", likelihood="bernoulli").fit(sweeps=3)
    rows = all_rows(fit.model.equations[0])
    found = columns(fit, "X", rows)
    assert list(found) == ["mean", "sd", "probability", "low", "high", "rate"]
    np.testing.assert_array_equal(found["mean"], found["probability"])
    poisson = columns(replace(fit, likelihood={"X": "poisson"}), "X", rows)
    np.testing.assert_array_equal(found["rate"], poisson["mean"])
    assert (found["low"] < found["mean"]).all()
    assert (found["mean"] < found["high"]).all()


def test_em_is_certain_of_its_probability():
    fit = make("cp3", likelihood="bernoulli").fit("em", sweeps=3)
    found = columns(fit, "X", all_rows(fit.model.equations[0]))
    assert (found["sd"] == 0).all()
    for name in ("low", "high"):
        np.testing.assert_allclose(found[name], found["mean"], rtol=1e-12)


def test_an_exposure_of_zero_makes_a_link_impossible():
    X = np.random.default_rng(0).poisson(2.0, (3, 4)).astype(float)
    V = np.ones((3, 4))
    V[1, 2], X[1, 2] = 0.0, 0.0
    fit = plait.fit("X[i,j] = A[i,r] B[j,r] V[i,j]", {"X": X}, rank=2, fixed={"V": V}, seed=0, sweeps=2)
    found = columns(fit, "X", np.array([[1, 2], [0, 0]]))
    assert [found[name][0] for name in found] == [0, 0, 0, 0, 0]
    assert found["probability"][1] > 0


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_every_column_can_be_asked_for_alone_and_is_a_score(likelihood):
    fit = make("matrix", likelihood=likelihood).fit(sweeps=2)
    rows = all_rows(fit.model.equations[0])
    whole = columns(fit, "X", rows)
    for name in whole:
        np.testing.assert_array_equal(columns(fit, "X", rows, (name,))[name], whole[name])
        np.testing.assert_array_equal(score(fit, "X", rows, name), whole[name])
    np.testing.assert_array_equal(score(fit, "X", rows), whole["mean"])
    np.testing.assert_array_equal(score(fit, "X", rows, "rate"), whole["rate" if likelihood == "bernoulli" else "mean"])


def test_a_score_that_is_no_column_gets_a_suggestion():
    fit = make("matrix").fit(sweeps=1)
    with pytest.raises(plait.SettingError, match="Did you mean 'probability'"):
        score(fit, "X", np.zeros((1, 2), np.int64), "probabilty")


def test_no_cells_give_columns_without_entries():
    for name in ("cp3", "tucker"):
        fit = make(name).fit(sweeps=1)
        found = columns(fit, "X", np.zeros((0, 3), np.int64))
        assert {column: len(values) for column, values in found.items()} == dict.fromkeys(found, 0)
