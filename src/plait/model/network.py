"""Tensor networks: contractions of arrays with named axes at cells, of numbers or of logarithms.

A term of an equation is such a network: a block for each factor, connected by shared indices.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import opt_einsum

from plait._typing import Array, Rows

Labels = tuple[Hashable, ...]

CELLS = ""  # the axis that runs over cells; no index has this name


@dataclass(frozen=True, eq=False)
class RowBlock:
    """An array with named axes: indices, and `CELLS` where it varies by cell."""

    indices: Labels
    values: Array


def gather(array: Array, indices: Sequence[str], places: Mapping[str, int], rows: Rows) -> RowBlock:
    """Rows of an array at cells: (n, other indices); without n where it has none of the cells' indices.

    `indices`: of the array. `rows` (n, order): the cells; `places`: column of each of their indices.
    """
    picked = [n for n, index in enumerate(indices) if index in places]
    others = [n for n in range(len(indices)) if n not in picked]
    names = tuple(indices[n] for n in others)
    if not picked:
        return RowBlock(names, array)
    return RowBlock(
        (CELLS, *names), array.transpose(*picked, *others)[tuple(rows[:, places[indices[n]]] for n in picked)]
    )


def sizes_of(blocks: Iterable[RowBlock]) -> dict[Hashable, int]:
    """Size of every index of some blocks."""
    return {index: size for block in blocks for index, size in zip(block.indices, block.values.shape)}


def sum_alone(blocks: Sequence[RowBlock], keep: Sequence[Hashable]) -> list[RowBlock]:
    """The blocks, each summed over the indices that only it has, except `keep`.

    opt_einsum would multiply two blocks before summing over such an index: Σ_jr A_ir B_jr would cost |i| · |j| instead
    of |i| + |j|.
    """
    counts = Counter(index for block in blocks for index in block.indices)
    result = []
    for block in blocks:
        alone = tuple(n for n, index in enumerate(block.indices) if counts[index] == 1 and index not in keep)
        left = tuple(index for n, index in enumerate(block.indices) if n not in alone)
        result.append(RowBlock(left, np.asarray(block.values.sum(axis=alone))) if alone else block)
    return result


def groups(indices: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    """Connected components of operands by shared indices; each ascending."""
    groups: list[tuple[set[Hashable], list[int]]] = []
    for number, own in enumerate(indices):
        joined = [group for group in groups if group[0] & set(own)]
        groups = [group for group in groups if not group[0] & set(own)]
        numbers = sorted(n for _, members in joined for n in members)
        groups.append((set(own).union(*(names for names, _ in joined)), [*numbers, number]))
    return [numbers for _, numbers in groups]


def subscripts(inputs: Sequence[Sequence[Hashable]], output: Sequence[Hashable]) -> str:
    """The contraction in einsum notation."""
    names = dict.fromkeys(index for indices in (*inputs, output) for index in indices)
    letter = {index: opt_einsum.get_symbol(n) for n, index in enumerate(names)}
    return (
        ",".join("".join(letter[i] for i in indices) for indices in inputs) + "->" + "".join(letter[i] for i in output)
    )


def contract(blocks: Sequence[RowBlock], keep: Sequence[Hashable]) -> Array:
    """Σ Π of the blocks over all indices but `keep`: one axis for each of these, of length 1 where no block has it."""
    left = sum_alone(blocks, keep)
    sizes = sizes_of(left)
    text = subscripts([block.indices for block in left], [index for index in keep if index in sizes])
    result = 1.0
    if left:
        # A path for some cells is one for about as many: finding it would cost more than most contractions.
        shapes = tuple(tuple(1 << (size - 1).bit_length() for size in block.values.shape) for block in left)
        result = _expression(text, shapes)(*(block.values for block in left))
    return np.asarray(result, np.float64).reshape([sizes.get(index, 1) for index in keep])


@lru_cache(1 << 12)
def _expression(text: str, shapes: tuple[tuple[int, ...], ...]) -> Any:
    """The cheapest order of pairwise contractions of arrays of about these shapes."""
    return opt_einsum.contract_expression(text, *shapes)


def log_contract(blocks: Sequence[RowBlock], keep: Sequence[Hashable]) -> Array:
    """log Σ Π exp(block) over all indices but `keep`: one axis for each of these, of length 1 where no block has it.

    Indices are summed out one by one, the cheapest first. Nothing underflows; −∞ is log 0.
    """
    left, sizes = list(blocks), sizes_of(blocks)
    while gone := [index for index in sizes if index not in keep and any(index in b.indices for b in left)]:
        index = min(gone, key=lambda index: math.prod(sizes[i] for i in _beside(left, index)))
        touched = [block for block in left if index in block.indices]
        over = (*(i for i in _beside(left, index) if i != index), index)
        summed = log_sum(np.asarray(sum(spread(block, over) for block in touched)), axis=-1)
        left = [block for block in left if index not in block.indices] + [RowBlock(over[:-1], summed)]
    total = sum((spread(block, keep) for block in left), np.zeros((1,) * len(keep)))
    return np.broadcast_to(total, [sizes.get(index, 1) for index in keep])


def _beside(blocks: Sequence[RowBlock], index: Hashable) -> Labels:
    """All indices of the blocks that have this one."""
    return tuple(dict.fromkeys(i for block in blocks if index in block.indices for i in block.indices))


def spread(block: RowBlock, over: Sequence[Hashable]) -> Array:
    """The block with an axis for each of `over`, of length 1 where it has none."""
    sizes = sizes_of([block])
    moved = block.values.transpose([block.indices.index(index) for index in over if index in sizes])
    return moved.reshape([sizes.get(index, 1) for index in over])


def log_sum(logs: Array, axis: int) -> Array:
    """log Σ exp along an axis; −∞ where all are."""
    peak = logs.max(axis=axis, keepdims=True)
    peak = np.where(np.isneginf(peak), 0.0, peak)
    with np.errstate(divide="ignore"):  # log 0
        return np.asarray(np.log(np.exp(logs - peak).sum(axis=axis)) + peak.squeeze(axis))
