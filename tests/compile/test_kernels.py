"""Compiled kernels equal the dense reference, however the work is cut; and rare entries equal the log domain.

Every distinct step costs about half a second to compile once: the lists below are chosen, not crossed.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, psi

from plait.compile.plan import ALONE
from plait.data.cells.leaves import Leaf
from plait.data.cells.trees import Forest
from plait.execute import Reference, Stats, Threads, calling, threads
from plait.execute.threads import make_call
from plait.infer import gamma
from plait.infer.counts import Counts
from plait.infer.nonzeros import Nonzeros
from plait.infer.rare import ImpossibleLinkError, rare_counts
from plait.jit import TINY
from tests.compile.cases import Case, Equation, assert_equal_stats, equations, seeded
from tests.finely import cut_finely

EQUATIONS = equations()
SINGLE = [name for name, equation in EQUATIONS.items() if equation.single]  # not sums
CP3 = Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r]")
MATRIX = Equation.read("X[i,j] = A[i,r] B[j,r]")
TUCKER = Equation.read("X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]")
SUM = EQUATIONS["given_in_terms"]


@pytest.fixture
def always_cut(monkeypatch):
    """Let two threads share even a handful of entries."""
    cut_finely(monkeypatch)


def equals_reference(equation, step, workers=1, **drawn):
    case = Case.draw(equation, step, seeded(equation, step), **drawn)
    assert_equal_stats(case, case.sum(Threads(workers)), case.sum(Reference()))


def planned(equation):
    """The order of the tree that a fit would use."""
    return equation.plan("poisson", 400, 1).passes[0].order


def every(equation):
    return tuple(range(len(equation.factors)))


# every equation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EQUATIONS)
def test_poisson_counts_of_all_factors_and_the_bound_equal_the_reference(name, always_cut):
    equation = EQUATIONS[name]
    step = equation.step("poisson", planned(equation), every(equation), bound=True)
    for workers in (1, 2):
        equals_reference(equation, step, workers)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SINGLE)
def test_bernoulli_counts_under_exposure_equal_the_reference_in_the_opposite_tree(name, always_cut):
    equation = EQUATIONS[name]
    step = equation.step("bernoulli", planned(equation)[::-1], every(equation), bound=True, exposed=(0,))
    for workers in (1, 2):
        equals_reference(equation, step, workers)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SINGLE)
def test_linear_gradient_of_one_factor_equals_the_reference(name):
    equation = EQUATIONS[name]
    one = len(name) % len(equation.factors)
    order = equation.order[1:] + equation.order[:1]
    equals_reference(equation, equation.step("linear", order, (one,)))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [*SINGLE, "tucker_cp", "given_in_terms", "rescal_bias"])
def test_poisson_counts_of_one_factor_equal_the_reference(name):
    equation = EQUATIONS[name]
    one = (len(name) + 1) % len(equation.factors)
    order = equation.order[-1:] + equation.order[:-1]
    equals_reference(equation, equation.step("poisson", order, (one,)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name",
    ["pairwise", "tucker_cp", "given_in_terms", "given_alone", "scalars", "symmetric_weighted.friends", "rescal_bias"],
)
def test_bernoulli_counts_of_sums_equal_the_reference_in_the_opposite_tree(name, always_cut):
    equation = EQUATIONS[name]
    step = equation.step("bernoulli", planned(equation)[::-1], every(equation), bound=True)
    for workers in (1, 3):
        equals_reference(equation, step, workers)


# chosen equations, in depth -----------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("name", ["matrix", "tucker_mixed_order", "bias", "no_index_latent"])
def test_bernoulli_counts_without_exposure_equal_the_reference(name, bound):
    equation = EQUATIONS[name]
    equals_reference(equation, equation.step("bernoulli", equation.order, every(equation), bound=bound))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["negbin", "amounts"])
@pytest.mark.parametrize(("name", "exposed"), [("cp3", ()), ("tucker", (0,)), ("bias", (0,)), ("pairwise", ())])
def test_counts_of_bursts_and_of_amounts_equal_the_reference(name, exposed, kind, always_cut):
    equation = EQUATIONS[name]
    step = equation.step(kind, planned(equation), every(equation), bound=True, exposed=exposed)
    for workers in (1, 2):
        equals_reference(equation, step, workers)


@pytest.mark.parametrize("name", ["cp3", "tucker", "train", "block_term"])
def test_linear_gradients_of_all_factors_equal_the_reference(name):
    equation = EQUATIONS[name]
    equals_reference(equation, equation.step("linear", equation.order, every(equation)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("name", ["tucker", "train"])
def test_each_linear_gradient_alone_equals_the_reference(name, position):
    equation = EQUATIONS[name]
    equals_reference(equation, equation.step("linear", equation.order, (position,)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2)])
def test_any_choice_of_cp_factors_equals_the_reference(wanted):
    equals_reference(CP3, CP3.step("poisson", "ijk", wanted, bound=True))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("order", ["ijk", "jki", "kij", "kji"])
def test_any_order_of_a_tucker_tree_equals_the_reference(order):
    equals_reference(TUCKER, TUCKER.step("poisson", order, every(TUCKER), bound=True))


@pytest.mark.parametrize("name", ["cp3", "tucker"])
def test_a_bound_without_gradients_equals_the_reference(name):
    equation = EQUATIONS[name]
    equals_reference(equation, equation.step("poisson", equation.order, (), bound=True))


def test_entries_of_both_signs_equal_the_reference():
    step = CP3.step("linear", "ijk", every(CP3))
    case = Case.draw(CP3, step, seeded("signs"))
    case = case.with_entries(case.entries - 1.7)
    actual, expected = case.sum(Threads(1)), case.sum(Reference())
    for a, e in zip(actual.gradients, expected.gradients):
        np.testing.assert_allclose(a, e, rtol=1e-10, atol=1e-12 * np.abs(e).max())


# ranks --------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("kind", "rank"),
    [
        *itertools.product(["poisson"], [1, 8, 9, 64, 65, 200]),
        *itertools.product(["bernoulli", "linear"], [1, 65, 200]),
    ],
)
def test_any_rank_of_a_cp_model_equals_the_reference(kind, rank):
    equation = Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r]", ranks={"r": rank})
    wanted = (1,) if kind == "linear" else (0, 1, 2)
    equals_reference(equation, equation.step(kind, "ijk", wanted, bound=kind != "linear"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "ranks",
    [{"p": 9, "q": 17, "r": 66}, {"p": 70, "q": 3, "r": 8}, {"p": 1, "q": 1, "r": 1}, {"p": 5, "q": 80, "r": 1}],
    ids=str,
)
def test_a_wide_tucker_model_equals_the_reference(ranks):
    equation = Equation.read("X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]", ranks=ranks)
    equals_reference(equation, equation.step("poisson", "jki", every(equation), bound=True))


@pytest.mark.parametrize("text", ["X[i,j] = A[i,r,s] B[r,j]", "X[i,j] = A[i,q] P[q,r] G[r,q] B[j,r]"])
def test_wide_blocks_without_a_contiguous_index_equal_the_reference(text):
    equation = Equation.read(text, ranks={"r": 67, "s": 9, "q": 10})
    equals_reference(equation, equation.step("poisson", "ij", every(equation), bound=True))


# cutting the work ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", ["poisson", "bernoulli", "linear"])
def test_any_number_of_threads_gives_equal_sums(kind, workers, always_cut):
    step = MATRIX.step(kind, "ij", (1,) if kind == "linear" else (0, 1), bound=kind != "linear")
    equation = replace(MATRIX, sizes={"i": 60, "j": 90})
    case = Case.draw(equation, step, seeded(kind), count=3000)
    assert_equal_stats(case, case.sum(Threads(workers)), case.sum(Reference()))


def assert_same_bits(actual, expected):
    for a, b in zip(actual.gradients, expected.gradients, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (actual.value, actual.events) == (expected.value, expected.events)
    np.testing.assert_array_equal(actual.rare_cells, expected.rare_cells)


@pytest.mark.parametrize("size", [3, 40, 700])
@pytest.mark.parametrize("kind", ["poisson", "bernoulli", "linear"])
def test_any_number_of_threads_gives_the_same_bits(kind, size, monkeypatch):
    cut_finely(monkeypatch, size)
    step = MATRIX.step(kind, "ij", (0, 1), bound=kind != "linear")
    case = Case.draw(replace(MATRIX, sizes={"i": 60, "j": 90}), step, seeded(kind), count=3000)
    assert case.tree().leaf_count >= 3000 / size / 2
    one = case.sum(Threads(1))
    assert_equal_stats(case, one, case.sum(Reference()))
    for workers in (2, 3, 7):
        assert_same_bits(case.sum(Threads(workers)), one)


@pytest.mark.parametrize("name", ["cp3", "two_visible", "tucker", "rescal_bias", "train"])
@pytest.mark.parametrize("kind", ["poisson", "linear"])
def test_a_giant_root_row_is_cut_into_leaves_and_nothing_is_left_out(name, kind, monkeypatch):
    equation = EQUATIONS[name]
    if kind == "linear" and not equation.single:
        pytest.skip("weights have one term")
    for order in (equation.order, equation.order[::-1]):
        step = equation.step(kind, order, every(equation), bound=kind != "linear")
        case = Case.draw(equation, step, seeded(name, kind, "giant"), count=2000)
        place = equation.order.index(order[0])
        keep = (case.cells[:, place] == 1) | (np.arange(len(case.cells)) % 9 == 0)
        case = replace(case, cells=case.cells[keep], entries=case.entries[keep])
        with monkeypatch.context() as patch:
            cut_finely(patch, 5)
            tree = case.tree()
            assert any(leaf.inside for leaf in tree.leaves)
            assert sum(map(tree.length, tree.leaves)) == len(tree)
            one, three = case.sum(Threads(1)), case.sum(Threads(3))
        assert_equal_stats(case, one, case.sum(Reference()))
        assert_same_bits(three, one)


def test_a_leaf_has_the_same_bits_wherever_it_lies_in_the_arrays():
    """Blocks of logarithms begin with the leaf, so that it can be stored alone."""
    step = MATRIX.step("poisson", "ij", (1,), bound=True)
    case = Case.draw(replace(MATRIX, sizes={"i": 60, "j": 90}), step, seeded("lies"), count=3000)
    tail = case.cells[:, 0] >= 23
    alone = case.tree(tail)
    call = make_call(step, alone, case.arrays, None)
    whole = case.tree()
    (leaf,) = [Leaf(int(np.searchsorted(whole.rows[0], 23)), len(whole.rows[0]))]
    zeros = lambda shape, kind: np.zeros(shape, kind)  # noqa: E731
    here, there = (call.leaf(tree, part, [None], zeros) for tree, part in ((whole, leaf), (alone, alone.leaves[0])))
    np.testing.assert_array_equal(here.gradients[0], there.gradients[0])
    np.testing.assert_array_equal(here.value, there.value)


def test_large_blocks_are_cut_without_being_asked():
    equation = replace(MATRIX, sizes={"i": 200, "j": 300})
    case = Case.draw(equation, equation.step("poisson", "ij", (0, 1), bound=True), seeded("large"), count=20_000)
    assert len(case.entries) * 8 > threads.SMALL
    assert_equal_stats(case, case.sum(Threads(2)), case.sum(Reference()))


def test_more_threads_than_roots_give_equal_sums(always_cut):
    equation = replace(MATRIX, sizes={"i": 2, "j": 50})
    case = Case.draw(equation, equation.step("poisson", "ij", (0, 1), bound=True), seeded("roots"))
    assert_equal_stats(case, case.sum(Threads(8)), case.sum(Reference()))


def test_one_heavy_root_leaves_nothing_out(always_cut):
    equation = replace(MATRIX, sizes={"i": 5, "j": 500})
    case = Case.draw(equation, equation.step("poisson", "ij", (0, 1), bound=True), seeded("heavy"), count=2500)
    keep = (case.cells[:, 0] == 2) | (case.cells[:, 1] == 7)
    case = replace(case, cells=case.cells[keep], entries=case.entries[keep])
    for workers in (2, 4):
        assert_equal_stats(case, case.sum(Threads(workers)), case.sum(Reference()))


ADDED = {
    "poisson": CP3.step("poisson", "ijk", (0, 1, 2), bound=True),
    "bernoulli": MATRIX.step("bernoulli", "ji", (0, 1), bound=True, exposed=(0,)),
    "linear": TUCKER.step("linear", "ijk", (0, 1, 2, 3)),
    "sum": SUM.step("poisson", planned(SUM), every(SUM), bound=True),
}
OF = {"poisson": CP3, "bernoulli": MATRIX, "linear": TUCKER, "sum": SUM}


@pytest.mark.parametrize("kind", ADDED)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_split_into_blocks_gives_equal_stats(kind, data):
    step = ADDED[kind]
    case = Case.draw(OF[kind], step, np.random.default_rng(data.draw(st.integers(0, 99), label="seed")), count=60)
    if kind != "linear" and data.draw(st.booleans(), label="some entries are rare"):
        for array in case.arrays[:: 1 if kind == "sum" else len(case.arrays)]:
            array[0] = TINY / 1e6
    count = len(case.entries)
    block = np.array(data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count), label="block of entry"))
    blocks = [case.tree(block == n) for n in range(5)]
    executor = Threads(1)
    whole = case.sum(executor)
    assert_equal_stats(case, case.sum(executor, blocks), whole)
    added = Stats.zero(step, case.arrays)
    for part in blocks:
        added = added + case.sum(executor, [part])
    assert_equal_stats(case, added, whole)


@pytest.mark.parametrize("executor", [Threads(1), Threads(2), Reference()], ids=["1 thread", "2 threads", "reference"])
@pytest.mark.parametrize("kind", ADDED)
def test_nothing_to_sum_is_zero(kind, executor, always_cut):
    step = ADDED[kind]
    case = Case.draw(OF[kind], step, seeded(kind), count=10)
    for blocks in ([], [case.tree(slice(0, 0))], [case.tree(slice(0, 0))] * 2):
        stats = case.sum(executor, blocks)
        assert [g.shape for g in stats.gradients] == [case.arrays[position].shape for position in step.wanted]
        assert not any(g.any() for g in stats.gradients)
        assert stats.value == 0.0
        assert stats.rare_cells.shape == (0, len(step.order))


@pytest.mark.parametrize("kind", ["poisson", "linear"])
def test_row_numbers_starts_and_entries_of_any_width_give_the_same_bits(kind, always_cut):
    step = ADDED[kind]
    case = Case.draw(OF[kind], step, seeded(kind))
    case = replace(case, entries=1.0 + np.arange(len(case.entries)) % 200)
    tree = case.tree()
    assert {rows.dtype for rows in tree.rows} == {np.dtype(np.uint32)}
    assert {starts.dtype for starts in tree.starts} == {np.dtype(np.uint32)}
    expected = case.sum(Threads(1))
    for width, entries in ((np.uint8, np.uint8), (np.uint16, np.uint16), (np.uint64, np.float32)):
        starts = np.uint64 if width is np.uint64 else np.uint32
        other = replace(
            tree,
            rows=tuple(rows.astype(width) for rows in tree.rows),
            starts=tuple(level.astype(starts) for level in tree.starts),
            entries=tree.entries.astype(entries),
        )
        for workers in (1, 2):
            assert_same_bits(Threads(workers).sum(step, other, case.arrays, case.state), expected)


def test_read_only_and_strided_inputs_give_the_same_sums():
    case = Case.draw(CP3, ADDED["poisson"], seeded("frozen"))
    expected = case.sum(Threads(1))
    tree = case.tree()
    tree.entries.flags.writeable = False
    for array in case.arrays:
        array.flags.writeable = False
    assert_equal_stats(case, Threads(1).sum(case.step, tree, case.arrays), expected, rtol=0.0)
    strided = case.with_entries(np.repeat(case.entries, 2)[::2])
    assert_equal_stats(case, strided.sum(Threads(1)), expected, rtol=0.0)


def test_padding_never_leaks_into_a_gradient():
    """Padding of operands is 0 and stays without effect whatever the gradients' padding holds."""
    equation = Equation.read("X[i,j] = A[i,r,s] B[r,j]", ranks={"r": 3, "s": 5})
    step = equation.step("poisson", "ij", (0, 1), bound=True)
    case = Case.draw(equation, step, seeded("padding"))
    once = case.sum(Threads(1))
    again = case.sum(Threads(1))
    for a, b in zip(once.gradients, again.gradients):
        assert np.isfinite(a).all()
        np.testing.assert_array_equal(a, b)


