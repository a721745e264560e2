"""Boxes of any form: bounds and scores by contractions of the parts' maxima, a batch of boxes at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import opt_einsum
from numpy.typing import NDArray

from plait.search.boxes import rows_at
from plait.search.form import Form, Part, contracted
from plait.search.tree import Tree, block_maxima

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Levels = tuple[int, ...]

WIDE = 1 << 21  # doubles of the widest intermediate of a contraction


class GeneralBoxes:
    """Bounds and scores of boxes (see `plait.search.branch.Boxes`) of a form of any shape."""

    def __init__(self, form: Form) -> None:
        self.trees = [Tree.of(_contributions(form, axis)) for axis in range(len(form.shape))]
        self._latent = [part.latent for part in form.parts]
        self._axes = [part.axes for part in form.parts]
        self._maxima: list[dict[Levels, Array]] = [{(0,) * len(part.axes): self._sorted(part)} for part in form.parts]
        self._paths: dict[tuple[int, ...], tuple[Any, int]] = {}

    def _sorted(self, part: Part) -> Array:
        return part.array[np.ix_(*(self.trees[axis].order for axis in part.axes))] if part.axes else part.array

    def _part_maxima(self, part: int, levels: Levels) -> Array:
        """Maxima of a part over blocks of these levels of its axes; kept."""
        known = self._maxima[part]
        if levels not in known:
            n = next(n for n, level in enumerate(levels) if level)
            finer = self._part_maxima(part, (*levels[:n], levels[n] - 1, *levels[n + 1 :]))
            known[levels] = block_maxima(finer, n, self.trees[self._axes[part][n]].fan)
        return known[levels]

    def children(self, nodes: Rows, levels: Levels, axis: int, floor: float) -> tuple[Rows, Array]:
        """The boxes split along an axis whose bounds are above the floor, and the bounds."""
        below = (*levels[:axis], levels[axis] - 1, *levels[axis + 1 :])
        return self._above(nodes, levels, below, floor)

    def cells(self, nodes: Rows, levels: Levels, floor: float) -> tuple[Rows, Array]:
        """The cells in boxes that are above the floor, as row numbers (m, axes), and their rates."""
        places, rates = self._above(nodes, levels, (0,) * len(levels), floor)
        return rows_at(self.trees, places), rates

    def _above(self, nodes: Rows, levels: Levels, below: Levels, floor: float) -> tuple[Rows, Array]:
        """All boxes of some lower levels inside boxes that are above the floor, and their bounds."""
        fans = tuple(tree.fan ** (up - down) for tree, up, down in zip(self.trees, levels, below))
        path, batch = self._path(fans)
        found, bounds = [], []
        for at in range(0, len(nodes), batch):
            inner = [nodes[at : at + batch, n, None] * fan + np.arange(fan) for n, fan in enumerate(fans)]
            values = self._contract(inner, below, path)
            for n, (tree, level) in enumerate(zip(self.trees, below)):  # the last block may be short
                shape = [-1, *(fan if m == n else 1 for m, fan in enumerate(fans))]
                values = np.where((inner[n] < tree.counts[level]).reshape(shape), values, -np.inf)
            hits = np.nonzero(values > floor)
            found.append(np.stack([inner[n][hits[0], hits[n + 1]] for n in range(len(fans))], axis=1))
            bounds.append(values[hits])
        return np.concatenate(found), np.concatenate(bounds)

    def _contract(self, inner: Sequence[Rows], below: Levels, path: Any) -> Array:
        """Values (boxes, *fans) at blocks inner[axis] (boxes, fan)."""
        arrays = []
        for part, axes in enumerate(self._axes):
            maxima = self._part_maxima(part, tuple(below[axis] for axis in axes))
            at = []
            for n, axis in enumerate(axes):
                shape = [len(inner[axis]), *(inner[axis].shape[1] if m == n else 1 for m in range(len(axes)))]
                at.append(np.minimum(inner[axis], self.trees[axis].counts[below[axis]] - 1).reshape(shape))
            arrays.append(maxima[tuple(at)] if axes else maxima)
        arrays.append(np.ones((len(inner[0]), *(rows.shape[1] for rows in inner))))
        return np.asarray(opt_einsum.contract(self._text(), *arrays, optimize=path))

    def _text(self) -> str:
        """The contraction: parts over (box, their axes, latent), and ones over everything that is kept."""
        names = list(dict.fromkeys(index for latent in self._latent for index in latent))
        box, *letters = (opt_einsum.get_symbol(n) for n in range(1 + len(self.trees) + len(names)))
        symbol = dict(zip([*range(len(self.trees)), *names], letters))
        terms = []
        for axes, latent in zip(self._axes, self._latent):
            terms.append((box if axes else "") + "".join(symbol[label] for label in (*axes, *latent)))
        whole = box + "".join(letters[: len(self.trees)])
        return f"{','.join([*terms, whole])}->{whole}"

    def _path(self, fans: tuple[int, ...]) -> tuple[Any, int]:
        """The order of pairwise products for boxes that are split so, and how many boxes fit into a batch."""
        if fans not in self._paths:
            shapes = []
            for maxima, axes in zip(self._maxima, self._axes):
                latent = next(iter(maxima.values())).shape[len(axes) :]
                shapes.append((1, *(fans[axis] for axis in axes), *latent) if axes else latent)
            path, cost = opt_einsum.contract_path(self._text(), *shapes, (1, *fans), shapes=True, optimize="greedy")
            widest = max([int(cost.largest_intermediate), *(int(np.prod(shape)) for shape in shapes)])
            self._paths[fans] = path, max(1, WIDE // widest)
        return self._paths[fans]


def _contributions(form: Form, axis: int) -> Array:
    """What every row could contribute, by latent index of the axis' widest part, beside the largest rows elsewhere."""
    parts = []
    for part in form.parts:
        others = tuple(n for n, other in enumerate(part.axes) if other != axis)
        kept = tuple(other for other in part.axes if other == axis)
        parts.append(Part(kept, part.latent, np.asarray(part.array.max(axis=others)) if others else part.array))
    widest = max((p for p in parts if p.axes), key=lambda p: p.array.size, default=None)
    if widest is None:  # no factor has this axis: all its rows are alike
        return np.ones((form.shape[axis], 1))
    return contracted(parts, widest.labels).reshape(form.shape[axis], -1)
