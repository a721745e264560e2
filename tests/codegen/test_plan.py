"""Plans: choice of trees, equal counts from any trees, estimated memory."""

from dataclasses import replace

import numpy as np
import pytest

from plait.codegen import plan as plan_module
from plait.codegen.plan import tree_order
from plait.data.sparse.csf import CSFCache
from plait.executors import Threads
from plait.inference import gamma
from plait.inference.expected_counts import Counts
from plait.inference.nonzeros import Nonzeros
from tests.support.steps import Equation, equations, seeded

MATRIX = Equation.read("X[i,j] = A[i,r] B[j,r]")
CP3 = Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r]")
LONG = replace(CP3, sizes={"i": 9000, "j": 8000, "k": 30})  # A and B are both much longer than 500 entries


def orders(plan):
    return ["".join(part.order) for part in plan.passes]


# choosing trees -------------------------------------------------------------------------------------------------------


def test_the_longest_axis_is_the_root_and_the_others_go_from_short_to_long():
    assert tree_order(("i", "j", "k"), {"i": 7, "j": 2, "k": 5}) == ("i", "j", "k")
    assert tree_order(("i", "j", "k"), {"i": 3, "j": 9, "k": 2}) == ("j", "k", "i")
    assert tree_order(("i", "j", "k"), {"i": 3, "j": 9, "k": 2}, "k") == ("k", "i", "j")


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_a_factor_much_longer_than_the_entries_gets_its_own_tree(workers):
    assert orders(LONG.plan("poisson", 500, workers)) == ["ikj", "jki"]
    assert orders(LONG.plan("poisson", 10_000_000, workers)) == ["ikj"]
    assert orders(replace(CP3, sizes={"i": 900, "j": 800, "k": 700}).plan("poisson", 1, workers)) == ["ikj"]


@pytest.mark.quick(entries=[10])
@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("entries", [0, 10, 10**9])
@pytest.mark.parametrize("name", equations())
def test_every_factor_is_served_by_exactly_one_pass(name, entries, workers):
    equation = equations()[name]
    large = replace(equation, sizes={index: 2000 + 100 * n for n, index in enumerate(equation.indices)})
    for case in (equation, large):
        plan = case.plan("poisson", entries, workers)
        served = [position for part in plan.passes for position in part.serves]
        assert sorted(served) == list(range(len(equation.factors)))
        for part in plan.passes:
            assert sorted((*part.direct, *part.buffered)) == sorted(part.serves)
            assert sorted(part.order) == sorted(equation.order)
            assert all(part.order[0] in plan.operands[position].visible for position in part.direct)
            assert not any(part.order[0] in plan.operands[position].visible for position in part.buffered)


# the same numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["poisson", "bernoulli"])
def test_two_trees_give_the_counts_of_one_tree(kind, monkeypatch, tuning):
    tuning(min_parallel_entries=1)
    rng = seeded("two trees")
    cells = LONG.cells(rng, 500)
    nonzeros = Nonzeros(cells, np.ones(len(cells)), rng.gamma(2.0, 1.0, len(cells)))
    factors = {}
    for layout in LONG.layouts:
        draws = (layout.pack(rng.gamma(2.0, 1.0, layout.sizes) + 0.05) for _ in range(2))
        factors[layout.name] = gamma.posterior(layout, *draws)
    found = []
    two = LONG.plan(kind, len(cells), 2)
    monkeypatch.setattr(plan_module, "_too_large", lambda layout, entries: False)
    for workers, plan, trees in ((1, LONG.plan(kind, len(cells), 1), 1), (2, two, 2)):
        assert len(plan.passes) == trees
        counts = Counts(plan, nonzeros, CSFCache())
        found.append(counts(factors, {}, Threads(workers), list(factors), bound=True))
    one, two = found
    assert two.value == pytest.approx(one.value, rel=1e-12)
    for name in factors:
        np.testing.assert_allclose(two.gradients[name], one.gradients[name], rtol=1e-12, err_msg=name)


# what a plan says -----------------------------------------------------------------------------------------------------


def test_multiplications_and_buffers_of_a_plan():
    plan = replace(CP3, sizes={"i": 1000, "j": 1000, "k": 1000}, ranks={"r": 5}).plan("poisson", 12_500_000, 2)
    assert plan.buffer_bytes(0) == 8 * 8 * 1000 * (3 + 2)
    # three factors of rank 5: forward once and backward twice for each level's fibres
    assert plan.multiplications(0) == 3 * 5 * (1000 + 1_000_000 + 12_500_000)
    total = Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r] + b[j] + N[i,j]", sizes={"i": 90, "j": 80, "k": 30})
    # three products of rank 3 and a factor without a latent index; levels have 90, 500 and 500 fibres
    assert total.plan("poisson", 500, 1).multiplications(0) == 3 * (3 * (90 + 500 + 500) + 500)
    equation = replace(MATRIX, sizes={"i": 100, "j": 10}, ranks={"r": 9})
    assert equation.plan("poisson", 1000, 1).buffer_bytes(0) == 8 * 16 * 110
    assert equation.plan("poisson", 1000, 4).buffer_bytes(0) == 8 * 16 * (110 + 3 * 10)


MEMORY = {
    "matrix, dense": (MATRIX, {"i": 300, "j": 200}, 50_000),
    "matrix, sparse": (MATRIX, {"i": 3000, "j": 2000}, 5_000),
    "matrix, in its own order": (MATRIX, {"i": 200, "j": 300}, 20_000),
    "cube, dense": (CP3, {"i": 40, "j": 50, "k": 60}, 80_000),
    "cube, middling": (CP3, {"i": 200, "j": 250, "k": 300}, 50_000),
    "cube, sparse": (CP3, {"i": 2000, "j": 2500, "k": 3000}, 50_000),
    "cube, as many entries as pairs": (CP3, {"i": 100, "j": 110, "k": 500}, 55_000),
    "long and thin": (CP3, {"i": 20_000, "j": 3, "k": 4}, 50_000),
}


@pytest.mark.parametrize("kind", ["poisson", "bernoulli", "exposed"])
@pytest.mark.parametrize("name", MEMORY)
def test_the_estimated_memory_is_at_most_a_quarter_off(name, kind):
    equation, sizes, count = MEMORY[name]
    equation = replace(equation, sizes=sizes)
    rng = seeded(name)
    cells = equation.cells(rng, count)
    exposure = np.ones(len(cells)) if kind == "exposed" else None
    likelihood = "poisson" if kind == "poisson" else "bernoulli"
    plan = equation.plan(likelihood, len(cells), 2, exposed=(0,) if kind == "exposed" else ())
    nonzeros = Nonzeros(cells, np.ones(len(cells)), np.ones(len(cells)), (exposure,))
    relation = Counts(plan, nonzeros, CSFCache())
    for number, tree in enumerate(relation.trees):
        assert plan.tree_bytes(number) == pytest.approx(tree.nbytes, rel=0.25)