# conservation and rare entries --------------------------------------------------------------------------------------


def peaked(equation, rng, low=1e-3, kind="poisson"):
    """Posteriors whose rows have their weight in a few components each: other products of them underflow.

    ψ(1e-3) is about −1000; log L of every component is kept in the log domain by the factor.
    """
    factors, logs = {}, {}
    for layout in equation.layouts:
        layout = replace(layout, scaled=layout.scaled and kind == "poisson")
        concentration = np.where(rng.random(layout.sizes) < 0.3, rng.gamma(2.0, 1.0, layout.sizes) + 0.1, low)
        scale = rng.gamma(2.0, 1.0, layout.sizes) + 0.1
        factors[layout.name] = gamma.posterior(layout, layout.pack(concentration), layout.pack(scale))
        logs[layout.name] = psi(concentration) + np.log(scale)
    return factors, logs


def log_domain(equation, cells, entries, logs, kind, exposures):
    """Counts (inside) of every factor, the links' part of the bound and how many underflow, over all latent indices."""
    rows = {index: cells[:, n].astype(np.int64) for n, index in enumerate(equation.indices)}
    terms = [_log_term(equation, term, rows, len(cells), logs, V) for term, V in enumerate(exposures)]
    log_xhat = np.logaddexp.reduce([logsumexp(total, axis=_latent_axes(total)) for _, total, _ in terms])
    fast = logsumexp(terms[0][2], axis=_latent_axes(terms[0][2])) if equation.single and kind == "poisson" else log_xhat
    expected, values = np.ones(len(cells)), log_xhat
    if kind == "bernoulli":
        rate = np.exp(np.maximum(log_xhat, -40.0))
        expected = np.where(log_xhat < -40.0, 1.0, rate / -np.expm1(-rate))
        values = np.where(log_xhat < -40.0, log_xhat, rate + np.log(-np.expm1(-rate)))
    counts = {}
    for term, (latent, total, _) in enumerate(terms):
        every_cell = (len(cells), *(1 for _ in latent))
        share = (entries * expected).reshape(every_cell) * np.exp(total - log_xhat.reshape(every_cell))
        for layout in _layouts(equation, term):
            gone = tuple(1 + n for n, index in enumerate(latent) if index not in layout.latent)
            own = [index for index in latent if index in layout.latent]
            block = share.sum(axis=gone).transpose(0, *(1 + own.index(index) for index in layout.latent))
            counts[layout.name] = np.zeros(layout.sizes)
            if layout.visible:
                np.add.at(counts[layout.name], tuple(rows[index] for index in layout.visible), block)
            else:
                counts[layout.name] += block.sum(axis=0)
    return counts, float(entries @ values), int((fast < np.log(TINY)).sum())


