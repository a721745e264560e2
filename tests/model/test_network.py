"""Contractions of arrays with named axes, against einsum."""

import numpy as np
import pytest

from plait.model.network import CELLS, RowBlock, contract, gather, log_contract


@pytest.mark.parametrize("keep", [(), ("q",), ("r", "p")])
def test_log_contract_is_the_logarithm_of_a_contraction(keep):
    rng = np.random.default_rng(0)
    blocks = [RowBlock(("p", "q"), rng.normal(size=(3, 4))), RowBlock(("q", "r"), rng.normal(size=(4, 2))),
              RowBlock(("r",), rng.normal(size=2)), RowBlock((), np.array(0.5))]  # fmt: skip
    arrays = [np.exp(block.values) for block in blocks]
    wanted = np.log(np.einsum(f"pq,qr,r,->{''.join(keep)}", *arrays))
    np.testing.assert_allclose(log_contract(blocks, keep), wanted, rtol=1e-12)


def test_contract_equals_einsum():
    rng = np.random.default_rng(0)
    blocks = [RowBlock(("i", "p"), rng.random((3, 4))), RowBlock(("p", "j", "q"), rng.random((4, 5, 2))),
              RowBlock(("k", "l"), rng.random((6, 7)))]  # fmt: skip
    arrays = [block.values for block in blocks]
    for keep in ("i", "j", "k", "ik", "q", ""):
        wanted = np.einsum(f"ip,pjq,kl->{keep}", *arrays)
        np.testing.assert_allclose(contract(blocks, tuple(keep)), wanted, rtol=1e-12)


def test_a_kept_index_that_no_block_has_is_of_length_1():
    blocks = [RowBlock(("p",), np.array([1.0, 2.0])), RowBlock((), np.array(3.0))]
    assert contract(blocks, (CELLS, "p")).tolist() == [[3.0, 6.0]]
    assert log_contract(blocks, ("q", CELLS)).shape == (1, 1)
    assert contract([], (CELLS,)).tolist() == [1.0]
    assert log_contract([], (CELLS,)).tolist() == [0.0]


def test_gather_takes_the_rows_of_cells():
    H, rows = np.arange(24.0).reshape(2, 3, 4), np.array([[1, 9, 0], [3, 9, 1]])
    block = gather(H, ("k", "r", "i"), {"i": 0, "j": 1, "k": 2}, rows)
    assert block.indices == (CELLS, "r")
    np.testing.assert_array_equal(block.values, [H[0, :, 1], H[1, :, 3]])
    assert gather(H, ("p", "q", "r"), {"i": 0}, rows).values is H


def test_logarithms_of_zero_and_of_tiny_numbers_differ():
    logs = [RowBlock((CELLS, "r"), np.array([[-np.inf, -np.inf], [-np.inf, -2000.0]]))]
    assert log_contract(logs, (CELLS,)).tolist() == [-np.inf, -2000.0]
