"""Top-k links of a relation."""

import math
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Array, Rows
from plait.analysis.predict.lookup import PERIODS
from plait.analysis.predict.prediction import columns
from plait.analysis.predict.prediction import score as score_of
from plait.analysis.titled_tables import add_titles
from plait.analysis.topk.batched import Blocks
from plait.analysis.topk.branch_and_bound import search_cells, search_per_entity
from plait.analysis.topk.candidates import Candidates, read_excluded
from plait.analysis.topk.contraction import Axis
from plait.analysis.topk.exposure_regions import with_summed_rates
from plait.analysis.topk.heap import Score, TopHeap
from plait.data.encoding.names import listed
from plait.errors import (
    DataError,
    InexactSearchWarning,
    NoCandidatesWarning,
    ParameterError,
    PlaitWarning,
    TableLocation,
    quoted,
    suggestion,
)
from plait.files.write import appending
from plait.forked import refuse_in_fork
from plait.model.model import Equation
from plait.progress import counting
from plait.storage.calibration import NO_CALIBRATION, Calibration
from plait.storage.fitted import Fitted
from plait.tuning import TUNING

if TYPE_CHECKING:
    import polars as pl


SCORES = ("mean", "probability", "rate")
Batch = tuple[int, Rows, Array]  # number of queries; cells (m, order), and their scores


def propose(fit: Fitted, relation: str, k: int = 10, **options: Any) -> "tuple[pl.DataFrame, PlaitWarning | None]":
    """The k most probable links: the relation's index columns, then those of `predict`; best first. See `Fit.top`.

    A `NoCandidatesWarning` is returned rather than raised where rules exclude all cells of the query, and an
    `InexactSearchWarning` where a search ended early: warning filters are shared by threads.

    Without the latter the result is exact: no cell left out has a better score. Rates with a relative difference below
    1e-12 are ties. Ties for the last ranks are resolved in the same way in every call, independent of names; the cells
    shown are in the order of their rows.
    """
    query = TopQuery.of(fit, relation, k, **options)
    table = query.table(list(query.batches()))
    return table, query.warning(len(table))


def propose_to_file(
    fit: Fitted, relation: str, k: int, output: Any, *, escape_formulas: bool = True, **options: Any
) -> tuple[int, PlaitWarning | None]:
    """Write the table of `propose` to a file, some queries of `per` at a time. Returns the number of links.

    Row groups have at least `TUNING.top_chunk_links` links, but for the last.
    """
    refuse_in_fork("Fit.top")
    if not isinstance(output, (str, os.PathLike)):
        raise ParameterError.must_be("output", "a path", output)
    query = TopQuery.of(fit, relation, k, **options)
    if not query.places:
        raise ParameterError(
            "`output` requires `per`.", hint="Add `per`, or write the returned table with `plait.write`."
        )
    links, waiting, n_waiting = 0, list[Batch](), 0
    with (
        appending(output, escape_formulas=escape_formulas) as append,
        counting("ranking", query.n_queries) as advance,
    ):
        for batch in query.batches():
            waiting.append(batch)
            n_waiting += len(batch[1])
            if n_waiting >= TUNING.top_chunk_links:
                append(query.table(waiting))
                links, waiting, n_waiting = links + n_waiting, [], 0
            advance(batch[0])
        if n_waiting or not links:
            append(query.table(waiting))
    links += n_waiting
    return links, query.warning(links)