def _layouts(equation, term):
    return [layout for layout, operand in zip(equation.layouts, equation.operands) if operand.term == term]


def _latent_axes(total):
    return tuple(range(1, total.ndim))


def _log_term(equation, term, rows, count, logs, V):
    """The latent indices of a term, log(V Π L) of every cell over them, and the same with rows scaled, without V."""
    latent = list(dict.fromkeys(i for layout in _layouts(equation, term) for i in layout.latent))
    total = scaled = np.zeros((count, *(equation.size(index) for index in latent)))
    for layout in _layouts(equation, term):
        at = tuple(rows[index] for index in layout.visible)
        block = logs[layout.name][at] if at else np.repeat(logs[layout.name][None], count, axis=0)
        order = [1 + layout.latent.index(index) for index in latent if index in layout.latent]
        shape = [equation.size(index) if index in layout.latent else 1 for index in latent]
        block = block.transpose(0, *order).reshape(count, *shape)
        total = total + block
        scaled = scaled + block - block.max(axis=_latent_axes(block), keepdims=True, initial=-np.inf)
    return latent, total if V is None else total + np.log(V).reshape(count, *(1 for _ in latent)), scaled


def counted(equation, nonzeros, factors, kind, workers):
    """Counts (inside) from kernels and rare entries together, F, and the stats of the first pass."""
    exposed = tuple(term for term, V in enumerate(nonzeros.exposures) if V is not None)
    plan = equation.plan(kind, len(nonzeros.values), workers, exposed=exposed)
    relation = Counts(plan, nonzeros, Forest())
    found = relation(factors, {}, Threads(workers), list(factors), bound=True)
    counts = {}
    for name, factor in factors.items():
        stored = factor.geomean * found.gradients[name] + found.extras.get(name, 0.0)
        counts[name] = factor.layout.unpack(stored)
    return counts, found.value - relation.constant({})


