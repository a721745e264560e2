"""The chain of products that a kernel walks, and which steps share a kernel."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.compile.step import ChainLink, Operand, Step, chain, make_step, padded
from tests.compile.cases import Equation, equations

CP3 = Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r]")
TUCKER = Equation.read("X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]")
TRAIN = Equation.read("X[i,j,k,l] = A[i,p] B[p,j,q] C[q,k,r] D[r,l]")


def links(equation, order):
    return chain(equation.step("poisson", order, ()))


# the chain ------------------------------------------------------------------------------------------------------------


def test_cp_keeps_the_rank_until_its_last_factor():
    assert links(CP3, "ijk") == (
        ChainLink(0, 0, None, ("r",)),
        ChainLink(1, 1, ("r",), ("r",)),
        ChainLink(2, 2, ("r",), ()),
    )


def test_the_order_of_the_tree_is_the_order_of_the_chain():
    assert [link.position for link in links(CP3, "kij")] == [2, 0, 1]
    assert [link.level for link in links(CP3, "kij")] == [0, 1, 2]


def test_tucker_starts_at_its_core_and_loses_one_index_a_level():
    assert links(TUCKER, "ijk") == (
        ChainLink(3, -1, None, ("p", "q", "r")),
        ChainLink(0, 0, ("p", "q", "r"), ("q", "r")),
        ChainLink(1, 1, ("q", "r"), ("r",)),
        ChainLink(2, 2, ("r",), ()),
    )
    assert [link.after for link in links(TUCKER, "kji")] == [("p", "q", "r"), ("p", "q"), ("p",), ()]


def test_a_train_carries_one_bond_at_a_time():
    assert [(link.position, link.before, link.after) for link in links(TRAIN, "ijkl")] == [
        (0, None, ("p",)),
        (1, ("p",), ("q",)),
        (2, ("q",), ("r",)),
        (3, ("r",), ()),
    ]


def test_a_train_walked_from_the_middle_carries_both_ends():
    assert [link.after for link in links(TRAIN, "jkil")] == [("p", "q"), ("p", "r"), ("r",), ()]


def test_a_latent_index_of_one_factor_only_is_summed_at_once():
    lone = Equation.read("X[i,j] = A[i,r,s] B[r,j]")
    assert [link.after for link in links(lone, "ij")] == [("r",), ()]
    sums = Equation.read("X[i,j] = A[i,r] B[j,s]")
    assert [link.after for link in links(sums, "ij")] == [(), ()]


def test_a_factor_enters_where_its_last_visible_index_is_known():
    two = Equation.read("X[i,j,k] = H[i,k,r] B[j,r]")
    assert [(link.position, link.level) for link in links(two, "ijk")] == [(1, 1), (0, 2)]
    assert [(link.position, link.level) for link in links(two, "kij")] == [(0, 1), (1, 2)]


def test_factors_without_visible_indices_come_before_the_root():
    scalar = Equation.read("X[i,j] = A[i,r] c[] B[j,r]")
    assert [(link.position, link.level) for link in links(scalar, "ij")] == [(1, -1), (0, 0), (2, 1)]


@pytest.mark.parametrize("name", equations())
def test_every_operand_is_in_the_chain_once_and_nothing_latent_is_left(name):
    equation = equations()[name]
    for order in itertools.permutations(equation.order):
        step = equation.step("poisson", order, ())
        found = [chain(step, term) for term in range(equation.terms)]
        assert sorted(link.position for own in found for link in own) == list(range(len(equation.factors)))
        for own in found:
            assert [link.level for link in own] == sorted(link.level for link in own)
            assert not own or own[-1].after == ()


@st.composite
def steps(draw):
    visible, latent = "ijk", "pqrs"
    subsets = [st.lists(st.sampled_from(names), unique=True, max_size=3).map(tuple) for names in (visible, latent)]
    operands = draw(st.lists(st.builds(Operand, *subsets), min_size=1, max_size=5))
    order = tuple(draw(st.permutations(visible)))
    return make_step("poisson", order, tuple(operands), {"p": 2, "q": 3, "r": 4, "s": 5}, ())


@settings(deadline=None)
@given(steps())
def test_latent_indices_are_kept_exactly_as_long_as_they_are_needed(step):
    found = chain(step)
    for n, link in enumerate(found):
        own = step.operands[link.position].latent
        later = {index for other in found[n + 1 :] for index in step.operands[other.position].latent}
        assert link.before == (found[n - 1].after if n else None)
        assert len(set(link.after)) == len(link.after)
        assert set(link.after) == ({*(link.before or ()), *own} & later)


@settings(deadline=None)
@given(steps(), st.integers(0, 2**32 - 1))
def test_the_chain_multiplies_out_to_the_sum_over_all_latent_indices(step, seed):
    rng = np.random.default_rng(seed)
    letters = {index: n for n, index in enumerate("pqrs")}
    sizes = {"p": 2, "q": 3, "r": 4, "s": 5}
    blocks = [rng.uniform(0.5, 1.5, [sizes[index] for index in o.latent]) for o in step.operands]
    labels = [[letters[index] for index in o.latent] for o in step.operands]
    value, own = np.ones(()), []
    for link in chain(step):
        after = [letters[index] for index in link.after]
        value = np.einsum(value, own, blocks[link.position], labels[link.position], after)
        own = after
    everything = np.einsum(*(x for pair in zip(blocks, labels) for x in pair), [])
    np.testing.assert_allclose(value, everything, rtol=1e-12)


# sharing kernels ------------------------------------------------------------------------------------------------------


def test_equal_shapes_under_other_names_are_equal_when_renamed():
    one = Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r]").step("poisson", "ijk", (0, 1, 2), bound=True)
    other = Equation.read("Y[k,l,m] = U[k,s] T[l,s] W[m,s]", ranks={"s": 3})
    other = other.step("poisson", "klm", (0, 1, 2), bound=True)
    assert one != other
    assert one.renamed() == other.renamed()
    assert hash(one.renamed()) == hash(other.renamed())


def test_sizes_of_visible_indices_are_no_part_of_a_step():
    small, large = (Equation.read("X[i,j] = A[i,r] B[j,r]", {"i": n, "j": n + 1}) for n in (3, 4_000_000_000))
    assert small.step("linear", "ij", (0,)) == large.step("linear", "ij", (0,))


def test_renaming_twice_changes_nothing():
    step = TUCKER.step("bernoulli", "kij", (0, 3), exposed=(0,)).renamed()
    assert step.renamed() == step


def test_what_a_kernel_does_differently_stays_different_when_renamed():
    different: list[Step] = [
        CP3.step("poisson", "ijk", (0, 1, 2), bound=True),
        CP3.step("poisson", "ijk", (0, 1, 2)),
        CP3.step("poisson", "ijk", (0, 1)),
        CP3.step("bernoulli", "ijk", (0, 1, 2)),
        CP3.step("bernoulli", "ijk", (0, 1, 2), exposed=(0,)),
        CP3.step("linear", "ijk", (0, 1, 2)),
        CP3.step("poisson", "kij", (0, 1, 2)),
        TUCKER.step("poisson", "ijk", (0, 1, 2)),
    ]
    assert len({step.renamed() for step in different}) == len(different)


def test_ranks_17_to_24_share_one_cp_kernel():
    def renamed(rank):
        return Equation.read("X[i,j] = A[i,r] B[j,r]", ranks={"r": rank}).step("poisson", "ij", (0, 1)).renamed()

    assert len({renamed(rank) for rank in range(17, 25)}) == 1
    assert renamed(16) != renamed(17) != renamed(25)


def test_ranks_of_a_core_are_exact():
    step = TUCKER.step("poisson", "ijk", ())
    assert {index: step.extent(index) for index in "pqr"} == {"p": 2, "q": 4, "r": 3}


@pytest.mark.parametrize(("rank", "columns"), [(1, 8), (7, 8), (8, 8), (9, 16), (64, 64), (65, 72), (200, 200)])
def test_a_rank_is_padded_to_a_multiple_of_the_vector_width(rank, columns):
    assert padded(rank) == columns
