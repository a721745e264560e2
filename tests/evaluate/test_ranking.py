"""`plait.evaluate(rank=…)` for every equation and index, also those that only an exposure has, against `predict`."""

import numpy as np
import polars as pl
import pytest

import plait
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


@pytest.mark.parametrize("name", EXPOSED)
def test_links_are_ranked_on_every_index_of_every_equation(name):
    fit = cases.make(name, exposed=True).fit(sweeps=1, executor=Reference())
    for relation in fit.model.relations:
        if fit.model.equation(relation).indices:
            check(fit, relation)
