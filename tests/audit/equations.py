"""Random models: equations over a few axes, factors shared between them, sizes and ranks."""

import math
from dataclasses import dataclass, field

import numpy as np

VISIBLE, LATENT, FACTORS, RELATIONS = "ijklmn", "pqr", "ABCDEFGHKLMNOPQSTU", "XYZ"
MIRROR = "x"  # a second name of the first axis: x: i
MAX_TERMS = 6_000  # cells × latent settings of one relation, which the oracle holds as a dense tensor
Indices = tuple[str, ...]


@dataclass(frozen=True)
class Drawn:
    """A random model: its text, the size of every visible index, the rank of every latent one."""

    text: str
    sizes: dict[str, int]
    ranks: dict[str, int]

    def __str__(self) -> str:
        sizes = ", ".join(f"{index}: {size}" for index, size in (self.sizes | self.ranks).items())
        return f"{self.text}\n({sizes})"


@dataclass
class _Draft:
    """Equations on their way: factors by name with their indices, in the order in which they were made."""

    rng: np.random.Generator
    factors: dict[str, Indices] = field(default_factory=dict)
    equations: list[tuple[str, Indices, list[tuple[str, Indices]]]] = field(default_factory=list)

    def some(self, of: str, most: int) -> Indices:
        """A random subset of at most this size."""
        count = int(self.rng.integers(0, min(most, len(of)) + 1))
        return tuple(map(str, self.rng.permutation(list(of))[:count]))

    def new(self, indices: Indices) -> tuple[str, Indices]:
        name = FACTORS[len(self.factors)]
        self.factors[name] = tuple(map(str, self.rng.permutation(list(indices)))) if indices else ()
        return name, self.factors[name]


def draw(rng: np.random.Generator, relations: int | None = None) -> Drawn:
    """Some relations of one to five factors each; later ones take up factors of earlier ones."""
    draft = _Draft(rng)
    count = relations or int(rng.choice(3, p=[0.45, 0.35, 0.2])) + 1
    for name in RELATIONS[:count]:
        _add_equation(draft, name)
    lines = [f"{_term(*left)} = {' '.join(_term(*term) for term in right)}" for *left, right in draft.equations]
    used = {index for _, indices, _ in draft.equations for index in indices}
    if {MIRROR, VISIBLE[0]} <= used:
        lines.append(f"{MIRROR}: {VISIBLE[0]}")
    return _sized("\n".join(lines), draft)


def _term(name: str, indices: Indices) -> str:
    return f"{name}[{','.join(indices)}]"


def _add_equation(draft: _Draft, name: str) -> None:
    """Old factors first, then new ones over the indices that are there and a few more."""
    rng = draft.rng
    occurrences = _resume(draft)
    visible = dict.fromkeys(i for _, indices in occurrences for i in indices if i not in LATENT)
    more = draft.some(VISIBLE, max(4 - len(visible), 0))
    visible |= dict.fromkeys(more or (VISIBLE[:2] if rng.random() < 0.8 and not visible else ()))
    plain = rng.random() < 0.4  # one factor an axis, all over the same latent indices: CP, or Tucker without a core
    latent = draft.some(LATENT, 1 if plain else 2)
    for _ in range(0 if plain else int(rng.integers(0 if occurrences else 1, 6 - len(occurrences)))):
        indices = draft.some("".join(visible), 3) + draft.some("".join(latent), 2)
        occurrences.append(draft.new(_allowed(rng, indices)))
    for index in visible:  # every index of a relation stands in one of its factors
        if not any(index in indices for _, indices in occurrences):
            occurrences.append(draft.new((index, *(latent if plain else latent[: int(rng.integers(0, 2))]))))
    if not occurrences:
        occurrences.append(draft.new(()))
    draft.equations.append((name, tuple(map(str, rng.permutation(list(visible)))), occurrences))


def _resume(draft: _Draft) -> list[tuple[str, Indices]]:
    """One or two factors of earlier equations, the first axis perhaps under its other name."""
    if not draft.factors:
        return []
    names = draft.rng.permutation(list(draft.factors))[: int(draft.rng.integers(1, 3))]
    mirror = draft.rng.random() < 0.3
    first = VISIBLE[0]
    here = {first: MIRROR} if mirror and any(first in draft.factors[name] for name in names) else {}
    if here and not any(first in indices for _, indices, _ in draft.equations):
        here = {}
    return [(str(name), tuple(here.get(index, index) for index in draft.factors[str(name)])) for name in names]


def _allowed(rng: np.random.Generator, indices: Indices) -> Indices:
    """A free factor over several visible indices has a latent one."""
    if len(indices) > 1 and not set(indices) & set(LATENT):
        return (*indices, str(rng.choice(list(LATENT))))
    return indices


def _sized(text: str, draft: _Draft) -> Drawn:
    """Sizes from 1 to 12 and ranks from 1 to 6, sometimes 20, cut down until every relation is small."""
    rng = draft.rng
    here = {index for _, _, occurrences in draft.equations for _, indices in occurrences for index in indices}
    sizes = {index: int(rng.integers(1, 13)) for index in (*VISIBLE, MIRROR) if index in here}
    ranks = {index: 20 if rng.random() < 0.06 else int(rng.integers(1, 7)) for index in LATENT if index in here}
    if MIRROR in sizes and VISIBLE[0] in sizes:
        sizes[MIRROR] = sizes[VISIBLE[0]]
    both = sizes | ranks
    for _, visible, occurrences in draft.equations:
        over = sorted({*visible, *(index for _, indices in occurrences for index in indices)})
        while math.prod(both[index] for index in over) > MAX_TERMS:
            largest = max((index for index in over if index not in (MIRROR, VISIBLE[0])), key=both.__getitem__)
            both[largest] = both[largest] // 2
    return Drawn(text, {index: both[index] for index in sizes}, {index: both[index] for index in ranks})