@dataclass(frozen=True, eq=False)
class TopQuery:
    """A checked query of `Fit.top`. `places`: positions of the indices of `per`."""

    fit: Fitted
    equation: Equation
    k: int
    places: Sequence[int]
    score: str
    candidates: Candidates
    inexact: list[int] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        fit: Fitted,
        relation: str,
        k: int = 10,
        *,
        given: Mapping[str, Any] | None = None,
        per: str | Sequence[str] | None = None,
        include_known: bool = False,
        exclude: Any = None,
        score: str = "mean",
        new_entities: Any = None,
    ) -> "TopQuery":
        equation = fit.model.equation(relation)
        k = checked_count(k)
        if score not in SCORES:
            raise ParameterError(
                f"`score` must be one of {', '.join(map(repr, SCORES))}, got {score!r}.",
                actual=score,
                hint=suggestion(score, SCORES).strip() or None,
            )
        places = _places(equation, per)
        if new_entities is not None:
            fit = _with_transient(fit, equation, given, new_entities)
        axes = _axes(fit, equation, given)
        candidates = Candidates(
            with_summed_rates(fit), relation, axes, include_known, read_excluded(fit, relation, exclude), places
        )
        return cls(fit, equation, k, places, score, candidates)

    @property
    def n_queries(self) -> int:
        """Number of combinations of entities of `per`; 1 without."""
        return math.prod(len(self.candidates.axes[place]) for place in self.places)

    @property
    def _calibration(self) -> Calibration | None:
        """Calibration with features, if cells are ranked by a probability."""
        likelihood, relation = self.fit.likelihood[self.equation.relation], self.equation.relation
        own = self.fit.calibration.get(relation, NO_CALIBRATION)
        by_probability = self.score == "probability" or (self.score == "mean" and likelihood.binary)
        return own if own.features and by_probability else None

    def batches(self) -> Iterator[Batch]:
        """Batches of queries in order."""
        axes, places = self.candidates.axes, self.places
        k = min(self.k, math.prod(len(axis) for n, axis in enumerate(axes) if n not in places))
        if k == 0 or not all(map(len, axes)):
            return
        # Without features calibration keeps the order of cells, and the search bounds probabilities of the posterior.
        fit, relation = self.fit if self._calibration else self.fit._uncalibrated(), self.equation.relation
        likelihood = fit.likelihood[relation]
        score: Score | None = None
        if self.score == "probability" or (self.score == "mean" and likelihood.binary):
            score = partial(score_of, fit, relation, by=self.score)
        # A mean that is neither the rate nor a probability is a multiple of the rate: ranked by the rate.
        is_multiple = self.score == "mean" and not (likelihood.binary or likelihood.plain)
        for n_queries, rows, scores in self._search(k, score):
            yield n_queries, rows, score_of(fit, relation, rows, by="mean") if is_multiple else scores

    def _search(self, k: int, score: Score | None) -> Iterator[Batch]:
        fit, candidates, places = with_summed_rates(self.fit), self.candidates, self.places
        equation = fit.model.equation(self.equation.relation)
        axes, calibration, known = candidates.axes, self._calibration, fit.known[equation.relation]

        def heap() -> TopHeap:
            if calibration is None:
                return TopHeap(k, len(axes), candidates, score=score)
            bound = partial(calibration.min_rate, known)
            return TopHeap(
                k, len(axes), candidates, score=score, min_rate=bound, max_scored=TUNING.max_calibrated_cells
            )

        if not places and calibration is None:
            best = heap()
            search_cells(fit, equation, axes, best)
            yield 1, best.rows, best.scores
            return
        again = candidates.again if candidates.groups else None
        calibrated = None
        if calibration is not None:

            def calibrated(rows: Rows, rates: Array) -> Array:
                return calibration.at(known, known.canonical(rows)).apply(rates)

        blocks = Blocks(
            fit, equation, axes, places, candidates.refused(), candidates.structural_zeros.diagonals, again, calibrated
        )
        if blocks.at_once:
            yield from blocks.best(k, score)
            return
        for best in search_per_entity(fit, equation, axes, places, heap) if places else [heap()]:
            if not places:
                search_cells(fit, equation, axes, best)
            self.inexact.extend([] if best.is_exact else [len(best.rows)])
            yield 1, best.rows, best.scores

    def table(self, batches: Sequence[Batch]) -> "pl.DataFrame":
        """Links of batches: by query, then best first, then by row numbers."""
        import polars as pl

        fit, equation = self.fit, self.equation
        rows = np.concatenate([np.zeros((0, len(equation.indices)), np.int64), *(rows for _, rows, _ in batches)])
        scores = np.concatenate([np.zeros(0), *(scores for _, _, scores in batches)])
        predicted = columns(fit, equation.relation, rows)
        # A calibrated probability may round to 1 where that of the posterior does not.
        ranked = scores if equation.relation in fit.calibration else predicted.get(self.score, scores)
        order = np.lexsort((*rows.T[::-1], -ranked, *(rows[:, place] for place in reversed(self.places))))
        names = {
            index: fit.entities[index].names.gather(rows[order, n]).alias(index)
            for n, index in enumerate(equation.indices)
        }
        table = pl.DataFrame({**names, **{name: values[order] for name, values in predicted.items()}})
        return add_titles(fit, table, equation.indices)

    def warning(self, n_links: int) -> PlaitWarning | None:
        """Warning where nothing is found because rules, and not only known links, exclude all cells; or where the
        search ended early.
        """
        if self.inexact:
            return InexactSearchWarning(
                f"the list may lack some links: the search ended after {TUNING.max_calibrated_cells:,} cells, the "
                "order of which was calibrated with features.",
                location=self.equation.relation,
                hint="Restrict the query by `given` or `per`.",
            )
        rules = self.candidates.rules() if self.k and not n_links else []
        if not rules:
            return None
        more = "" if self.candidates.known is None else ", or are known links"
        return NoCandidatesWarning(
            f"no candidates: all requested cells are excluded by {' and '.join(rules)}{more}.",
            location=self.equation.relation,
            hint="Request other cells. Put cells that are unknown, but possible, into `hidden` of the relation.",
        )


