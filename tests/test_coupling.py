"""`Fit.coupling`: what each relation contributes to each component equals a dense sum over all settings."""

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.problems import make
from tests.support.sums import SUMS, sum_fit

MODELS = ("cp3", "tucker", "coupled_paper", "coupled_scalar", "two_visible", "tucker2")


def responsibilities(fit, equation):
    """Of every known link, the share of each setting of all latent indices: an array (links, sizes), and Xhat_L."""
    cells, latent = fit.known[equation.relation].cells, [i for i in fit.rank if i in equation.latent]
    found = []
    for cell in cells:
        at = dict(zip(equation.indices, cell))
        product = np.ones([fit.rank[i] for i in latent])
        for occurrence in equation.occurrences:
            if occurrence.factor not in fit.factors:
                continue
            L = fit.factors[occurrence.factor].exp_mean_log
            L = L[tuple(at.get(index, slice(None)) for index in occurrence.indices)]
            own = [index for index in occurrence.indices if index not in at]
            L = np.transpose(L, np.argsort([latent.index(index) for index in own]))
            product = product * L.reshape([fit.rank[i] if i in own else 1 for i in latent])
        found.append(product)
    products = np.array(found)
    totals = products.reshape(len(cells), -1).sum(axis=1)
    return products / totals.reshape(-1, *[1] * len(latent)), totals, latent


def dense(fit, equation):
    """By latent index, counts and variances."""
    p, rate, latent = responsibilities(fit, equation)
    known = fit.known[equation.relation]
    exposure = fit.exposures.at(equation.relation, 0, known.cells)
    rate = rate * (1.0 if exposure is None else exposure)
    if fit.likelihood[equation.relation] == "poisson":
        mean, variance = known.values, np.zeros(len(known))
    else:  # n given n ≥ 1
        n = np.arange(1, 200)[:, None]
        chance = np.exp(n * np.log(rate) - np.cumsum(np.log(n), axis=0))
        chance = chance / chance.sum(axis=0)
        mean = (n * chance).sum(axis=0)
        variance = (n**2 * chance).sum(axis=0) - mean**2
    found = {}
    for axis, index in enumerate(latent):
        q = p.sum(axis=tuple(a + 1 for a in range(len(latent)) if a != axis))
        M = known.weights[:, None]
        counts, spread = M * mean[:, None] * q, M * (mean[:, None] * q * (1 - q) + variance[:, None] * q**2)
        found[index] = counts.sum(axis=0), spread.sum(axis=0)
    return found


