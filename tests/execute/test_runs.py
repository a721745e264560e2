"""Runs of leaves that travel give the same bits as threads, whatever is lost on the way; without a cluster."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from plait.data.cells.trees import Piece
from plait.errors import FitError
from plait.execute import Dask, Threads, passing
from plait.execute.joining import runs
from plait.execute.mail import KEPT
from plait.execute.parts import Span, TableSlice, part_of, span_of
from plait.execute.placing import EACH, Placement, assign
from tests.compile.cases import Case, Equation, equations, seeded
from tests.execute.pretended import Pretended
from tests.finely import cut_finely

EQUATIONS = equations()
MATRIX = replace(Equation.read("X[i,j] = A[i,r] B[j,r]"), sizes={"i": 40, "j": 30})


@pytest.fixture
def finely(monkeypatch):
    cut_finely(monkeypatch, 9)


def every(equation):
    return tuple(range(len(equation.factors)))


def drawn(equation, kind="poisson", order=None, count=400):
    step = equation.step(kind, order or equation.order, every(equation), bound=kind != "linear")
    return Case.draw(equation, step, seeded(equation, step), count)


def assert_same_bits(one, other):
    for a, b in zip(one.gradients, other.gradients, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert (one.value, one.events) == (other.value, other.events)
    for word in ("rare_cells", "rare_entries", "rare_beside"):
        np.testing.assert_array_equal(getattr(one, word), getattr(other, word))


def over(case, cluster, tree=None):
    return Dask(cluster, threads=1, here=0).sum(case.step, tree or case.tree(), case.arrays, case.state)


# --- the same bits


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", EQUATIONS)
def test_workers_give_the_bits_of_threads_for_every_equation(name, finely):
    equation = EQUATIONS[name]
    case = drawn(equation, order=equation.plan("poisson", 400, 1).passes[0].order)
    one = case.sum(Threads(1))
    for workers in (1, 2, 3):
        assert_same_bits(over(case, Pretended(workers)), one)


@pytest.mark.parametrize(("kind", "order"), [("negbin", "ij"), ("linear", "ji"), ("bernoulli", "ji")])
def test_other_likelihoods_and_roots_give_the_bits_of_threads(kind, order, finely):
    case = drawn(MATRIX, kind, order)
    assert_same_bits(over(case, Pretended(3)), case.sum(Threads(1)))


def test_floats_give_the_bits_of_threads(finely):
    case = drawn(MATRIX)
    case = replace(case, arrays=[array.astype(np.float32) for array in case.arrays])
    assert_same_bits(over(case, Pretended(2)), case.sum(Threads(1)))


@pytest.mark.parametrize("order", ["ijk", "jik", "kji"])
def test_a_root_row_cut_between_runs_gives_the_bits_of_threads(order, finely):
    """Also of factors whose rows of one root row lie apart: in the order jik those of H are."""
    equation = replace(Equation.read("X[i,j,k] = H[i,j,r] C[k,r]"), sizes={"i": 10, "j": 11, "k": 12})
    case = drawn(equation, order=tuple(order), count=1000)
    keep = (case.cells[:, "ijk".index(order[0])] == 4) | (np.arange(len(case.cells)) % 7 == 0)
    case = replace(case, cells=case.cells[keep], entries=case.entries[keep])
    leaves = case.tree().leaves
    firsts = [run.lo for run in Placement.of(case.tree(), 2).runs[1:]]
    assert any(leaves[lo].inside and leaves[lo - 1].lo == leaves[lo].lo for lo in firsts)
    for workers in (1, 2, 3):
        assert_same_bits(over(case, Pretended(workers)), case.sum(Threads(1)))


def test_rare_entries_keep_their_cells(finely):
    case = drawn(MATRIX)
    tiny = case.arrays[0].copy()
    tiny[7:20] *= 1e-200
    case = replace(case, arrays=[tiny, case.arrays[1] * 1e-150])
    one, two = case.sum(Threads(1)), over(case, Pretended(2))
    assert 0 < len(one.rare_entries) < len(case.entries)
    assert_same_bits(two, one)


def test_sums_joined_by_workers_have_the_same_bits(finely, monkeypatch):
    monkeypatch.setattr(passing, "WIDE", 0)
    case = drawn(MATRIX)
    for workers in (1, 2, 3):
        cluster = Pretended(workers)
        assert_same_bits(over(case, cluster), case.sum(Threads(1)))
        assert cluster.tasks > len(Placement.of(case.tree(), workers).runs)


def test_a_table_that_workers_read_themselves_is_summed_without_being_sent(finely):
    case = drawn(MATRIX)
    table = OnDisk(case.tree())
    cluster = Pretended(2)
    stats = Dask(cluster, threads=1, here=0).sum(case.step, table, case.arrays, case.state)
    assert_same_bits(stats, case.sum(Threads(1)))
    assert any(isinstance(thing, TableSlice) for thing, _ in cluster.sent)


FOLDERS = {}


class OnDisk:
    """A table known by a name, as a folder is by its path."""

    def __init__(self, tree):
        self.name = f"folder {len(FOLDERS)}"
        FOLDERS[self.name] = tree
        self.order, self.types, self.leaf_count, self.count = tree.order, tree.types, tree.leaf_count, len(tree)

    def __len__(self):
        return self.count

    def walk(self, lo=0, hi=None):
        return (Piece(p.number, p.tree, p.leaf) for p in FOLDERS[self.name].walk(lo, hi))


# --- workers lost and added


@pytest.mark.parametrize("wide", [False, True])
def test_lost_workers_change_no_bit(wide, finely, monkeypatch):
    monkeypatch.setattr(passing, "WIDE", 0 if wide else 1 << 40)
    case = drawn(MATRIX)
    one, tree, cluster = case.sum(Threads(1)), case.tree(), Pretended(3, loses=0.05, seed=1)
    dask = Dask(cluster, threads=1, here=0)
    for _ in range(30):
        assert_same_bits(dask.sum(case.step, tree, case.arrays, case.state), one)
    assert cluster.killed > 10


def test_workers_that_are_always_lost_end_the_sum_with_a_cure(finely):
    case = drawn(MATRIX)
    with pytest.raises(FitError, match="5 times in a row") as told:
        over(case, Pretended(1, loses=1.0))
    assert "checkpoint" in told.value.cure


def test_a_worker_that_joins_gets_its_share(finely):
    case, cluster = drawn(MATRIX), Pretended(2)
    dask, tree = Dask(cluster, threads=1, here=0), case.tree()
    dask.sum(case.step, tree, case.arrays, case.state)
    cluster.add("w9")
    assert_same_bits(dask.sum(case.step, tree, case.arrays, case.state), case.sum(Threads(1)))
    ((_, placement),) = dask._placed.values()
    owned = [run.worker for run in placement.runs]
    assert len(owned) >= 3 * EACH
    assert owned.count("w9") >= len(owned) // 4


# --- what travels


def test_data_are_sent_once_and_arrays_only_when_they_change(finely):
    case, cluster = drawn(MATRIX), Pretended(2)
    dask, tree = Dask(cluster, threads=1, here=0), case.tree()
    dask.sum(case.step, tree, case.arrays, case.state)
    count = len(Placement.of(tree, 2).runs)
    assert len(cluster.sent) == count + count + 1  # data, rows of A, B
    cluster.sent.clear()
    dask.sum(case.step, tree, case.arrays, case.state)
    assert not cluster.sent
    case.arrays[1][3] *= 0.5  # in place, as updates are
    assert_same_bits(dask.sum(case.step, tree, case.arrays, case.state), case.sum(Threads(1)))
    assert len(cluster.sent) == 1


def test_only_rows_of_a_run_travel_of_an_operand_with_the_root_index(finely):
    case, cluster = drawn(MATRIX), Pretended(2)
    over(case, cluster)
    rows = [thing for thing, _ in cluster.sent if isinstance(thing, np.ndarray) and len(thing) != 30]
    assert sum(map(len, rows)) <= 40 + len(rows)
    assert max(map(len, rows)) < 20


def test_a_part_holds_no_more_than_its_leaves(finely):
    tree = drawn(MATRIX).tree()
    count = tree.leaf_count
    parts = [part_of(tree, lo, min(lo + 4, count)) for lo in range(0, count, 4)]
    assert sum(len(part.tree) for part in parts) == len(tree)
    back = pickle.loads(pickle.dumps(parts[1]))
    assert [piece.number for piece in back.walk()] == [4, 5, 6, 7]
    assert back.tree.types == tree.types
    assert span_of(tree, 0, count) == Span(int(tree.rows[0][0]), int(tree.rows[0][-1]) + 1, 40)


def test_arrays_that_no_sum_needs_are_let_go(finely):
    case, cluster = drawn(MATRIX), Pretended(1)
    dask, tree = Dask(cluster, threads=1, here=0), case.tree()
    kept = []
    for _ in range(3 * KEPT):
        kept.append([array.copy() for array in case.arrays])
        dask.sum(case.step, tree, kept[-1], case.state)
    assert len(dask._mail._letters) <= (KEPT + 1) * (len(Placement.of(tree, 1).runs) + 1)


def test_data_of_a_table_that_is_gone_are_let_go(finely):
    case = drawn(MATRIX)
    dask, tree = Dask(Pretended(1), threads=1, here=0), case.tree()
    dask.sum(case.step, tree, case.arrays, case.state)
    assert len(dask._placed) == 1
    del tree
    assert not dask._placed


def test_sums_too_small_to_travel_stay_here():
    case, cluster = drawn(MATRIX), Pretended(1)
    stats = Dask(cluster, threads=1).sum(case.step, case.tree(), case.arrays, case.state)
    assert_same_bits(stats, case.sum(Threads(1)))
    assert not cluster.sent


# --- who owns what


def test_owners_keep_what_they_have_up_to_a_fair_share():
    first = assign([None] * 8, {"a": 1, "b": 1})
    assert first == [*"aaaabbbb"]
    assert assign(first, {"a": 1, "b": 1, "c": 1}) == [*"aaacbbbc"]
    assert assign(first, {"b": 1, "d": 1}) == [*"ddddbbbb"]
    assert assign([None] * 6, {"a": 2, "b": 1}) == [*"aaaabb"]


def test_there_are_no_more_runs_than_leaves(finely):
    tree = drawn(MATRIX).tree()
    assert len(Placement.of(tree, 1000).runs) == tree.leaf_count


def test_there_are_as_many_runs_as_are_asked_for():
    for count in range(1, 70):
        for parts in range(1, 20):
            found = runs(count, parts)
            (level,) = {level for level, _ in found}
            assert min(parts, count) <= len(found) <= 2 * parts or level == 0
            assert (len(found) - 1) << level < count <= len(found) << level
