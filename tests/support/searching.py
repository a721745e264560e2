"""Fits with chosen factors for `fit.top`, counts of what a search scores, and its answers compared with all cells."""

import functools
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import plait
from plait import Posterior
from plait.analysis.topk.boxes import RowBoxes
from plait.data.binding.given import bind_exposures
from plait.data.binding.known import Known
from plait.data.encoding.names import Labels
from plait.data.observation.links import LinksInMemory
from plait.data.observation.structural_zeros import StructuralZeros
from plait.executors import Reference
from plait.storage import fitted
from plait.tuning import TUNING
from tests.support.every_cell import all_rates, allowed
from tests.support.models import RANKS, SIZES
from tests.support.tuning import tuned

# By kind of an exposure's table: its default, and the values of the cells that it lists.
TABLES = {
    "mostly zeros": (0.01, [1.0]),
    "zeros": (0.0, [0.5, 2.0]),
    "mostly open": (1.0, [0.0]),
    "either way": (1.0, [0.0, 0.3, 5.0]),
}


@functools.cache
def _template(order, likelihood):
    """A fit of a CP model: everything but its factors and links can be used."""
    indices = "ijkl"[:order]
    text = f"X[{','.join(indices)}] = " + " ".join(f"F{index}[{index}, r]" for index in indices)
    links = plait.Relation(np.ones((2,) * order), likelihood=likelihood)
    return plait.fit(text, {"X": links}, rank=1, method="em", max_iter=1, seed=0, executor=Reference())


def made(means, known=(), likelihood="poisson", zeros=None):
    """A CP fit whose factors are points with these means, (n_f, R); known: cells that are links; zeros: rows that
    cannot be links, by indices.
    """
    fit = _template(len(means), likelihood)
    factors, labels = {}, {}
    for (name, old), mean in zip(fit.factors.items(), means):
        mean = np.asarray(mean, float)
        factors[name] = Posterior(old.indices, np.full(mean.shape, np.inf), np.zeros(mean.shape), mean, mean)
        labels[old.indices[0]] = Labels.count(old.indices[0], len(mean))
    cells = np.array(sorted(known), np.int64).reshape(-1, len(means))
    shape, ones = tuple(len(mean) for mean in means), np.ones(len(cells))
    links = Known(shape, LinksInMemory.of(tuple(labels), shape, cells, ones, ones))
    if zeros:
        links = replace(links, structural_zeros=StructuralZeros(tuple(labels), shape, zeros))
    return replace(fit, factors=factors, entities=labels, known={"X": links})


def exposed(text, fixed, sizes=SIZES, likelihood="poisson", seed=0):
    """A fit of one relation X with given factors."""
    model, rng = plait.Model(text), np.random.default_rng(seed)
    shape = [sizes[index] for index in model.equation("X").indices]
    X = (rng.random(shape) < 0.3).astype(float)
    V = bind_exposures(model.bind({"X": X}), fixed).at("X", 0, np.argwhere(np.ones(shape)))
    links = plait.Relation(np.where(V.reshape(shape) > 0, X, 0.0), likelihood=likelihood)
    rank = {index: RANKS[index] for index in model.latent} or None
    return plait.fit(model, {"X": links}, rank=rank, fixed=fixed, max_iter=2, seed=0, executor=Reference())


def random_exposure(rng, indices, default, values, share=0.3):
    """An exposure that lists some of the cells."""
    listed = np.argwhere(rng.random([SIZES[index] for index in indices]) < share)
    columns = {index: listed[:, n] for n, index in enumerate(indices)}
    return plait.Exposure(pl.DataFrame({**columns, "value": rng.choice(values, len(listed))}), default)


def predicted(fit, relation, score):
    """A column of `fit.predict` over all cells."""
    rates = all_rates(fit, relation)
    if score == "rate":
        return rates
    indices = fit.model.equation(relation).indices
    table = fit.predict(relation, pl.DataFrame(dict(zip(indices, np.argwhere(np.ones(rates.shape)).T))))
    return table[score].to_numpy().reshape(rates.shape)


def structural_zeros_of(fit, relation):
    """The cells that a rule closes, as a mask over all cells; None without a rule."""
    zeros, shape = fitted.structural_zeros_of(fit, relation), fit.known[relation].shape
    return zeros.contain(np.argwhere(np.ones(shape))).reshape(shape) if zeros else None


class watched:
    """Counts the cells and boxes that searches within look at."""

    def __enter__(self):
        self.cells, self.boxes, self._patch, self._sizes = 0, 0, pytest.MonkeyPatch(), tuned(contracted_cells=0)
        cells, children = RowBoxes.cells, RowBoxes.children

        def count_cells(boxes, nodes, levels, floor):
            self.cells += len(nodes) * TUNING.box_cells
            return cells(boxes, nodes, levels, floor)

        def count_boxes(boxes, nodes, levels, axis, floor):
            self.boxes += len(nodes)
            return children(boxes, nodes, levels, axis, floor)

        self._sizes.__enter__()
        self._patch.setattr(RowBoxes, "cells", count_cells)
        self._patch.setattr(RowBoxes, "children", count_boxes)
        return self

    def __exit__(self, *error):
        self._patch.undo()
        self._sizes.__exit__(*error)


def check_per(fit, relation, k, each, *, scores=None, score="mean", known=False, zeros=None, **options):
    """For every combination of the indices `per` the table has the best scores of its allowed cells, in order."""
    indices = fit.model.equation(relation).indices
    scores = all_rates(fit, relation) if scores is None else scores
    table = fit.top(relation, k, per=each, score=score, include_known=known, **options)
    cells = np.stack([fit.entities[i].encode(table[i]) for i in indices], axis=1)
    open_cells = allowed(fit, relation, known, zeros)
    places = [indices.index(index) for index in each]
    own = [tuple(cell[places]) for cell in cells]
    assert own == sorted(own)  # by the order of the entities
    shape = [scores.shape[place] for place in places]
    for query in np.ndindex(*shape):
        at = tuple(query[places.index(n)] if n in places else slice(None) for n in range(len(indices)))
        wanted = np.sort(scores[at][open_cells[at]].ravel())[::-1][:k]
        mine = cells[[q == query for q in own]] if len(cells) else cells
        np.testing.assert_allclose(scores[tuple(mine.T)], wanted, rtol=1e-9)
        assert len(np.unique(mine, axis=0)) == len(mine)
        assert all(open_cells[tuple(cell)] for cell in mine)
