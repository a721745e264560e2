"""Products of factor rows over latent indices, in logarithms: nothing underflows, and no whole core is ever formed.

A cell picks one row of every factor of its equation. What is left of the factor, an array over its latent indices, is a
`Block`; a *component* is one setting of all latent indices, and Π of the blocks there is what it adds to the cell.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from plait.fitted import Fitted
from plait.model import Equation

if TYPE_CHECKING:
    from plait.model.model import Occurrence

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Kind = Literal["mean", "geomean"]

CELLS = ""  # the axis that runs over cells, beside the latent indices; no index has this name


@dataclass(frozen=True)
class Block:
    """An array with named axes: latent indices, and `CELLS` where it differs from cell to cell."""

    indices: tuple[str, ...]
    values: Array


def operands(fit: Fitted, equation: Equation) -> "list[Occurrence]":
    """The factors of an equation that are not exposures."""
    return [occurrence for occurrence in equation.occurrences if occurrence.factor in fit.factors]


def gathered(array: Array, occurrence: "Occurrence", equation: Equation, rows: Rows) -> Block:
    """The rows of a factor (as written) that cells (n, order) use: (n, latent sizes), or without n if it has none."""
    visible = [n for n, index in enumerate(occurrence.indices) if index in equation.indices]
    latent = [n for n in range(array.ndim) if n not in visible]
    names = tuple(occurrence.indices[n] for n in latent)
    if not visible:
        return Block(names, array)
    at = tuple(rows[:, equation.indices.index(occurrence.indices[n])] for n in visible)
    return Block((CELLS, *names), array.transpose(*visible, *latent)[at])


def log_blocks(fit: Fitted, equation: Equation, rows: Rows, kind: Kind) -> list[Block]:
    """log E or log L of the factor rows that cells (n, order) use; and a block of zeros (n,), so that none is lost."""
    blocks = [Block((CELLS,), np.zeros(len(rows)))]
    for occurrence in operands(fit, equation):
        posterior = fit.factors[occurrence.factor]
        parts = [gathered(a, occurrence, equation, rows) for a in (posterior.concentration, posterior.scale)]
        mean = gathered(posterior.mean, occurrence, equation, rows)
        blocks.append(Block(mean.indices, _logs(kind, mean.values, *(part.values for part in parts))))
    return blocks


def _logs(kind: Kind, mean: Array, concentration: Array, scale: Array) -> Array:
    """log E = log C + log D, log L = ψ(C) + log D; of points log Z, −∞ where Z = 0."""
    with np.errstate(divide="ignore"):
        if np.isinf(concentration).any():
            return np.asarray(np.log(mean))
        return np.asarray((np.log if kind == "mean" else digamma)(concentration) + np.log(scale))


def contracted(blocks: Sequence[Block], keep: tuple[str, ...]) -> Array:
    """Σ Π of blocks over all indices but those of `keep` that a block has, whose sizes the result has."""
    import opt_einsum

    inputs = [part for block in summed_alone(blocks, keep) for part in (block.values, block.indices)]
    has = [index for index in keep if any(index in block.indices for block in blocks)]
    return np.asarray(opt_einsum.contract(*inputs, has), np.float64)


def summed_alone(blocks: Sequence[Block], keep: tuple[str, ...]) -> list[Block]:
    """The blocks, each summed over the indices that it alone has, but for `keep`.

    opt_einsum would multiply two blocks before it sums over such an index: Σ_jr A_ir B_jr would take time in proportion
    to the sizes of i and j multiplied, instead of added.
    """
    counts = Counter(index for block in blocks for index in block.indices)
    result = []
    for block in blocks:
        alone = tuple(n for n, index in enumerate(block.indices) if counts[index] == 1 and index not in keep)
        left = tuple(index for n, index in enumerate(block.indices) if n not in alone)
        result.append(Block(left, block.values.sum(axis=alone)) if alone else block)
    return result


def log_sum(blocks: Sequence[Block], keep: tuple[str, ...]) -> Array:
    """log Σ Π exp(block), summed over all indices but `keep`, whose sizes the result has.

    Indices are summed out one by one, the cheapest first: no array is larger than a sum over one of them needs.
    """
    left = list(blocks)
    sizes = {index: size for block in left for index, size in zip(block.indices, block.values.shape)}
    while gone := [index for index in sizes if index not in keep and any(index in b.indices for b in left)]:
        index = min(gone, key=lambda index: math.prod(sizes[i] for i in _union(left, index)))
        touched = [block for block in left if index in block.indices]
        over = (*(i for i in _union(left, index) if i != index), index)
        summed = _log_sum_last(sum(_spread(block, over, sizes) for block in touched))
        left = [block for block in left if index not in block.indices] + [Block(over[:-1], summed)]
    total = sum((_spread(block, keep, sizes) for block in left), np.zeros(()))
    return np.broadcast_to(total, tuple(sizes[index] for index in keep))


def _union(blocks: Sequence[Block], index: str) -> tuple[str, ...]:
    """All indices of the blocks that have this one."""
    return tuple(dict.fromkeys(i for block in blocks if index in block.indices for i in block.indices))


def _spread(block: Block, over: tuple[str, ...], sizes: dict[str, int]) -> Array:
    """The block with an axis for each of `over`, of length 1 where it has none."""
    moved = block.values.transpose([block.indices.index(index) for index in over if index in block.indices])
    return moved.reshape([sizes[index] if index in block.indices else 1 for index in over])


def _log_sum_last(logs: Array | int) -> Array:
    logs = np.asarray(logs)
    peak = logs.max(axis=-1, keepdims=True)
    peak = np.where(np.isneginf(peak), 0.0, peak)
    with np.errstate(divide="ignore"):  # log 0: no setting of the index is possible
        return np.asarray(np.log(np.exp(logs - peak).sum(axis=-1)) + peak[..., 0])


@dataclass(frozen=True)
class Components:
    """The components of one cell.

    latent: their indices. settings (k, latent): the leading ones, largest share first; shares (k,). total: how many
    there are. log_rate: log Σ of them all, −∞ where the model gives the cell rate 0; then all shares are 0.
    """

    latent: tuple[str, ...]
    settings: Rows
    shares: Array
    total: int
    log_rate: float

    @property
    def remainder(self) -> float:
        """The share of the components that are not listed."""
        if len(self.shares) == self.total or math.isinf(self.log_rate):
            return 0.0
        return max(0.0, 1.0 - float(self.shares.sum()))


def one_cell(fit: Fitted, equation: Equation, row: Rows, kind: Kind) -> list[Block]:
    """The blocks of a single cell, over latent indices only."""
    blocks = log_blocks(fit, equation, row[None, :], kind)[1:]
    return [Block(b.indices[1:], b.values[0]) if CELLS in b.indices else b for b in blocks]


def components(blocks: Sequence[Block], latent: tuple[str, ...], most: int) -> Components:
    """The leading components by share, Π of the blocks / Σ of all such products.

    Index by index, the beginnings with the largest shares are continued, `most` of them: a beginning's share is that of
    all components that go on from it, so only a component that begins weakly and yet leads could be missed.
    """
    sizes = {index: size for block in blocks for index, size in zip(block.indices, block.values.shape)}
    log_rate = float(log_sum(blocks, ()))
    settings, logs = np.zeros((1, 0), np.int64), np.array([log_rate])
    for depth, index in enumerate(latent):
        begun = [_continued(block, latent[:depth], settings) for block in blocks]
        here = log_sum([Block((CELLS,), np.zeros(len(settings))), *begun], (CELLS, index))
        order = np.argsort(-here.ravel(), kind="stable")[:most]
        before, value = np.divmod(order, sizes[index])
        settings, logs = np.column_stack([settings[before], value]), here.ravel()[order]
    total = math.prod(sizes[index] for index in latent)
    return Components(latent, settings, share(logs, log_rate), total, log_rate)


def _continued(block: Block, fixed: tuple[str, ...], settings: Rows) -> Block:
    """The block at the values (n, fixed) of some of its indices."""
    own = [index for index in fixed if index in block.indices]
    if not own:
        return block
    rest = [index for index in block.indices if index not in own]
    moved = block.values.transpose([block.indices.index(index) for index in (*own, *rest)])
    return Block((CELLS, *rest), moved[tuple(settings[:, fixed.index(index)] for index in own)])


def share(logs: Array, log_rate: float) -> Array:
    """exp(logs) / exp(log_rate); 0 where there is nothing to share."""
    return np.zeros(logs.shape) if math.isinf(log_rate) else np.exp(logs - log_rate)
