"""What is asked of a fit, or of several alike: the test, what else is known, what is drawn, where to rank."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Array, Flags, Rows
from plait.errors import DataError, ParameterError, TableLocation, one_of, suggestion
from plait.evaluation.negative_sampling import KnownLinks, corrupted, uniform
from plait.evaluation.scorer import Scorer
from plait.evaluation.test_set import read_known, read_test

if TYPE_CHECKING:
    from plait.result import Fit


SCORES = ("mean", "probability", "rate")


@dataclass(frozen=True)
class TestOptions:
    """What `evaluate` and `compare` can be told about how to measure."""

    score: str = "mean"
    target: bool | str | Sequence[str] | None = None
    k: int | Sequence[int] | None = None
    negatives: int | None = None
    known: Any = None
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Drawn:
    """Cells (m, order) that are no links, drawn for the test links; of: which link each is for, None if for all.

    how: "uniform", or "corrupt" at a place.
    """

    how: str
    cells: Rows
    of: Rows | None = None
    place: int | None = None


@dataclass(frozen=True, eq=False)
class EvaluationProtocol:
    """The test as row numbers (n, order) and values (n,), all links that are known or tested, and what is asked."""

    relation: str
    indices: tuple[str, ...]
    rows: Rows
    values: Array
    links: KnownLinks
    drawn: tuple[Drawn, ...]
    places: tuple[int, ...]
    first: tuple[int, ...]
    notes: tuple[str, ...]

    @property
    def link(self) -> Flags:
        """Which rows are links."""
        return self.values > 0

    @property
    def zeros(self) -> int:
        """How many rows are zeros."""
        return int(np.count_nonzero(self.values == 0))


def build_protocol(
    fit: "Fit", views: Sequence[Scorer], relation: str, test: Any, options: TestOptions
) -> EvaluationProtocol:
    """Read and check the test, with the row numbers of a fit, and draw what is to be drawn; for all views alike."""
    rows, values = read_test(fit, relation, test)
    if not (values > 0).any():
        what = "is empty" if not len(values) else f"has {len(values):,} zeros and no link"
        raise DataError(
            f"it {what}, so nothing can be measured.",
            location=TableLocation("test", of_relation=relation),
            hint="Hide more, or give links.",
        )
    indices = fit.model.equation(relation).indices
    axes = ranked_axes(options.target, indices)
    count = _drawn_each(options, has_zeros=bool((values == 0).any()))
    tested = rows[values > 0]
    others = [*(view.known() for view in views), *_known(fit, relation, options.known)]
    axis_names = [fit.model.axis(index) for index in indices]
    links = KnownLinks(fit.known[relation], np.concatenate([tested, *others]), axis_names)
    notes: list[str] = []
    drawn = draw(links, tested, count, indices, np.random.default_rng(options.seed), notes) if count else ()
    places = tuple(indices.index(axis) for axis in axes)
    return EvaluationProtocol(
        relation, indices, rows, values, links, drawn, places, _first(options.k, axes), tuple(notes)
    )


def check_options(options: TestOptions) -> None:
    """Refuse what is wrong whatever the test."""
    one_of("score", options.score, SCORES)
    if not _is_whole(options.seed):
        raise ParameterError.must_be("seed", "a whole number, 0 or more", options.seed)


def ranked_axes(target: Any, indices: tuple[str, ...]) -> tuple[str, ...]:
    """The indices on which to rank."""
    if target is None or target is False:
        return ()
    axes = indices if target is True else (target,) if isinstance(target, str) else tuple(target)
    for axis in axes:
        if axis not in indices:
            raise ParameterError(
                f"`target` names {axis!r}, which is no index of the relation.",
                hint=f"{suggestion(axis, indices)}It has {', '.join(indices) or 'none'}.",
            )
    return tuple(dict.fromkeys(axes))


def draw(
    links: KnownLinks, tested: Rows, each: int, indices: Sequence[str], rng: np.random.Generator, notes: list[str]
) -> tuple[Drawn, ...]:
    """Non-links, so many for each tested link: one set from all cells, one by replacing the entity of each index."""
    notes.append(f"non-links are drawn, {each} for each test link")
    found = [Drawn("uniform", uniform(links, each * len(tested), rng))]
    which = np.repeat(np.arange(len(tested)), each)
    for place, index in enumerate(indices):
        changed, possible = corrupted(links, tested[which], place, rng)
        without = int(np.count_nonzero(~possible.reshape(-1, each).any(axis=1)))
        if 0 < without < len(tested):
            notes.append(f"{without:,} of the test links would be known links with any {index}: not corrupted there")
        found.append(Drawn("corrupt", changed[possible], which[possible], place))
    return tuple(found)


def _drawn_each(options: TestOptions, has_zeros: bool) -> int:
    """How many non-links to draw for each link."""
    if options.negatives is None:
        return 0 if has_zeros else 1
    if not _is_whole(options.negatives):
        raise ParameterError.must_be("negatives", "a whole number, 0 or more, for each link", options.negatives)
    return int(options.negatives)


def _first(k: Any, axes: Sequence[str]) -> tuple[int, ...]:
    """How many of the first candidates to look at, each once, the fewest first."""
    if k is None:
        return ()
    given = tuple(k) if isinstance(k, (list, tuple, range, np.ndarray)) else (k,)
    if not given or not all(_is_whole(one) and one > 0 for one in given):
        raise ParameterError.must_be(
            "k",
            "a whole number, 1 or more, or several",
            k,
            hint="Give `k=10`, or `k=(5, 10)`.",
        )
    if not axes:
        raise ParameterError(
            f"`k` is {given[0] if len(given) == 1 else k!r}, but nothing is ranked.",
            actual=k,
            hint="Give the index to rank on: `target`.",
        )
    return tuple(sorted({int(one) for one in given}))


def _known(fit: "Fit", relation: str, known: Any) -> list[Rows]:
    """The links of each table of further known ones."""
    if known is None:
        return []
    if not isinstance(known, (list, tuple)):
        return [read_known(fit, relation, known, TableLocation("known"))]
    return [read_known(fit, relation, table, TableLocation("known", number=n)) for n, table in enumerate(known)]


def _is_whole(number: Any) -> bool:
    """Whether this is a whole number, 0 or more."""
    return not isinstance(number, bool) and isinstance(number, (int, np.integer)) and bool(number >= 0)
