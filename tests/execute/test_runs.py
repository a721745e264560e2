"""Sums on Dask workers have the bits of threads, for every equation; what is sent, and which worker keeps what."""

import gc
import pickle
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import plait
from plait.data.cells.trees import Piece
from plait.data.observing import pairs
from plait.execute import Dask, Threads, dask
from plait.execute.dask import RUNS_PER_THREAD, assign, cut_runs
from plait.execute.joining import runs
from plait.execute.remote import LinksInMemory, LinksOnDisk
from tests.bits import digest
from tests.compile.cases import Case, Equation, equations, seeded
from tests.finely import cut_finely

EQUATIONS = equations()
MATRIX = replace(Equation.read("X[i,j] = A[i,r] B[j,r]"), sizes={"i": 40, "j": 30})


@pytest.fixture
def finely(monkeypatch):
    cut_finely(monkeypatch, 9)


@pytest.fixture
def executor(quick):
    with Dask(quick, threads=1, here=0) as executor:
        yield executor


@pytest.fixture
def sent(monkeypatch):
    """What is sent to workers."""
    found, scatter = [], Dask._scatter
    monkeypatch.setattr(
        Dask, "_scatter", lambda self, things: found.extend(thing for _, thing in things) or scatter(self, things)
    )
    return found


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


# --- the same bits


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", EQUATIONS)
def test_workers_give_the_bits_of_threads_for_every_equation(name, finely, executor):
    equation = EQUATIONS[name]
    case = drawn(equation, order=equation.plan("poisson", 400, 1).passes[0].order)
    assert_same_bits(case.sum(executor), case.sum(Threads(1)))


@pytest.mark.parametrize(("kind", "order"), [("negbin", "ij"), ("linear", "ji"), ("bernoulli", "ji")])
def test_other_likelihoods_and_roots_give_the_bits_of_threads(kind, order, finely, executor):
    case = drawn(MATRIX, kind, order)
    assert_same_bits(case.sum(executor), case.sum(Threads(1)))


def test_floats_give_the_bits_of_threads(finely, executor):
    case = drawn(MATRIX)
    case = replace(case, arrays=[array.astype(np.float32) for array in case.arrays])
    assert_same_bits(case.sum(executor), case.sum(Threads(1)))


@pytest.mark.parametrize("order", ["ijk", "jik", "kji"])
def test_a_root_row_cut_between_runs_gives_the_bits_of_threads(order, finely, executor):
    """Also of factors whose rows of one root row lie apart: in the order jik those of H do."""
    equation = replace(Equation.read("X[i,j,k] = H[i,j,r] C[k,r]"), sizes={"i": 10, "j": 11, "k": 12})
    case = drawn(equation, order=tuple(order), count=1000)
    keep = (case.cells[:, "ijk".index(order[0])] == 4) | (np.arange(len(case.cells)) % 7 == 0)
    case = replace(case, cells=case.cells[keep], entries=case.entries[keep])
    leaves = case.tree().leaves
    firsts = [run.lo for run in cut_runs(case.tree(), RUNS_PER_THREAD * 2)[1:]]
    assert any(leaves[lo].inside and leaves[lo - 1].lo == leaves[lo].lo for lo in firsts)
    assert_same_bits(case.sum(executor), case.sum(Threads(1)))


def test_a_factor_over_pairs_gives_the_bits_of_threads(finely, executor, sent, monkeypatch):
    """The tree says which row of M a fibre has, and so must its parts."""
    monkeypatch.setattr(pairs, "DENSE", 0)
    i, j, k = np.argwhere(np.random.default_rng(0).random((12, 11, 6)) < 0.3).T
    data = {"X": pl.DataFrame({"i": i, "j": j, "k": k})}
    model, some = "X[i,j,k] = A[i,r] B[j,r] C[k,r] + M[i,j]", {"rank": 2, "seed": 0, "sweeps": 3, "progress": False}
    one, two = (plait.fit(model, data, executor=each, **some) for each in (Threads(1), executor))
    assert digest(one) == digest(two)
    assert any(part.numbers for thing in sent if isinstance(thing, LinksInMemory) for part, _ in thing.parts)


def test_rare_entries_keep_their_cells(finely, executor):
    case = drawn(MATRIX)
    tiny = case.arrays[0].copy()
    tiny[7:20] *= 1e-200
    case = replace(case, arrays=[tiny, case.arrays[1] * 1e-150])
    one = case.sum(Threads(1))
    assert 0 < len(one.rare_entries) < len(case.entries)
    assert_same_bits(case.sum(executor), one)


