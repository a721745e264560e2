"""Relations whose two sides are one axis: are links listed both ways?"""

from collections.abc import Callable
from itertools import combinations, permutations
from typing import TYPE_CHECKING

import numpy as np

from plait.data.cells.ranges import PIECE
from plait.data.cells.trees import FibreTree, as_tree
from plait.model.model import Equation, Model
from plait.types import AnyArray

if TYPE_CHECKING:
    from plait.data.bound import BoundRelation

    Lonely = Callable[[BoundRelation, int, int], int]

SAMPLE = 100_000  # links whose mirror images are looked for
MANY = 1000  # links from which on any real relation with a direction has some both ways, unless it has no circles
EXPECTED = 6.0  # mirror images that as many links would have by chance, from which on none at all is no chance


def one_way(relation: "BoundRelation", model: Model, lonely: "Lonely | None" = None) -> tuple[str, str, int] | None:
    """Two indices on one axis between which no link is listed both ways, though the other way is observed; how many.

    lonely: how many links have no mirror image in two places, where links are not in memory.
    """
    for k, other in combinations(range(len(relation.indices)), 2):
        first, second = relation.indices[k], relation.indices[other]
        if any(k in group and other in group for group in relation.groups):
            continue  # both ways are one cell
        if model.axis(first) == model.axis(second) and (count := (lonely or _lonely)(relation, k, other)):
            return first, second, count
    return None


def one_factor(equation: Equation, first: str, second: str) -> str | None:
    """Two factors of two indices, of which only the index differs, written as one: ``U[user, r] U[friend, r]``."""
    for term in equation.terms:
        for a, b in permutations(term.occurrences, 2):
            swapped = tuple(second if index == first else index for index in a.indices)
            if first in a.indices and a.factor != b.factor and b.indices == swapped:
                return f"{a} {a.factor}[{', '.join(b.indices)}]"
    return None


def _lonely(relation: "BoundRelation", k: int, other: int) -> int:
    """How many links have a mirror image that is an observed zero, if (nearly) all do and that is no chance; else 0."""
    links = relation.links
    tree, first, second = as_tree(links.fibres), relation.indices[k], relation.indices[other]
    count = len(links) - sum(_self_links(tree.part(piece), first, second) for _, piece in tree.pieces(PIECE))
    cells = relation.total_cells - relation.total_cells // relation.shape[k]
    turned = tree.cells(np.arange(0, len(links), max(1, -(-len(links) // SAMPLE))))
    turned = turned[turned[:, k] != turned[:, other]]
    if len(turned) * count < EXPECTED * cells and count < MANY:
        return 0
    turned[:, [k, other]] = turned[:, [other, k]]
    if links.contain(turned).any():
        return 0
    return count if mostly_observed(relation, turned) else 0


def _self_links(tree: FibreTree, first: str, second: str) -> int:
    """How many entries have one row for both indices."""
    one, other = (tree.column(index, len(tree.order) - 1) for index in (first, second))
    return int(np.count_nonzero(one == other))


def mostly_observed(relation: "BoundRelation", cells: AnyArray) -> bool:
    """Whether most of some cells (n, order) are observed."""
    return bool(2 * np.count_nonzero(relation.weights.at(cells) > 0) > len(cells))
