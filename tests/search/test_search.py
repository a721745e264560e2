"""The search behind `fit.top`: ties, known links, what it looks at and what it keeps in memory."""

import functools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plait
from plait.answer.search import boxed, branch, tree
from plait.answer.search.best import Best
from plait.answer.search.boxes import RowBoxes
from plait.answer.search.form import Axis, Form, FormPart
from plait.answer.search.general import GeneralBoxes
from plait.data.binding.known import Known
from plait.data.labels.names import Labels
from plait.data.observing.link_store import LinksInMemory
from plait.execute import Reference
from plait.run.record import Posterior
from tests.search.every_cell import check


@functools.cache
def template(order, likelihood):
    """A fit of a CP model: everything but its factors and links can be used."""
    indices = "ijkl"[:order]
    text = f"X[{','.join(indices)}] = " + " ".join(f"F{index}[{index}, r]" for index in indices)
    links = plait.Relation(np.ones((2,) * order), likelihood=likelihood)
    return plait.fit(text, {"X": links}, rank=1, method="em", sweeps=1, seed=0, executor=Reference())


def made(means, known=(), likelihood="poisson"):
    """A CP fit whose factors are points with these means, (n_f, R); known: cells that are links."""
    fit = template(len(means), likelihood)
    factors, labels = {}, {}
    for (name, old), mean in zip(fit.factors.items(), means):
        mean = np.asarray(mean, float)
        factors[name] = Posterior(old.indices, np.full(mean.shape, np.inf), np.zeros(mean.shape), mean, mean)
        labels[old.indices[0]] = Labels.count(old.indices[0], len(mean))
    cells = np.array(sorted(known), np.int64).reshape(-1, len(means))
    shape, ones = tuple(len(mean) for mean in means), np.ones(len(cells))
    links = Known(shape, LinksInMemory.of(tuple(labels), shape, cells, ones, ones))
    return replace(fit, factors=factors, labels=labels, known={"X": links})


class watched:
    """Counts the cells and boxes that searches within look at."""

    def __enter__(self):
        self.cells, self.boxes, self._patch = 0, 0, pytest.MonkeyPatch()
        cells, children = RowBoxes.cells, RowBoxes.children

        def count_cells(boxes, nodes, levels, floor):
            self.cells += len(nodes) * branch.LEAF
            return cells(boxes, nodes, levels, floor)

        def count_boxes(boxes, nodes, levels, axis, floor):
            self.boxes += len(nodes)
            return children(boxes, nodes, levels, axis, floor)

        self._patch.setattr(RowBoxes, "cells", count_cells)
        self._patch.setattr(RowBoxes, "children", count_boxes)
        return self

    def __exit__(self, *error):
        self._patch.undo()


@st.composite
def factors(draw):
    """Rows of small whole numbers (many ties and zeros) or of wild floats, some repeated."""
    rank, order = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    entry = draw(st.sampled_from([st.integers(0, 2).map(float), st.floats(0, 1e6), st.floats(1e-200, 1e-60)]))
    means = []
    for _ in range(order):
        rows = draw(st.lists(st.lists(entry, min_size=rank, max_size=rank), min_size=1, max_size=5))
        repeats = draw(st.lists(st.sampled_from(range(len(rows))), max_size=4))
        means.append(rows + [rows[n] for n in repeats])
    return means


@settings(max_examples=60, deadline=None)
@given(factors(), st.integers(0, 12), st.randoms(use_true_random=False))
def test_random_rows_with_ties_and_known_links(means, k, random):
    known = {tuple(random.randrange(len(mean)) for mean in means) for _ in range(random.randrange(8))}
    fit = made(means, known)
    with pytest.MonkeyPatch().context() as patch:
        patch.setattr(branch, "LEAF", random.choice([1, 6]))
        patch.setattr(tree, "FAN", random.choice([2, 3]))
        if random.random() < 0.3:
            patch.setattr(boxed, "as_rows", lambda form: None)
        check(fit, "X", k, {})


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 10.0]), st.integers(2, 3))
def test_hundreds_of_rows_by_the_search_as_it_is(seed, concentration, order):
    rng = np.random.default_rng(seed)
    means = [rng.gamma(concentration, size=(n, 4)) * rng.lognormal(size=(n, 1)) for n in (90, 61, 40)[:order]]
    check(made(means), "X", 20, {}, known=True)


