"""Sums on Dask workers have the bits of threads; links are sent once."""

import gc
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import plait
from plait.executors import Dask, Threads, dask
from plait.executors.dask import RUNS_PER_THREAD, assign, cut_runs
from plait.executors.dask_worker import WorkerLinks
from tests.bits import digest
from tests.support.steps import Case, Equation, assert_same_bits, equations, seeded
from tests.support.tuning import SMALL_LEAVES

EQUATIONS = equations()
MATRIX = replace(Equation.read("X[i,j] = A[i,r] B[j,r]"), sizes={"i": 40, "j": 30})


@pytest.fixture
def finely(tuning):
    tuning(**SMALL_LEAVES, max_leaf_entries=9)


@pytest.fixture
def executor(quick):
    with Dask(quick, threads=1, here=0) as executor:
        yield executor


def every(equation):
    return tuple(range(len(equation.factors)))


def drawn(equation, kind="poisson", order=None, count=400):
    step = equation.step(kind, order or equation.order, every(equation), bound=kind != "linear")
    return Case.draw(equation, step, seeded(equation, step), count)


# --- the same bits


@pytest.mark.quick(name=["matrix", "cp3", "tucker", "bias"])
@pytest.mark.parametrize("name", EQUATIONS)
def test_workers_give_the_bits_of_threads_for_every_equation(name, finely, executor):
    equation = EQUATIONS[name]
    case = drawn(equation, order=equation.plan("poisson", 400, 1).passes[0].order)
    assert_same_bits(case.sum(executor), case.sum(Threads(1)))


@pytest.mark.parametrize(("kind", "order"), [("negbin", "ij"), ("linear", "ji"), ("bernoulli", "ji"), ("floats", "ij")])
def test_other_likelihoods_roots_and_types_give_the_bits_of_threads(kind, order, finely, executor):
    case = drawn(MATRIX, "poisson" if kind == "floats" else kind, order)
    if kind == "floats":
        case = replace(case, arrays=[array.astype(np.float32) for array in case.arrays])
    assert_same_bits(case.sum(executor), case.sum(Threads(1)))


@pytest.mark.parametrize("order", ["ijk", "jik", "kji"])
def test_a_root_row_cut_between_runs_gives_the_bits_of_threads(order, finely, executor):
    equation = replace(Equation.read("X[i,j,k] = H[i,j,r] C[k,r]"), sizes={"i": 10, "j": 11, "k": 12})
    case = drawn(equation, order=tuple(order), count=1000)
    keep = (case.cells[:, "ijk".index(order[0])] == 4) | (np.arange(len(case.cells)) % 7 == 0)
    case = replace(case, cells=case.cells[keep], entries=case.entries[keep])
    leaves = case.tree().leaves
    firsts = [run.lo for run in cut_runs(case.tree(), RUNS_PER_THREAD * 2)[1:]]
    assert any(leaves[lo].inside and leaves[lo - 1].lo == leaves[lo].lo for lo in firsts)
    assert_same_bits(case.sum(executor), case.sum(Threads(1)))


@pytest.mark.budget(5)
def test_a_factor_over_pairs_gives_the_bits_of_threads(finely, executor, sent, tuning):
    tuning(max_dense_pairs=0)
    i, j, k = np.argwhere(np.random.default_rng(0).random((12, 11, 6)) < 0.3).T
    data = {"X": pl.DataFrame({"i": i, "j": j, "k": k})}
    model, some = "X[i,j,k] = A[i,r] B[j,r] C[k,r] + M[i,j]", {"rank": 2, "seed": 0, "max_iter": 3, "progress": False}
    one, two = (plait.fit(model, data, executor=each, **some) for each in (Threads(1), executor))
    assert digest(one) == digest(two)
    assert any(part.numbers for thing in sent if isinstance(thing, WorkerLinks) for part, _ in thing.parts)


def test_entries_that_underflow_keep_their_cells(finely, executor):
    case = drawn(MATRIX)
    tiny = case.arrays[0].copy()
    tiny[7:20] *= 1e-200
    case = replace(case, arrays=[tiny, case.arrays[1] * 1e-150])
    one = case.sum(Threads(1))
    assert 0 < len(one.underflow_entries) < len(case.entries)
    assert_same_bits(case.sum(executor), one)


def test_sums_joined_by_workers_have_the_same_bits(finely, executor, monkeypatch, tuning):
    tuning(join_bytes=0)
    monkeypatch.setattr(dask, "Joined", None)  # of this process
    case = drawn(MATRIX)
    assert_same_bits(case.sum(executor), case.sum(Threads(1)))


# --- what is sent


def test_links_are_sent_once(finely, executor, sent):
    case = drawn(MATRIX)
    tree = case.tree()
    for _ in range(3):
        executor.sum(case.step, tree, case.arrays, case.state)
    links = [thing for thing in sent if isinstance(thing, WorkerLinks)]
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


def test_links_of_a_deleted_table_are_released(finely, executor, quick):
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


def test_workers_keep_their_runs_up_to_a_fair_share():
    first = assign([""] * 8, {"a": 1, "b": 1})
    assert first == [*"aaaabbbb"]
    assert assign(first, {"a": 1, "b": 1, "c": 1}) == [*"aaacbbbc"]
    assert assign(first, {"b": 1, "d": 1}) == [*"ddddbbbb"]
    assert assign([""] * 6, {"a": 2, "b": 1}) == [*"aaaabb"]