RARE_EQUATIONS = {
    "matrix": replace(MATRIX, sizes={"i": 12, "j": 10}, ranks={"r": 4}),
    "cp3": replace(CP3, sizes={"i": 6, "j": 5, "k": 4}, ranks={"r": 6}),
    "tucker": replace(TUCKER, sizes={"i": 9, "j": 8, "k": 7}),
    "two_visible": EQUATIONS["two_visible"],
    "lone_latent": EQUATIONS["lone_latent"],
    "tucker_mixed_order": EQUATIONS["tucker_mixed_order"],
    "scalar": EQUATIONS["scalar"],
    "bias": EQUATIONS["bias"],
    "sums_only": EQUATIONS["sums_only"],
    "no_index_latent": EQUATIONS["no_index_latent"],
    "same_latent": EQUATIONS["same_latent"],
    "given_in_terms": replace(EQUATIONS["given_in_terms"], ranks={"r": 6, "s": 5}),
    "rescal_bias": EQUATIONS["rescal_bias"],
}


RARE_CASES = [(name, "poisson") for name in RARE_EQUATIONS]
RARE_CASES += [(name, kind) for name in ("matrix", "tucker", "no_index_latent") for kind in ("bernoulli", "exposed")]
RARE_CASES += [("given_in_terms", "bernoulli")]


