"""What a worker does: the sum of a run of leaves, joined in the fixed tree, as one node of it. Pure functions.

Operands with the root index come as the rows of the run alone, wherever these lie together; gradients go back the same
way.
"""

import pickle
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, cast

import numba
import numpy as np
from llvmlite import binding
from numpy.typing import DTypeLike, NDArray

from plait.compile.kernels import Types, compiled
from plait.compile.step import Step
from plait.data.cells.trees import FibreTree, Piece
from plait.execute.calling import Aside, Call, LeafSum
from plait.execute.joining import Joined
from plait.execute.parts import Part, Span, aligned
from plait.execute.room import Room
from plait.likelihood import Likelihood, State
from plait.likelihood.likelihood import KNOWN
from plait.types import Array
from plait.version import __version__

_room = Room()  # of this process: sums of the next pass are as large as those of this one


@dataclass(frozen=True)
class Order:
    """What all runs of a sum have in common; alone: whether the table is a single leaf."""

    step: Step
    types: Types
    alone: bool


class Written(NamedTuple):
    """Rows of a gradient that are this run's own: the place of their operand among the wanted ones, which, and they."""

    place: int
    rows: slice | NDArray[np.int64]
    gradient: Array


class Node(NamedTuple):
    """The sum of a run: what it shares with others, and rows of its own."""

    shared: LeafSum
    own: tuple[Written, ...] = ()


def lies_together(step: Step) -> bool:
    """Whether all operands with the root index have the rows of one root row beside each other."""
    root = step.order[0]
    own = [operand for operand in step.operands if root in operand.visible]
    return all(operand.visible[0] == root and not operand.listed for operand in own)


def sum_run(order: bytes, state: State | None, part: Part, leaves: int, span: Span | None, *arrays: Array) -> Node:
    """The sum of a run of so many leaves; span: the root rows that its operands have, None if they are whole."""
    call, joined = _call(order, state, [aligned(array) for array in arrays]), Joined(leaves, LeafSum.join)
    whole, begin, tree_of = call.whole(_zeros), None, _Shifted(span)
    for piece in part.walk():
        begin = piece.number if begin is None else begin
        joined.add(piece.number - begin, call.leaf(tree_of(piece), piece.leaf, whole, _zeros))
        piece.done()
    total = joined.total if span is None else _moved_back(joined.total, span)
    own = (_written(place, array, span) for place, array in enumerate(whole) if array is not None)
    return Node(total, tuple(own))


def join_shared(left: LeafSum, right: LeafSum) -> LeafSum:
    """The sum of two nodes of the tree; neither changes, for it may be asked for again."""
    return replace(left, gradients=tuple(gradient.copy() for gradient in left.gradients)).join(right)


def shared_of(node: Node) -> LeafSum:
    """What a run shares with others."""
    return node.shared


def own_of(node: Node) -> tuple[Written, ...]:
    """The rows that a run has for itself."""
    return node.own


def describe_machine() -> dict[str, str]:
    """What decides the last digits of a sum."""
    return {
        "Plait": __version__,
        "numba": numba.__version__,
        "NumPy": np.__version__,
        "processor": f"{platform.machine()} {binding.get_host_cpu_name()}",
    }


class _Shifted:
    """Trees whose root rows begin at the first one of a run; the latest is kept, for most leaves are of one tree."""

    def __init__(self, span: Span | None) -> None:
        self.span, self._latest = span, cast(tuple[FibreTree, FibreTree] | None, None)

    def __call__(self, piece: Piece) -> FibreTree:
        if self.span is None:
            return piece.tree
        if self._latest is None or self._latest[0] is not piece.tree:
            self._latest = piece.tree, _shift(piece.tree, self.span)
        return self._latest[1]


def _shift(tree: FibreTree, span: Span) -> FibreTree:
    root = tree.rows[0]
    rows = root - root.dtype.type(span.first), *tree.rows[1:]
    return replace(tree, rows=rows, sizes=(span.last - span.first, *tree.sizes[1:]))


@lru_cache(64)
def _read(order: bytes) -> Order:
    """An order, the same object for the same bytes: kernels are found by it."""
    read = cast(Order, pickle.loads(order))
    likelihood = read.step.likelihood
    if likelihood is not None and likelihood.name not in KNOWN:  # of a notebook: it came along, but nobody entered it
        type(likelihood).__init_subclass__()
    return read


def _call(order: bytes, state: State | None, arrays: Sequence[Array]) -> Call:
    read = _read(order)
    extra = [cast(Likelihood, read.step.likelihood).packed(state or {})] if read.step.packed else []
    return Call(read.step, compiled(read.step, read.types), arrays, extra, alone=read.alone)


def _zeros(shape: tuple[int, ...], numbers: DTypeLike) -> Array:
    array, ready = _room.array(shape, numbers)
    if not ready:
        array.fill(0.0)
    return array


def _moved_back(total: LeafSum, span: Span) -> LeafSum:
    """The same, with root rows as they are in the whole table."""
    cells, entries, beside = total.rare
    cells = cells + np.array([span.first] + [0] * (cells.shape[1] - 1))
    aside = tuple(Aside(place, row + span.first * len(gradient), gradient) for place, row, gradient in total.aside)
    return replace(total, rare=(cells, entries, beside), aside=aside)


def _written(place: int, gradient: Array, span: Span | None) -> Written:
    """The rows of a gradient that a run wrote."""
    if span is None:
        rows = np.flatnonzero(gradient.any(axis=1))
        return Written(place, rows, gradient[rows])
    each = len(gradient) // (span.last - span.first)
    return Written(place, slice(span.first * each, span.last * each), gradient)
