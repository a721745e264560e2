"""What a model says that was hardly meant."""

from collections.abc import Collection, Iterator

from plait.errors import ForgottenFactorWarning, LoneLatentWarning, PlaitWarning
from plait.model.model import Equation, Model, Occurrence, Summand


def model_traps(model: Model, given: Collection[str]) -> Iterator[PlaitWarning]:
    """What is hardly meant; given: factors that are not unknown."""
    yield from _lone_latents(model, given)
    yield from _forgotten(model, given)


def _forgotten(model: Model, given: Collection[str]) -> Iterator[PlaitWarning]:
    """Factors over pairs that multiply unknown ones, as V does in ``V[user, place] U[user, r] P[place, r]``.

    In a term of its own such a factor remembers pairs; with a latent index it can hardly be an exposure.
    """
    seen: set[str] = set()
    for equation in model.equations:
        for term in equation.terms:
            free = [occurrence for occurrence in term.occurrences if occurrence.factor not in given]
            for one in free if len({occurrence.factor for occurrence in free}) > 1 else ():
                if len(one.indices) > 1 and not _latent(equation, one) and one.factor not in seen:
                    seen.add(one.factor)
                    yield _free_pairs(equation, one)


def _free_pairs(equation: Equation, one: Occurrence) -> PlaitWarning:
    return ForgottenFactorWarning(
        f"{one} has visible indices only and multiplies unknown factors, but is not given: every pair of a link has "
        "a number of its own, which explains it without them.",
        location=equation.relation,
        hint=f"Give it if it is known: `fixed={{{one.factor!r}: …}}`. To remember pairs, put it in a term of its "
        f"own: … + {one}; or give it a latent index: {one.factor}[{', '.join(one.indices)}, z].",
    )


def _lone_latents(model: Model, given: Collection[str]) -> Iterator[PlaitWarning]:
    """Factors without their latent index, as in ``U[user, r] P[place]``."""
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


def _lone(index: str, equation: Equation, bare: Occurrence) -> PlaitWarning:
    holder = next(occurrence for occurrence in equation.occurrences if index in occurrence.indices)
    return LoneLatentWarning(
        f"the latent index {index} stands in {holder} only, so it is merely summed: all its values do the same.",
        location=equation.relation,
        hint=f"Did you mean {bare.factor}[{', '.join((*bare.indices, index))}]? Else leave {index} out of "
        f"{holder.factor}.",
    )