def test_sums_joined_by_workers_have_the_same_bits(finely, executor, monkeypatch):
    monkeypatch.setattr(dask, "JOIN_BYTES", 0)
    monkeypatch.setattr(dask, "Joined", None)  # of this process
    case = drawn(MATRIX)
    assert_same_bits(case.sum(executor), case.sum(Threads(1)))


def test_a_table_that_workers_read_themselves_is_summed_without_being_sent(finely, executor, sent):
    case = drawn(MATRIX)
    stats = executor.sum(case.step, OnDisk(case.tree()), case.arrays, case.state)
    assert_same_bits(stats, case.sum(Threads(1)))
    assert any(isinstance(thing, LinksOnDisk) for thing in sent)
    assert not any(isinstance(thing, LinksInMemory) for thing in sent)


FOLDERS = {}


class OnDisk:
    """A table known by a name, as a folder is by its path."""

    def __init__(self, tree):
        self.name = f"folder {len(FOLDERS)}"
        FOLDERS[self.name] = tree
        self.order, self.sizes, self.types, self.leaf_count = tree.order, tree.sizes, tree.types, tree.leaf_count

    def __len__(self):
        return len(FOLDERS[self.name])

    def extents(self):
        return FOLDERS[self.name].extents()

    def walk(self, lo=0, hi=None):
        return (Piece(p.number, p.tree, p.leaf) for p in FOLDERS[self.name].walk(lo, hi))


# --- what is sent


def test_links_are_sent_once(finely, executor, sent):
    case = drawn(MATRIX)
    tree = case.tree()
    for _ in range(3):
        executor.sum(case.step, tree, case.arrays, case.state)
    links = [thing for thing in sent if isinstance(thing, LinksInMemory)]
    assert len(links) == len(cut_runs(tree, RUNS_PER_THREAD * 2))
    assert sum(len(part) for one in links for part, _ in one.parts) == len(tree)


def test_only_rows_of_a_run_are_sent_of_an_operand_with_the_root_index(finely, executor, sent):
    case = drawn(MATRIX)
    case.sum(executor)
    operands = [thing for thing in sent if isinstance(thing, dict)]
    rows = [len(thing[0]) for thing in operands if 0 in thing]
    assert len(rows) >= RUNS_PER_THREAD * 2
    assert sum(rows) <= 40 + len(rows)  # a root row that is cut belongs to two runs
    assert [len(thing[1]) for thing in operands if 1 in thing] == [30]


def test_links_of_a_run_hold_no_more_than_its_leaves(finely):
    tree = drawn(MATRIX).tree()
    links = pickle.loads(pickle.dumps(LinksInMemory(tree, 4, 8)))
    assert [piece.number for piece in links.walk()] == [0, 1, 2, 3]
    assert sum(len(part) for part, _ in links.parts) == sum(tree.length(leaf) for leaf in tree.leaves[4:8])
    assert {part.types for part, _ in links.parts} == {tree.types}


def test_links_of_a_table_that_is_gone_are_released(finely, executor, quick):
    case = drawn(MATRIX)
    tree = case.tree()
    executor.sum(case.step, tree, case.arrays, case.state)
    assert len(executor._runs) == 1
    del tree
    gc.collect()
    assert not executor._runs


def test_sums_too_small_to_travel_stay_here(quick, sent):
    case = drawn(MATRIX)
    assert_same_bits(case.sum(Dask(quick, threads=1)), case.sum(Threads(1)))
    assert not sent


# --- which worker keeps what


def test_owners_keep_what_they_have_up_to_a_fair_share():
    first = assign([""] * 8, {"a": 1, "b": 1})
    assert first == [*"aaaabbbb"]
    assert assign(first, {"a": 1, "b": 1, "c": 1}) == [*"aaacbbbc"]
    assert assign(first, {"b": 1, "d": 1}) == [*"ddddbbbb"]
    assert assign([""] * 6, {"a": 2, "b": 1}) == [*"aaaabb"]


def test_there_are_no_more_runs_than_leaves(finely):
    tree = drawn(MATRIX).tree()
    assert len(cut_runs(tree, 1000)) == tree.leaf_count


def test_there_are_as_many_runs_as_are_asked_for():
    for count in range(1, 70):
        for parts in range(1, 20):
            found = runs(count, parts)
            (level,) = {level for level, _ in found}
            assert min(parts, count) <= len(found) <= 2 * parts or level == 0
            assert (len(found) - 1) << level < count <= len(found) << level