def exposures(equation, rng, count, *, exposed=False):
    """V of every term: of those with a given factor, and of a single one if asked for."""
    given = (0,) if exposed else equation.given
    return tuple(np.exp(rng.normal(size=count)) if term in given else None for term in range(equation.terms))


@pytest.mark.parametrize(("name", "kind"), RARE_CASES)
def test_counts_and_bound_with_underflowing_entries_equal_the_log_domain(name, kind):
    equation, rng = RARE_EQUATIONS[name], seeded(name, "rare")
    factors, logs = peaked(equation, rng, kind=kind)
    cells = equation.cells(rng, 200)
    cells = cells if equation.indices else np.zeros((1, 0), np.uint32)
    weights = rng.gamma(2.0, 1.0, len(cells))
    V = exposures(equation, rng, len(cells), exposed=kind == "exposed")
    likelihood = "poisson" if kind == "poisson" else "bernoulli"
    nonzeros = Nonzeros(cells, np.ones(len(cells)), weights, V)
    expected, value, underflow = log_domain(equation, cells, weights, logs, likelihood, V)
    actual, found = counted(equation, nonzeros, factors, likelihood, 1)
    if equation.indices:
        assert (0 < underflow < len(cells)) == (name != "sums_only"), underflow
    assert found == pytest.approx(value, rel=1e-11)
    for factor, counts in expected.items():
        np.testing.assert_allclose(actual[factor], counts, rtol=1e-10, atol=1e-13 * counts.max(), err_msg=factor)


