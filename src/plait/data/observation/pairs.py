"""Pairs of entities that have their own rows in a factor over several visible indices.

A free factor such as M[u, i] or M[u, i, z] has one row for every pair that occurs in a link. All other pairs share one
row per entity of the first index, after those of the pairs (docs/math.md, section 10).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray
from plait.data.observation.links import Links
from plait.data.observation.weights import Weights
from plait.data.sparse.keys import Keys, columns_of, coordinate_type, find, pack
from plait.errors import DataError
from plait.model.model import Model
from plait.tuning import TUNING


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sorted distinct pairs (n, k) of a factor whose visible axes, as first written, have these sizes."""

    indices: tuple[str, ...]  # of the factor as written, latent ones too
    visible: tuple[str, ...]
    sizes: tuple[int, ...]
    coords: AnyArray = field(repr=False)

    def __len__(self) -> int:
        return len(self.coords)

    @property
    def rows(self) -> int:
        """Number of rows: pairs, then one for the other pairs of every entity of the first index."""
        return len(self.coords) + self.sizes[0]

    @cached_property
    def others(self) -> NDArray[np.float64]:
        """Number of pairs without their own row, by entity of the first index."""
        listed = np.bincount(self.coords[:, 0].astype(np.int64), minlength=self.sizes[0])
        return np.asarray(math.prod(self.sizes[1:], start=1.0) - listed, np.float64)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Number of pairs that each row represents, (n_rows,)."""
        return np.concatenate([np.ones(len(self.coords)), self.others])

    @cached_property
    def _keys(self) -> Keys:
        return pack(columns_of(self.coords), self.sizes, len(self.coords))

    def find(self, columns: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
        """Rows of pairs given by a column for each visible index, (n,)."""
        at, there = find(pack(columns, self.sizes, len(columns[0])), self._keys)
        return np.where(there, at, len(self.coords) + columns[0].astype(np.int64))

    def for_rows(self, array: NDArray[np.float64]) -> NDArray[np.float64]:
        """An array that broadcasts to the factor as written, of length 1 along visible indices → (1, *latent)."""
        full = array.reshape((1,) * (len(self.indices) - array.ndim) + array.shape)
        return full.squeeze(tuple(n for n, index in enumerate(self.indices) if index in self.visible))[None]

    def table(self, indices: Sequence[str], shape: Sequence[int], over: Sequence[str]) -> Weights:
        """1 at the pairs and 0 elsewhere, over a relation with the factor's visible indices under the names `over`."""
        return Weights.from_table(indices, shape, over, self.coords)


def count_joined(first: Pairs, second: Pairs, common: Sequence[tuple[int, int]]) -> int:
    """Number of combinations of two sets of pairs that agree on common indices: Σ_s n₁(s) n₂(s). `common`: positions of
    these indices in both.
    """
    if not common:
        return len(first) * len(second)
    sizes = [first.sizes[p] for p, _ in common]
    keys = [
        pack([pairs.coords[:, places[side]] for places in common], sizes, len(pairs))
        for side, pairs in enumerate((first, second))
    ]
    (left, n), (right, m) = map(_counted, keys)
    at, there = find(left, right)
    return int(n[there] @ m[at[there]])


def find_pairs(
    model: Model, links: Mapping[str, Links], sizes: Mapping[str, int], free: Iterable[str]
) -> dict[str, Pairs]:
    """Pairs of every free factor that needs them, by name; `links`: of every relation."""
    pairs = {}
    for name in free:
        factor = model.factor(name)
        own = tuple(sizes[index] for index in factor.visible)
        twice = any(name in term.twice for equation in model.equations for term in equation.terms)
        if len(factor.visible) > 1 and not twice and math.prod(own) > TUNING.max_dense_pairs:
            pairs[name] = Pairs(factor.indices, factor.visible, own, _distinct(model, name, links, own))
    return pairs


def _distinct(model: Model, name: str, links: Mapping[str, Links], sizes: tuple[int, ...]) -> AnyArray:
    """All pairs that occur in links, sorted."""
    if math.prod(sizes) >= 2**63:
        raise DataError(
            f"factor {name} has {math.prod(sizes):.3g} pairs, which is too many.",
            hint="Remove one of its indices.",
        )
    factor = model.factor(name)
    uses = {(e.relation, o.indices) for e in model.equations for o in e.occurrences if o.factor == name}
    distinct = []
    for relation, indices in sorted(uses):
        here = dict(zip(factor.indices, indices))
        columns = [links[relation].fibres.column(here[index]) for index in factor.visible]
        distinct.append(_once(pack(columns, sizes, len(columns[0]))))
    return _unpack(distinct[0] if len(distinct) == 1 else _once(np.concatenate(distinct)), sizes)


def _once(keys: Keys) -> Keys:
    """Sorted distinct keys. Links are sorted, so keys often are. (np.unique hashes: ten times slower.)"""
    if not np.all(keys[1:] >= keys[:-1]):
        keys.sort()
    first = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys if first.all() else keys[first]


def _counted(keys: Keys) -> tuple[Keys, NDArray[np.int64]]:
    """Sorted distinct keys, and the number of occurrences of each."""
    keys.sort()
    first = np.flatnonzero(np.concatenate([np.ones(min(1, len(keys)), bool), keys[1:] != keys[:-1]]))
    return keys[first], np.diff(first, append=len(keys))


def _unpack(keys: Keys, sizes: tuple[int, ...]) -> AnyArray:
    """Coordinates (n, k) of keys."""
    coords = np.empty((len(keys), len(sizes)), coordinate_type(sizes))
    for k in range(len(sizes) - 1, -1, -1):
        coords[:, k] = keys % np.uint64(sizes[k])
        keys = keys // np.uint64(sizes[k])
    return coords
