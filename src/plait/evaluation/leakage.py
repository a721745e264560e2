"""Leakage: observed links that reveal held-out links, in coupled relations and as mirror images in the same one.

Two relations are matched index by index: as many indices as possible, each with one of the other relation on the same
axis. Where a relation has several indices on one axis there are several matches. A match counts if it has at least two
indices. A relation is matched with itself in every way but the identity, so (b, a) leaks (a, b) in follows[user, other]
where other: user; in an undirected relation it is the same cell. A leak is an observed link that agrees with a held-out
link on all matched indices.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import TYPE_CHECKING

import numpy as np

from plait._typing import AnyArray
from plait.data.bound import BoundRelation
from plait.data.held_out import links_among
from plait.data.observation.symmetry import orders
from plait.data.sparse.keys import columns_of, find, pack_pair
from plait.errors import LeakWarning, ParameterError, quoted
from plait.evaluation.split_target import SplitTarget
from plait.rendering.formatting import plural

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Leak:
    """Leaks of one match of the split relation with another (or itself).

    `match`: index of the split relation → index of the other. `links`: number of held-out links that leak; `leaks`:
    number of leaking links; `example`: one of them, in words.
    """

    relation: str
    match: Mapping[str, str]
    links: int
    leaks: int
    example: str

    @property
    def agreeing(self) -> str:
        """Matched indices: ``user, artist`` or ``head = tail, tail = head``."""
        if all(mine == theirs for mine, theirs in self.match.items()):
            return ", ".join(self.match)
        return ", ".join(f"{mine} = {theirs}" for mine, theirs in self.match.items())


def find_leaks(target: SplitTarget, links: AnyArray, hidden: Mapping[tuple[str, ...], AnyArray]) -> list[Leak]:
    """All matches under which held-out links (n, order) leak; `hidden`: all hidden cells by index set."""
    mine, leaks = target.bound, []
    for name, other in target.data.relations.items():
        left = other.cells[~links_among(other, hidden)] if name == target.name else other.cells
        for match in matches(target, name):
            columns = [mine.indices.index(index) for index in match]
            theirs = [other.indices.index(index) for index in match.values()]
            sizes = [mine.shape[k] for k in columns]
            counts = (len(links), len(left))
            a, b = pack_pair(columns_of(links[:, columns]), columns_of(left[:, theirs]), sizes, counts)
            is_leak = find(b, np.unique(a))[1]
            if is_leak.any():
                having = int(np.count_nonzero(find(a, np.unique(b))[1]))
                example = _named(target, other, left[int(np.argmax(is_leak))])
                leaks.append(Leak(name, match, having, int(np.count_nonzero(is_leak)), example))
    return leaks


def matches(target: SplitTarget, name: str) -> Iterator[dict[str, str]]:
    """Maximal matches of the split relation with another one, of at least two indices."""
    axis = target.data.model.axis
    mine, theirs = target.bound.indices, target.data.relations[name].indices
    itself = _same_cell(target.bound) if name == target.name else []
    ways: list[list[dict[str, str]]] = []
    for shared in dict.fromkeys(map(axis, mine)):
        a, b = ([index for index in own if axis(index) == shared] for own in (mine, theirs))
        if len(a) <= len(b):
            ways.append([dict(zip(a, order)) for order in permutations(b, len(a))])
        else:
            ways.append([dict(zip(order, b)) for order in permutations(a, len(b))])
    for way in product(*ways):
        pair = {i: pair for part in way for i, pair in part.items()}
        match = {index: pair[index] for index in mine if index in pair}
        if len(match) > 1 and match not in itself:
            yield match


def _same_cell(relation: BoundRelation) -> list[dict[str, str]]:
    """Matches of a relation with itself that map each cell to itself."""
    indices = relation.indices
    ways = orders(relation.groups, len(indices))
    return [{index: indices[source] for index, source in zip(indices, way)} for way in ways]


def has_matches(target: SplitTarget) -> bool:
    """Whether any relation could leak a link."""
    return any(True for name in target.relations for _ in matches(target, name))


def hidden_by(
    target: SplitTarget, hidden: Mapping[tuple[str, ...], AnyArray]
) -> dict[str, dict[tuple[str, ...], AnyArray]]:
    """What leakage="remove" hides, by relation: coordinates over some of its indices.

    Every cell, link or zero, that agrees with a hidden cell, link or zero: hidden cells must not depend on what the
    hidden values are, or a fit reads them off the gaps. hidden: all hidden cells by some of the indices.
    """
    by_relation: dict[str, dict[tuple[str, ...], list[AnyArray]]] = {}
    for name in target.relations:
        for match in matches(target, name):
            for over, coords in hidden.items():
                shared = tuple(index for index in over if index in match)
                theirs = tuple(match[index] for index in shared)
                by_relation.setdefault(name, {}).setdefault(theirs, []).append(_projected(coords, over, shared))
    tables = {name: {over: np.concatenate(coords) for over, coords in own.items()} for name, own in by_relation.items()}
    for name in tables:
        if name != target.name:
            _refuse_all_hidden(target, name, tables[name])
    return tables


def _projected(coords: AnyArray, over: Sequence[str], shared: Sequence[str]) -> AnyArray:
    """Coordinates (n, k) over fewer indices, each once; over none of them they are one."""
    if not shared:
        return coords[:1, :0]
    return np.unique(coords[:, [over.index(index) for index in shared]], axis=0)


def _refuse_all_hidden(target: SplitTarget, name: str, hidden: Mapping[tuple[str, ...], AnyArray]) -> None:
    """Refuse to hide all links of a relation; hidden: its hidden cells."""
    other = target.data.relations[name]
    if () not in hidden and (not len(other.links) or not links_among(other, hidden).all()):
        return
    match = next(matches(target, name))
    raise ParameterError(
        (
            f'`leakage="remove"` would remove all {len(other.links):,} links of {name}: each matches a '
            f"held-out cell of {target.name} on {', '.join(match)}."
        ),
        hint=(
            f'Hold out the common entities with `by={("pair", *match)!r}`, or keep the links with `leakage="ignore"`.'
        ),
    )


def leaks_table(leaks: Sequence[Leak], hide: bool) -> "pl.DataFrame":
    """Table of leaks: relation, agree_on, hidden_links, leaks, example, removed."""
    import polars as pl

    kinds = {"relation": pl.String, "agree_on": pl.String, "hidden_links": pl.Int64, "leaks": pl.Int64}
    rows = [(t.relation, t.agreeing, t.links, t.leaks, t.example, hide) for t in leaks]
    return pl.DataFrame(rows, {**kinds, "example": pl.String, "removed": pl.Boolean}, orient="row")


def leak_warning(leaks: Sequence[Leak], name: str, links: int) -> LeakWarning:
    """One warning about all leaks."""
    parts = [
        (
            f"{t.links:,} of {links:,} held-out links of {name} leak through {t.relation}: "
            f"{plural(t.leaks, 'link')} of {t.relation} match them on {t.agreeing}, such as {t.example}."
        )
        for t in leaks
    ]
    hint = (
        'Remove these links from the training data with `leakage="remove"`, or set `leakage="ignore"` '
        "if they are known at prediction time."
    )
    return LeakWarning("\n".join(parts), hint=hint)


def _named(target: SplitTarget, relation: BoundRelation, cell: AnyArray) -> str:
    names = [f"{i}={quoted(target.data.entities[i][int(row)])}" for i, row in zip(relation.indices, cell)]
    return f"{relation.name}[{', '.join(names)}]"
