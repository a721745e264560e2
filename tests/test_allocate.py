"""`Fit.allocate`: shares and expected latent counts of cells equal an enumeration of every term and setting."""

import itertools
import math

import numpy as np
import polars as pl
import pytest

import plait
from plait.answer.explain import allocate as module
from tests.cases import make
from tests.sums import SUMS, sum_fit


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
    return pl.DataFrame({index: [fit.labels[index][c[n]] for c in cells] for n, index in enumerate(indices)})


@pytest.mark.sampled(19)
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("name", [*(name for name in SUMS if name != "no_index"), "cp3", "coupled_tucker", "rank_one"])
def test_shares_and_counts_are_those_of_an_enumeration(name, likelihood, monkeypatch):
    monkeypatch.setattr(module, "PIECE", 50)  # several pieces
    case = sum_fit(name, likelihood=likelihood) if name in SUMS else make(name, likelihood=likelihood).fit(sweeps=3)
    for relation in case.model.relations:
        equation, known = case.model.equation(relation), case.known[relation]
        cells = possible_cells(case, relation, 3)
        table = case.allocate(relation, asked(case, relation, cells))
        start = 0
        for cell in cells:
            value = known.values_at(np.array([cell]))[0]
            parts = enumerated(case, relation, cell, "geomean" if value else "mean")
            rate, here = sum(parts.values()), table[start : start + len(parts)]
            start += len(parts)
            got = {key(case, equation, row): row for row in here.iter_rows(named=True)}
            assert got.keys() == parts.keys()
            assert here["share"].is_sorted(descending=True)
            for component, row in got.items():
                assert tuple(case.labels[i].encode([row[i]])[0] for i in equation.indices) == cell
                assert row["share"] == pytest.approx(parts[component] / rate, rel=1e-9, abs=1e-14)
                if value:
                    n = expected_of(value, rate, likelihood)
                    assert row["expected"] == pytest.approx(n * parts[component] / rate, rel=1e-8, abs=1e-13)
                assert (row["expected"] is None) == (row["value"] is None) == (not value)
        assert start == len(table)


def test_counts_of_a_cell_add_up_to_its_value_and_shares_to_1():
    fit = sum_fit("exposed")
    cells = asked(fit, "X", possible_cells(fit, "X", 5))
    table = fit.allocate("X", cells.with_columns(value=pl.Series(range(len(cells)))))
    sums = table.group_by("i", "j", "k", maintain_order=True).agg(pl.col("share", "expected").sum())
    np.testing.assert_allclose(sums["share"], 1.0)
    np.testing.assert_allclose(sums["expected"], range(len(cells)), atol=1e-12)


def test_a_given_value_goes_before_that_of_a_known_link_and_an_empty_one_does_not():
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": np.array([[3.0, 0.0], [1.0, 2.0]])}, rank=2, seed=0, sweeps=5)
    cells = pl.DataFrame({"j": [0, 0, 1, 1], "i": [0, 0, 0, 0], "value": [None, 7.0, None, 0.0]})
    table = fit.allocate("X", cells, most=1)
    assert table.columns == ["i", "j", "value", "r", "share", "expected"]
    assert table["value"].to_list() == [3.0, 7.0, None, 0.0]
    np.testing.assert_allclose(table["expected"].to_numpy()[:2], table["share"].to_numpy()[:2] * [3.0, 7.0])
    assert table["expected"].to_list()[2:] == [None, 0.0]


def test_members_of_an_ensemble_share_a_cell_by_what_they_add_to_its_mean():
    fit = sum_fit("coupled", restarts=3, keep="average", sweeps=10)
    cells = possible_cells(fit, "X", 2)
    table = fit.allocate("X", asked(fit, "X", cells))
    for cell in cells:
        here = table.filter(pl.col("i") == cell[0], pl.col("j") == cell[1])
        means = np.array([sum(enumerated(member, "X", cell, "mean").values()) for member in fit.members])
        weights = here.group_by("member").agg(pl.col("share").sum()).sort("member")["share"]
        np.testing.assert_allclose(weights, means / means.sum(), rtol=1e-9)
        value = fit.known["X"].values_at(np.array([cell]))[0]
        if value:
            assert here["expected"].sum() == pytest.approx(value)


def test_the_leading_components_are_listed_where_there_are_very_many():
    X = np.random.default_rng(0).poisson(1.0, (4, 4, 4))
    fit = plait.fit("X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]", {"X": X}, rank=11, seed=0, sweeps=2)
    cell = {"i": [1, 2], "j": [1, 0], "k": [2, 2]}
    with pytest.raises(plait.SettingError, match=r"a cell of X has 1,331 components.*\n.*`most=100`"):
        fit.allocate("X", cell)
    table = fit.allocate("X", cell, most=20)
    assert len(table) == 40
    parts = enumerated(fit, "X", (1, 1, 2), "geomean" if X[1, 1, 2] else "mean")
    wanted = np.sort(list(parts.values()))[::-1][:20] / sum(parts.values())
    np.testing.assert_allclose(table["share"][:20], wanted, rtol=1e-8)


def test_vague_posteriors_are_shared_by_logarithms():
    class Start:
        def __init__(self, C, D):
            self.concentration, self.scale = C, D

    C = np.array([[1e-3, 2e-3], [1e-3, 1e-3]])
    start = {"A": Start(C, np.ones((2, 2))), "B": Start(C, np.ones((2, 2)))}
    X = np.array([[1.0, 0.0], [0.0, 1.0]])
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=2, init=start, sweeps=0, seed=0, adapt=None)
    table = fit.allocate("X", {"i": [0, 1], "j": [0, 1]})
    assert table["r"][0] == 1
    assert table["share"].to_list() == pytest.approx([1.0, 0.0, 0.5, 0.5])
    assert table["expected"].to_list() == pytest.approx([1.0, 0.0, 0.5, 0.5])


def test_columns_are_told_apart_from_indices_of_the_same_name():
    rng = np.random.default_rng(0)
    fit = plait.fit("X[term,j] = A[term,share] B[j,share] + a[term] b[j]", {"X": rng.poisson(1.0, (4, 3))}, rank=2,
                    seed=0, sweeps=2)  # fmt: skip
    table = fit.allocate("X", {"term": [0], "j": [1]})
    assert table.columns == ["term", "j", "value", "term_", "share", "share_", "expected"]
    assert table["share_"].sum() == pytest.approx(1.0)


def test_no_cells_make_an_empty_table_and_a_relation_without_indices_one_cell():
    fit = sum_fit("evidence")
    assert fit.allocate("X", {"i": [], "j": []}).columns == ["i", "j", "value", "term", "r", "share", "expected"]
    fit = sum_fit("no_index")
    assert len(fit.allocate("X", pl.DataFrame())) == 4


@pytest.mark.parametrize(
    ("cells", "most", "message"),
    [
        ({"i": [0], "j": [0], "value": [-1.0]}, None, r"column 'value', row 0 .*: -1 is no count"),
        ({"i": [0], "j": [0], "value": ["x"]}, None, r"column 'value', row 0 .*not a number"),
        ({"i": [0]}, None, "there is no column 'j'"),
        ({"i": [0], "j": [0]}, 0, "`most` must be a whole number, 1 or more, got 0"),
        ({"i": [0], "j": [0]}, True, "`most` must be a whole number, 1 or more, got True"),
    ],
)
def test_mistakes_are_told(cells, most, message):
    with pytest.raises(plait.PlaitError, match=message):
        sum_fit("evidence").allocate("X", cells, most=most)
