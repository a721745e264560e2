"""What a model says that was hardly meant."""

from collections.abc import Collection, Iterator

from plait.errors import LoneLatentWarning
from plait.model.model import Equation, Model, Occurrence
from plait.warn import Trap


def model_traps(model: Model, given: Collection[str]) -> Iterator[Trap]:
    """Factors without their latent index, as in ``U[user, r] P[place]``; given: factors that are not unknown."""
    for index in model.latent:
        holders = [name for name in model.factors if index in model.factor(name).latent]
        if len(holders) == 1 and holders[0] not in given:
            yield from (_lone(index, equation, given) for equation in model.equations if _bare(equation, index, given))


def _bare(equation: Equation, index: str, given: Collection[str]) -> list[Occurrence]:
    """Unknown factors of an equation that should perhaps have the latent index, which some factor of it has.

    They have no latent index, and a visible one that stands with none anywhere in the equation; ``b[i]`` beside
    ``A[i, r]`` is a bias.
    """
    if index not in equation.latent:
        return []
    woven = {i for occurrence in equation.occurrences if _latent(equation, occurrence) for i in occurrence.indices}
    return [
        occurrence
        for occurrence in equation.occurrences
        if occurrence.factor not in given
        and occurrence.indices
        and not _latent(equation, occurrence)
        and not woven & set(occurrence.indices)
    ]


def _latent(equation: Equation, occurrence: Occurrence) -> bool:
    return any(index not in equation.indices for index in occurrence.indices)


def _lone(index: str, equation: Equation, given: Collection[str]) -> Trap:
    holder = next(occurrence for occurrence in equation.occurrences if index in occurrence.indices)
    bare = _bare(equation, index, given)[0]
    return Trap(
        LoneLatentWarning,
        equation.relation,
        f"the latent index {index} stands in {holder} only, so it is merely summed: all its values do the same.",
        f"Did you mean {bare.factor}[{', '.join((*bare.indices, index))}]? Else leave {index} out of {holder.factor}.",
    )
