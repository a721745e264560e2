"""What a model says that was hardly meant."""

from collections.abc import Collection, Iterator

from plait.errors import LoneLatentWarning
from plait.model.model import Equation, Model, Occurrence, Summand
from plait.warn import Trap


def model_traps(model: Model, given: Collection[str]) -> Iterator[Trap]:
    """Factors without their latent index, as in ``U[user, r] P[place]``; given: factors that are not unknown."""
    for index in model.latent:
        holders = [name for name in model.factors if index in model.factor(name).latent]
        if len(holders) == 1 and holders[0] not in given and not _woven_with_itself(model, index):
            for equation in model.equations:
                bare = [o for term in equation.terms for o in _bare(equation, term, index, given)]
                yield from (_lone(index, equation, one) for one in bare[:1])


def _woven_with_itself(model: Model, index: str) -> bool:
    """Whether a factor that stands twice in a term has a latent index in both places."""
    terms = [term for equation in model.equations for term in equation.terms]
    return any(sum(index in o.indices for o in term.occurrences) > 1 for term in terms)


def _bare(equation: Equation, term: Summand, index: str, given: Collection[str]) -> list[Occurrence]:
    """Unknown factors of a term that should perhaps have the latent index, which some factor of it has.

    They have no latent index, and a visible one that stands with none anywhere in the term; ``b[i]`` beside
    ``A[i, r]`` is a bias.
    """
    if index not in term.indices:
        return []
    woven = {i for occurrence in term.occurrences if _latent(equation, occurrence) for i in occurrence.indices}
    return [
        occurrence
        for occurrence in term.occurrences
        if occurrence.factor not in given
        and occurrence.indices
        and not _latent(equation, occurrence)
        and not woven & set(occurrence.indices)
    ]


def _latent(equation: Equation, occurrence: Occurrence) -> bool:
    return any(index not in equation.indices for index in occurrence.indices)


def _lone(index: str, equation: Equation, bare: Occurrence) -> Trap:
    holder = next(occurrence for occurrence in equation.occurrences if index in occurrence.indices)
    return Trap(
        LoneLatentWarning,
        equation.relation,
        f"the latent index {index} stands in {holder} only, so it is merely summed: all its values do the same.",
        f"Did you mean {bare.factor}[{', '.join((*bare.indices, index))}]? Else leave {index} out of {holder.factor}.",
    )
