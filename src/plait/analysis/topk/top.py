"""The most probable links of a relation, without a look at most of its cells."""

import math
import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Array, Rows
from plait.analysis.predict.prediction import columns
from plait.analysis.predict.prediction import score as score_of
from plait.analysis.titled_tables import add_titles
from plait.analysis.topk.batched import Blocks
from plait.analysis.topk.branch_and_bound import search_cells, search_per_entity
from plait.analysis.topk.candidates import Candidates, read_excluded
from plait.analysis.topk.contraction import Axis
from plait.analysis.topk.heap import Score, TopHeap
from plait.data.encoding.names import listed
from plait.errors import DataError, NoCandidatesWarning, ParameterError, TableLocation, quoted, suggestion
from plait.model.model import Equation
from plait.storage.fitted import Fitted

if TYPE_CHECKING:
    import polars as pl


SCORES = ("mean", "probability", "rate")


def propose(
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
) -> "tuple[pl.DataFrame, NoCandidatesWarning | None]":
    """The k most probable links: the relation's index columns, then those of `predict`; best first.

    given: a name, or a list of names to choose among, for some of the indices. per: an index, or several, for every
    entity (or combination) of which k links are wanted; the table goes through them in their order, those of each best
    first. include_known: whether links of the data may be among them; without, a cell given in full that is a known
    link leaves an empty table. exclude: a table or several, or dicts of columns, over some of the indices: such cells
    are not proposed, and names that the fit does not know are passed over. score: the column to rank by. new_entities:
    rows of guests by relation, who may be given. There are fewer than k rows where there are fewer such cells.

    A cell of a relation without a direction is there once, in the order of its rows, unless only another writing of it
    was asked for; with per="user" a pair may be there for both of its entities.

    What a rule makes unobservable is not proposed: pairs and slices that a `missing=` table names by some of the
    indices, the diagonal of two indices on one axis where hardly any of it is observed (self-links), and cells of
    exposure 0. Single cells of `missing=`, NaN, cells that are not listed, and what `hidden=` or
    `plait.train_test_split` put aside may be proposed. Where rules leave nothing of what is asked for, a
    `NoCandidatesWarning` that names them is returned beside the table: threads share filters of warnings, and could
    not catch it.

    Exact: no cell left out has a better score. Rates that differ by less than a relative 1e-12 count as equal. Where
    equal cells compete for the last places it is not their names that decide, but it is the same ones in every call;
    those shown are in the order of their rows.
    """
    equation = fit.model.equation(relation)
    k = checked_count(k)
    if score not in SCORES:
        raise ParameterError(
            f"`score`: there is no ranking by {score!r}.",
            actual=score,
            hint=f"{suggestion(score, SCORES)}It is one of {', '.join(SCORES)}.",
        )
    places = _places(equation, per)
    if new_entities is not None:
        fit = _with_transient(fit, equation, given, new_entities)
    axes = _axes(fit, equation, given)
    candidates = Candidates(fit, relation, axes, include_known, read_excluded(fit, relation, exclude), places)
    scored: Score | None = None
    if score == "probability" or (score == "mean" and fit.likelihood[relation].binary):
        scored = partial(score_of, fit, relation, by=score)
    rows, scores = _found(fit, equation, candidates, places, k, scored)
    if score == "mean" and not (fit.likelihood[relation].binary or fit.likelihood[relation].plain):
        scores = score_of(fit, relation, rows, by=score)  # they were ranked by the rate, of which it is a multiple
    closed = _nothing(relation, candidates) if k and not len(rows) else None
    return _table(fit, equation, rows, scores, score, places), closed


def _with_transient(fit: Fitted, equation: Equation, given: Mapping[str, Any] | None, new: Any) -> Fitted:
    """The fit with guests, alone where only they are given."""
    from plait.incremental.fold_in import with_transient

    names = given if isinstance(given, Mapping) else {}
    return with_transient(fit, equation.relation, new, {index: _several(own) for index, own in names.items()})


