"""Predictions of sums of products: factors shared between terms, twice in a term, exposures of a term, given terms."""

from dataclasses import replace

import numpy as np
import pytest

import plait
from plait import Posterior
from plait.analysis.predict.moments import mean_rate, moments, rates_along
from plait.analysis.predict.prediction import columns
from plait.evaluation.scorer import alike
from tests.support.posteriors import as_points, bernoulli, misplaced
from tests.support.sum_posteriors import SUMS, sum_fit

DRAWS = 200_000
CHANCE = 4 * np.sqrt(0.05 * 0.95 / DRAWS)  # what sampling may add to the mass beyond an end


@pytest.mark.parametrize("name", SUMS)
def test_moments_of_a_sum_by_enumeration(name):
    case = sum_fit(SUMS[name], np.random.default_rng(1))
    rows = case.rows()
    mean, variance = moments(case.fit, "X", rows)
    np.testing.assert_allclose(mean_rate(case.fit, "X", rows), mean, rtol=1e-13)
    step = max(1, len(rows) // 7)
    wanted = np.array([case.moments(row) for row in rows[::step]])
    np.testing.assert_allclose(mean[::step], wanted[:, 0], rtol=1e-12)
    np.testing.assert_allclose(variance[::step], wanted[:, 1], rtol=1e-9)


@pytest.mark.parametrize("name", SUMS)
def test_rates_along_an_index_of_a_sum(name):
    case = sum_fit(SUMS[name], np.random.default_rng(2))
    rows = case.rows()[::5]
    for place, index in enumerate(case.equation.indices):
        found = rates_along(case.fit, "X", rows, index)
        for entity in range(found.shape[1]):
            cells = rows.copy()
            cells[:, place] = entity
            np.testing.assert_allclose(found[:, entity], mean_rate(case.fit, "X", cells), rtol=1e-12)


def scaled(case, mean):
    """The fit with all free factors multiplied so that terms keep their shares and cells have about this mean."""
    rates = columns(case.fit, "X", case.rows(), ("mean",))["mean"]
    by = mean / np.median(rates)
    factors = {}
    for name, old in case.fit.factors.items():
        share = max(sum(o.factor not in case.given for o in t.occurrences) for t in case.equation.terms)
        grown = by ** (1 / share)
        factors[name] = Posterior(old.indices, old.concentration, old.scale * grown, old.mean * grown, old.mean * grown)
    return replace(case, fit=replace(case.fit, factors=factors))


@pytest.mark.quick(name=["pairwise", "twice", "shared_core", "exposed_and_shared"])
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("between", [(0.05, 0.5), (0.3, 10.0)])
def test_probability_and_ends_of_a_sum_by_exact_draws(name, between):
    rng = np.random.default_rng(3)
    case = scaled(sum_fit(SUMS[name], rng, *between), rng.choice([0.5, 5.0]))
    rows = rng.permutation(case.rows())[:2]
    found, links = columns(case.fit, "X", rows), columns(bernoulli(case.fit), "X", rows)
    for n, row in enumerate(rows):
        rate = case.rates(row, DRAWS, rng)
        some, x = -np.expm1(-rate), rng.poisson(rate)
        assert abs(found["probability"][n] - some.mean()) < 0.01 + 4 * some.std() / np.sqrt(DRAWS)
        assert misplaced(found["lower"][n], 0.05, x) < 0.02 + CHANCE
        assert misplaced(found["upper"][n], 0.95, x) < 0.02 + CHANCE
        assert links["mean"][n] == found["probability"][n]
        assert links["sd"][n] == pytest.approx(some.std(), rel=0.06, abs=0.01)
        near = 1e-4 * some.mean()
        for end, level, slack in (("lower", 0.05, 0.03), ("upper", 0.95, 0.02)):
            assert (some < links[end][n] - near).mean() < level + slack + CHANCE
            assert (some <= links[end][n] + near).mean() > level - slack - CHANCE


def test_ends_of_a_sum_of_a_certain_and_an_uncertain_term():
    # λ = b (1 + A B) with b nearly certain and A, B cold: a rate is hardly ever below b, and most are close to it.
    rng = np.random.default_rng(4)
    case = sum_fit("X[i,j] = b[i] + b[i] A[i,r] B[j,r]", rng, 0.05, 0.3)
    b = case.fit.factors["b"]
    sure = Posterior(b.indices, np.full(b.mean.shape, 2e3), b.mean / 2e3, b.mean, b.mean)
    case = replace(case, fit=replace(case.fit, factors=case.fit.factors | {"b": sure}))
    rows = case.rows()[::3]
    found = columns(bernoulli(case.fit), "X", rows)
    for n, row in enumerate(rows):
        some = -np.expm1(-case.rates(row, DRAWS, rng))
        assert misplaced(found["lower"][n], 0.05, some) < 0.02
        assert misplaced(found["upper"][n], 0.95, some) < 0.02


# --- laws


def close(found, wanted, rtol):
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=rtol, atol=1e-300, err_msg=name)


