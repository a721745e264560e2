"""Popularity: how many links the entities of a cell have, one by one or in pairs. What any model must beat."""

from typing import Any

import numpy as np

from bench.quality.cells import Cells
from bench.quality.data import Seen
from bench.quality.methods.method import THREE, Method
from bench.quality.scores import Scores

FEW = 0.5  # links that a pair without any is taken to have, so that one such pair does not decide alone


class Popularity(Method):
    """The product over the indices of how many known links each entity has."""

    says = "the product of how many links each entity has"

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        return Counts(seen, [(k,) for k in range(len(seen.shape))], 0.0)


class Pairs(Method):
    """The same for pairs of entities: of (head, relation), (relation, tail), (head, tail)."""

    says = "the product of how many links, plus ½, each of some pairs of entities has; tried: which pairs"
    kinds = THREE
    settings = (
        {"pairs": [[0, 1], [1, 2]]},
        {"pairs": [[0, 1], [0, 2]]},
        {"pairs": [[0, 2], [1, 2]]},
        {"pairs": [[0, 1], [0, 2], [1, 2]]},
    )

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        return Counts(seen, [tuple(pair) for pair in setting["pairs"]], FEW)


class Counts(Scores):
    """The product of the counts of some groups of indices."""

    def __init__(self, seen: Seen, groups: list[tuple[int, ...]], few: float) -> None:
        super().__init__(seen.shape)
        self.few = few
        self.groups = {group: np.unique(self._keys(seen.links, group), return_counts=True) for group in groups}

    def cells(self, cells: Cells) -> np.ndarray:
        score = np.ones(len(cells))
        for group, (keys, counts) in self.groups.items():
            mine = self._keys(cells, group)
            place = np.minimum(np.searchsorted(keys, mine), len(keys) - 1)
            score *= np.where(keys[place] == mine, counts[place], 0) + self.few
        return score

    def _keys(self, cells: Cells, group: tuple[int, ...]) -> np.ndarray:
        return np.ravel_multi_index(tuple(cells[:, k] for k in group), [self.shape[k] for k in group])
