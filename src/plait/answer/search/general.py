"""Boxes of any form: bounds and scores by contractions of the parts' maxima, term by term, many boxes at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import opt_einsum

from plait.answer.search.boxes import rows_at
from plait.answer.search.form import Form, FormPart, Product
from plait.answer.search.tree import Tree, block_maxima
from plait.model.network import Block, contract, subscripts
from plait.types import Array, Rows

Levels = tuple[int, ...]

BOX = ""  # the axis that runs over boxes, beside numbers of axes and latent indices; none of these has this name
WIDE = 1 << 21  # doubles of the widest intermediate of a contraction


class GeneralBoxes:
    """Bounds and scores of boxes (see `plait.answer.search.branch.Boxes`) of a form of any shape."""

    def __init__(self, form: Form) -> None:
        self.trees = [Tree.of(_contributions(form, axis)) for axis in range(len(form.shape))]
        self._terms = [_Bounds(term, self.trees) for term in form.terms]

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
        batch = max(1, WIDE // max(term.path(fans)[1] for term in self._terms))
        found, bounds = [], []
        for at in range(0, len(nodes), batch):
            inner = [nodes[at : at + batch, n, None] * fan + np.arange(fan) for n, fan in enumerate(fans)]
            values = np.zeros((len(inner[0]), *fans))
            for term in self._terms:
                values += term.contract(inner, below)
            for n, (tree, level) in enumerate(zip(self.trees, below)):  # the last block may be short
                shape = [-1, *(fan if m == n else 1 for m, fan in enumerate(fans))]
                values = np.where((inner[n] < tree.counts[level]).reshape(shape), values, -np.inf)
            hits = np.nonzero(values > floor)
            found.append(np.stack([inner[n][hits[0], hits[n + 1]] for n in range(len(fans))], axis=1))
            bounds.append(values[hits])
        return np.concatenate(found), np.concatenate(bounds)


class _Bounds:
    """The bounds of one term: maxima of its parts over blocks, contracted along paths that are found once."""

    def __init__(self, parts: Product, trees: list[Tree]) -> None:
        self._parts, self._trees = parts, trees
        self._maxima: list[dict[Levels, Array]] = [{(0,) * len(part.axes): self._sorted(part)} for part in parts]
        self._paths: dict[tuple[int, ...], tuple[Any, int]] = {}
        whole = (BOX, *range(len(trees)))
        inputs = [((BOX,) if part.axes else ()) + part.block.indices for part in parts]
        self._text = subscripts([*inputs, whole], whole)

    def _sorted(self, part: FormPart) -> Array:
        return part.array[np.ix_(*(self._trees[axis].order for axis in part.axes))] if part.axes else part.array

    def _part_maxima(self, part: int, levels: Levels) -> Array:
        """Maxima of a part over blocks of these levels of its axes; kept."""
        known = self._maxima[part]
        if levels not in known:
            n = next(n for n, level in enumerate(levels) if level)
            finer = self._part_maxima(part, (*levels[:n], levels[n] - 1, *levels[n + 1 :]))
            known[levels] = block_maxima(finer, n, self._trees[self._parts[part].axes[n]].fan)
        return known[levels]

    def contract(self, inner: Sequence[Rows], below: Levels) -> Array:
        """Values (boxes, *fans) at blocks inner[axis] (boxes, fan)."""
        fans = tuple(rows.shape[1] for rows in inner)
        arrays = []
        for number, part in enumerate(self._parts):
            maxima = self._part_maxima(number, tuple(below[axis] for axis in part.axes))
            at = []
            for n, axis in enumerate(part.axes):
                shape = [len(inner[axis]), *(fans[axis] if m == n else 1 for m in range(len(part.axes)))]
                at.append(np.minimum(inner[axis], self._trees[axis].counts[below[axis]] - 1).reshape(shape))
            arrays.append(maxima[tuple(at)] if part.axes else maxima)
        arrays.append(np.ones((len(inner[0]), *fans)))
        return np.asarray(opt_einsum.contract(self._text, *arrays, optimize=self.path(fans)[0]))

    def path(self, fans: tuple[int, ...]) -> tuple[Any, int]:
        """The order of pairwise products for boxes that are split so, and the doubles that one box takes."""
        if fans not in self._paths:
            shapes = []
            for part in self._parts:
                latent = part.array.shape[len(part.axes) :]
                shapes.append((1, *(fans[axis] for axis in part.axes), *latent) if part.axes else latent)
            path, cost = opt_einsum.contract_path(self._text, *shapes, (1, *fans), shapes=True, optimize="greedy")
            self._paths[fans] = path, max([int(cost.largest_intermediate), *(int(np.prod(shape)) for shape in shapes)])
        return self._paths[fans]


def _contributions(form: Form, axis: int) -> Array:
    """What every row could contribute beside the largest rows elsewhere, (rows, columns of all terms with the axis)."""
    columns = [_of_term(term, axis) for term in form.terms if any(axis in part.axes for part in term)]
    return np.concatenate(columns, axis=1) if columns else np.ones((form.shape[axis], 1))


def _of_term(term: Product, axis: int) -> Array:
    """The same of one term, by latent index of the axis' widest part."""
    blocks = []
    for part in term:
        others = tuple(n for n, other in enumerate(part.axes) if other != axis)
        kept = tuple(other for other in part.axes if other == axis)
        blocks.append(Block((*kept, *part.latent), np.asarray(part.array.max(axis=others)) if others else part.array))
    widest = max((b for b in blocks if axis in b.indices), key=lambda b: b.values.size)
    return contract(blocks, widest.indices).reshape(len(widest.values), -1)
