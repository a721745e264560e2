"""How much smaller the mean of a cell would be, were a known link an observed zero: its responsibility.

The zero takes the counts n_l s_l (see `plait.explain.links`) out of the rows it shares with the cell. Each such row
settles anew: its other links share their counts in other ways, and under Bernoulli they also have fewer, for E[n] falls
with the rate. With η_l = d log n_l / d log λ_l (Poisson: 0) the row, a fixed point of C = A + Σ_l n_l s_l with
L = exp ψ(C) D, answers to first order with

    d log L = −K⁻¹ n_l s_l,      K = diag(1/ψ′(C)) − Σ_l n_l (diag s_l − (1 − η_l) s_l s_lᵀ)

(D stays: zeros are exposed as links are; EM and MAP have C in place of 1/ψ′(C)), and the mean falls by the fraction

    responsibility = Σ over the rows of the cell, Σ over components: share · (n_l s_l + what follows) / C

where d log E = d log L / (C ψ′(C)). The rows of other entities are held: `plait.explain.exact` fits everything again.
A link that is not observed at all (missing) is another question, and the fall is smaller: a zero is evidence, too.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma

from plait.explain.links import Row, Touching, pieces

if TYPE_CHECKING:
    from plait.result import Fit

Array = NDArray[np.float64]

SLOWEST = 0.1  # of K relative to 1/ψ′(C): a direction that settles more slowly than this is followed no further
LARGEST = 2000  # entries of a row; one that has more is taken not to settle anew


def answers(fit: "Fit", groups: Sequence[Touching]) -> dict[str, Array]:
    """By factor: what a count taken out of each entry of the cell's row takes from the mean, (entries,)."""
    rows = {group.row.factor: group.row for group in groups}
    return {name: _answer(fit, row, [g for g in groups if g.row.factor == name]) for name, row in rows.items()}


def responsibilities(fit: "Fit", group: Touching, answer: Mapping[str, Array]) -> Array:
    """What every link of the group is responsible for through its row: (links,)."""
    parts = [piece.counts * (piece.shares @ answer[group.row.factor]) for piece in pieces(fit, group)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _answer(fit: "Fit", row: Row, groups: Sequence[Touching]) -> Array:
    """K⁻¹ share/(C ψ′(C)), in coordinates in which diag(1/ψ′(C)) is the identity."""
    C, share = row.concentration.ravel(), row.shares.ravel()
    at_once = np.divide(share, C, out=np.zeros(C.shape), where=C > 0)
    if C.size > LARGEST:
        return at_once
    with np.errstate(divide="ignore"):
        stiff = 1.0 / polygamma(1, C) if fit.method == "vb" else C
    used = stiff > 0
    scale = np.sqrt(stiff[used])
    settling = np.eye(len(scale)) - _following(fit, groups)[np.ix_(used, used)] / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(settling)
    result = np.zeros(C.shape)
    result[used] = vectors @ ((vectors.T @ (at_once[used] * scale)) / np.maximum(values, SLOWEST)) / scale
    return result


def _following(fit: "Fit", groups: Sequence[Touching]) -> Array:
    """Σ_l n_l (diag s_l − (1 − η_l) s_l s_lᵀ): what d log L does to the counts, (entries, entries)."""
    size = groups[0].row.shares.size
    result = np.zeros((size, size))
    for group in groups:
        for piece in pieces(fit, group):
            result -= (piece.shares.T * (piece.counts * (1.0 - piece.follow))) @ piece.shares
            result[np.diag_indices(size)] += piece.total()
    return result
