"""A Step: one sum over the entries of a sparse table, and the chains of products that it walks.

For a table Q over visible indices and operands Z_1 … Z_m, each in a term, a step gives the gradients

    Δ_a = ∂/∂Z_a  Σ_entries q · Xhat,     Xhat = Σ_terms V_t Σ_latent Π Z        for the wanted operands a

where q is the entry itself ("linear") or, under a likelihood, M·E[n]/Xhat. A Step says nothing of names, sizes or
methods: two relations of the same shape share one compiled kernel.

Where a likelihood needs proportions only, the operands of a single term have rows divided by their maxima. Several
terms are added up at the true scale, and other likelihoods need it: operands are as they are there.
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
    """The next multiple of the vector width."""
    return -(-rank // WIDTH) * WIDTH


def least_rate(arrays: Sequence[NDArray[np.floating]]) -> float:
    """A scaled Xhat below this is left to log-sum-exp, for these stored operands."""
    return TINY_SINGLE if any(array.dtype == np.float32 for array in arrays) else TINY


@dataclass(frozen=True)
class Operand:
    """The indices of one factor in a step: visible ones choose the row, latent ones the column; and its term.

    listed: its rows are not all combinations of the visible indices; the tree says which row a fibre has.
    """

    visible: tuple[str, ...]
    latent: tuple[str, ...]
    term: int = 0
    listed: bool = False


@dataclass(frozen=True)
class Step:
    """What a kernel is compiled from. `order` is the fibre tree's, root first; `extents` are the latent sizes.

    exposed: the terms whose V is given entry by entry.
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
        """What the entries are values under; None: they are plain numbers."""
        return self.kind if isinstance(self.kind, Likelihood) else None

    @property
    def valued(self) -> bool:
        """Whether a kernel reads x of every entry, beside M."""
        return self.likelihood is not None and self.likelihood.beside

    @property
    def packed(self) -> bool:
        """Whether a kernel reads the state of the likelihood; it then adds up M·E[n] for the next one."""
        return self.likelihood is not None and self.likelihood.packs

    @property
    def beside(self) -> int:
        """How many arrays a kernel reads beside the entries: x and exposures."""
        return self.valued + len(self.exposed)

    def extent(self, index: str) -> int:
        """Number of values that a loop over a latent index visits."""
        return dict(self.extents)[index]

    def level(self, position: int) -> int:
        """The level of the tree at which an operand's last visible index is bound; −1: before the root."""
        return max((self.order.index(index) for index in self.operands[position].visible), default=-1)

    @property
    def listed(self) -> tuple[int, ...]:
        """The positions of the operands whose rows the tree says."""
        return tuple(position for position, operand in enumerate(self.operands) if operand.listed)

    def renamed(self) -> "Step":
        """The same step under standard index names, so that equal shapes give equal source."""
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

    Where every operand has at most one latent index, all loops may run over the padded rank (padding is 0), and R =
    17 … 24 share one kernel; else an index is looped over in some operand, and the exact rank saves work.
    """
    latent = dict.fromkeys(index for operand in operands for index in operand.latent)
    exact = any(len(operand.latent) > 1 for operand in operands)
    extents = tuple((index, ranks[index] if exact else padded(ranks[index])) for index in latent)
    return Step(kind, order, operands, extents, wanted, bound, exposed, terms)


@dataclass(frozen=True)
class ChainLink:
    """One product of the chain: the product so far × one operand, summed over what nothing later needs."""

    position: int
    level: int
    before: tuple[str, ...] | None  # latent indices of the product so far; None: this operand starts the chain
    after: tuple[str, ...]


def chain(step: Step, term: int = 0) -> tuple[ChainLink, ...]:
    """A term's operands in the order in which the tree meets them, with the latent indices that stay after each."""
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