BY_MOMENTS = ("mean", "sd")


@pytest.mark.parametrize(
    ("text", "second", "exact"),
    [
        ("A[i,r] B[j,r]", "C[i,s] D[j,s]", (*BY_MOMENTS, "probability", "lower", "upper")),
        ("A[i,r] B[j,r]", "c[i]", (*BY_MOMENTS, "probability", "lower", "upper")),
        ("A[i,p] G[p,q] B[j,q]", "C[i,s] D[j,s]", (*BY_MOMENTS, "probability", "lower", "upper")),
        ("A[i,p] G[p,q] B[j,q]", "C[i,s] D[j,s] e[]", (*BY_MOMENTS, "probability")),
        ("A[i,r] B[j,r]", "A[i,r] D[j,r]", BY_MOMENTS),
        ("A[i,p] G[p,q] B[j,q]", "A[i,p] D[j,p]", BY_MOMENTS),
    ],
)
def test_a_term_of_mean_0_changes_no_bit(text, second, exact):
    rng = np.random.default_rng(5)
    whole = sum_fit(f"X[i,j] = {text} + {second}", rng, 0.05, 3.0).fit
    alone = sum_fit(f"X[i,j] = {text}", rng)
    factors = {
        name: p
        if name in alone.fit.factors
        else Posterior(p.indices, p.concentration, 0 * p.scale, 0 * p.mean, 0 * p.mean)
        for name, p in whole.factors.items()
    }
    both = replace(whole, factors=factors)
    single = replace(alone.fit, factors={name: whole.factors[name] for name in alone.fit.factors})
    for kind in (lambda fit: fit, bernoulli):
        found, wanted = (columns(kind(fit), "X", alone.rows()) for fit in (both, single))
        for name in exact if kind is not bernoulli or "probability" in exact else ("rate",):
            np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


def test_a_cp_split_into_two_terms_predicts_the_same():
    rng = np.random.default_rng(6)
    one = sum_fit("X[i,j,k] = A[i,r] B[j,r] C[k,r]", rng, 0.05, 5.0, ranks={"r": 6})
    two = sum_fit("X[i,j,k] = A[i,r] B[j,r] C[k,r] + D[i,s] E[j,s] F[k,s]", rng, ranks={"r": 3, "s": 3})
    factors = {}
    for names, part in (("ABC", slice(0, 3)), ("DEF", slice(3, 6))):
        for name, old in zip(names, one.fit.factors.values()):
            cut = [array[:, part] for array in (old.concentration, old.scale, old.mean, old.exp_mean_log)]
            factors[name] = Posterior(two.fit.factors[name].indices, *cut)
    split = replace(two.fit, factors=factors)
    rows = one.rows()
    for kind in (lambda fit: fit, bernoulli):
        wanted, found = columns(kind(one.fit), "X", rows), columns(kind(split), "X", rows)
        close(found, {name: wanted[name] for name in ("mean", "sd") if kind is not bernoulli}, 1e-12)
        close(found, wanted, 1e-9)


