"""Contraction of an equation at chosen rows to a sum of products over free axes, as far as nothing grows.

    rate(n_1, …, n_F) = Σ_terms Σ_latent Π_parts part[rows of its axes, its latent indices]

All parts are non-negative, so the same sum at componentwise maxima over sets of rows bounds the rate over a box.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from plait._typing import Array, Rows
from plait.data.observation.pairs import Pairs
from plait.model.model import Equation, Occurrence, Summand
from plait.model.network import RowBlock, contract, sizes_of, spread
from plait.storage.fitted import Fitted
from plait.tuning import TUNING

MEMBER = "member of an ensemble"  # a latent index; names of a model have no spaces


@dataclass(frozen=True, eq=False)
class Axis:
    """Indices of a relation that run together: positions in the cell, and rows (n, n_places).

    `whole`: whether the rows are 0 … size − 1 of a single index, so arrays are used without a copy.
    """

    places: tuple[int, ...]
    rows: Rows
    whole: bool = False

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class ContractionPart:
    """A factor, or a product of factors: array (*rows of the axes, *latent)."""

    axes: tuple[int, ...]
    latent: tuple[str, ...]
    array: Array

    @property
    def block(self) -> RowBlock:
        """The array with named axes: numbers of free axes, then names of latent indices."""
        return RowBlock((*self.axes, *self.latent), self.array)


Product = tuple[ContractionPart, ...]


@dataclass(frozen=True, eq=False)
class Contraction:
    """Terms over free axes of these lengths, each a product of parts; a latent index belongs to one term."""

    shape: tuple[int, ...]
    terms: tuple[Product, ...]


def free_axes(axes: Iterable[Axis]) -> list[Axis]:
    """Axes with more than one row."""
    return [axis for axis in axes if len(axis) != 1]


def parts_of(
    fit: Fitted, equation: Equation, term: Summand, axes: Sequence[Axis], large: Collection[Occurrence] = ()
) -> list[ContractionPart]:
    """Posterior means of a term's factors at the rows of the axes, which cover all visible indices.

    An ensemble adds a latent index for its members. `large`: factors with too many pairs for a dense array.
    """
    place = {index: n for n, index in enumerate(equation.indices)}
    occurrences = [o for o in term.occurrences if o.factor in fit.factors]
    if len(fit.members) == 1 or not occurrences:
        return [_operand_of(fit, o, place, axes, o in large) for o in occurrences]
    parts = [_beside([_operand_of(member, o, place, axes, o in large) for member in fit.members]) for o in occurrences]
    return [ContractionPart((), (MEMBER,), np.full(len(fit.members), 1.0 / len(fit.members))), *parts]


def _beside(parts: Sequence[ContractionPart]) -> ContractionPart:
    """One part for a factor in all members; components that a member lacks are 0."""
    axes, latent = parts[0].axes, parts[0].latent
    shape = np.max([part.array.shape for part in parts], axis=0).astype(int)
    array = np.zeros((len(parts), *shape))
    for number, part in enumerate(parts):
        whole: tuple[int | slice, ...] = (number, *map(slice, part.array.shape))
        array[whole] = part.array
    return ContractionPart(axes, (MEMBER, *latent), np.moveaxis(array, 0, len(axes)))


def remembers(fit: Fitted, occurrence: Occurrence, sizes: Mapping[str, int]) -> bool:
    """Whether a factor over pairs is too large for a dense array over all pairs; `sizes`: chosen rows by index."""
    pairs = fit.factors[occurrence.factor].pairs
    return pairs is not None and math.prod(sizes[i] for i in occurrence.indices if i in sizes) > TUNING.max_pair_array


def _pair_part(
    fit: Fitted, pairs: Pairs, occurrence: Occurrence, place: dict[str, int], axes: Sequence[Axis], large: bool
) -> ContractionPart:
    """A factor over pairs, dense; a large one by its shared rows, unless the axes list the pairs."""
    here = dict(zip(pairs.indices, occurrence.indices))
    names = tuple(here[index] for index in pairs.indices if index not in pairs.visible)
    wanted = [place[here[index]] for index in pairs.visible]
    running = {p for axis in axes if len(axis) != 1 for p in axis.places} & set(wanted)
    if large and not any(running <= set(axis.places) for axis in axes):
        wanted = wanted[:1]
    mine = [n for n, axis in enumerate(axes) if set(axis.places) & set(wanted)]
    columns = np.broadcast_arrays(*(_spread(axes, mine, p) for p in wanted))
    shape = columns[0].shape
    if len(wanted) == len(pairs.visible):
        rows = pairs.find([column.ravel() for column in columns])
    else:
        rows = len(pairs) + columns[0].ravel()
    free = [n for n, axis in enumerate(axes) if len(axis) != 1]
    lengths = [size for n, size in zip(mine, shape) if n in free]
    array = fit.factors[occurrence.factor].mean[rows]
    return ContractionPart(
        tuple(free.index(n) for n in mine if n in free), names, array.reshape([*lengths, *array.shape[1:]])
    )


def _operand_of(
    fit: Fitted, occurrence: Occurrence, place: dict[str, int], axes: Sequence[Axis], large: bool
) -> ContractionPart:
    pairs = fit.factors[occurrence.factor].pairs
    if pairs is not None:
        return _pair_part(fit, pairs, occurrence, place, axes, large)
    visible = [n for n, index in enumerate(occurrence.indices) if index in place]
    latent = [n for n in range(len(occurrence.indices)) if n not in visible]
    names = tuple(occurrence.indices[n] for n in latent)
    wanted = [place[occurrence.indices[n]] for n in visible]
    mine = [n for n, axis in enumerate(axes) if set(axis.places) & set(wanted)]
    # Whole axes in order need no copy.
    if all(axes[n].whole for n in mine):
        order = [visible[wanted.index(axes[n].places[0])] for n in mine]
        array = fit.factors[occurrence.factor].mean.transpose(*order, *latent)
    else:
        moved = fit.factors[occurrence.factor].mean.transpose(*visible, *latent)
        array = moved[tuple(_spread(axes, mine, p) for p in wanted)]
    free = [n for n, axis in enumerate(axes) if len(axis) != 1]
    array = array.reshape([len(axes[n]) for n in mine if n in free] + list(array.shape[len(mine) :]))
    return ContractionPart(tuple(free.index(n) for n in mine if n in free), names, array)


def _spread(axes: Sequence[Axis], mine: Sequence[int], place: int) -> Rows:
    """Rows of one index of the relation, shaped to broadcast over the axes of a factor."""
    at = next(k for k, n in enumerate(mine) if place in axes[n].places)
    axis = axes[mine[at]]
    shape = [1] * len(mine)
    shape[at] = len(axis)
    return axis.rows[:, axis.places.index(place)].reshape(shape)


# --- contraction


def simplified(parts: Sequence[ContractionPart]) -> Product:
    """An equal product of fewer parts: latent indices of a single part are summed, cores absorbed."""
    left = _summed(parts)
    while (pair := _joinable(left)) is not None:
        left = _summed([p for p in left if p not in pair] + [_product(left, *pair)])
    return tuple(left)


def _summed(parts: Sequence[ContractionPart]) -> list[ContractionPart]:
    """Sum latent indices that only one part has."""
    return [_reduced(part, [other for other in parts if other is not part]) for part in parts]


def _reduced(part: ContractionPart, others: Sequence[ContractionPart]) -> ContractionPart:
    kept = {index for other in others for index in other.latent}
    gone = tuple(n + len(part.axes) for n, index in enumerate(part.latent) if index not in kept)
    if not gone:
        return part
    return ContractionPart(part.axes, tuple(i for i in part.latent if i in kept), np.asarray(part.array.sum(axis=gone)))


def _joinable(parts: Sequence[ContractionPart]) -> tuple[ContractionPart, ContractionPart] | None:
    """Two parts whose product is no larger (one has all indices of the other), or a core and its best partner."""
    for p, q in combinations(parts, 2):
        one, other = set(p.block.indices), set(q.block.indices)
        if one <= other or other <= one:
            return p, q
    cores = [part for part in parts if not part.axes]
    pairs = [(p, q) for p in cores for q in parts if p is not q]
    if not pairs:
        return None
    core, part = min(pairs, key=lambda pair: _size(parts, *pair))
    return (core, part) if _size(parts, core, part) <= max(TUNING.contraction_doubles, 2 * part.array.size) else None


def _left(
    parts: Sequence[ContractionPart], p: ContractionPart, q: ContractionPart
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Axes of the product of two parts, and its latent indices that others have too."""
    others = {index for part in parts if part is not p and part is not q for index in part.latent}
    latent = tuple(index for index in dict.fromkeys((*p.latent, *q.latent)) if index in others)
    return tuple(sorted({*p.axes, *q.axes})), latent


