"""The most probable links of a relation, without a look at most of its cells."""

import math
import operator
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait.data.columns import quoted
from plait.data.labels import listed
from plait.errors import ClosedWarning, DataError, SettingError, suggestion
from plait.model.model import Equation
from plait.predict.chance import columns
from plait.predict.chance import score as score_of
from plait.predict.moments import mean_rate
from plait.search.best import Best
from plait.search.branch import search
from plait.search.candidates import Candidates
from plait.search.form import Axis, Part, as_rows, free_axes, parts_of, simplified
from plait.search.listed import regions

if TYPE_CHECKING:
    import polars as pl

    from plait.result import Fit

Rows = NDArray[np.int64]

SCORES = ("mean", "probability", "rate")


GATHERED = 1 << 23  # doubles of a factor gathered for the entries of an exposure's table at a time


def top(
    fit: "Fit",
    relation: str,
    k: int = 10,
    *,
    given: Mapping[str, Any] | None = None,
    known: bool = False,
    score: str = "mean",
) -> "pl.DataFrame":
    """The k most probable links: the relation's index columns, then those of `predict`; best first.

    given: a name, or a list of names to choose among, for some of the indices. known: whether links of the data may be
    among them; without, a cell given in full that is a known link leaves an empty table. score: the column to rank by.
    There are fewer than k rows where there are fewer such cells.

    What a rule makes unobservable is not proposed: pairs and slices that a `missing=` table names by some of the
    indices, the diagonal of two indices on one axis where hardly any of it is observed (self-links), and cells of
    exposure 0. Single cells of `missing=`, NaN, cells that are not listed, and what `hidden=` or `plait.hide` put
    aside may be proposed. Where rules leave nothing of what is asked for, a `ClosedWarning` names them.

    Exact: no cell left out has a better score. Rates that differ by less than a relative 1e-12 count as equal. Where
    equal cells compete for the last places it is not their names that decide, but it is the same ones in every call;
    those shown are in the order of their rows.
    """
    equation = fit.model.equation(relation)
    k = _checked_count(k)
    if score not in SCORES:
        raise SettingError(
            f"score: there is no ranking by {score!r}.\n{suggestion(score, SCORES)}It is one of {', '.join(SCORES)}."
        )
    candidates = Candidates(fit, relation, _axes(fit, equation, given), known)
    axes = candidates.axes
    wanted, k = k, min(k, math.prod(len(axis) for axis in axes))
    best = Best(k, len(axes), candidates)
    if score == "probability" or (score == "mean" and fit.likelihood[relation] == "bernoulli"):
        best.score = partial(score_of, fit, relation, by=score)
    if k > 0:
        _search(fit, equation, axes, best)
    if wanted and not len(best.rows):
        _explain_nothing(relation, candidates)
    return _table(fit, equation, best, score)


def _explain_nothing(relation: str, candidates: Candidates) -> None:
    """Say it where rules, and not only known links, leave nothing to propose."""
    if rules := candidates.rules():
        more = "" if candidates.known is None else ", or known already"
        warnings.warn(
            f"{relation}: nothing can be proposed: all cells asked for are closed by {' and '.join(rules)}{more}.\n"
            f"Ask for others. What is unknown rather than impossible belongs into hidden= of its plait.Relation.",
            ClosedWarning,
            stacklevel=4,
        )


def _search(fit: "Fit", equation: Equation, axes: Sequence[Axis], best: Best) -> None:
    """Offer `best` the cells of all regions; those that an exposure lists first."""
    weights = fit.exposures.relations.get(equation.relation)
    for region in regions(weights, axes, _entries_at_once(fit, equation, axes)):
        best.exact = partial(mean_rate, fit, equation.relation) if region.bound else None
        parts = [*parts_of(fit, equation, region.axes), *region.parts]
        shape = [len(axis) for axis in free_axes(region.axes)]
        _search_form(shape, parts, best.within(region.axes))
    best.settle()


