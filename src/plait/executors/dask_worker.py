"""Tasks of a Dask worker: it keeps links of consecutive leaves and sums them, a node of the summation tree.

The functions are pure. Operands with the root index are sent as the rows of the leaves, where these are contiguous;
their gradients return the same way.
"""

import pickle
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from plait._typing import Array
from plait.codegen.compiler import Types, compiled
from plait.codegen.step import Step
from plait.data.sparse.csf import CSFChunk, CSFTensor, SummedTable
from plait.data.sparse.leaves import Leaf
from plait.executors.kernel_call import Aside, Call, LeafSum
from plait.executors.tree_reduce import BufferPool, Joined
from plait.likelihood import Likelihood, State
from plait.likelihood.interface import KNOWN
from plait.version import __version__

_pool = BufferPool()  # per process: the next sum needs arrays of the same sizes


class RootRows(NamedTuple):
    """Root rows first … last of a table with `size` of them."""

    first: int
    last: int
    size: int

    def of(self, array: Array) -> Array:
        """Rows of an operand that is contiguous by root row."""
        each = len(array) // self.size
        return array[self.first * each : self.last * each]


class WorkerLinks:
    """Leaves lo … hi of a tree, each as a separate tree, so that only their part is sent."""

    def __init__(self, tree: CSFTensor, lo: int, hi: int) -> None:
        self.parts = [_cut_out(tree, leaf) for leaf in tree.leaves[lo:hi]]

    def walk(self) -> Iterator[CSFChunk]:
        return (CSFChunk(number, *part) for number, part in enumerate(self.parts))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Align arrays, which start at any byte of a message."""
        self.parts = [(_align(tree), leaf) for tree, leaf in state["parts"]]


@dataclass(frozen=True)
class WorkerBlocks:
    """Leaves lo … hi of a packed table, which the worker reads from a shared folder."""

    table: SummedTable
    lo: int
    hi: int

    def walk(self) -> Iterator[CSFChunk]:
        return (piece._replace(number=piece.number - self.lo) for piece in self.table.walk(self.lo, self.hi))


@dataclass(frozen=True)
class SumJob:
    """What all tasks of a sum share; `alone`: whether the table is a single leaf."""

    step: Step
    types: Types
    alone: bool


class Written(NamedTuple):
    """Rows of a gradient that only these leaves write; `place`: of their operand among the wanted ones."""

    place: int
    rows: slice | NDArray[np.int64]
    gradient: Array


class Node(NamedTuple):
    """Sum of consecutive leaves: the shared part, and their own rows."""

    shared: LeafSum
    own: tuple[Written, ...]


def sum_leaves(
    links: WorkerLinks | WorkerBlocks,
    leaves: int,
    rows: RootRows | None,
    own: Mapping[int, Array],
    shared: Mapping[int, Array],
    job: bytes,
    state: State | None,
) -> Node:
    """Sum of some leaves; `own`, `shared`: operands by position, own ones at these root rows (None: all are whole)."""
    operands = {**own, **shared}
    call = _call(job, state, [_aligned(operands[position]) for position in range(len(operands))])
    joined, whole = Joined(leaves, LeafSum.join), call.whole(_zeros)
    for piece in links.walk():
        tree = piece.tree if rows is None else _from_row(piece.tree, rows)
        joined.add(piece.number, call.leaf(tree, piece.leaf, whole, _zeros))
        piece.done()
    total = joined.total if rows is None else _to_row(joined.total, rows)
    return Node(total, tuple(_written(n, array, rows) for n, array in enumerate(whole) if array is not None))


def join_shared(left: LeafSum, right: LeafSum) -> LeafSum:
    """Sum of two nodes, without changing them: Dask may need them again."""
    return replace(left, gradients=tuple(gradient.copy() for gradient in left.gradients)).join(right)


def describe_machine() -> dict[str, str]:
    """Versions and processor, which decide the last digits of a sum."""
    import numba
    from llvmlite import binding

    return {
        "Plait": __version__,
        "numba": numba.__version__,
        "NumPy": np.__version__,
        "processor": f"{platform.machine()} {binding.get_host_cpu_name()}",
    }


@lru_cache(64)
def _read(job: bytes) -> SumJob:
    """Cached by bytes, since kernels are looked up by the object."""
    read = cast(SumJob, pickle.loads(job))
    likelihood = read.step.likelihood
    if likelihood is not None and likelihood.name not in KNOWN:  # defined in a notebook: not registered in this process
        type(likelihood).__init_subclass__()
    return read


def _call(job: bytes, state: State | None, arrays: list[Array]) -> Call:
    read = _read(job)
    extra = [cast(Likelihood, read.step.likelihood).packed(state or {})] if read.step.packed else []
    return Call(read.step, compiled(read.step, read.types), arrays, extra, alone=read.alone)


def _zeros(shape: tuple[int, ...], numbers: DTypeLike) -> Array:
    array, ready = _pool.array(shape, numbers)
    if not ready:
        array.fill(0.0)
    return array


def _cut_out(tree: CSFTensor, leaf: Leaf) -> tuple[CSFTensor, Leaf]:
    part = tree.part(leaf)
    return part, Leaf(0, len(part.rows[0]), (0, len(part.rows[1])) if leaf.inside else None)


def _aligned(array: NDArray[Any]) -> NDArray[Any]:
    return np.require(array, requirements=("C", "A"))


def _align(tree: CSFTensor) -> CSFTensor:
    rows, starts, side_values, numbers = (
        tuple(map(_aligned, arrays)) for arrays in (tree.rows, tree.starts, tree.side_values, tree.numbers)
    )
    return replace(
        tree, rows=rows, starts=starts, entries=_aligned(tree.entries), side_values=side_values, numbers=numbers
    )


def _from_row(tree: CSFTensor, rows: RootRows) -> CSFTensor:
    """The tree with root rows relative to the first row of the operands."""
    root = tree.rows[0]
    moved = root - root.dtype.type(rows.first), *tree.rows[1:]
    return replace(tree, rows=moved, sizes=(rows.last - rows.first, *tree.sizes[1:]))


def _to_row(total: LeafSum, rows: RootRows) -> LeafSum:
    """The sum with root rows of the whole table."""
    cells, entries, side_values = total.underflow
    cells = cells + np.array([rows.first] + [0] * (cells.shape[1] - 1))
    aside = tuple(Aside(place, row + rows.first * len(gradient), gradient) for place, row, gradient in total.aside)
    return replace(total, underflow=(cells, entries, side_values), aside=aside)


def _written(place: int, gradient: Array, rows: RootRows | None) -> Written:
    if rows is None:
        some = np.flatnonzero(gradient.any(axis=1))
        return Written(place, some, gradient[some])
    each = len(gradient) // (rows.last - rows.first)
    return Written(place, slice(rows.first * each, rows.last * each), gradient)