def _size(parts: Sequence[ContractionPart], p: ContractionPart, q: ContractionPart) -> int:
    sizes, (axes, latent) = sizes_of([p.block, q.block]), _left(parts, p, q)
    return math.prod(sizes[label] for label in (*axes, *latent))


def _product(parts: Sequence[ContractionPart], p: ContractionPart, q: ContractionPart) -> ContractionPart:
    axes, latent = _left(parts, p, q)
    return ContractionPart(axes, latent, contract([p.block, q.block], (*axes, *latent)))


# --- a plain inner product


def as_rows(form: Contraction) -> list[Array] | None:
    """Arrays (n_f, S), one per axis, with rate = Σ_s Π_f rows_f[n_f, s]; None if they are much larger than the parts.

    Every equation without a part over two free axes has this form, with S all combinations of latent indices of each
    term, the terms side by side; along an axis that a term lacks the array is constant.
    """
    parts = [part for term in form.terms for part in term]
    latent = [_latent(term) for term in form.terms]
    width = sum(math.prod(sizes.values()) for sizes in latent)
    if any(len(part.axes) > 1 for part in parts):
        return None
    if sum(form.shape) * width > max(TUNING.contraction_doubles, 2 * sum(part.array.size for part in parts)):
        return None
    by_term = [_rows_of(form.shape, term, sizes) for term, sizes in zip(form.terms, latent)]
    return [np.concatenate(arrays, axis=1) if len(arrays) > 1 else arrays[0] for arrays in zip(*by_term)]


def _latent(term: Product) -> dict[str, int]:
    """Sizes of latent indices, over all parts."""
    return {index: size for part in term for index, size in zip(part.latent, part.array.shape[len(part.axes) :])}


def _rows_of(shape: Sequence[int], term: Product, latent: dict[str, int]) -> list[Array]:
    """Arrays of one term, by axis."""
    arrays = [np.ones((size, *latent.values())) for size in shape]
    smallest = int(np.argmin(shape))
    for part in term:
        axis = part.axes[0] if part.axes else smallest
        arrays[axis] *= spread(part.block, (axis, *latent))
    return [array.reshape(len(array), -1) for array in arrays]
