"""Which trees a plan chooses, what it says about itself, and that its choice changes no number."""

from dataclasses import replace

import numpy as np
import pytest

from plait.compile import plan as plan_module
from plait.compile.plan import ALONE, tree_order
from plait.data.cells.trees import Forest
from plait.execute import Threads, threads
from plait.infer import gamma
from plait.infer.counts import Counts
from plait.infer.nonzeros import Nonzeros
from tests.compile.cases import Equation, equations, seeded

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
def test_a_factor_much_longer_than_the_entries_gets_a_tree_of_its_own_on_any_number_of_threads(workers):
    plan = LONG.plan("poisson", 500, workers)
    assert orders(plan) == ["ikj", "jki"]
    first, second = plan.passes
    assert (first.serves, first.direct, first.buffered) == ((0, 2), (0,), (2,))
    assert (second.serves, second.direct, second.buffered) == ((1,), (1,), ())


def test_many_entries_need_one_tree():
    assert orders(LONG.plan("poisson", 10_000_000, 2)) == ["ikj"]


def test_short_factors_need_one_tree():
    assert orders(replace(CP3, sizes={"i": 900, "j": 800, "k": 700}).plan("poisson", 1, 2)) == ["ikj"]


@pytest.mark.sampled(90)
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


def test_a_relation_without_an_index_has_one_cell_as_its_tree():
    assert equations()["no_index"].plan("poisson", 1, 2).passes[0].order == (ALONE,)


# the same numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["poisson", "bernoulli"])
def test_two_trees_give_the_counts_of_one_tree(kind, monkeypatch):
    monkeypatch.setattr(threads, "SMALL", 1)
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
        counts = Counts(plan, nonzeros, Forest())
        found.append(counts(factors, {}, Threads(workers), list(factors), bound=True))
    one, two = found
    assert two.value == pytest.approx(one.value, rel=1e-12)
    for name in factors:
        np.testing.assert_allclose(two.gradients[name], one.gradients[name], rtol=1e-12, err_msg=name)


def test_only_the_trees_of_the_wanted_factors_are_walked():
    rng = seeded("wanted")
    cells = LONG.cells(rng, 500)
    nonzeros = Nonzeros(cells, np.ones(len(cells)), np.ones(len(cells)))
    factors = {
        layout.name: gamma.point(layout, layout.pack(rng.uniform(0.5, 1.5, layout.sizes))) for layout in LONG.layouts
    }

    class Recorded(Threads):
        walked: list[tuple[str, ...]] = []  # noqa: RUF012

        def sum(self, step, *arguments):
            self.walked.append(step.order)
            return super().sum(step, *arguments)

    executor = Recorded(2)
    plan = LONG.plan("poisson", len(cells), 2)
    relation = Counts(plan, nonzeros, Forest())
    relation(factors, {}, executor, ["Z1"], bound=False)
    assert executor.walked == [("j", "k", "i")]
    relation(factors, {}, executor, ["Z0", "Z1", "Z2"], bound=True)
    assert executor.walked[1:] == [("i", "k", "j"), ("j", "k", "i")]


# what a plan says -----------------------------------------------------------------------------------------------------


def test_a_plan_prints_trees_buffers_memory_and_cost():
    text = str(replace(LONG, ranks={"r": 5}).plan("poisson", 500, 2))
    assert text == (
        "X: poisson, 500 entries, 2 threads\n"
        "  tree i > k > j: 0.0 MB, buffers 0.6 MB, 0.0 million multiplications a pass\n"
        "    Z0: direct (has the root index)\n"
        "    Z2: one buffer a leaf\n"
        "  tree j > k > i: 0.0 MB, buffers 0.5 MB, 0.0 million multiplications a pass\n"
        "    Z1: direct (has the root index)"
    )


def test_a_plan_of_a_sum_has_the_factors_of_all_terms_in_one_walk():
    equation = Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r] + b[j] + N[i,j]", sizes={"i": 90, "j": 80, "k": 30})
    plan = equation.plan("poisson", 500, 1)
    assert str(plan) == (
        "X: poisson, 500 entries, 1 threads\n"
        "  tree i > k > j: 0.0 MB, buffers 0.0 MB, 0.0 million multiplications a pass\n"
        "    Z0: direct (has the root index)\n"
        "    Z1: one buffer a leaf\n"
        "    Z2: one buffer a leaf\n"
        "    Z3: one buffer a leaf"
    )
    # three products of rank 3 and a factor without a latent index; levels have 90, 500 and 500 fibres
    assert plan.multiplications(0) == 3 * (3 * (90 + 500 + 500) + 500)


def test_a_plan_of_a_large_relation_states_its_size():
    plan = replace(CP3, sizes={"i": 1000, "j": 1000, "k": 1000}, ranks={"r": 5}).plan("poisson", 12_500_000, 2)
    assert "12,500,000 entries" in str(plan)
    assert plan.buffer_bytes(0) == 8 * 8 * 1000 * (3 + 2)
    # three factors of rank 5: forward once and backward twice for each level's fibres
    assert plan.multiplications(0) == 3 * 5 * (1000 + 1_000_000 + 12_500_000)


def test_buffers_are_one_gradient_each_and_one_more_a_further_thread():
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
def test_the_memory_that_a_plan_announces_is_at_most_a_quarter_off(name, kind):
    equation, sizes, count = MEMORY[name]
    equation = replace(equation, sizes=sizes)
    rng = seeded(name)
    cells = equation.cells(rng, count)
    exposure = np.ones(len(cells)) if kind == "exposed" else None
    likelihood = "poisson" if kind == "poisson" else "bernoulli"
    plan = equation.plan(likelihood, len(cells), 2, exposed=(0,) if kind == "exposed" else ())
    nonzeros = Nonzeros(cells, np.ones(len(cells)), np.ones(len(cells)), (exposure,))
    relation = Counts(plan, nonzeros, Forest())
    for number, tree in enumerate(relation.trees):
        assert plan.tree_bytes(number) == pytest.approx(tree.nbytes, rel=0.25)
