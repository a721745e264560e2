"""Protocol of an evaluation, equal for all compared fits: the test set, known links, drawn negatives, ranked axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Array, Flags, Rows
from plait.data.sources.relation import Relation
from plait.data.sources.tables import kind_of
from plait.errors import DataError, ParameterError, TableLocation, one_of, suggestion
from plait.evaluation.negative_sampling import KnownLinks, corrupted, uniform
from plait.evaluation.scorer import Scorer
from plait.evaluation.test_set import read_known, read_test
from plait.rendering.formatting import plural
from plait.storage.fitted import structural_zeros_of

if TYPE_CHECKING:
    from plait.result import Fit


SCORES = ("mean", "probability", "rate")


@dataclass(frozen=True)
class TestOptions:
    """Options of `evaluate` and `compare`."""

    score: str = "mean"
    target: bool | str | Sequence[str] | None = None
    k: int | Sequence[int] | None = None
    negatives: int | None = None
    known: Any = None
    seed: int = 0


@dataclass(frozen=True, eq=False)
class NegativeSample:
    """Negatives (m, order) drawn for the test links; `of`: link of each, None if for all.

    `how`: "uniform", or "corrupt" at a position.
    """

    how: str
    cells: Rows
    of: Rows | None = None
    place: int | None = None


@dataclass(frozen=True, eq=False)
class EvaluationProtocol:
    """The test set as row numbers (n, order) and values (n,), all known or tested links, and the options."""

    relation: str
    indices: tuple[str, ...]
    rows: Rows
    values: Array
    links: KnownLinks
    drawn: tuple[NegativeSample, ...]
    places: tuple[int, ...]
    first: tuple[int, ...]
    notes: tuple[str, ...]
    kind: str

    @property
    def link(self) -> Flags:
        return self.values > 0

    @property
    def zeros(self) -> int:
        """Number of zeros."""
        return int(np.count_nonzero(self.values == 0))


def build_protocol(
    fit: "Fit", views: Sequence[Scorer], relation: str, test: Any, options: TestOptions
) -> EvaluationProtocol:
    """Read and check the test set, in the row numbers of `fit`, and draw negatives; the same for all views."""
    rows, values = read_test(fit, relation, test)
    if not (values > 0).any():
        what = "is empty" if not len(values) else f"has {len(values):,} zeros, but no links"
        raise DataError(
            f"the test {what}.",
            location=TableLocation("test", of_relation=relation),
            hint="Add links to the test, or hold out more.",
        )
    indices = fit.model.equation(relation).indices
    axes = ranked_axes(options.target, indices)
    count = _negatives_per_link(options, has_zeros=bool((values == 0).any()))
    tested = rows[values > 0]
    others = [*(view.known() for view in views), *_known(fit, relation, options.known)]
    axis_names = [fit.model.axis(index) for index in indices]
    links = KnownLinks(
        fit.known[relation], structural_zeros_of(fit, relation), np.concatenate([tested, *others]), axis_names
    )
    notes: list[str] = []
    drawn = draw(links, tested, count, indices, np.random.default_rng(options.seed), notes) if count else ()
    places = tuple(indices.index(axis) for axis in axes)
    kind = kind_of(test.data if isinstance(test, Relation) else test, fit.known[relation].kind)
    return EvaluationProtocol(
        relation, indices, rows, values, links, drawn, places, _first(options.k, axes), tuple(notes), kind
    )


def check_options(options: TestOptions) -> None:
    """Refuse options that are wrong for any test set."""
    one_of("score", options.score, SCORES)
    if not _is_whole(options.seed):
        raise ParameterError.must_be("seed", "an integer of at least 0", options.seed)


def ranked_axes(target: Any, indices: tuple[str, ...]) -> tuple[str, ...]:
    """Indices on which to rank."""
    if target is None or target is False:
        return ()
    axes = indices if target is True else (target,) if isinstance(target, str) else tuple(target)
    for axis in axes:
        if axis not in indices:
            raise ParameterError(
                f"`target`: {axis!r} is not an index of the relation.",
                hint=f"{suggestion(axis, indices)}The indices are {', '.join(indices) or 'none'}.",
            )
    return tuple(dict.fromkeys(axes))


def draw(
    links: KnownLinks, tested: Rows, each: int, indices: Sequence[str], rng: np.random.Generator, notes: list[str]
) -> tuple[NegativeSample, ...]:
    """Negatives, `each` per tested link: one set from all cells, one by replacing the entity of each index."""
    notes.append(f"{plural(each, 'sampled negative')} per test link")
    samples = [NegativeSample("uniform", uniform(links, each * len(tested), rng))]
    which = np.repeat(np.arange(len(tested)), each)
    for place, index in enumerate(indices):
        changed, possible = corrupted(links, tested[which], place, rng)
        without = int(np.count_nonzero(~possible.reshape(-1, each).any(axis=1)))
        if 0 < without < len(tested):
            notes.append(
                f"{without:,} of the test links have no negatives for {index}: every candidate is a known link"
            )
        samples.append(NegativeSample("corrupt", changed[possible], which[possible], place))
    return tuple(samples)


def _negatives_per_link(options: TestOptions, has_zeros: bool) -> int:
    """Number of negatives per link."""
    if options.negatives is None:
        return 0 if has_zeros else 1
    if not _is_whole(options.negatives):
        raise ParameterError.must_be("negatives", "an integer of at least 0", options.negatives)
    return int(options.negatives)


def _first(k: Any, axes: Sequence[str]) -> tuple[int, ...]:
    """Cutoffs k, distinct and ascending."""
    if k is None:
        return ()
    given = tuple(k) if isinstance(k, (list, tuple, range, np.ndarray)) else (k,)
    if not given or not all(_is_whole(one) and one > 0 for one in given):
        raise ParameterError.must_be(
            "k",
            "an integer of at least 1, or several of them",
            k,
            hint="Examples: `k=10`, `k=(5, 10)`.",
        )
    if not axes:
        raise ParameterError(
            f"`k` requires `target`, got `k={given[0] if len(given) == 1 else k!r}`.",
            actual=k,
            hint="Set `target` to the index to rank.",
        )
    return tuple(sorted({int(one) for one in given}))


def _known(fit: "Fit", relation: str, known: Any) -> list[Rows]:
    """Links of each table of `known`."""
    if known is None:
        return []
    if not isinstance(known, (list, tuple)):
        return [read_known(fit, relation, known, TableLocation("known"))]
    return [read_known(fit, relation, table, TableLocation("known", number=n)) for n, table in enumerate(known)]


def _is_whole(number: Any) -> bool:
    """Whether this is an integer of at least 0."""
    return not isinstance(number, bool) and isinstance(number, (int, np.integer)) and bool(number >= 0)
