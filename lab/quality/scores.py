"""Scores of cells: what the judge asks of a method."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from lab.quality.cells import Cells


class Scores(ABC):
    """A fitted method; larger scores are better. found: settings that it found by itself, for the page to say."""

    def __init__(self, shape: tuple[int, ...], found: dict[str, Any] | None = None) -> None:
        self.shape, self.found = shape, found or {}

    @abstractmethod
    def cells(self, cells: Cells) -> np.ndarray:
        """The scores (n,) of cells (n, order)."""

    def along(self, cells: Cells, axis: int) -> np.ndarray:
        """The scores (n, size) of cells with one entity running over all of its axis."""
        size = self.shape[axis]
        every = np.repeat(cells, size, axis=0)
        every[:, axis] = np.tile(np.arange(size), len(cells))
        return self.cells(every).reshape(len(cells), size)


class Product(Scores):
    """Scores left @ right.T of two factors (size, rank), for matrices that are too large for an array."""

    def __init__(self, left: np.ndarray, right: np.ndarray) -> None:
        super().__init__((len(left), len(right)))
        self.factors = left, right

    def cells(self, cells: Cells) -> np.ndarray:
        left, right = (factor[rows] for factor, rows in zip(self.factors, cells.T))
        return np.einsum("ij,ij->i", left, right)

    def along(self, cells: Cells, axis: int) -> np.ndarray:
        return self.factors[1 - axis][cells[:, 1 - axis]] @ self.factors[axis].T


class Dense(Scores):
    """All scores in one array."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array.shape)
        self.array = array

    def cells(self, cells: Cells) -> np.ndarray:
        return self.array[tuple(cells.T)]

    def along(self, cells: Cells, axis: int) -> np.ndarray:
        rest = [k for k in range(len(self.shape)) if k != axis]
        return np.moveaxis(self.array, axis, -1)[tuple(cells[:, k] for k in rest)]
