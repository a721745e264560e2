"""The chain of products that a kernel walks, and which steps share a kernel."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.codegen.step import Operand, Step, chain, make_step
from tests.support.steps import Equation

CP3 = Equation.read("X[i,j,k] = A[i,r] B[j,r] C[k,r]")
TUCKER = Equation.read("X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]")
TRAIN = Equation.read("X[i,j,k,l] = A[i,p] B[p,j,q] C[q,k,r] D[r,l]")


@st.composite
def steps(draw):
    visible, latent = "ijk", "pqrs"
    subsets = [st.lists(st.sampled_from(names), unique=True, max_size=3).map(tuple) for names in (visible, latent)]
    operands = draw(st.lists(st.builds(Operand, *subsets), min_size=1, max_size=5))
    order = tuple(draw(st.permutations(visible)))
    return make_step("poisson", order, tuple(operands), {"p": 2, "q": 3, "r": 4, "s": 5}, ())


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