# --- arguments


def _with_transient(fit: Fitted, equation: Equation, given: Mapping[str, Any] | None, new: Any) -> Fitted:
    """The fit with the new entities; without others where only they are given."""
    from plait.incremental.fold_in import with_transient

    names = given if isinstance(given, Mapping) else {}
    return with_transient(fit, equation.relation, new, {index: _several(own) for index, own in names.items()})


def checked_count(k: Any) -> int:
    """Check that k is an integer of at least 0."""
    try:
        count = operator.index(k) if not isinstance(k, bool) else -1
    except TypeError:
        count = -1
    if count < 0:
        raise ParameterError.must_be("k", "an integer of at least 0", k)
    return count


def _axes(fit: Fitted, equation: Equation, given: Mapping[str, Any] | None) -> list[Axis]:
    """One axis per index of the relation: all rows, or those given."""
    if given is not None and not isinstance(given, Mapping):
        example = equation.indices[0] if equation.indices else "index"
        raise ParameterError.must_be(
            "given", "a dict of names by index", type(given), hint=f"Give `given={{{example!r}: …}}`."
        )
    for index in given or {}:
        if index not in equation.indices:
            have = ", ".join(equation.indices) or "none"
            raise ParameterError(
                f"`given`: {index!r} is not an index of {equation.relation}.",
                hint=f"{suggestion(index, equation.indices)}The indices are {have}.",
            )
    axes = []
    for place, index in enumerate(equation.indices):
        if given is not None and index in given:
            axes.append(Axis((place,), _given_rows(fit, index, given[index])[:, None]))
        else:
            axes.append(Axis((place,), np.arange(len(fit.entities[index]))[:, None], whole=True))
    return axes


def _places(equation: Equation, each: Any) -> list[int]:
    """Positions of the indices of `per`."""
    if each is None:
        return []
    names = [each] if isinstance(each, str) else list(each) if isinstance(each, (list, tuple)) else []
    relation, have = equation.relation, ", ".join(equation.indices) or "none"
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ParameterError.must_be(
            "per", "one index, or a list of different indices", each, hint=f"The indices are {have}."
        )
    for name in names:
        if name not in equation.indices:
            raise ParameterError(
                f"`per`: {name!r} is not an index of {relation}.",
                actual=name,
                hint=f"{suggestion(name, equation.indices)}The indices are {have}.",
            )
    if len(names) == len(equation.indices):
        raise ParameterError(
            f"`per`: {', '.join(names)} are all indices of {relation}, so no index is left to rank.",
            hint="Remove one of them, or use `predict` to score given cells.",
        )
    return [equation.indices.index(name) for name in names]


def _several(names: Any) -> list[Any]:
    """A name or several as a list."""
    several = isinstance(names, (list, tuple, set, frozenset)) or (hasattr(names, "__array__") and np.ndim(names) > 0)
    return list(names) if several else [names]


def _given_rows(fit: Fitted, index: str, names: Any) -> Rows:
    """Distinct rows of a name or several, ascending."""
    labels = fit.entities[index]
    column = _several(names)
    rows = labels.encode(column, where=TableLocation("given", index, noun="index"), unknown="mark")
    if (rows < 0).any():
        name = column[int(np.argmax(rows < 0))]
        near = suggestion(name, labels.names.head(10_000).to_list()) if isinstance(name, str) else ""
        hint = f"{near}Choose one of them, remove {index!r} from `given`, or pass its links as `new_entities`."
        raise DataError(
            f"{quoted(name)} is not an entity of axis {labels.axis}, which has {listed(labels.names)}.",
            location=TableLocation("given", index, noun="index"),
            hint=PERIODS if labels.axis in fit.model.ordered else hint,
        )
    return np.unique(rows)
