"""Products of factor rows over latent indices, in logarithms: nothing underflows, and no whole core is ever formed.

A cell picks one row of every factor of its equation. What is left of the factor, an array over its latent indices, is a
`Block`; a *component* is one setting of all latent indices, and Π of the blocks there is what it adds to the cell.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from plait.fitted import Fitted
from plait.model import Equation
from plait.model.network import CELLS, Block, gather, log_contract, sizes_of

if TYPE_CHECKING:
    from plait.model.model import Occurrence

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Kind = Literal["mean", "geomean"]


def operands(fit: Fitted, equation: Equation) -> "list[Occurrence]":
    """The factors of an equation that are not exposures."""
    return [occurrence for occurrence in equation.occurrences if occurrence.factor in fit.factors]


def gathered(array: Array, occurrence: "Occurrence", equation: Equation, rows: Rows) -> Block:
    """The rows of a factor (as written) that cells (n, order) use."""
    return gather(array, occurrence.indices, {index: n for n, index in enumerate(equation.indices)}, rows)


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
    sizes = sizes_of(blocks)
    log_rate = float(log_contract(blocks, ()))
    settings, logs = np.zeros((1, 0), np.int64), np.array([log_rate])
    for depth, index in enumerate(latent):
        begun = [_continued(block, latent[:depth], settings) for block in blocks]
        here = log_contract([Block((CELLS,), np.zeros(len(settings))), *begun], (CELLS, index))
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