def _search_form(shape: Sequence[int], parts: Sequence[Part], best: Best) -> None:
    from plait.search.boxes import RowBoxes
    from plait.search.general import GeneralBoxes

    form = simplified(shape, parts)
    if not shape:
        rate = math.prod(float(part.array) for part in form.parts)
        best.offer(np.zeros((1, 0), np.int64), np.array([rate]))
        return
    rows = as_rows(form)
    search(GeneralBoxes(form) if rows is None else RowBoxes(rows), best)


def _entries_at_once(fit: "Fit", equation: Equation, axes: Sequence[Axis]) -> int:
    """How many entries of a table may be an axis: a factor gathers its latent indices for each, and other free axes."""
    sizes = {index: len(axis) for index, axis in zip(equation.indices, axes)}
    widest = 1
    for occurrence in equation.occurrences:
        if occurrence.factor in fit.factors:
            shape = dict(zip(occurrence.indices, fit.factors[occurrence.factor].mean.shape)) | sizes
            visible = [sizes[index] for index in occurrence.indices if index in sizes]
            size = math.prod(shape[index] for index in occurrence.indices)
            widest = max(widest, size // max(1, min(visible, default=1)))
    return max(1, GATHERED // widest)


# --- arguments


def _checked_count(k: Any) -> int:
    try:
        count = operator.index(k) if not isinstance(k, bool) else -1
    except TypeError:
        count = -1
    if count < 0:
        raise SettingError(f"k: wanted how many links, got {k!r}.\nGive a whole number that is not negative, k=10.")
    return count


def _axes(fit: "Fit", equation: Equation, given: Mapping[str, Any] | None) -> list[Axis]:
    """One axis for each index of the relation: all rows, or those given."""
    if given is not None and not isinstance(given, Mapping):
        example = equation.indices[0] if equation.indices else "index"
        raise SettingError(
            f"given: wanted names by index, got {type(given).__name__}.\nGive a dict, given={{{example!r}: …}}."
        )
    for index in given or {}:
        if index not in equation.indices:
            have = ", ".join(equation.indices) or "none"
            raise SettingError(
                f"given: {index!r} is no index of {equation.relation}.\n"
                f"{suggestion(index, equation.indices)}It has {have}."
            )
    axes = []
    for place, index in enumerate(equation.indices):
        if given is not None and index in given:
            axes.append(Axis((place,), _given_rows(fit, index, given[index])[:, None]))
        else:
            axes.append(Axis((place,), np.arange(len(fit.labels[index]))[:, None], whole=True))
    return axes


def _given_rows(fit: "Fit", index: str, names: Any) -> Rows:
    """Distinct rows of a name or several, ascending."""
    labels = fit.labels[index]
    several = isinstance(names, (list, tuple, set, frozenset)) or (hasattr(names, "__array__") and np.ndim(names) > 0)
    column = list(names) if several else [names]
    rows = labels.encode(column, where=f"given, index {index!r}", unknown="mark")
    if (rows < 0).any():
        name = column[int(np.argmax(rows < 0))]
        near = suggestion(name, labels.names.head(10_000).to_list()) if isinstance(name, str) else ""
        raise DataError(
            f"given, index {index!r}: {quoted(name)} is no entity of axis {labels.axis}, which has "
            f"{listed(labels.names)}.\n{near}Take one of them, or leave {index!r} open."
        )
    return np.unique(rows)


# --- the answer


def _table(fit: "Fit", equation: Equation, best: Best, score: str) -> "pl.DataFrame":
    import polars as pl

    found = columns(fit, equation.relation, best.rows)
    ranked = found.get(score, best.scores)
    order = np.lexsort((*best.rows.T[::-1], -ranked))
    names = {
        index: fit.labels[index].names.gather(best.rows[order, n]).alias(index)
        for n, index in enumerate(equation.indices)
    }
    return pl.DataFrame({**names, **{name: values[order] for name, values in found.items()}})
