"""Arrays that workers were sent, kept there until they change: factors are updated in place, so a copy tells."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plait.types import Array

if TYPE_CHECKING:
    from plait.execute.cluster import Cluster

KEPT = 8  # sums, after which an array that none of them had is let go

Key = tuple[int, tuple[int, ...], str]


@dataclass
class Letter:
    """An array that was sent: as it was then, where it is, and the number of the sum that had it last."""

    copy: Array
    future: Any
    used: int


class Mail:
    """Sends arrays, each once as long as it stays the same."""

    def __init__(self, cluster: "Cluster") -> None:
        self.cluster = cluster
        self._letters: dict[Key, Letter] = {}
        self.sums = 0  # that there were

    def begin(self) -> None:
        """Another sum: what was not used for long is let go."""
        self.sums += 1
        self._letters = {key: one for key, one in self._letters.items() if self.sums - one.used <= KEPT}

    def send(self, wanted: Sequence[tuple[Array, str]]) -> list[Letter]:
        """A letter for every array, of rows that lie together; it is sent to a worker unless it is somewhere already.

        Peers fetch it from there.
        """
        changed = {_key(array): (array, worker) for array, worker in wanted if not self._is_there(array)}
        futures = self.cluster.send(list(changed.values()))
        for (key, (array, _)), future in zip(changed.items(), futures):
            self._letters[key] = Letter(array.copy(), future, self.sums)
        letters = [self._letters[_key(array)] for array, _ in wanted]
        for letter in letters:
            letter.used = self.sums
        return letters

    def renew(self, letters: Sequence[tuple[Letter, str]]) -> None:
        """Send those again that are on no worker any more, as they were."""
        lost = {id(letter): (letter, worker) for letter, worker in letters if not self.cluster.has(letter.future)}
        futures = self.cluster.send([(letter.copy, worker) for letter, worker in lost.values()])
        for (letter, _), future in zip(lost.values(), futures):
            letter.future = future

    def forget(self) -> None:
        """Let everything go."""
        self._letters.clear()

    def _is_there(self, array: Array) -> bool:
        letter = self._letters.get(_key(array))
        return letter is not None and self.cluster.has(letter.future) and _same(letter.copy, array)


def _key(array: Array) -> Key:
    """Where an array lies, and its form."""
    return array.__array_interface__["data"][0], array.shape, array.dtype.str


def _same(some: Array, other: Array) -> bool:
    """Whether arrays have the same bits."""
    return not some.size or some.data.cast("B") == other.data.cast("B")
