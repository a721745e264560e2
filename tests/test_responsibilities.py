"""`Fit.responsibilities`: shares and expected latent counts of cells equal an enumeration of every term and setting."""

import itertools
import math

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.problems import make
from tests.support.sums import SUMS, sum_fit


def enumerated(fit, relation, cell, kind):
    """{(term's number, values of its latent indices): what it adds to a cell}, one factor entry after the other."""
    equation, found = fit.model.equation(relation), {}
    for number, term in enumerate(equation.terms):
        V = fit.exposures.at(relation, number, np.array([cell], int).reshape(1, -1))
        latent = equation.latent_of(term)
        for values in itertools.product(*(range(fit.rank[index]) for index in latent)):
            at = dict(zip(equation.indices, cell)) | dict(zip(latent, values))
            uses = [o for o in term.occurrences if o.factor in fit.factors]
            entries = [getattr(fit.factors[o.factor], kind)[tuple(at[i] for i in o.indices)] for o in uses]
            found[number, values] = math.prod(map(float, entries)) * (1.0 if V is None else float(V[0]))
    return found


def expected_of(value, rate, likelihood):
    """E[n] behind a value, by a sum over n."""
    if likelihood == "poisson" or value == 0:
        return value
    n = np.arange(1, 200)
    chance = np.exp(n * np.log(rate) - np.cumsum(np.log(n)))
    return float((n * chance).sum() / chance.sum())


def key(fit, equation, row):
    """The component of a row of the table."""
    texts = [" ".join(term.factors) for term in equation.terms]
    number = texts.index(row["term"]) if len(texts) > 1 else 0
    latent = equation.latent_of(equation.terms[number])
    assert all(row[index] is None for index in equation.latent if index not in latent)
    return number, tuple(row[index] for index in latent)