@pytest.mark.parametrize("workers", [1, 2])
def test_more_rare_entries_than_there_is_room_for_are_all_counted(workers, always_cut):
    equation = replace(MATRIX, sizes={"i": 120, "j": 110}, ranks={"r": 5})
    rng = seeded("many")
    factors, logs = peaked(equation, rng)
    cells = equation.cells(rng, 12_000)
    weights = rng.gamma(2.0, 1.0, len(cells))
    expected, value, underflow = log_domain(equation, cells, weights, logs, "poisson", (None,))
    assert underflow > workers * (calling.RARE + 100)
    actual, found = counted(equation, Nonzeros(cells, np.ones(len(cells)), weights), factors, "poisson", workers)
    assert found == pytest.approx(value, rel=1e-11)
    for factor, counts in expected.items():
        np.testing.assert_allclose(actual[factor], counts, rtol=1e-10, atol=1e-13 * counts.max(), err_msg=factor)


@pytest.mark.parametrize("count", [calling.RARE - 1, calling.RARE, calling.RARE + 1])
def test_the_list_of_rare_entries_is_complete_when_it_is_just_full(count):
    equation = replace(MATRIX, sizes={"i": 40, "j": 40})
    step = MATRIX.step("poisson", "ij", (0, 1), bound=True)
    case = Case.draw(equation, step, seeded("full"), count=count)
    case.arrays[0][:] = 0.0
    stats = case.sum(Threads(1))
    assert_equal_stats(case, stats, case.sum(Reference()))
    assert len(stats.rare_entries) == count


