"""Popularity: how many links the entities of a cell have, one by one or in pairs. What any model must beat."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lab.quality.cells import Cells
from lab.quality.data import Seen
from lab.quality.methods.method import THREE, Method
from lab.quality.scores import Scores

PRIOR_LINKS = 0.5  # links that a pair without any is taken to have, so that one such pair does not decide alone


class Popularity(Method):
    """The product over the indices of how many known links each entity has."""

    says = "the product of how many links each entity has"
    large = True

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        return Counts(seen, [(k,) for k in range(len(seen.shape))], 0.0)


class Pairs(Method):
    """The same for pairs of entities, by the places of their indices: 12 is (head, relation), 23 (relation, tail)."""

    says = "the product of how many links, plus ½, each pair of entities has; tried: the pairs of which indices"
    kinds = THREE
    settings = ({"pairs": "12 23"}, {"pairs": "12 13"}, {"pairs": "13 23"}, {"pairs": "12 13 23"})

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        return Counts(seen, [(int(pair[0]) - 1, int(pair[1]) - 1) for pair in setting["pairs"].split()], PRIOR_LINKS)


class Counts(Scores):
    """The product of the counts of some groups of indices."""

    def __init__(self, seen: Seen, groups: Sequence[tuple[int, ...]], few: float) -> None:
        super().__init__(seen.shape)
        self.few = few
        self.groups = {group: np.unique(self._keys(seen.links, group), return_counts=True) for group in groups}

    def cells(self, cells: Cells) -> np.ndarray:
        score = np.ones(len(cells))
        for group in self.groups:
            score *= self._counts(cells, group)
        return score

    def along(self, cells: Cells, axis: int) -> np.ndarray:
        if set(self.groups) != {(k,) for k in range(len(self.shape))}:
            return super().along(cells, axis)
        running = np.zeros((self.shape[axis], len(self.shape)), np.int64)
        running[:, axis] = np.arange(self.shape[axis])
        rest = np.prod([self._counts(cells, group) for group in self.groups if group != (axis,)], axis=0)
        return np.outer(rest, self._counts(running, (axis,)))

    def _counts(self, cells: Cells, group: tuple[int, ...]) -> np.ndarray:
        """How many links (n,) the entities of some indices have in each cell, and a few more."""
        keys, counts = self.groups[group]
        mine = self._keys(cells, group)
        place = np.minimum(np.searchsorted(keys, mine), len(keys) - 1)
        return np.where(keys[place] == mine, counts[place], 0) + self.few

    def _keys(self, cells: Cells, group: tuple[int, ...]) -> np.ndarray:
        return np.ravel_multi_index(tuple(cells[:, k] for k in group), [self.shape[k] for k in group])
