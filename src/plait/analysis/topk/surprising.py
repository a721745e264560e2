"""Surprising cells of the data: improbable known links, and observed zeros with a high probability of a link.

    surprise = −log P(x > 0) of a link,  −log P(x = 0) of a zero      (nats)

The value of a link does not matter, so all likelihoods are comparable.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Array, Flags, Rows
from plait.analysis.predict.operands import apart
from plait.analysis.predict.prediction import columns, neg_log_p_zero, probability_bounds, score
from plait.analysis.titled_tables import add_titles
from plait.analysis.topk.branch_and_bound import search_cells
from plait.analysis.topk.candidates import Candidates, exposed
from plait.analysis.topk.contraction import Axis
from plait.analysis.topk.exposure_regions import with_summed_rates
from plait.analysis.topk.heap import TopHeap
from plait.analysis.topk.top import checked_count
from plait.data.observation.structural_zeros import StructuralZeros
from plait.data.observation.weights import Weights
from plait.model.model import Equation
from plait.storage.fitted import Fitted

if TYPE_CHECKING:
    import polars as pl


CHUNK_CELLS = 1 << 18  # known links scored at a time
MIN_PROBABILITY = np.finfo(np.float64).smallest_normal  # a surprise of 708 nats in place of infinity


def surprising(fit: Fitted, relation: str, k: int = 10) -> "pl.DataFrame":
    """The k least probable known links, then the k most improbable observed zeros; see `Fit.surprising`."""
    equation, k = fit.model.equation(relation), checked_count(k)
    links = _unlikely(fit, relation, (cells for cells, _, _ in fit.known[relation].pieces(CHUNK_CELLS)), k, links=True)
    return _table(fit, equation, links, _zeros(fit, equation, k))


# --- which


def _unlikely(fit: Fitted, relation: str, pieces: Iterable[Rows], k: int, *, links: bool) -> Rows:
    """The k most surprising cells (n, order) of chunks, as links or as zeros; ties by order."""
    kept, low, high = np.zeros((0, len(fit.known[relation].shape)), np.int64), np.zeros(0), np.zeros(0)
    for cells in pieces:
        own_low, own_high = apart(fit.members[0], relation, cells, partial(probability_bounds, fit, relation))
        own_low, own_high = (own_low, own_high) if links else (-own_high, -own_low)  # ascending
        kept, low, high = np.concatenate([kept, cells]), np.append(low, own_low), np.append(high, own_high)
        if 0 < k < len(kept):  # bounds are cheaper than probabilities
            possible = low <= np.partition(high, k - 1)[k - 1]
            kept, low, high = kept[possible], low[possible], high[possible]
    surprise = _surprise(fit, relation, kept, links=links)
    return kept[np.lexsort((*kept.T[::-1], -surprise))[:k]]


def _in_pieces(cells: Rows) -> Iterator[Rows]:
    return (cells[at : at + CHUNK_CELLS] for at in range(0, len(cells), CHUNK_CELLS))


def _zeros(fit: Fitted, equation: Equation, k: int) -> Rows:
    """The k observed zeros (m, order) of the highest probability; none if a run does not store the observed cells."""
    known, relation = fit.known[equation.relation], equation.relation
    if known.rule is None:
        return np.zeros((0, len(equation.indices)), np.int64)
    observed = known.observed
    if equation.indices and all(term.table_indices == equation.indices for term in observed.terms):
        return _unlikely(fit, relation, _in_pieces(_listed_zeros(fit, relation, observed)), k, links=False)
    # Cells in blocks on disk are included.
    here = tuple(term for term in observed.terms if term.in_memory or term.coefficient < 0)
    return _searched(fit, equation, replace(observed, terms=here), k)


def _searched(fit: Fitted, equation: Equation, observed: Weights, k: int) -> Rows:
    """The same by a search, where zeros cannot be listed."""
    relation, searched = equation.relation, with_summed_rates(fit)
    candidates = _Zeros(searched, relation, observed)
    own = partial(score, fit._uncalibrated(), relation, by="probability")
    best = TopHeap(k, len(candidates.axes), candidates, score=own)
    if k > 0 and all(map(len, candidates.axes)):
        search_cells(searched, searched.model.equation(relation), candidates.axes, best)
    return best.rows


def _listed_zeros(fit: Fitted, relation: str, observed: Weights) -> Rows:
    """All observed zeros where only listed cells are observed: (n, order), in order."""
    known = fit.known[relation]
    tables = [term.table.maybe_zeros() for term in observed.terms if term.table is not None]
    empty = np.zeros((0, len(known.shape)), np.int64)
    cells = np.unique(known.canonical(np.concatenate([empty, *tables]).astype(np.int64)), axis=0)
    return cells[(observed.at(cells) > 0) & ~known.contain(cells)]


class _Zeros(Candidates):
    """Candidates that are observed and no links."""

    def __init__(self, fit: Fitted, relation: str, observed: Weights):
        shape = fit.known[relation].shape
        axes = [Axis((place,), np.arange(size)[:, None], whole=True) for place, size in enumerate(shape)]
        super().__init__(fit, relation, axes, False, StructuralZeros(observed.indices, shape, {}), ())
        self.observed = observed
        opened = tuple(term for term in observed.terms if term.coefficient > 0)
        self.axes = exposed([replace(observed, terms=opened)], self.axes)

    def __call__(self, rows: Rows) -> Flags:
        return super().__call__(rows) & (self.observed.at(rows) > 0)


# --- the answer


def _surprise(fit: Fitted, relation: str, cells: Rows, *, links: bool) -> Array:
    miss = neg_log_p_zero(fit, relation, cells)
    return 0.0 - np.log(np.maximum(-np.expm1(-miss), MIN_PROBABILITY)) if links else miss


def _table(fit: Fitted, equation: Equation, links: Rows, zeros: Rows) -> "pl.DataFrame":
    """Index columns, kind, value, surprise and the columns of a prediction; each kind by surprise."""
    import polars as pl

    relation = equation.relation
    rows = []
    for kind, cells in (("link", links), ("zero", zeros)):
        surprise = _surprise(fit, relation, cells, links=kind == "link")
        order = np.lexsort((*cells.T[::-1], -surprise))
        cells, surprise = cells[order], surprise[order]
        own: dict[str, Any] = {
            index: fit.entities[index].names.gather(cells[:, n]) for n, index in enumerate(equation.indices)
        }
        own[_beside("kind", equation)] = pl.Series([kind] * len(cells), dtype=pl.String)
        own["value"] = fit.known[relation].values_at(cells)
        own[_beside("surprise", equation)] = surprise
        rows.append(pl.DataFrame(own | columns(fit, relation, cells)))
    return add_titles(fit, pl.concat(rows), equation.indices)


def _beside(name: str, equation: Equation) -> str:
    """A column name that no index has."""
    return f"{name}_" if name in equation.indices else name