def test_equal_rows_cannot_blow_up_the_search():
    fit = made([np.ones((3000, 3)), np.ones((2000, 3)), np.ones((1000, 3))], known=[(0, 0, 0), (0, 0, 2)])
    with watched() as seen:
        table = fit.top("X", 5)
    assert (table["mean"] == 3).all()
    assert seen.cells < 20_000
    assert seen.boxes < 40_000
    assert table.equals(fit.top("X", 5))


def test_equal_cells_are_in_the_order_of_their_rows():
    table = made([np.ones((4, 2)), np.ones((3, 2))], known=[(0, 1)]).top("X", 4)
    assert table.select("i", "j").rows() == [(0, 0), (0, 2), (1, 0), (1, 1)]


def test_most_cells_are_never_looked_at():
    rng = np.random.default_rng(0)
    means = [rng.gamma(0.3, size=(n, 10)) * rng.lognormal(size=(n, 1)) for n in (2000, 3000, 4000)]
    with watched() as seen:
        table = made(means).top("X", 10)
    assert seen.cells < 100_000  # of 2.4e10
    A, B, C = means
    best = max(float((A[i] * B @ C.T).max()) for i in np.argsort(-A.max(axis=1))[:10])
    assert table["mean"][0] >= best * (1 - 1e-12)


def test_memory_does_not_grow_with_the_cells():
    # Rows so alike that hardly a bound helps: 4e7 cells are a sweep.
    rng = np.random.default_rng(0)
    means = [1 + 0.3 * rng.random((n, 12)) for n in (4000, 10_000)]
    fit = made(means)
    fit.top("X", 10, given={"i": 0})
    tracemalloc.start()
    fit.top("X", 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6
    small = [mean[:200] for mean in means]
    check(made(small), "X", 10, {})


def test_a_search_that_no_bound_helps_is_a_sweep_with_few_boxes_waiting(monkeypatch):
    monkeypatch.setattr(branch, "BATCH", 64)
    monkeypatch.setattr(
        RowBoxes, "cells", lambda boxes, nodes, levels, floor: (np.zeros((0, 2), np.int64), np.zeros(0))
    )
    waiting = []
    original = RowBoxes.children

    def children(boxes, nodes, levels, axis, floor):
        waiting.append(len(nodes))
        return original(boxes, nodes, levels, axis, floor)

    monkeypatch.setattr(RowBoxes, "children", children)
    rng = np.random.default_rng(0)
    axes = [Axis((n,), np.arange(size)[:, None], whole=True) for n, size in enumerate((500, 700))]
    best = Best(5, 2, None).within(axes)
    branch.search(RowBoxes([rng.random((500, 2)), rng.random((700, 2))]), best)
    assert max(waiting) <= 64
    assert len(best.rows) == 0


def test_both_kinds_of_boxes_agree():
    rng = np.random.default_rng(5)
    arrays = [rng.gamma(0.4, size=(n, 3)) for n in (70, 50, 30)]
    parts = tuple(FormPart((axis,), ("r",), array) for axis, array in enumerate(arrays))
    axes = [Axis((n,), np.arange(len(array))[:, None], whole=True) for n, array in enumerate(arrays)]
    found = []
    for boxes in (RowBoxes(arrays), GeneralBoxes(Form((70, 50, 30), (parts,)))):
        best = Best(25, 3, None).within(axes)
        branch.search(boxes, best)
        best.settle()
        found.append(best)
    np.testing.assert_array_equal(found[0].rows, found[1].rows)
    np.testing.assert_allclose(found[0].scores, found[1].scores, rtol=1e-12)


def test_certain_links_do_not_make_the_search_look_at_every_cell():
    fit = made([np.full((400, 2), 30.0), np.full((500, 2), 2.0)], likelihood="bernoulli")
    with watched() as seen:
        table = fit.top("X", 3)
    assert (table["mean"] == 1).all()
    assert seen.cells < 20_000
