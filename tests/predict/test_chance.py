"""P(x > 0) and the columns of a prediction, against sampling from the posterior."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import plait
from plait import Posterior
from plait.analysis.predict.prediction import columns, score
from tests.support.models import MODELS
from tests.support.posteriors import all_rows, cp_fit, cp_rates, scaled, with_posteriors
from tests.support.problems import make
from tests.support.sum_posteriors import Rates

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
def test_probability_of_a_cp_cell(factors, rank):
    rng = np.random.default_rng(10 * factors + rank)
    C, E = grid(factors, rank, rng)
    fit, rows = cp_fit(factors, C, E)
    found = columns(fit, "X", rows)["probability"]
    for n in range(len(rows)):
        sampled = -np.expm1(-cp_rates(C[n], E[n], 20_000, rng))
        assert abs(found[n] - sampled.mean()) < 0.01 + 4 * sampled.std() / np.sqrt(20_000), (C[n], E[n])


@pytest.mark.filterwarnings("ignore::plait.errors.RankWarning")  # what is asked is the sum of many
def test_probability_of_many_cold_components():
    rng = np.random.default_rng(7)
    C, E = np.full((3, 3, 40), 0.3), np.ones((3, 3, 40))
    E[:, 0] = np.array([0.2, 1.0, 5.0])[:, None] / 40
    fit, rows = cp_fit(3, C, E)
    found = columns(fit, "X", rows)["probability"]
    for n in range(3):
        assert abs(found[n] + np.expm1(-cp_rates(C[n], E[n], 20_000, rng)).mean()) < 0.01


GENERAL = [name for name in MODELS if not name.startswith("coupled")]


@pytest.mark.quick(name=["cp3", "tucker", "no_index"])
@pytest.mark.parametrize("name", GENERAL)
@pytest.mark.parametrize("between", [(0.05, 0.3), (0.3, 3.0), (0.05, 10.0)])
def test_probability_of_every_equation(name, between):
    rng = np.random.default_rng(len(name))
    fit = with_posteriors(make(name).fit(max_iter=1), rng, *between)
    equation = fit.model.equations[0]
    rows = rng.permutation(all_rows(equation))[:2]
    fit = scaled(
        fit, equation.factors[0], rng.choice([0.3, 2.0]) / columns(fit, equation.relation, rows)["mean"].mean()
    )
    found = columns(fit, equation.relation, rows)["probability"]
    for n, row in enumerate(rows):
        sampled = -np.expm1(-Rates(fit, relation=equation.relation).rates(row, 10_000, rng))
        assert abs(found[n] - sampled.mean()) < 0.012 + 4 * sampled.std() / 100


def test_probability_is_exact_if_one_factor_is_uncertain():
    # With A given, the rate of Tucker-2 is a sum of Gammas: P(x = 0) = Π (1 + a D)^−C.
    rng = np.random.default_rng(0)
    text = "X[i,j] = A[i,p] G[p,q] B[j,q]"
    fixed = {"A": rng.gamma(1.0, 1.0, (3, 2)), "B": rng.gamma(1.0, 1.0, (4, 2))}
    fit = plait.fit(text, {"X": rng.poisson(1.0, (3, 4))}, rank=2, fixed=fixed, max_iter=1, seed=0)
    G = Posterior(("p", "q"), np.full((2, 2), 0.1), np.full((2, 2), 5.0), np.full((2, 2), 0.5), np.full((2, 2), 0.5))
    fit = replace(fit, factors=fit.factors | {"G": G})
    rows = np.array([[0, 1], [2, 3]])
    found = columns(fit, "X", rows)["probability"]
    for n, (i, j) in enumerate(rows):
        a = np.outer(fixed["A"][i], fixed["B"][j])
        assert found[n] == pytest.approx(1 - np.prod((1 + a * 5.0) ** -0.1), abs=1e-12)


def test_a_prediction_depends_on_its_cell_alone():
    for name in ("cp3", "tucker", "lone_latent"):
        fit = with_posteriors(make(name).fit(max_iter=1), np.random.default_rng(3), 0.05, 5.0)
        rows = all_rows(fit.model.equations[0])
        whole = columns(fit, "X", rows)
        order = np.random.default_rng(4).permutation(len(rows))[:7]
        part = columns(fit, "X", rows[order])
        single = columns(fit, "X", rows[order[:1]])
        for column in whole:
            np.testing.assert_allclose(part[column], whole[column][order], rtol=1e-11)
            np.testing.assert_allclose(single[column], whole[column][order[:1]], rtol=1e-11)


@pytest.mark.parametrize("name", ["cp3", "tucker"])
def test_blocks_and_threads_change_no_prediction(name, tuning):
    fit = with_posteriors(make(name, likelihood="bernoulli").fit(max_iter=1), np.random.default_rng(5), 0.05, 5.0)
    cells = all_rows(fit.model.equations[0])
    rows = np.tile(cells, (1 + 8_000 // len(cells), 1)) if name == "cp3" else np.tile(cells, (4, 1))
    found = []
    for processors, block in ((1, len(rows)), (3, len(rows)), (1, len(rows) // 7)):
        tuning(processors=processors, predict_cells=block)
        found.append(columns(fit, "X", rows))
    for other in found[1:]:
        for column, values in found[0].items():
            np.testing.assert_allclose(other[column], values, rtol=1e-12)
            assert other[column].dtype == values.dtype


# --- columns


def test_em_is_certain():
    for likelihood in ("poisson", "bernoulli"):
        fit = make("cp3", likelihood=likelihood).fit("em", max_iter=3)
        found = columns(fit, "X", all_rows(fit.model.equations[0]))
        assert (found["sd"] == 0).all()
        if likelihood == "poisson":
            np.testing.assert_allclose(found["probability"], -np.expm1(-found["mean"]), rtol=1e-12)
            np.testing.assert_array_equal(found["upper"], stats.poisson.ppf(0.95, found["mean"]))
        else:
            for name in ("lower", "upper"):
                np.testing.assert_allclose(found[name], found["mean"], rtol=1e-12)


def test_under_bernoulli_the_mean_is_the_probability():
    fit = make("cp3", likelihood="bernoulli").fit(max_iter=3)
    rows = all_rows(fit.model.equations[0])
    found = columns(fit, "X", rows)
    assert list(found) == ["mean", "sd", "probability", "lower", "upper", "rate"]
    np.testing.assert_array_equal(found["mean"], found["probability"])
    poisson = columns(replace(fit, likelihood={"X": "poisson"}), "X", rows)
    np.testing.assert_array_equal(found["rate"], poisson["mean"])
    assert (found["lower"] < found["mean"]).all()
    assert (found["mean"] < found["upper"]).all()


def test_an_exposure_of_zero_makes_a_link_impossible():
    X = np.random.default_rng(0).poisson(2.0, (3, 4)).astype(float)
    V = np.ones((3, 4))
    V[1, 2], X[1, 2] = 0.0, 0.0
    fit = plait.fit("X[i,j] = A[i,r] B[j,r] V[i,j]", {"X": X}, rank=2, fixed={"V": V}, seed=0, max_iter=2)
    found = columns(fit, "X", np.array([[1, 2], [0, 0]]))
    assert [found[name][0] for name in found] == [0, 0, 0, 0, 0]
    assert found["probability"][1] > 0


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_every_column_alone_is_a_score(likelihood):
    fit = make("matrix", likelihood=likelihood).fit(max_iter=2)
    rows = all_rows(fit.model.equations[0])
    whole = columns(fit, "X", rows)
    for name, values in whole.items():
        np.testing.assert_array_equal(columns(fit, "X", rows, (name,))[name], values)
        np.testing.assert_array_equal(score(fit, "X", rows, name), values)
        assert columns(fit, "X", rows[:0])[name].shape == (0,)
    np.testing.assert_array_equal(score(fit, "X", rows), whole["mean"])
    np.testing.assert_array_equal(score(fit, "X", rows, "rate"), whole["rate" if likelihood == "bernoulli" else "mean"])
    with pytest.raises(plait.errors.ParameterError, match="Did you mean 'probability'"):
        score(fit, "X", rows, "probabilty")
