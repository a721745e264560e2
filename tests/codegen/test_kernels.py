"""Compiled kernels equal the dense reference, however the work is cut; underflowing entries equal the log domain.

Every distinct step takes about half a second to compile once: the lists below are chosen, not crossed.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, psi

from plait.data.sparse.csf import CSFCache
from plait.executors import Reference, Stats, Threads, kernel_call
from plait.inference import gamma
from plait.inference.expected_counts import Counts
from plait.inference.nonzeros import Nonzeros
from plait.inference.underflow import ImpossibleLinkError, underflow_counts
from plait.jit import TINY
from plait.tuning import TUNING
from tests.support.steps import Case, Equation, assert_equal_stats, assert_same_bits, equations, seeded
from tests.support.tuning import SMALL_LEAVES, tuned

EQUATIONS = equations()
SINGLE = [name for name, equation in EQUATIONS.items() if equation.single]  # not sums
CP3 = Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r]")
MATRIX = Equation.read("X[i,j] = A[i,r] B[j,r]")
TUCKER = Equation.read("X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]")
SUM = EQUATIONS["given_in_terms"]


@pytest.fixture
def always_cut(tuning):
    tuning(**SMALL_LEAVES)


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


def kernels():
    """Steps next to the Poisson counts of all factors, by name: an equation, a step of it, numbers of threads."""
    found = {}

    def add(label, names, kind, order, wanted=every, threads=(1,), **options):
        for name in names:
            equation = EQUATIONS[name]
            step = equation.step(kind, order(equation), wanted(equation), **options)
            found[f"{name} {label}"] = equation, step, threads

    def opposite(equation):
        return planned(equation)[::-1]

    def written(equation):
        return equation.order

    for name in SINGLE:
        count = len(EQUATIONS[name].factors)
        one, other = (len(name) % count,), ((len(name) + 1) % count,)
        add("linear, one factor", [name], "linear", lambda e: e.order[1:] + e.order[:1], lambda e, one=one: one)
        add("poisson, one factor", [name], "poisson", lambda e: e.order[-1:] + e.order[:-1], lambda e, o=other: o)
    for name in ("tucker_cp", "given_in_terms", "rescal_bias"):
        one = ((len(name) + 1) % len(EQUATIONS[name].factors),)
        add("poisson, one factor", [name], "poisson", lambda e: e.order[-1:] + e.order[:-1], lambda e, one=one: one)
    add("bernoulli, exposed", SINGLE, "bernoulli", opposite, threads=(1, 2), bound=True, exposed=(0,))
    sums = ["pairwise", "tucker_cp", "given_in_terms", "given_alone", "scalars", "symmetric_weighted.friends"]
    add("bernoulli, sum", [*sums, "rescal_bias"], "bernoulli", opposite, threads=(1, 3), bound=True)
    chosen = ["matrix", "tucker_mixed_order", "bias", "no_index_latent"]
    add("bernoulli, bound", chosen, "bernoulli", written, bound=True)
    add("bernoulli, no bound", chosen, "bernoulli", written, bound=False)
    for kind in ("negbin", "tweedie"):
        add(kind, ["cp3", "pairwise"], kind, planned, threads=(1, 2), bound=True, exposed=())
        add(kind, ["tucker", "bias"], kind, planned, threads=(1, 2), bound=True, exposed=(0,))
    add("linear, all factors", ["cp3", "tucker", "train", "block_term"], "linear", written)
    for n in range(4):
        add(f"linear, factor {n}", ["tucker", "train"], "linear", written, lambda e, n=n: (n,))
    for some in ((0,), (1,), (2,), (0, 2)):
        add(f"poisson, factors {some}", ["cp3"], "poisson", written, lambda e, some=some: some, bound=True)
    for order in ("ijk", "jki", "kij", "kji"):
        add(f"poisson, order {order}", ["tucker"], "poisson", lambda e, order=order: order, bound=True)
    add("bound alone", ["cp3", "tucker"], "poisson", written, lambda e: (), bound=True)
    return found


KERNELS = kernels()
FIRST = [f"{name} bernoulli, exposed" for name in ("cp3", "tucker", "bias")]
FIRST += [f"{name} linear, one factor" for name in ("cp3", "tucker", "train")]
FIRST += [f"{name} poisson, one factor" for name in ("cp3", "two_visible", "given_in_terms")]
FIRST += [f"{name} linear, all factors" for name in ("cp3", "tucker", "train", "block_term")]
FIRST += [f"{name} {kind}" for name in ("cp3", "pairwise") for kind in ("negbin", "tweedie")]
FIRST += ["given_in_terms bernoulli, sum", "matrix bernoulli, bound", "matrix bernoulli, no bound"]
FIRST += ["tucker linear, factor 0", "tucker linear, factor 3", "cp3 poisson, factors (1,)"]
FIRST += ["tucker poisson, order kij", "cp3 bound alone", "tucker bound alone"]


@pytest.mark.quick(case=FIRST)
@pytest.mark.parametrize("case", KERNELS)
def test_kernels_equal_the_reference(case, always_cut):
    equation, step, threads = KERNELS[case]
    for workers in threads:
        equals_reference(equation, step, workers)


def test_entries_of_both_signs_equal_the_reference():
    step = CP3.step("linear", "ijk", every(CP3))
    case = Case.draw(CP3, step, seeded("signs"))
    case = case.with_entries(case.entries - 1.7)
    actual, expected = case.sum(Threads(1)), case.sum(Reference())
    for a, e in zip(actual.gradients, expected.gradients):
        np.testing.assert_allclose(a, e, rtol=1e-10, atol=1e-12 * np.abs(e).max())


# ranks --------------------------------------------------------------------------------------------------------------


@pytest.mark.quick(kind=["poisson"], rank=[1, 65])
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


@pytest.mark.quick(ranks=[{"p": 9, "q": 17, "r": 66}])
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


@pytest.mark.parametrize("size", [3, 40, 700, None])
@pytest.mark.parametrize("kind", ["poisson", "bernoulli", "linear"])
def test_any_number_of_threads_gives_the_same_bits(kind, size, tuning):
    tuning(**SMALL_LEAVES, max_leaf_entries=size or TUNING.max_leaf_entries)
    step = MATRIX.step(kind, "ij", (0, 1), bound=kind != "linear")
    case = Case.draw(replace(MATRIX, sizes={"i": 60, "j": 90}), step, seeded(kind), count=3000)
    assert case.tree().leaf_count >= 3000 / (size or 3000) / 2
    one = case.sum(Threads(1))
    assert_equal_stats(case, one, case.sum(Reference()))
    for workers in (2, 3, 7):
        assert_same_bits(case.sum(Threads(workers)), one)


@pytest.mark.parametrize("name", ["cp3", "two_visible", "tucker", "rescal_bias", "train"])
@pytest.mark.parametrize("kind", ["poisson", "linear"])
def test_a_giant_root_row_is_cut_into_leaves(name, kind):
    equation = EQUATIONS[name]
    if kind == "linear" and not equation.single:
        pytest.skip("weights have one term")
    for order in (equation.order, equation.order[::-1]):
        step = equation.step(kind, order, every(equation), bound=kind != "linear")
        case = Case.draw(equation, step, seeded(name, kind, "giant"), count=2000)
        place = equation.order.index(order[0])
        keep = (case.cells[:, place] == 1) | (np.arange(len(case.cells)) % 9 == 0)
        case = replace(case, cells=case.cells[keep], entries=case.entries[keep])
        with tuned(**SMALL_LEAVES, max_leaf_entries=5):
            tree = case.tree()
            assert any(leaf.inside for leaf in tree.leaves)
            assert sum(map(tree.length, tree.leaves)) == len(tree)
            one, three = case.sum(Threads(1)), case.sum(Threads(3))
        assert_equal_stats(case, one, case.sum(Reference()))
        assert_same_bits(three, one)


SHAPES = {  # sizes, entries, which of the entries are used
    "large": ((200, 300), 20_000, lambda i, j: i >= 0),
    "two roots": ((2, 50), 400, lambda i, j: i >= 0),
    "one heavy root": ((5, 500), 2500, lambda i, j: (i == 2) | (j == 7)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_any_shape_of_a_table_equals_the_reference(name, tuning):
    (i, j), count, keep = SHAPES[name]
    if name != "large":
        tuning(**SMALL_LEAVES)
    equation = replace(MATRIX, sizes={"i": i, "j": j})
    case = Case.draw(equation, equation.step("poisson", "ij", (0, 1), bound=True), seeded(name), count=count)
    chosen = keep(*case.cells.T)
    case = replace(case, cells=case.cells[chosen], entries=case.entries[chosen])
    assert name != "large" or len(case.entries) * 8 > TUNING.min_parallel_entries
    for workers in (2, 4, 8):
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
    if kind != "linear" and data.draw(st.booleans(), label="some entries underflow"):
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
def test_an_empty_sum_is_zero(kind, executor, always_cut):
    step = ADDED[kind]
    case = Case.draw(OF[kind], step, seeded(kind), count=10)
    for blocks in ([], [case.tree(slice(0, 0))], [case.tree(slice(0, 0))] * 2):
        stats = case.sum(executor, blocks)
        assert [g.shape for g in stats.gradients] == [case.arrays[position].shape for position in step.wanted]
        assert not any(g.any() for g in stats.gradients)
        assert stats.value == 0.0
        assert stats.underflow_cells.shape == (0, len(step.order))


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


# conservation and underflow --------------------------------------------------------------------------------------


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
    """Counts (inside) from kernels and underflow together, F, and the stats of the first pass."""
    exposed = tuple(term for term, V in enumerate(nonzeros.exposures) if V is not None)
    plan = equation.plan(kind, len(nonzeros.values), workers, exposed=exposed)
    relation = Counts(plan, nonzeros, CSFCache())
    found = relation(factors, {}, Threads(workers), list(factors), bound=True)
    counts = {}
    for name, factor in factors.items():
        stored = factor.exp_mean_log * found.gradients[name] + found.underflow.get(name, 0.0)
        counts[name] = factor.layout.unpack(stored)
    return counts, found.value - relation.constant({})


UNDERFLOW_EQUATIONS = {
    "matrix": replace(MATRIX, sizes={"i": 12, "j": 10}, ranks={"r": 4}),
    "cp3": replace(CP3, sizes={"i": 6, "j": 5, "k": 4}, ranks={"r": 6}),
    "tucker": replace(TUCKER, sizes={"i": 9, "j": 8, "k": 7}),
    "given_in_terms": replace(EQUATIONS["given_in_terms"], ranks={"r": 6, "s": 5}),
}
OTHERS = ["two_visible", "lone_latent", "tucker_mixed_order", "scalar", "bias", "sums_only", "no_index_latent"]
UNDERFLOW_EQUATIONS |= {name: EQUATIONS[name] for name in [*OTHERS, "same_latent", "rescal_bias"]}
UNDERFLOW_CASES = [(name, "poisson") for name in UNDERFLOW_EQUATIONS]
UNDERFLOW_CASES += [
    (name, kind) for name in ("matrix", "tucker", "no_index_latent") for kind in ("bernoulli", "exposed")
]
UNDERFLOW_CASES += [("given_in_terms", "bernoulli")]


def exposures(equation, rng, count, *, exposed=False):
    """V of every term: of terms with a given factor, and of a single term if `exposed`."""
    given = (0,) if exposed else equation.given
    return tuple(np.exp(rng.normal(size=count)) if term in given else None for term in range(equation.terms))


def equals_log_domain(equation, rng, count, kind, workers=1):
    """Compare counts and bound with the log domain; returns the number of cells and of underflowing ones."""
    factors, logs = peaked(equation, rng, kind=kind)
    cells = equation.cells(rng, count) if equation.indices else np.zeros((1, 0), np.uint32)
    weights = rng.gamma(2.0, 1.0, len(cells))
    V = exposures(equation, rng, len(cells), exposed=kind == "exposed")
    likelihood = "poisson" if kind == "poisson" else "bernoulli"
    expected, value, underflow = log_domain(equation, cells, weights, logs, likelihood, V)
    nonzeros = Nonzeros(cells, np.ones(len(cells)), weights, V)
    actual, found = counted(equation, nonzeros, factors, likelihood, workers)
    assert found == pytest.approx(value, rel=1e-11)
    for factor, counts in expected.items():
        np.testing.assert_allclose(actual[factor], counts, rtol=1e-10, atol=1e-13 * counts.max(), err_msg=factor)
    return len(cells), underflow


@pytest.mark.parametrize(("name", "kind"), UNDERFLOW_CASES)
def test_counts_and_bound_with_underflowing_entries_equal_the_log_domain(name, kind):
    equation = UNDERFLOW_EQUATIONS[name]
    count, underflow = equals_log_domain(equation, seeded(name, "rare"), 200, kind)
    if equation.indices:
        assert (0 < underflow < count) == (name != "sums_only"), underflow


@pytest.mark.parametrize("workers", [1, 2])
def test_more_underflowing_entries_than_the_buffer_holds_are_counted(workers, always_cut):
    equation = replace(MATRIX, sizes={"i": 120, "j": 110}, ranks={"r": 5})
    _, underflow = equals_log_domain(equation, seeded("many"), 12_000, "poisson", workers)
    assert underflow > workers * (kernel_call.UNDERFLOW_POSITIONS + 100)


@pytest.mark.parametrize(
    "count", [kernel_call.UNDERFLOW_POSITIONS - 1, kernel_call.UNDERFLOW_POSITIONS, kernel_call.UNDERFLOW_POSITIONS + 1]
)
def test_a_full_buffer_of_underflowing_entries_is_complete(count):
    equation = replace(MATRIX, sizes={"i": 40, "j": 40})
    step = MATRIX.step("poisson", "ij", (0, 1), bound=True)
    case = Case.draw(equation, step, seeded("full"), count=count)
    case.arrays[0][:] = 0.0
    stats = case.sum(Threads(1))
    assert_equal_stats(case, stats, case.sum(Reference()))
    assert len(stats.underflow_entries) == count


def test_underflowing_entries_are_listed_and_left_out_of_gradients():
    step = MATRIX.step("bernoulli", "ji", (0, 1), bound=True, exposed=(0,))
    case = Case.draw(MATRIX, step, seeded("listed"))
    case.arrays[1][2] = 1e-300  # a whole row of B
    stats = case.sum(Threads(1))
    hit = case.cells[:, 1] == 2
    assert hit.sum() == len(stats.underflow_entries) > 0
    assert set(map(tuple, stats.underflow_cells.tolist())) == set(map(tuple, case.cells[hit][:, ::-1].tolist()))
    assert sorted(stats.underflow_entries) == sorted(case.entries[hit])
    assert sorted(stats.underflow_side_values[:, 0]) == sorted(case.side_values[0][hit])
    assert not stats.gradients[1][2].any()


@pytest.mark.parametrize("chunk", [1, 7, 50])
def test_chunks_of_underflowing_entries_give_the_same_counts(chunk, tuning):
    equation, rng = UNDERFLOW_EQUATIONS["cp3"], seeded("pieces")
    factors, _ = peaked(equation, rng)
    cells = equation.cells(rng, 100)
    plan = equation.plan("poisson", len(cells), 1)
    order = plan.passes[0].order
    turned = cells[:, [equation.indices.index(index) for index in order]].astype(np.int64)
    stats = Stats((), 0.0, turned, rng.gamma(2.0, 1.0, len(cells)), np.zeros((len(cells), 0)))
    whole, value = underflow_counts(plan, order, stats, list(factors.values()))
    tuning(underflow_chunk=chunk)
    pieces, sum_of_values = underflow_counts(plan, order, stats, list(factors.values()))
    assert sum_of_values == pytest.approx(value, rel=1e-13)
    for a, b in zip(pieces, whole):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", EQUATIONS)
def test_poisson_counts_add_up_to_the_entries(name, workers, always_cut):
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


def test_large_counts_at_the_edge_of_underflow_are_conserved():
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


def test_an_impossible_link_is_named():
    layouts = MATRIX.layouts
    first = np.ones(layouts[0].sizes)
    first[3] = 0.0
    arrays = (first, np.ones(layouts[1].sizes))
    factors = {layout.name: gamma.point(layout, layout.pack(array)) for layout, array in zip(layouts, arrays)}
    cells = np.array([[1, 1], [3, 2]], np.uint32)
    with pytest.raises(ImpossibleLinkError) as caught:
        counted(MATRIX, Nonzeros(cells, np.ones(2), np.ones(2)), factors, "poisson", 1)
    assert caught.value.cell == {"i": 3, "j": 2}