def test_rare_entries_are_left_out_of_gradients_and_listed_with_their_cells():
    step = MATRIX.step("bernoulli", "ji", (0, 1), bound=True, exposed=(0,))
    case = Case.draw(MATRIX, step, seeded("listed"))
    case.arrays[1][2] = 1e-300  # a whole row of B
    stats = case.sum(Threads(1))
    hit = case.cells[:, 1] == 2
    assert hit.sum() == len(stats.rare_entries) > 0
    assert set(map(tuple, stats.rare_cells.tolist())) == set(map(tuple, case.cells[hit][:, ::-1].tolist()))
    assert sorted(stats.rare_entries) == sorted(case.entries[hit])
    assert sorted(stats.rare_beside[:, 0]) == sorted(case.beside[0][hit])
    assert not stats.gradients[1][2].any()


@pytest.mark.parametrize("chunk", [1, 7, 50])
def test_rare_entries_worked_on_in_pieces_give_the_same_counts(chunk, monkeypatch):
    equation, rng = RARE_EQUATIONS["cp3"], seeded("pieces")
    factors, _ = peaked(equation, rng)
    cells = equation.cells(rng, 100)
    plan = equation.plan("poisson", len(cells), 1)
    order = plan.passes[0].order
    turned = cells[:, [equation.indices.index(index) for index in order]].astype(np.int64)
    stats = Stats((), 0.0, turned, rng.gamma(2.0, 1.0, len(cells)), np.zeros((len(cells), 0)))
    whole, value = rare_counts(plan, order, stats, list(factors.values()))
    monkeypatch.setattr("plait.infer.rare.CHUNK", chunk)
    pieces, sum_of_values = rare_counts(plan, order, stats, list(factors.values()))
    assert sum_of_values == pytest.approx(value, rel=1e-13)
    for a, b in zip(pieces, whole):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.sampled(27)
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", EQUATIONS)
def test_poisson_counts_of_every_factor_of_a_term_are_those_of_the_term_and_all_add_up_to_the_entries(
    name, workers, always_cut
):
    equation, rng = EQUATIONS[name], seeded(name, "conserved")
    factors, _ = peaked(equation, rng)
    cells = equation.cells(rng, 100) if equation.indices else np.zeros((1, 0), np.uint32)
    weights = rng.gamma(2.0, 1.0, len(cells))
    V = exposures(equation, rng, len(cells))
    counts, _ = counted(equation, Nonzeros(cells, np.ones(len(cells)), weights, V), factors, "poisson", workers)
    assert all(np.isfinite(found).all() and (found >= 0).all() for found in counts.values())
    by_term = [[counts[layout.name].sum() for layout in _layouts(equation, term)] for term in range(equation.terms)]
    for totals in by_term:
        assert totals == pytest.approx(totals[:1] * len(totals), rel=1e-11)
    if all(by_term):  # else a term of given factors only has the rest
        assert sum(totals[0] for totals in by_term) == pytest.approx(weights.sum(), rel=1e-11)
    else:
        assert 0 < sum(totals[0] for totals in by_term if totals) < weights.sum()


