"""Self-links of a relation between entities of one axis, and when they are observed.

A graph without any self-link does not say that they are zeros: they were never observed, and as zeros they would pull
the factors of every entity apart. So unlisted self-links are missing there. One listed self-link shows that they are
observable; then all of them are treated like other cells. In a relation with further indices the cells stay observed,
and slices without self-links are no candidates (`observation.structural_zeros`).

Where a factor occurs twice in a term, self-links cannot be observed, since the updates require two different rows.
Listed ones are dropped.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from plait._typing import AnyArray
from plait.data.binding.entries import Entries
from plait.data.sources.relation import Relation
from plait.data.sparse.keys import coordinate_type
from plait.errors import DataError, TableLocation

Pairs = tuple[tuple[str, str], ...]


def is_square(axes: Sequence[str]) -> bool:
    """Whether a relation has two indices, on one axis."""
    return len(axes) == 2 and axes[0] == axes[1]


def refuse_senseless(relation: Relation, name: str, axes: Sequence[str], doubled: Pairs) -> None:
    """Refuse `self_links` where there are none, or where they cannot be observed."""
    if doubled and relation.self_links == "observed":
        first, second = doubled[0]
        raise DataError(
            (
                '`self_links="observed"` is not possible: the equation contains a factor twice, with '
                f"{first} and {second}."
            ),
            location=TableLocation.of(name),
            hint="Remove `self_links`, which drops listed self-links; or use two different factors.",
        )
    if relation.self_links == "auto" or doubled or is_square(axes):
        return
    if len(set(axes)) == len(axes):
        raise DataError(
            (
                f"`self_links` is {relation.self_links!r}, but the relation cannot have self-links: it has "
                "no two indices of one axis."
            ),
            location=TableLocation.of(name),
            hint="Remove `self_links`, or declare one axis for the two indices, such as friend: user.",
        )
    if relation.self_links == "missing":
        raise DataError(
            "`self_links` is 'missing', but the relation has more than two indices.",
            location=TableLocation.of(name),
            hint="Put the self-links into `missing`, as a table of each entity with itself.",
        )


def all_of(size: int) -> AnyArray:
    """Coordinates (size, 2) of all self-links."""
    rows = np.arange(size, dtype=coordinate_type([size]))
    return np.stack([rows, rows], axis=1)


def without_self_links(entries: Entries, pairs: Pairs) -> tuple[Entries, int]:
    """Entries without the same row twice at these pairs of indices, and the number of dropped links."""
    indices = [index for index, _ in entries.labels]
    own = np.zeros(len(entries), bool)
    for first, second in pairs:
        own |= entries.coords[:, indices.index(first)] == entries.coords[:, indices.index(second)]
    if not own.any():
        return entries, 0
    return entries.chosen(~own), int(np.count_nonzero(entries.values[own] > 0))


def refuse_nothing_else(entries: Entries, dropped: int, doubled: Pairs) -> None:
    """Refuse data whose links were all dropped self-links; `entries`: the rest."""
    if doubled and dropped and not len(entries):
        first, second = doubled[0]
        raise DataError(
            (
                f"all {dropped:,} links are self-links, which the equation excludes: it contains a factor "
                f"twice, with {first} and {second}."
            ),
            location=TableLocation.of(entries.source.name),
            hint=f"Check the columns of {first} and {second}, or use two different factors.",
        )


class Diagonal:
    """Self-links of a relation: which are listed, and how the others are observed.

    `asked`: the option `self_links`. Relations without exactly two indices on one axis have none.
    """

    def __init__(
        self,
        asked: str,
        indices: tuple[str, ...],
        axes: Sequence[str],
        shape: Sequence[int],
        doubled: Pairs,
        *,
        dense: bool,
    ) -> None:
        self._asked, self._indices, self._doubled, self._dense = asked, indices, bool(doubled), dense
        self._square = is_square(axes)
        self._named = np.zeros(shape[0] if self._square else 0, bool)  # entities with a listed self-link
        self._linked = False  # whether one of them is a link

    def look(self, coords: AnyArray, values: AnyArray) -> None:
        """Take some unhidden entries into account."""
        if self._square:
            on = _on(coords)
            self._named[coords[on, 0]] = True
            self._linked = self._linked or bool((values[on] > 0).any())

    @property
    def word(self) -> str:
        """ "observed" or "missing"; "" without self-links."""
        if self._doubled:
            return "missing"
        if not self._square:
            return "observed" if self._asked == "observed" else ""
        return self._asked if self._asked != "auto" else "observed" if self._linked else "missing"

    def never(self, put_aside: Mapping[tuple[str, ...], AnyArray]) -> dict[tuple[str, ...], AnyArray]:
        """Self-links (n, 2) that are not observed: neither listed (zeros of dense arrays are not) nor held out."""
        if self._asked != "auto" or self._doubled or self.word != "missing":
            return {}
        named = np.zeros(len(self._named), bool) if self._dense else self._named.copy()
        if (aside := put_aside.get(self._indices)) is not None:
            named[aside[_on(aside), 0]] = True
        return {self._indices: all_of(len(named))[~named]}


def _on(coords: AnyArray) -> AnyArray:
    return np.asarray(coords[:, 0] == coords[:, 1])