@pytest.mark.quick(name=["cp3", "coupled_paper"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("name", MODELS)
def test_coupling_equals_a_dense_sum_over_all_settings(name, likelihood, tuning):
    tuning(coupling_chunk=7)  # several pieces
    case = make(name, "missing_cells", likelihood, exposed=name == "cp3")
    fit = case.fit(max_iter=5)
    table = fit.coupling()
    assert table.columns[:5] == ["component", "relation", "counts", "share", "sd"]
    rows = 0
    for equation in fit.model.equations:
        for index, (counts, variances) in dense(fit, equation).items():
            part = table.filter(pl.col("relation") == equation.relation, pl.col("index") == index)
            assert part["component"].to_list() == list(range(fit.rank[index]))
            np.testing.assert_allclose(part["counts"], counts, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(part["share"], counts / counts.sum(), rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(part["sd"], np.sqrt(variances), rtol=1e-6, atol=1e-7)
            rows += len(part)
    assert rows == len(table)


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_a_factor_that_stands_twice_has_one_row_for_each_component(likelihood, tuning):
    tuning(coupling_chunk=7)
    fit = make("rescal", "missing_cells", likelihood).fit(max_iter=5)
    (equation,), known, rank = fit.model.equations, fit.known["X"], fit.rank["a"]
    p, rate, latent = responsibilities(fit, equation)
    assert latent == ["a", "b"]
    n = np.arange(1, 200)[:, None]
    chance = np.exp(n * np.log(rate) - np.cumsum(np.log(n), axis=0))
    chance /= chance.sum(axis=0)
    mean, square = (n * chance).sum(axis=0), (n**2 * chance).sum(axis=0)
    if likelihood == "poisson":
        mean, square = known.values, known.values**2
    counts, variances = np.zeros(rank), np.zeros(rank)
    for k in range(rank):
        held = np.array([[((a == k) + (b == k)) / 2 for b in range(rank)] for a in range(rank)])  # of one count
        first, second = (p * held).sum(axis=(1, 2)), (p * held**2).sum(axis=(1, 2))
        counts[k] = known.weights @ (mean * first)
        variances[k] = known.weights @ (mean * (second - first**2) + (square - mean**2) * first**2)
    table = fit.coupling()
    assert table.select("component", "relation", "index").rows() == [(k, "X", "a") for k in range(rank)]
    np.testing.assert_allclose(table["counts"], counts, rtol=1e-9)
    np.testing.assert_allclose(table["share"], counts / counts.sum(), rtol=1e-9)
    np.testing.assert_allclose(table["sd"], np.sqrt(variances), rtol=1e-6)
    np.testing.assert_allclose(table["share"].sum(), 1.0)
    own = fit.components(top=1).filter(pl.col("factor") == "A")
    assert own["share_X"].to_list() == table["share"].to_list()


def test_counts_of_a_relation_add_up_to_its_weighted_links():
    X, Y = np.ones((6, 5)), np.full((6, 4), 3.0)
    fit = plait.fit(
        "X[i,j] = A[i,r] B[j,r]; Y[i,k] = A[i,r] C[k,r]", rank=3, seed=0, max_iter=20,
        data={"X": plait.Relation(X, likelihood="poisson"), "Y": plait.Relation(Y, weight=0.25, likelihood="poisson")},
    )  # fmt: skip
    totals = dict(fit.coupling().group_by("relation").agg(pl.col("counts").sum()).iter_rows())
    assert totals["X"] == pytest.approx(30.0)
    assert totals["Y"] == pytest.approx(18.0)


@pytest.mark.filterwarnings("ignore::plait.errors.BelowBaselineWarning")
def test_an_ensemble_shows_its_best_member():
    X = np.random.default_rng(0).poisson(1.0, (8, 7))
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=2, seed=0, max_iter=5, restarts=2)
    best = max(fit.members, key=lambda member: member.objective)
    assert fit.coupling().equals(best.coupling())


def test_parts_of_a_component_add_up_to_1():
    fit = make("coupled_paper").fit(max_iter=5)
    table = fit.coupling()
    assert table.columns[-2:] == ["part", "kind"]
    for component in range(fit.rank["r"]):
        own = table.filter(pl.col("component") == component)
        np.testing.assert_allclose(own["part"], own["share"] / own["share"].sum(), rtol=1e-12)


def test_a_component_of_one_relation_is_private():
    blocks = np.kron(np.eye(2), np.ones((5, 6))) * 4.0
    X, Y = np.zeros((15, 12)), np.zeros((15, 6))
    X[:10], Y[:5] = blocks, 4.0  # the first five of i are in X and in Y, the next in X alone, the last in Y alone
    Y[10:, 3:] = 4.0
    Y[:5, 3:] = 0.0
    model = "X[i,j] = A[i,r] B[j,r]; Y[i,k] = A[i,r] C[k,r]"
    table = plait.fit(model, {"X": X, "Y": Y}, rank=3, seed=0, max_iter=200).coupling()
    kinds = {}
    for component in range(3):
        own = table.filter(pl.col("component") == component)
        fed = own.filter(pl.col("part") > 0.05)["relation"].to_list()
        kinds[tuple(fed)] = own["kind"].unique().to_list()
    assert kinds == {("X", "Y"): ["shared"], ("X",): ["private"], ("Y",): ["private"]}


def test_terms_without_components_or_common_factors():
    table = sum_fit("same_latent").coupling()
    assert (table["part"] == 1).all()
    assert (table["kind"] == "private").all()
    alone = sum_fit("broadcast").coupling().filter(pl.col("component").is_null())
    assert len(alone) == 2
    assert alone["part"].is_null().all()
    assert alone["kind"].is_null().all()
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]; Y[i] = a[i]", {"X": np.ones((4, 4)), "Y": np.ones(4)}, rank=2, max_iter=3)
    assert fit.coupling()["relation"].unique().to_list() == ["X"]


def test_two_indices_of_one_factor_share_the_part_of_a_component():
    table = make("rescal").fit(max_iter=5).coupling()
    parts = table.group_by("component").agg(pl.col("part").sum())["part"]
    np.testing.assert_allclose(parts, 1.0)


@pytest.mark.quick(name=["tucker", "pairwise", "coupled", "evidence"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("name", SUMS)
def test_components_of_a_sum_have_the_allocated_counts(name, likelihood):
    fit = sum_fit(name, likelihood=likelihood)
    table = fit.coupling()
    for equation in fit.model.equations:
        known, names = fit.known[equation.relation], {}
        for n, index in enumerate(equation.indices):
            names[index] = [fit.entities[index][row] for row in known.cells[:, n].tolist()]
        allocated = fit.responsibilities(equation.relation, pl.DataFrame(names))
        here = table.filter(pl.col("relation") == equation.relation)
        assert set(here["term"]) == {" ".join(term.factors) for term in equation.terms}
        for component, _, counts, share, _, index, term, _, _ in here.iter_rows():
            assert (component is None) == (index is None)
            own = allocated.filter(pl.col("term") == term)
            # A component of a factor that stands twice counts half in each place (docs/math.md, section 9).
            places = [i for i in equation.latent if i in own.columns and fit.model.axis(i) == index] if index else []
            parts = [own.filter(pl.col(i) == component)["expected"].sum() for i in places]
            expected = sum(parts) / len(parts) if parts else own["expected"].sum()
            assert counts == pytest.approx(expected, rel=1e-9, abs=1e-13)
            assert share == pytest.approx(counts / allocated["expected"].sum())
        each = [here.filter(pl.col("term") == term) for term in set(here["term"])]  # one index of every term
        assert sum(
            own.filter(own["index"].eq_missing(own["index"][0]))["share"].sum() for own in each
        ) == pytest.approx(1)