def test_counts_of_a_billion_at_the_edge_of_underflow_are_finite_and_conserved():
    """Xhat just above and just below TINY: x/Xhat is about 1e299, and nothing may overflow on the way."""
    equation = replace(MATRIX, sizes={"i": 60, "j": 50}, ranks={"r": 2})
    layouts = equation.layouts
    rng = seeded("edge")
    first = np.stack([np.ones(60), np.zeros(60)], axis=1)
    second = np.stack([10.0 ** rng.uniform(-292, -288, 50), np.ones(50)], axis=1)
    factors = {
        layout.name: gamma.point(layout, layout.pack(values)) for layout, values in zip(layouts, (first, second))
    }
    cells = equation.cells(rng, 3000)
    values = np.full(len(cells), 1e9)
    counts, value = counted(equation, Nonzeros(cells, values, np.ones(len(cells))), factors, "poisson", 1)
    assert np.isfinite(value)
    for found in counts.values():
        assert np.isfinite(found).all()
        assert found.sum() == pytest.approx(values.sum(), rel=1e-11)
        assert not found[:, 1].any()


def test_a_link_where_the_model_says_never_is_an_error_that_names_the_cell():
    layouts = MATRIX.layouts
    first = np.ones(layouts[0].sizes)
    first[3] = 0.0
    arrays = (first, np.ones(layouts[1].sizes))
    factors = {layout.name: gamma.point(layout, layout.pack(array)) for layout, array in zip(layouts, arrays)}
    cells = np.array([[1, 1], [3, 2]], np.uint32)
    with pytest.raises(ImpossibleLinkError) as caught:
        counted(MATRIX, Nonzeros(cells, np.ones(2), np.ones(2)), factors, "poisson", 1)
    assert caught.value.cell == {"i": 3, "j": 2}


def test_a_relation_without_an_index_is_one_cell():
    equation = EQUATIONS["no_index_latent"]
    assert equation.order == (ALONE,)
    step = equation.step("poisson", equation.order, every(equation), bound=True)
    case = Case.draw(equation, step, seeded("alone"))
    assert len(case.entries) == 1
    assert_equal_stats(case, case.sum(Threads(2)), case.sum(Reference()))
