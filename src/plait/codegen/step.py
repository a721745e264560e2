"""Step: one sum over the entries of a sparse table (a generalised MTTKRP), and its chains of products.

For a table Q over visible indices and operands Z_1 … Z_m, each in a term, a step gives the gradients

    Δ_a = ∂/∂Z_a  Σ_entries q · Xhat,     Xhat = Σ_terms V_t Σ_latent Π Z        for the wanted operands a

where q is the entry itself ("linear") or, under a likelihood, M·E[n]/Xhat. A step has no names, sizes or methods:
relations of the same shape share one compiled kernel.

Where a likelihood needs proportions only, rows of the operands of a single term are divided by their maxima. Several
terms, and other likelihoods, need the true scale.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plait.jit import TINY, TINY_SINGLE, WIDTH
from plait.likelihood import Likelihood

Kind = Likelihood | Literal["linear"]


def padded(rank: int) -> int:
    """Next multiple of the vector width."""
    return -(-rank // WIDTH) * WIDTH


def least_rate(arrays: Sequence[NDArray[np.floating]]) -> float:
    """Smallest scaled Xhat for these stored operands; entries below go to log-sum-exp."""
    return TINY_SINGLE if any(array.dtype == np.float32 for array in arrays) else TINY


@dataclass(frozen=True)
class Operand:
    """Indices of one factor in a step: visible ones choose the row, latent ones the column; and its term.

    `listed`: its rows are pairs; the tree has the row of every fibre.
    """

    visible: tuple[str, ...]
    latent: tuple[str, ...]
    term: int = 0
    listed: bool = False


@dataclass(frozen=True)
class Step:
    """Input of kernel compilation. `order`: of the CSF tree, root first; `extents`: latent sizes; `exposed`: terms
    whose V is given by entry.
    """

    kind: Kind
    order: tuple[str, ...]
    operands: tuple[Operand, ...]
    extents: tuple[tuple[str, int], ...]
    wanted: tuple[int, ...]
    bound: bool = False
    exposed: tuple[int, ...] = ()
    terms: int = 1

    @property
    def likelihood(self) -> Likelihood | None:
        """Likelihood of the entries; None for plain numbers."""
        return self.kind if isinstance(self.kind, Likelihood) else None

    @property
    def valued(self) -> bool:
        """Whether the kernel reads x of every entry, next to M."""
        return self.likelihood is not None and self.likelihood.reads_values

    @property
    def packed(self) -> bool:
        """Whether the kernel reads the likelihood's parameters; it then sums M·E[n] for their update."""
        return self.likelihood is not None and self.likelihood.packs

    @property
    def n_side_values(self) -> int:
        """Number of arrays read next to the entries: x and exposures."""
        return self.valued + len(self.exposed)

    def extent(self, index: str) -> int:
        """Number of values in a loop over a latent index."""
        return dict(self.extents)[index]

    def level(self, position: int) -> int:
        """Level of the tree at which an operand's last visible index is bound; −1: before the root."""
        return max((self.order.index(index) for index in self.operands[position].visible), default=-1)

    @property
    def listed(self) -> tuple[int, ...]:
        """Positions of the operands over pairs."""
        return tuple(position for position, operand in enumerate(self.operands) if operand.listed)

    def renamed(self) -> "Step":
        """The step under standard index names, so that equal shapes give equal source."""
        names = {index: f"v{n}" for n, index in enumerate(self.order)}
        names |= {index: f"l{n}" for n, (index, _) in enumerate(self.extents)}

        def rename(indices: Iterable[str]) -> tuple[str, ...]:
            return tuple(names[index] for index in indices)

        operands = tuple(replace(o, visible=rename(o.visible), latent=rename(o.latent)) for o in self.operands)
        extents = tuple((names[index], extent) for index, extent in self.extents)
        return replace(self, order=rename(self.order), operands=operands, extents=extents)


def make_step(
    kind: Kind,
    order: tuple[str, ...],
    operands: tuple[Operand, ...],
    ranks: dict[str, int],
    wanted: tuple[int, ...],
    *,
    bound: bool = False,
    exposed: tuple[int, ...] = (),
    terms: int = 1,
) -> Step:
    """A step whose kernel serves as many ranks as possible.

    Where every operand has at most one latent index, all loops run over the padded rank (padding is 0), and R = 17 … 24
    share one kernel; else an index is looped over in some operand, and the exact rank saves work.
    """
    latent = dict.fromkeys(index for operand in operands for index in operand.latent)
    exact = any(len(operand.latent) > 1 for operand in operands)
    extents = tuple((index, ranks[index] if exact else padded(ranks[index])) for index in latent)
    return Step(kind, order, operands, extents, wanted, bound, exposed, terms)


@dataclass(frozen=True)
class ChainLink:
    """One product of the chain: the product so far × one operand, summed over indices that are not needed later."""

    position: int
    level: int
    before: tuple[str, ...] | None  # latent indices of the product so far; None: this operand starts the chain
    after: tuple[str, ...]


def chain(step: Step, term: int = 0) -> tuple[ChainLink, ...]:
    """A term's operands in the order of the tree's levels, with the latent indices that remain after each."""
    own = (position for position, operand in enumerate(step.operands) if operand.term == term)
    positions = sorted(own, key=lambda position: (step.level(position), position))
    links: list[ChainLink] = []
    before: tuple[str, ...] | None = None
    for n, position in enumerate(positions):
        needed = {index for later in positions[n + 1 :] for index in step.operands[later].latent}
        latent = step.operands[position].latent
        merged = [*(before or ()), *(index for index in latent if index not in (before or ()))]
        after = tuple(index for index in merged if index in needed)
        links.append(ChainLink(position, step.level(position), before, after))
        before = after
    return tuple(links)
