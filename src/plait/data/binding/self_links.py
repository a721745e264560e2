"""The diagonal of a relation between the entities of one axis: is an entity ever observed with itself?

A graph without a single self-link does not say that nobody likes himself: its diagonal was never looked at, and as
observed zeros it would pull the factors of every entity apart. So there the cells of the diagonal that are not listed
are missing. One self-link shows that they can be observed, and then all of them are what other cells are.

Where a factor stands twice in a term of the equation, no entity can be observed with itself: the updates rest on the
two being different rows. Self-links that are listed there are dropped.
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
    """Whether a relation, its indices on these axes, has a diagonal of its own: two indices, one axis."""
    return len(axes) == 2 and axes[0] == axes[1]


def refuse_senseless(relation: Relation, name: str, axes: Sequence[str], doubled: Pairs) -> None:
    """Refuse what is said about a diagonal where there is none, or where it cannot be observed."""
    if doubled and relation.self_links == "observed":
        first, second = doubled[0]
        raise DataError(
            (
                "`self_links` is 'observed', but a factor stands twice in its "
                f"equation, by {first} and {second}: no entity can be observed with itself."
            ),
            location=TableLocation.of(name),
            hint="Leave it out: listed self-links are then dropped; or write two different factors.",
        )
    if relation.self_links != "auto" and not (doubled or is_square(axes)):
        raise DataError(
            (
                f"`self_links` is {relation.self_links!r}, but it has no diagonal: only "
                "relations of two indices on one axis do."
            ),
            location=TableLocation.of(name),
            hint="Leave it out, or declare the two indices to be one axis (friend: user).",
        )


def all_of(size: int) -> AnyArray:
    """The coordinates (size, 2) of a diagonal."""
    rows = np.arange(size, dtype=coordinate_type([size]))
    return np.stack([rows, rows], axis=1)


def without_self_links(entries: Entries, pairs: Pairs) -> tuple[Entries, int]:
    """The entries in which no pair of these indices has the same row twice, and how many links the others were."""
    indices = [index for index, _ in entries.labels]
    own = np.zeros(len(entries), bool)
    for first, second in pairs:
        own |= entries.coords[:, indices.index(first)] == entries.coords[:, indices.index(second)]
    if not own.any():
        return entries, 0
    return entries.chosen(~own), int(np.count_nonzero(entries.values[own] > 0))


def refuse_nothing_else(entries: Entries, dropped: int, doubled: Pairs) -> None:
    """Refuse data whose links were all self-links, where these cannot be observed; entries: what is left."""
    if doubled and dropped and not len(entries):
        first, second = doubled[0]
        raise DataError(
            (
                f"all {dropped:,} links are self-links, which its equation cannot observe: a factor stands twice, "
                f"by {first} and {second}."
            ),
            location=TableLocation.of(entries.source.name),
            hint=f"Check which columns {first} and {second} are read from, or write two different factors.",
        )


class Diagonal:
    """The cells of entities with themselves: what is listed there, and what is made of the others.

    asked: what the user says of it. A relation without two indices on one axis, or of more, has none.
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
        self._named = np.zeros(shape[0] if self._square else 0, bool)  # entities of which a self-link is listed
        self._linked = False  # whether one of these is a link

    def look(self, coords: AnyArray, values: AnyArray) -> None:
        """Look at some entries that are not hidden."""
        if self._square:
            on = _on(coords)
            self._named[coords[on, 0]] = True
            self._linked = self._linked or bool((values[on] > 0).any())

    @property
    def word(self) -> str:
        """What became of it, "observed" or "missing"; nothing where there is none."""
        if self._doubled:
            return "missing"
        if not self._square:
            return ""
        return self._asked if self._asked != "auto" else "observed" if self._linked else "missing"

    def never(self, put_aside: Mapping[tuple[str, ...], AnyArray]) -> dict[tuple[str, ...], AnyArray]:
        """The cells (n, 2) of it that nobody speaks of, and which are therefore not observed.

        Neither an entry does (a 0 of a dense array is none) nor put_aside, cells that are to be predicted.
        """
        if self._asked != "auto" or self._doubled or self.word != "missing":
            return {}
        named = np.zeros(len(self._named), bool) if self._dense else self._named.copy()
        if (aside := put_aside.get(self._indices)) is not None:
            named[aside[_on(aside), 0]] = True
        return {self._indices: all_of(len(named))[~named]}


def _on(coords: AnyArray) -> AnyArray:
    return np.asarray(coords[:, 0] == coords[:, 1])