def possible_cells(fit, relation, count):
    """Some known links and some other cells of a rate over 0, as row numbers."""
    equation, known = fit.model.equation(relation), fit.known[relation]
    cells = [tuple(map(int, cell)) for cell in known.cells]
    others = [c for c in itertools.product(*map(range, known.shape)) if c not in cells]
    others = [c for c in others if sum(enumerated(fit, relation, c, "mean").values()) > 1e-9]
    pairs = [[equation.indices.index(index) for index in pair] for pair in equation.doubled]
    others = [c for c in others if all(c[i] != c[j] for i, j in pairs)]
    return cells[:: max(1, len(cells) // count)][:count] + others[:: max(1, len(others) // count)][:count]


def asked(fit, relation, cells):
    indices = fit.model.equation(relation).indices
    return pl.DataFrame({index: [fit.entities[index][c[n]] for c in cells] for n, index in enumerate(indices)})


@pytest.mark.quick(name=["cp3", "tucker", "pairwise", "coupled"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("name", [*(name for name in SUMS if name != "no_index"), "cp3", "coupled_tucker", "rank_one"])
def test_shares_and_counts_are_those_of_an_enumeration(name, likelihood, tuning):
    tuning(responsibilities_chunk=50)  # several pieces
    case = sum_fit(name, likelihood=likelihood) if name in SUMS else make(name, likelihood=likelihood).fit(max_iter=3)
    for relation in case.model.relations:
        equation, known = case.model.equation(relation), case.known[relation]
        cells = possible_cells(case, relation, 3)
        table = case.responsibilities(relation, asked(case, relation, cells))
        start = 0
        for cell in cells:
            value = known.values_at(np.array([cell]))[0]
            parts = enumerated(case, relation, cell, "exp_mean_log" if value else "mean")
            rate, here = sum(parts.values()), table[start : start + len(parts)]
            start += len(parts)
            got = {key(case, equation, row): row for row in here.iter_rows(named=True)}
            assert got.keys() == parts.keys()
            assert here["share"].is_sorted(descending=True)
            for component, row in got.items():
                assert tuple(case.entities[i].encode([row[i]])[0] for i in equation.indices) == cell
                assert row["share"] == pytest.approx(parts[component] / rate, rel=1e-9, abs=1e-14)
                if value:
                    n = expected_of(value, rate, likelihood)
                    assert row["expected"] == pytest.approx(n * parts[component] / rate, rel=1e-8, abs=1e-13)
                assert (row["expected"] is None) == (row["value"] is None) == (not value)
        assert start == len(table)


def test_a_given_value_replaces_that_of_a_known_link():
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": np.array([[3.0, 0.0], [1.0, 2.0]])}, rank=2, seed=0, max_iter=5)
    cells = pl.DataFrame({"j": [0, 0, 1, 1], "i": [0, 0, 0, 0], "value": [None, 7.0, None, 0.0]})
    table = fit.responsibilities("X", cells, most=1)
    assert table.columns == ["i", "j", "value", "r", "share", "expected"]
    assert table["value"].to_list() == [3.0, 7.0, None, 0.0]
    np.testing.assert_allclose(table["expected"].to_numpy()[:2], table["share"].to_numpy()[:2] * [3.0, 7.0])
    assert table["expected"].to_list()[2:] == [None, 0.0]


def test_members_share_a_cell_by_their_means():
    fit = sum_fit("coupled", restarts=3, combine="average", max_iter=10)
    cells = possible_cells(fit, "X", 2)
    table = fit.responsibilities("X", asked(fit, "X", cells))
    for cell in cells:
        here = table.filter(pl.col("i") == cell[0], pl.col("j") == cell[1])
        means = np.array([sum(enumerated(member, "X", cell, "mean").values()) for member in fit.members])
        weights = here.group_by("member").agg(pl.col("share").sum()).sort("member")["share"]
        np.testing.assert_allclose(weights, means / means.sum(), rtol=1e-9)
        value = fit.known["X"].values_at(np.array([cell]))[0]
        if value:
            assert here["expected"].sum() == pytest.approx(value)


def test_many_components_need_a_limit():
    X = np.random.default_rng(0).poisson(1.0, (4, 4, 4))
    fit = plait.fit("X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]", {"X": X}, rank=11, seed=0, max_iter=2)
    cell = {"i": [1, 2], "j": [1, 0], "k": [2, 2]}
    with pytest.raises(plait.errors.ParameterError, match=r"a cell of X has 1,331 components.*\n.*`most=100`"):
        fit.responsibilities("X", cell)
    table = fit.responsibilities("X", cell, most=20)
    assert len(table) == 40
    parts = enumerated(fit, "X", (1, 1, 2), "exp_mean_log" if X[1, 1, 2] else "mean")
    wanted = np.sort(list(parts.values()))[::-1][:20] / sum(parts.values())
    np.testing.assert_allclose(table["share"][:20], wanted, rtol=1e-8)


def test_vague_posteriors():
    class Start:
        def __init__(self, C, D):
            self.concentration, self.scale = C, D

    C = np.array([[1e-3, 2e-3], [1e-3, 1e-3]])
    start = {"A": Start(C, np.ones((2, 2))), "B": Start(C, np.ones((2, 2)))}
    X = np.array([[1.0, 0.0], [0.0, 1.0]])
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=2, init=start, max_iter=0, seed=0, adapt_prior=None)
    table = fit.responsibilities("X", {"i": [0, 1], "j": [0, 1]})
    assert table["r"][0] == 1
    assert table["share"].to_list() == pytest.approx([1.0, 0.0, 0.5, 0.5])
    assert table["expected"].to_list() == pytest.approx([1.0, 0.0, 0.5, 0.5])


def test_columns_of_the_table():
    X = np.random.default_rng(0).poisson(1.0, (4, 3))
    text = "X[term,j] = A[term,share] B[j,share] + a[term] b[j]"
    table = plait.fit(text, {"X": X}, rank=2, seed=0, max_iter=2).responsibilities("X", {"term": [0], "j": [1]})
    assert table.columns == ["term", "j", "value", "term_", "share", "share_", "expected"]
    assert table["share_"].sum() == pytest.approx(1.0)
    empty = sum_fit("evidence").responsibilities("X", {"i": [], "j": []})
    assert empty.columns == ["i", "j", "value", "term", "r", "share", "expected"]
    assert len(sum_fit("no_index").responsibilities("X", pl.DataFrame())) == 4


@pytest.mark.parametrize(
    ("cells", "most", "message"),
    [
        ({"i": [0], "j": [0], "value": [-1.0]}, None, r"column 'value', row 0 .*: -1 is not a valid value"),
        ({"i": [0], "j": [0], "value": ["x"]}, None, r"column 'value', row 0 .*not a number"),
        ({"i": [0]}, None, "there is no column 'j'"),
        ({"i": [0], "j": [0]}, 0, "`most` must be an integer of at least 1, got 0"),
        ({"i": [0], "j": [0]}, True, "`most` must be an integer of at least 1, got True"),
    ],
)
def test_wrong_arguments_are_named(cells, most, message):
    with pytest.raises(plait.PlaitError, match=message):
        sum_fit("evidence").responsibilities("X", cells, most=most)
