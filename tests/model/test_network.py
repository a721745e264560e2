"""Contractions of arrays with named axes, against einsum."""

import numpy as np
import pytest

from plait.model.network import CELLS, Block, contract, gather, groups, log_contract, sum_alone


@pytest.mark.parametrize("keep", [(), ("q",), ("r", "p")])
def test_log_contract_is_the_logarithm_of_a_contraction(keep):
    rng = np.random.default_rng(0)
    blocks = [Block(("p", "q"), rng.normal(size=(3, 4))), Block(("q", "r"), rng.normal(size=(4, 2))),
              Block(("r",), rng.normal(size=2)), Block((), np.array(0.5))]  # fmt: skip
    arrays = [np.exp(block.values) for block in blocks]
    wanted = np.log(np.einsum(f"pq,qr,r,->{''.join(keep)}", *arrays))
    np.testing.assert_allclose(log_contract(blocks, keep), wanted, rtol=1e-12)


def test_blocks_are_contracted_as_einsum_would():
    rng = np.random.default_rng(0)
    blocks = [Block(("i", "p"), rng.random((3, 4))), Block(("p", "j", "q"), rng.random((4, 5, 2))),
              Block(("k", "l"), rng.random((6, 7)))]  # fmt: skip
    arrays = [block.values for block in blocks]
    for keep in ("i", "j", "k", "ik", "q", ""):
        wanted = np.einsum(f"ip,pjq,kl->{keep}", *arrays)
        np.testing.assert_allclose(contract(blocks, tuple(keep)), wanted, rtol=1e-12)


def test_an_index_to_keep_that_no_block_has_is_an_axis_of_length_1():
    blocks = [Block(("p",), np.array([1.0, 2.0])), Block((), np.array(3.0))]
    assert contract(blocks, (CELLS, "p")).tolist() == [[3.0, 6.0]]
    assert log_contract(blocks, ("q", CELLS)).shape == (1, 1)
    assert contract([], (CELLS,)).tolist() == [1.0]
    assert log_contract([], (CELLS,)).tolist() == [0.0]


def test_gather_takes_the_rows_of_cells_and_leaves_a_factor_without_their_indices_whole():
    H, rows = np.arange(24.0).reshape(2, 3, 4), np.array([[1, 9, 0], [3, 9, 1]])
    block = gather(H, ("k", "r", "i"), {"i": 0, "j": 1, "k": 2}, rows)
    assert block.indices == (CELLS, "r")
    np.testing.assert_array_equal(block.values, [H[0, :, 1], H[1, :, 3]])
    assert gather(H, ("p", "q", "r"), {"i": 0}, rows).values is H


def test_blocks_that_shared_indices_connect_are_a_group():
    assert groups([("p", "q"), ("r",), (), ("q", "s"), ("s", "r"), ("t",)]) == [[2], [0, 1, 3, 4], [5]]


def test_indices_of_one_block_are_summed_before_anything_is_multiplied():
    left = sum_alone([Block(("i", "p"), np.ones((3, 2))), Block(("p", "j"), np.ones((2, 5)))], ("i",))
    assert [block.indices for block in left] == [("i", "p"), ("p",)]


def test_logarithms_of_zero_stay_apart_from_those_that_are_not():
    logs = [Block((CELLS, "r"), np.array([[-np.inf, -np.inf], [-np.inf, -2000.0]]))]
    assert log_contract(logs, (CELLS,)).tolist() == [-np.inf, -2000.0]