@pytest.mark.parametrize("name", ["twice_and_biases", "exchanged", "tucker_and_cp", "exposed_and_shared", "pairwise"])
def test_a_prediction_depends_on_its_cell_alone(name):
    case = sum_fit(SUMS[name], np.random.default_rng(8), 0.05, 5.0)
    rows = case.rows()
    whole, order = columns(case.fit, "X", rows), np.random.default_rng(9).permutation(len(rows))[:7]
    for at in (order, order[:1]):
        close(columns(case.fit, "X", rows[at]), {column: values[at] for column, values in whole.items()}, 1e-10)


@pytest.mark.parametrize("name", SUMS)
def test_points_have_no_variance_in_a_sum(name):
    case = sum_fit(SUMS[name], np.random.default_rng(10))
    found = columns(as_points(case.fit), "X", case.rows())
    assert (found["sd"] == 0).all()
    np.testing.assert_allclose(found["probability"], -np.expm1(-found["mean"]), rtol=1e-12)


# --- entities


def test_an_unknown_entity_takes_the_prior_in_every_term():
    case = sum_fit(SUMS["shared"], np.random.default_rng(12))
    prior = {"A": plait.Gamma(np.full((1, 3), 2.0), np.full((1, 3), 0.7))}
    prior["B"] = plait.Gamma(np.full((1, 3), 3.0), np.full((1, 3), 0.4))
    fit = replace(case.fit, prior=prior)
    grown = {}  # the same with one more row: that of the prior
    for name, own in prior.items():
        old = fit.factors[name]
        C, E = (np.concatenate([a, b]) for a, b in ((old.concentration, own.concentration), (old.mean, own.mean)))
        grown[name] = Posterior(old.indices, C, E / C, E, E)
    more = replace(case, fit=replace(fit, factors=fit.factors | grown))
    rows = np.array([[-1, 1, 0], [2, -1, 1], [-1, -1, 1]])
    found = np.stack(moments(fit, "X", rows), axis=1)
    known = np.where(rows < 0, [4, 3, 0], rows)
    np.testing.assert_allclose(found, [more.moments(row) for row in known], rtol=1e-9)


def test_two_unknown_entities_are_two():
    case = sum_fit(SUMS["exchanged"], np.random.default_rng(13))
    prior = {name: plait.Gamma(np.full((1, 3), 2.0), np.full((1, 3), 0.7)) for name in "AB"}
    fit = replace(case.fit, prior=prior)
    _, variance = moments(fit, "X", np.array([[-1, -1]]))
    per_term = 3 * 0.7**4 * (1.5**2 - 1)
    assert variance[0] == pytest.approx(2 * per_term, rel=1e-12)


def test_alike_entities_have_equal_rows_in_all_terms():
    case = sum_fit(SUMS["pairwise"], np.random.default_rng(14))

    def with_equal_rows(names):
        factors = dict(case.fit.factors)
        for name in names:
            old = factors[name]
            rows = np.array([0, 1, 0, 3])
            arrays = [array[rows] for array in (old.concentration, old.scale, old.mean, old.exp_mean_log)]
            factors[name] = Posterior(old.indices, *arrays)
        return replace(case.fit, factors=factors)

    assert alike(with_equal_rows("A"), "X")[0].tolist() == [0, 1, 2, 3]
    assert alike(with_equal_rows("Aa"), "X")[0].tolist() == [0, 1, 0, 3]


def test_equal_entities_are_not_alike_if_a_factor_appears_twice():
    case = sum_fit(SUMS["exchanged"], np.random.default_rng(15))
    factors = {}
    for name, old in case.fit.factors.items():
        arrays = [np.repeat(a[:1], len(a), axis=0) for a in (old.concentration, old.scale, old.mean, old.exp_mean_log)]
        factors[name] = Posterior(old.indices, *arrays)
    fit = replace(case.fit, factors=factors)
    _, variance = moments(fit, "X", np.array([[0, 0], [0, 1]]))
    assert variance[0] > 1.1 * variance[1]  # A B twice, or two of the kind
    assert [of.tolist() for of in alike(fit, "X")] == [[0, 1, 2, 3]] * 2
