"""Rows that workers own: changed where they are, they are what they would be here, whatever is lost; no cluster."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from plait.execute import Dask, Threads, dask, passing, threads
from plait.execute.executor import here
from plait.execute.keeping import News, Recipe, Work
from plait.execute.owned import RowsLost, cut_blocks
from tests.compile.cases import Case, Equation, seeded
from tests.execute.pretended import Pretended
from tests.finely import cut_finely

MATRIX = replace(Equation.read("X[i,j] = A[i,r] B[j,r]"), sizes={"i": 300, "j": 30})


class Factor:
    """An operand that is kept as its logarithm."""

    movable = True

    def __init__(self, array):
        self.array, self.away = array, None
        self.shape, self.dtype = array.shape, array.dtype

    def here(self):
        return exponential(self.away.fetch() if self.away else self.kept())

    def kept(self):
        return (np.log(self.array + 1.0),)

    @property
    def recipe(self):
        return Recipe(exponential, ())


def exponential(arrays):
    return np.exp(arrays[0]) - 1.0


def change(arrays, gradient, cuts, times):
    """Something that depends on all that there is."""
    (old,) = arrays
    new = old + times * np.log(gradient + 1.0)
    pieces = np.array([np.add.accumulate(new[lo:hi].ravel())[-1:] for lo, hi in pairwise(cuts)])
    return (new,), News(pieces, new[:, 0] - old[:, 0])


@pytest.fixture(autouse=True)
def finely(monkeypatch):
    cut_finely(monkeypatch, 9)
    monkeypatch.setattr(threads, "SMALL", 1)
    monkeypatch.setattr(threads, "PIECE", 64)
    monkeypatch.setattr(dask, "LIGHT", 0)


def drawn(giant=False):
    step = MATRIX.step("poisson", "ij", (0, 1), bound=True)
    case = Case.draw(MATRIX, step, seeded(MATRIX, step), 900)
    if giant:
        case.cells[:500, 0] = 41
        case = replace(case, cells=np.unique(case.cells, axis=0))
    return case


def course(case, sweeps, cluster=None, **settings):
    """Sums and changes in turn: all that is told, and the rows in the end."""
    factor, told = Factor(case.arrays[0]), []
    executor = Threads(1) if cluster is None else Dask(cluster, threads=1, here=0, own=0, **settings)
    tree, kept, shared = case.tree(), factor.kept(), case.arrays[1].copy()
    for sweep in range(sweeps):
        operand = exponential(kept) if cluster is None else factor
        stats = executor.sum(case.step, tree, [operand, shared], case.state)
        own, others = stats.gradients
        if cluster is None:
            cuts = threads.cut_rows(*own.shape)
            kept, news = change(kept, own, cuts, 1.0 / (sweep + 1))
        else:
            shared = shared.copy()
            news = own.change(Work(change, (1.0 / (sweep + 1),)))
        shared = np.log1p(here(others))
        told.append((stats.value, others.tobytes(), news.pieces.tobytes(), news.rows.tobytes()))
    return told, (exponential(kept) if cluster is None else factor.here()).tobytes()


@pytest.mark.parametrize("giant", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_rows_changed_by_their_owners_have_the_bits_of_threads(count, giant):
    case, cluster = drawn(giant), Pretended(count)
    assert course(case, 4, cluster) == course(case, 4)
    rows = [len(thing) for thing, _ in cluster.sent if isinstance(thing, np.ndarray)]
    assert set(rows) == {30}  # shared rows only


@pytest.mark.parametrize("wide", [False, True])
def test_a_lost_worker_costs_no_rows(wide, monkeypatch):
    monkeypatch.setattr(passing, "WIDE", 0 if wide else 1 << 40)
    case = drawn()
    expected = course(case, 6)
    for seed in range(12):
        cluster = Losing(3, seed)
        assert course(case, 6, cluster) == expected
        assert cluster.killed == 1


class Losing(Pretended):
    """One worker is lost, at a task that chance chooses."""

    def __init__(self, count, seed):
        super().__init__(count, seed=seed)
        self.fatal = int(self.rng.integers(15, 75))

    def _submit(self, function, given, worker):
        if self.tasks == self.fatal:
            self.tasks += 1
            self.kill(str(self.rng.choice(sorted(self.alive))))
        return super()._submit(function, given, worker)


def test_rows_that_all_their_workers_took_away_are_said_to_be_lost():
    case, cluster = drawn(), Pretended(2)
    executor, factor = Dask(cluster, threads=1, here=0, own=0), Factor(case.arrays[0])
    tree = case.tree()
    own, _ = executor.sum(case.step, tree, [factor, case.arrays[1]], case.state).gradients
    own.change(Work(change, (1.0,)))
    factor.away.settle()
    for worker in list(cluster.alive):
        cluster.kill(worker)
    with pytest.raises(RowsLost, match="rows of a factor were lost"):
        executor.sum(case.step, tree, [factor, case.arrays[1]], case.state)


def test_a_gradient_that_is_asked_for_comes_here():
    case = drawn(giant=True)
    executor, factor = Dask(Pretended(2), threads=1, here=0, own=0), Factor(case.arrays[0])
    own, _ = executor.sum(case.step, case.tree(), [factor, case.arrays[1]], case.state).gradients
    expected = case.sum(Threads(1))
    operand = exponential(factor.kept())
    expected = Threads(1).sum(case.step, case.tree(), [operand, case.arrays[1]], case.state).gradients[0]
    assert here(own).tobytes() == expected.tobytes()


def test_small_factors_and_those_that_stay_are_sent_as_before():
    case = drawn()
    for own, movable in ((1 << 40, True), (0, False)):
        factor = Factor(case.arrays[0])
        factor.movable = movable
        executor = Dask(Pretended(2), threads=1, here=0, own=own)
        gradient, _ = executor.sum(case.step, case.tree(), [factor, case.arrays[1]], case.state).gradients
        assert isinstance(gradient, np.ndarray)
        assert factor.away is None


def test_blocks_have_whole_pieces_and_every_piece_is_told_of_once():
    cuts = [0, 10, 20, 30, 40, 50]
    found = cut_blocks(cuts, [(3, 12), (12, 13), (13, 31), (44, 45)])
    assert [(block.lo, block.hi) for block in found] == [(0, 20), (10, 20), (10, 40), (40, 50)]
    assert [list(block.pieces)[block.speaks - block.pieces.start :] for block in found] == [[0, 1], [], [2, 3], [4]]
