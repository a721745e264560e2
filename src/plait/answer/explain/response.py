"""How much smaller the mean of a cell would be, were a known link an observed zero: its responsibility.

The zero takes the counts n_l s_l (see `bearing`) out of the rows it shares with the cell. Each such row
settles anew: its other links share their counts in other ways, and under Bernoulli they also have fewer, for E[n] falls
with the rate. With η_m = d log n_m / d log λ_m (Poisson: 0) the row, a fixed point of C = A + Σ_m n_m s_m with
L = exp ψ(C) D, answers to first order with

    d log L = −(K + Q_l)⁻¹ n_l s_l,    K = diag(1/ψ′(C)) − Σ_m Q_m,    Q_m = n_m (diag s_m − (1 − η_m) s_m s_mᵀ)

where D stays, for zeros are exposed as links are, and + Q_l says that the link itself does not follow: it is gone. In
a sum s_m adds up to less than 1, for the counts that other terms have. The mean falls by a fraction, and d log E =
d log L / (C ψ′(C)):

    responsibility = − Σ over the rows of the cell, Σ over components: share · d log E

EM and MAP have C in place of 1/ψ′(C). K⁻¹ serves all links; of Q_l only what it does to x = K⁻¹ n_l s_l is taken, the
rank-one matrix (Q_l x)(Q_l x)ᵀ / xᵀQ_l x. The rows of other entities are held: `refit` fits everything
again. A link that is not observed at all (missing) is another question: a zero is evidence, too, and takes more away.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import polygamma

from plait.answer.explain.bearing import Key, Piece, Row, Touching, pieces
from plait.run.record import Fitted
from plait.types import Array

SLOWEST = 0.1  # of K relative to 1/ψ′(C): a direction that settles more slowly than this is followed no further
LARGEST = 2000  # entries of a row; one that has more is taken not to settle anew


@dataclass(frozen=True, eq=False)
class Answer:
    """How the cell's row of a factor answers to counts taken out of it.

    Coordinates are those in which diag(1/ψ′(C)) is the identity, so that nothing overflows where an entry of the row is
    next to 0: scale (entries,) 1/√ψ′(C); pull (entries,) the change of the log mean with d log L; inverse (entries,
    entries) K⁻¹. at_once (entries,): share/C, for a row that is taken not to settle anew: its inverse is None.
    """

    at_once: Array
    scale: Array
    pull: Array
    inverse: Array | None

    def fall(self, links: Piece) -> Array:
        """The fraction that the mean loses with each link, (links,)."""
        n = links.counts[:, None]
        if self.inverse is None:
            return np.asarray(n * links.shares @ self.at_once)
        s = _divided(links.shares, self.scale)
        moved = n * s @ self.inverse
        own = n * (_divided(s, self.scale) * moved - s * ((1.0 - links.follow) * (s * moved).sum(axis=1))[:, None])
        back = own @ self.inverse
        first, second = (moved * own).sum(axis=1), (back * own).sum(axis=1)
        part = np.divide(first, first + second, out=np.zeros(len(first)), where=first > 0)
        return np.asarray(moved @ self.pull - part * (back @ self.pull))


def _divided(array: Array, scale: Array) -> Array:
    """The array over the scale of every entry; 0 where that is 0."""
    return np.divide(array, scale, out=np.zeros(array.shape), where=scale > 0)


def answers(fit: Fitted, groups: Sequence[Touching]) -> dict[Key, Answer]:
    """The answers of the cell's rows."""
    rows = {group.row.key: group.row for group in groups}
    return {key: _answer(fit, row, [g for g in groups if g.row.key == key]) for key, row in rows.items()}


def responsibilities(fit: Fitted, group: Touching, answer: Answer) -> Array:
    """What every link of the group is responsible for through its row: (links,)."""
    parts = [answer.fall(piece) for piece in pieces(fit, group)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _answer(fit: Fitted, row: Row, groups: Sequence[Touching]) -> Answer:
    C = row.concentration.ravel()
    at_once = _divided(row.shares.ravel(), C)
    with np.errstate(divide="ignore"):
        scale = np.sqrt(1.0 / polygamma(1, C) if fit.method == "vb" else C)
    return Answer(at_once, scale, at_once * scale, _inverse(fit, scale, groups) if C.size <= LARGEST else None)


def _inverse(fit: Fitted, scale: Array, groups: Sequence[Touching]) -> Array:
    """K⁻¹ in the coordinates of an `Answer`: (1 − Σ_m Q_m)⁻¹."""
    K = np.eye(len(scale))
    for group in groups:
        for piece in pieces(fit, group):
            s = _divided(piece.shares, scale)
            K += (s.T * (piece.counts * (1.0 - piece.follow))) @ s
            K[np.diag_indices_from(K)] -= piece.counts @ _divided(s, scale)
    values, vectors = np.linalg.eigh(K)
    return np.asarray((vectors / np.maximum(values, SLOWEST)) @ vectors.T)