def _found(
    fit: Fitted, equation: Equation, candidates: Candidates, places: Sequence[int], k: int, score: Score | None
) -> tuple[Rows, Array]:
    """The k best cells (m, order), or those of every combination of rows at some places; and their scores."""
    axes = candidates.axes
    k = min(k, math.prod(len(axis) for n, axis in enumerate(axes) if n not in places))
    empty = np.zeros((0, len(axes)), np.int64), np.zeros(0)
    if k == 0 or not all(map(len, axes)):
        return empty
    if not places:
        best = TopHeap(k, len(axes), candidates, score=score)
        search_cells(fit, equation, axes, best)
        return best.rows, best.scores
    blocks = Blocks(fit, equation, axes, places, candidates.refused(), candidates.again if candidates.groups else None)
    if blocks.at_once:
        return blocks.best(k, score)
    found = list(search_per_entity(fit, equation, axes, places, lambda: TopHeap(k, len(axes), candidates, score=score)))
    return np.concatenate([best.rows for best in found]), np.concatenate([best.scores for best in found])


def _nothing(relation: str, candidates: Candidates) -> NoCandidatesWarning | None:
    """What to say where rules, and not only known links, leave nothing to propose."""
    rules = candidates.rules()
    if not rules:
        return None
    more = "" if candidates.known is None else ", or known already"
    return NoCandidatesWarning(
        f"nothing can be proposed: all cells asked for are closed by {' and '.join(rules)}{more}.",
        location=relation,
        hint="Ask for others. What is unknown rather than impossible belongs into `hidden` of its relation.",
    )


# --- arguments


def checked_count(k: Any) -> int:
    """How many are asked for, 0 or more."""
    try:
        count = operator.index(k) if not isinstance(k, bool) else -1
    except TypeError:
        count = -1
    if count < 0:
        raise ParameterError.must_be("k", "a whole number, 0 or more", k)
    return count


def _axes(fit: Fitted, equation: Equation, given: Mapping[str, Any] | None) -> list[Axis]:
    """One axis for each index of the relation: all rows, or those given."""
    if given is not None and not isinstance(given, Mapping):
        example = equation.indices[0] if equation.indices else "index"
        raise ParameterError.must_be(
            "given", "a dict of names by index", type(given), hint=f"Give `given={{{example!r}: …}}`."
        )
    for index in given or {}:
        if index not in equation.indices:
            have = ", ".join(equation.indices) or "none"
            raise ParameterError(
                f"`given`: {index!r} is no index of {equation.relation}.",
                hint=f"{suggestion(index, equation.indices)}It has {have}.",
            )
    axes = []
    for place, index in enumerate(equation.indices):
        if given is not None and index in given:
            axes.append(Axis((place,), _given_rows(fit, index, given[index])[:, None]))
        else:
            axes.append(Axis((place,), np.arange(len(fit.entities[index]))[:, None], whole=True))
    return axes


def _places(equation: Equation, each: Any) -> list[int]:
    """Where the indices stand for whose entities links are wanted."""
    if each is None:
        return []
    names = [each] if isinstance(each, str) else list(each) if isinstance(each, (list, tuple)) else []
    relation, have = equation.relation, ", ".join(equation.indices) or "none"
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ParameterError.must_be("per", "one index or several, each once", each, hint=f"The indices are {have}.")
    for name in names:
        if name not in equation.indices:
            raise ParameterError(
                f"`per`: {name!r} is no index of {relation}.",
                actual=name,
                hint=f"{suggestion(name, equation.indices)}It has {have}.",
            )
    if len(names) == len(equation.indices):
        raise ParameterError(
            f"`per`: {', '.join(names)} are all indices of {relation}, so there is nothing to choose.",
            hint="Leave one of them out, or score cells of your own with predict.",
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
        raise DataError(
            f"{quoted(name)} is no entity of axis {labels.axis}, which has {listed(labels.names)}.",
            location=TableLocation("given", index, noun="index"),
            hint=f"{near}Take one of them, or leave {index!r} open.",
        )
    return np.unique(rows)


# --- the answer


def _table(
    fit: Fitted, equation: Equation, rows: Rows, scores: Array, score: str, places: Sequence[int]
) -> "pl.DataFrame":
    import polars as pl

    found = columns(fit, equation.relation, rows)
    ranked = found.get(score, scores)
    order = np.lexsort((*rows.T[::-1], -ranked, *(rows[:, place] for place in reversed(places))))
    names = {
        index: fit.entities[index].names.gather(rows[order, n]).alias(index) for n, index in enumerate(equation.indices)
    }
    table = pl.DataFrame({**names, **{name: values[order] for name, values in found.items()}})
    return add_titles(fit, table, equation.indices)
