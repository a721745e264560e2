"""`plait.evaluate(rank=…)` for every equation and index, also those that only an exposure has, against `predict`."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import plait
from plait.analysis.predict import moments, order
from plait.executors import Reference
from tests.support import problems
from tests.support.models import EXPOSED, ONLY_EXPOSED, RANKS, SIZES


def of_exposure_only(name, likelihood):
    """A fit of a model of ONLY_EXPOSED to a random table."""
    model, rng = plait.Model(ONLY_EXPOSED[name]), np.random.default_rng(0)
    X = (rng.random([SIZES[index] for index in model.equation("X").indices]) < 0.3).astype(float)
    V = rng.choice([0.2, 1.0, 3.0], [SIZES[index] for index in model.factor("V").indices])
    rank = {index: RANKS[index] for index in model.latent} or None
    data = {"X": plait.Relation(X, likelihood=likelihood)}
    return plait.fit(model, data, rank=rank, fixed={"V": V}, max_iter=2, seed=0, executor=Reference())


def unknown_cells(fit, relation, count=3):
    """Some cells that are no known links, as a table; None where all cells are."""
    indices = fit.model.equation(relation).indices
    cells = np.argwhere(np.ones(fit.known[relation].shape))
    cells = np.random.default_rng(1).permutation(cells[~fit.known[relation].contain(cells)])[:count]
    return pl.DataFrame({index: cells[:, k] for k, index in enumerate(indices)}) if len(cells) else None


def raw_ranks(fit, relation, test, index, score):
    """Expected ranks of cells among all entities of an index, by predictions of every one."""
    for row in test.iter_rows(named=True):
        every = [row | {index: entity} for entity in range(len(fit.entities[index]))]
        scores = fit.predict(relation, pl.DataFrame(every))[score].to_numpy()
        own = scores[row[index]]
        ties = np.abs(scores - own) <= 1e-9 * own
        yield 1 + np.sum((scores > own) & ~ties) + (ties.sum() - 1) / 2


def check(fit, relation, score="mean"):
    test = unknown_cells(fit, relation)
    if test is None:
        return
    for index in fit.model.equation(relation).indices:
        found = plait.evaluate(fit, relation, test, target=index, negatives=0, score=score)
        assert found["mean_rank_raw"] == pytest.approx(np.mean(list(raw_ranks(fit, relation, test, index, score))))
    both = plait.evaluate(fit, relation, test, target=True, negatives=0, score=score)
    assert both["mean_rank"] <= both["mean_rank_raw"]


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("name", ONLY_EXPOSED)
def test_links_are_ranked_on_an_index_that_only_an_exposure_has(name, likelihood):
    check(of_exposure_only(name, likelihood), "X")


@pytest.mark.quick(name=["cp3", "tucker", "coupled_paper", "friends"])
@pytest.mark.parametrize("name", EXPOSED)
def test_links_are_ranked_on_every_index_of_every_equation(name):
    fit = problems.make(name, exposed=True).fit(max_iter=1, executor=Reference())
    for relation in fit.model.relations:
        if fit.model.equation(relation).indices:
            check(fit, relation)


# --- candidates that need not be scored


EQUATIONS = {
    "CP": ("X[i, j, k] = A[i, r] B[j, r] C[k, r]", 4),
    "Tucker-2": ("X[i, j, k] = A[i, r] P[r, j, s] C[k, s]", 3),
    "two groups": ("X[i, j, k] = A[i, r] B[j, r] C[k]", 3),
}


def sparse_fit(name, seed, *, cold=True, restarts=1):
    """A Bernoulli fit of few links, and links of which some are of entities without data."""
    rng = np.random.default_rng(seed)
    shape = (12, 6, 15)
    cells = np.argwhere(rng.random(shape) < 0.15 * rng.gamma(1.0, size=shape))
    table = pl.DataFrame(cells, schema=["i", "j", "k"])
    relation = plait.Relation(table, likelihood="bernoulli", unseen="zero")
    by = ("index", "i") if cold else "links"
    train, test = plait.train_test_split(
        relation, fraction=0.3, by=by, seed=seed, entities=dict(zip("ijk", map(range, shape)))
    )
    text, rank = EQUATIONS[name]
    labels = dict(zip("ijk", map(range, shape)))
    fit = plait.fit(text, {"X": train}, rank=rank, max_iter=8, seed=seed, entities=labels, restarts=restarts)
    return fit, test.filter(pl.col("value") > 0)


@pytest.mark.quick(seed=[0], restarts=[1], cold=[True])
@pytest.mark.parametrize(("cold", "restarts"), [(True, 1), (False, 1), (True, 3)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", EQUATIONS)
def test_ranks_are_those_of_scoring_every_candidate(monkeypatch, name, seed, cold, restarts):
    fit, test = sparse_fit(name, seed, cold=cold, restarts=restarts)
    scored, scores, along = [], order.order_scores, order.order_along
    monkeypatch.setattr(order, "order_scores", lambda *of: scored.append(len(of[2])) or scores(*of))
    found = [plait.evaluate(fit, "X", test, target=True, k=3, negatives=0)]
    few = sum(scored)
    scored.clear()
    monkeypatch.setattr(order, "order_along", lambda *of: along(*of[:4], np.full(len(of[2]), -np.inf)))
    found.append(plait.evaluate(fit, "X", test, target=True, k=3, negatives=0))
    assert dict(found[0]) == pytest.approx(dict(found[1]), rel=1e-12)
    assert few < sum(scored)


@pytest.mark.parametrize("name", EQUATIONS)
def test_order_scores_are_the_closed_form_of_every_member(name):
    fit, _ = sparse_fit(name, 0, restarts=2)
    cells = np.argwhere(np.ones(fit.known["X"].shape))
    zero = []
    for member in fit.members:
        m, v = moments.moments(member, "X", cells)
        zero.append((1 + v / m) ** (-m * m / v))
    np.testing.assert_allclose(order.order_scores(fit, "X", cells), -np.log(np.mean(zero, axis=0)), rtol=1e-9)
    exact = fit.predict("X", pl.DataFrame(cells, schema=["i", "j", "k"]))["probability"].to_numpy()
    assert (
        np.corrcoef(np.argsort(np.argsort(exact)), np.argsort(np.argsort(order.order_scores(fit, "X", cells))))[0, 1]
        > 0.99
    )


@pytest.mark.budget(5)  # a process of its own
def test_evaluation_does_not_import_scipy_stats(tmp_path):
    fit, test = sparse_fit("Tucker-2", 0, restarts=2)
    fit.save(tmp_path / "run")
    test.write_parquet(tmp_path / "test.parquet")
    code = """
import sys, polars, plait
fit = plait.load(sys.argv[1] + "/run")
plait.evaluate(fit, "X", polars.read_parquet(sys.argv[1] + "/test.parquet"), target=True, k=3)
fit.top("X", 3)
print([name for name in ("scipy.stats", "scipy.optimize", "sklearn", "pandas") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_bounds_of_probabilities_hold_and_meet_where_they_suffice():
    from plait.analysis.predict.prediction import columns, probability_bounds

    for name in EQUATIONS:
        fit, _ = sparse_fit(name, 0)
        cells = np.argwhere(np.ones(fit.known["X"].shape))
        low, high = probability_bounds(fit, "X", cells)
        exact = columns(fit, "X", cells, ("probability",))["probability"]
        assert (low <= exact).all()
        assert (exact <= high).all()
        assert (exact == low)[low == high].all()
        assert (low < high).any()
