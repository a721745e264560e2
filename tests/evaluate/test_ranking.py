"""`plait.evaluate(rank=…)` for every equation and index, also those that only an exposure has, against `predict`."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import plait
from plait.evaluation import ranking
from plait.evaluation.view import View
from plait.execute import Reference
from tests import cases
from tests.models import EXPOSED, ONLY_EXPOSED, RANKS, SIZES


def of_exposure_only(name, likelihood):
    """A fit of a model of ONLY_EXPOSED to a random table."""
    model, rng = plait.Model(ONLY_EXPOSED[name]), np.random.default_rng(0)
    X = (rng.random([SIZES[index] for index in model.equation("X").indices]) < 0.3).astype(float)
    V = rng.choice([0.2, 1.0, 3.0], [SIZES[index] for index in model.factor("V").indices])
    rank = {index: RANKS[index] for index in model.latent} or None
    data = {"X": plait.Relation(X, likelihood=likelihood)}
    return plait.fit(model, data, rank=rank, fixed={"V": V}, sweeps=2, seed=0, executor=Reference())


def unknown_cells(fit, relation, count=3):
    """Some cells that are no known links, as a table; None where all cells are."""
    indices = fit.model.equation(relation).indices
    cells = np.argwhere(np.ones(fit.known[relation].shape))
    cells = np.random.default_rng(1).permutation(cells[~fit.known[relation].contain(cells)])[:count]
    return pl.DataFrame({index: cells[:, k] for k, index in enumerate(indices)}) if len(cells) else None


def raw_ranks(fit, relation, test, index, score):
    """Expected ranks of cells among all entities of an index, by predictions of every one."""
    for row in test.iter_rows(named=True):
        every = [row | {index: entity} for entity in range(len(fit.labels[index]))]
        scores = fit.predict(relation, pl.DataFrame(every))[score].to_numpy()
        own = scores[row[index]]
        ties = np.abs(scores - own) <= 1e-9 * own
        yield 1 + np.sum((scores > own) & ~ties) + (ties.sum() - 1) / 2


def check(fit, relation, score="mean"):
    test = unknown_cells(fit, relation)
    if test is None:
        return
    for index in fit.model.equation(relation).indices:
        found = plait.evaluate(fit, relation, test, rank=index, nonlinks=0, score=score)
        assert found["mean_rank_raw"] == pytest.approx(np.mean(list(raw_ranks(fit, relation, test, index, score))))
    both = plait.evaluate(fit, relation, test, rank=True, nonlinks=0, score=score)
    assert both["mean_rank"] <= both["mean_rank_raw"]


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("name", ONLY_EXPOSED)
def test_links_are_ranked_on_an_index_that_only_an_exposure_has(name, likelihood):
    check(of_exposure_only(name, likelihood), "X")


@pytest.mark.sampled(17)
@pytest.mark.parametrize("name", EXPOSED)
def test_links_are_ranked_on_every_index_of_every_equation(name):
    fit = cases.make(name, exposed=True).fit(sweeps=1, executor=Reference())
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
    relation = plait.Relation(table, likelihood="bernoulli", universe="model")
    by = ("index", "i") if cold else "links"
    train, test = plait.hide(relation, fraction=0.3, by=by, seed=seed, labels=dict(zip("ijk", map(range, shape))))
    text, rank = EQUATIONS[name]
    labels = dict(zip("ijk", map(range, shape)))
    fit = plait.fit(text, {"X": train}, rank=rank, sweeps=8, seed=seed, labels=labels, restarts=restarts)
    return fit, test.filter(pl.col("value") > 0)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("cold", "restarts"), [(True, 1), (False, 1), (True, 3)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", EQUATIONS)
def test_ranks_are_those_of_scoring_every_candidate_exactly(monkeypatch, name, seed, cold, restarts):
    fit, test = sparse_fit(name, seed, cold=cold, restarts=restarts)
    scored = []
    scores = View.scores
    monkeypatch.setattr(View, "scores", lambda self, cells: scored.append(len(cells)) or scores(self, cells))
    found = [plait.evaluate(fit, "X", test, rank=True, k=3, nonlinks=0)]
    exact = lambda view, cells, place, there, own: (view.along(cells, place), np.arange(len(cells)))  # noqa: E731
    few = sum(scored)
    monkeypatch.setattr(ranking, "_scores", exact)
    scored.clear()
    found.append(plait.evaluate(fit, "X", test, rank=True, k=3, nonlinks=0))
    assert dict(found[0]) == pytest.approx(dict(found[1]), rel=1e-12)
    assert few < sum(scored)


def test_bounds_of_probabilities_hold_and_meet_where_they_suffice():
    from plait.answer.predict.prediction import columns, probability_bounds

    for name in EQUATIONS:
        fit, _ = sparse_fit(name, 0)
        cells = np.argwhere(np.ones(fit.known["X"].shape))
        low, high = probability_bounds(fit, "X", cells)
        exact = columns(fit, "X", cells, ("probability",))["probability"]
        assert (low <= exact).all()
        assert (exact <= high).all()
        assert (exact == low)[low == high].all()
        assert (low < high).any()


def test_entities_without_data_are_alike_and_others_are_not():
    from plait.answer.predict.alike import alike

    fit, _ = sparse_fit("Tucker-2", 0)
    first, *_ = alike(fit, "X")
    cold = np.setdiff1d(np.arange(12), fit.known["X"].cells[:, 0])
    assert len(cold) > 1
    assert (first[cold] == cold[0]).all()
    warm = np.setdiff1d(np.arange(12), cold)
    np.testing.assert_array_equal(first[warm], warm)


def test_entities_of_different_exposure_are_not_alike():
    from plait.answer.predict.alike import alike

    fit = of_exposure_only(next(iter(ONLY_EXPOSED)), "bernoulli")
    indices, exposed = fit.model.equation("X").indices, fit.model.factor("V").indices
    for index, first in zip(indices, alike(fit, "X")):
        if index in exposed:
            np.testing.assert_array_equal(first, np.arange(len(first)))


def test_a_view_by_names_scores_what_the_fit_scores():
    fit, test = sparse_fit("CP", 0)
    cells = np.stack([test[i].to_numpy() for i in "ijk"], axis=1)
    plain = View(fit, "X", "mean")
    rng = np.random.default_rng(0)
    numbers = tuple(rng.permutation(n) for n in fit.known["X"].shape)
    renamed = replace(plain, numbers=numbers)
    there = np.stack([np.argsort(own)[cells[:, k]] for k, own in enumerate(numbers)], axis=1)
    np.testing.assert_allclose(renamed.scores(there), plain.scores(cells), rtol=1e-12)
    for score in ("mean", "rate"):
        ours, theirs = replace(renamed, score=score), replace(plain, score=score)
        np.testing.assert_allclose(ours.along(there, 2), theirs.along(cells, 2)[:, numbers[2]], rtol=1e-12)
    assert renamed.knows(there).tolist() == plain.knows(cells).tolist()
    known = renamed.known()
    assert renamed.knows(known).all()
    assert len(known) == len(fit.known["X"])
