"""What the arguments of a fit may say of factors that remember pairs, whose rows are not those of an array."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.compile.layout import Layout, PairRows
from plait.data.observing.pairs import Pairs, count_joined
from plait.errors import SettingError, TableLocation
from plait.machine import memory
from plait.model import Equation, Model, Occurrence

Tie = str | Sequence[str]

FIT = "`init=fit`"
JOINED = 40  # bytes that an entry of a join takes besides its coordinates (`plait.data.observing.terms`)


def check_ties(ties: Mapping[str, Tie], adapt: Any, layouts: Mapping[str, Layout], *, chosen: bool) -> dict[str, Tie]:
    """The ties of all factors; of one over pairs a prior for the whole factor, or for values of latent indices.

    chosen: whether the user said how to adapt.
    """
    found = dict(ties)
    for name, tie in ties.items():
        pairs = layouts[name].pairs
        if pairs is None or tie in ("factor", "component") or _latent(tie, pairs):
            continue
        if chosen:
            hint = {**(adapt if isinstance(adapt, Mapping) else ties), name: "factor"}
            raise SettingError(
                f"`adapt` is {tie!r} for factor {name}, which remembers pairs: most of them share a row.",
                hint=f'It adapts by "factor" or "component": `adapt={hint!r}`.',
            )
        found[name] = "factor"
    return found


def _latent(tie: Tie, pairs: PairRows) -> bool:
    """Whether a tying by index names has none that is visible."""
    return not isinstance(tie, str) and not set(tie) & set(pairs.visible)


def by_components(name: str, pairs: PairRows, word: str, value: NDArray[np.float64]) -> NDArray[np.float64]:
    """An array of a prior that broadcasts to the factor as written -> (1, *latent); it is one for all pairs."""
    shape = (1,) * (len(pairs.indices) - value.ndim) + value.shape
    if len(shape) > len(pairs.indices) or any(n > 1 for n, i in zip(shape, pairs.indices) if i in pairs.visible):
        raise SettingError(
            (
                f"`prior` of {name}: {word} has shape {value.shape}, but "
                f"{name}[{', '.join(pairs.indices)}] remembers pairs, and one prior is for all of them."
            ),
            hint=(
                f"Give one number, or one for every value of its latent indices: 1 along {' and '.join(pairs.visible)}."
            ),
        )
    return pairs.for_rows(value)


def refuse_array(layout: Layout) -> None:
    """A start of a factor over pairs cannot be an array: nobody knows its rows before the data are read."""
    if layout.pairs is not None:
        raise SettingError(
            (
                f"`init` names factor {layout.name}, which remembers pairs: it has a row for each "
                f"of {len(layout.pairs):,} pairs with links, and one for all others of an entity."
            ),
            hint=f"Leave {layout.name} out of `init`; or start from a fit: {FIT}.",
        )


def check_joins(model: Model, pairs: Mapping[str, Pairs]) -> None:
    """Refuse terms in which two factors over pairs meet in more combinations than memory holds, before any is made."""
    for equation in model.equations:
        for term in equation.terms:
            own = [occurrence for occurrence in term.occurrences if occurrence.factor in pairs]
            for first, second in combinations(own, 2):
                _check_join(equation, first, second, pairs)


def _check_join(equation: Equation, first: Occurrence, second: Occurrence, pairs: Mapping[str, Pairs]) -> None:
    one, other = ([i for i in occurrence.indices if i in equation.indices] for occurrence in (first, second))
    indices = [index for index in equation.indices if index in one or index in other]
    if len(indices) in (len(one), len(other)):
        return
    names = [_visible(occurrence, pairs[occurrence.factor]) for occurrence in (first, second)]
    common = [(n, names[1].index(index)) for n, index in enumerate(names[0]) if index in names[1]]
    count = count_joined(pairs[first.factor], pairs[second.factor], common)
    if count * (4 * len(indices) + JOINED) > memory():
        raise SettingError(
            (
                f"{first} and {second} remember pairs in one term, which meet in {count:,} combinations of "
                f"{', '.join(indices)}: more than memory holds."
            ),
            location=TableLocation.of(equation.relation),
            hint="Put one of them in a term of its own, or leave it out.",
        )


def _visible(occurrence: Occurrence, pairs: Pairs) -> list[str]:
    """What an equation calls the visible indices of a factor, in the order of its pairs."""
    here = dict(zip(pairs.indices, occurrence.indices))
    return [here[index] for index in pairs.visible]
