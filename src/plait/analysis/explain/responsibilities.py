"""Responsibilities: the share P of every term and latent setting in cells, and the expected counts ⟨S⟩ = E[n] · P."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from plait._typing import Array, Rows
from plait.analysis.explain.component_terms import Kind, components, free_name, latent_sizes, name_terms, terms_at
from plait.analysis.explain.influence import weigh
from plait.analysis.explain.supporting_links import expected_counts
from plait.analysis.predict.lookup import rows_of
from plait.analysis.titled_tables import add_titles
from plait.data.encoding.columns import number_array
from plait.errors import DataError, ParameterError, TableLocation
from plait.model import Equation
from plait.storage.fitted import Fitted
from plait.tuning import TUNING

if TYPE_CHECKING:
    import polars as pl


DEFAULT_COMPONENTS = 1000  # listed per cell by default


def responsibilities(fit: Fitted, relation: str, cells: Any, *, most: int | None = None) -> "pl.DataFrame":
    """Components of cells with their shares and expected counts, one per row; those of each cell largest first.

    A cell with an observed value, in the column `value` or as a known link, is shared by P = V Π L/λ_L, as in the fit,
    and expected is E[n] P: under Poisson its components add up to x. Other cells have shares of the predicted mean, V Π
    E / λ_E. A value of 0 has no counts to share.

    Members of an ensemble are weighted by what each adds to the mean (`plait.analysis.explain.influence`).
    """
    equation = fit.model.equation(relation)
    frame, rows = rows_of(fit, relation, cells)
    values = _values(fit, relation, frame, rows)
    most = _checked(fit, equation, most)
    shared = [_Shared(*(np.zeros(shape, int) for shape in _empty(equation)))]
    widest = max((size for sizes in latent_sizes(fit, equation) for size in sizes.values()), default=1)
    kinds: tuple[tuple[Kind, Rows], ...] = (
        ("exp_mean_log", np.flatnonzero(~np.isnan(values))),
        ("mean", np.flatnonzero(np.isnan(values))),
    )
    for kind, some in kinds:
        step = max(TUNING.responsibilities_chunk // (most * widest), 1)
        for at in range(0, len(some), step):
            shared.extend(_share(fit, equation, rows, values, some[at : at + step], kind, most))
    joined = _Shared(*map(np.concatenate, zip(*shared)))
    return _table(fit, equation, rows, values, _leading(joined, most))


class _Shared(NamedTuple):
    """Components, arrays (m, …): numbers of the cell, the member and the term; settings; share; expected counts."""

    cell: Rows
    member: Rows
    term: Rows
    settings: Rows
    share: Array
    expected: Array


def _empty(equation: Equation) -> Sequence[tuple[int, ...]]:
    """Shapes of zero components."""
    return (0,), (0,), (0,), (0, len(equation.latent)), (0,), (0,)


def _share(
    fit: Fitted, equation: Equation, rows: Rows, values: Array, some: Rows, kind: Kind, most: int
) -> Iterator[_Shared]:
    """Components of some cells in every member."""
    latent = [equation.latent_of(term) for term in equation.terms]
    for number, (member, weight) in enumerate(zip(fit.members, weigh(fit, equation, rows[some]))):
        leading = components(terms_at(member, equation, rows[some], kind), latent, most)
        shares = weight[:, None] * leading.shares
        counts = values[some]
        if kind == "exp_mean_log":
            counts, _ = expected_counts(member, equation.relation, counts, leading.log_rates)
        k = shares.shape[1]
        settings = leading.settings.reshape(shares.size, len(leading.latent))
        expected = (shares * counts[:, None]).ravel()
        yield _Shared(
            np.repeat(some, k), np.full(shares.size, number), leading.terms.ravel(), settings, shares.ravel(), expected
        )


def _leading(shared: _Shared, most: int) -> _Shared:
    """The `most` largest components of each cell."""
    order = np.lexsort((-shared.share, shared.cell))
    ordered = shared.cell[order]
    order = order[np.arange(len(order)) - np.searchsorted(ordered, ordered) < most]
    arrays: list[Any] = [array[order] for array in shared]
    return _Shared(*arrays)


def _table(fit: Fitted, equation: Equation, rows: Rows, values: Array, shared: _Shared) -> "pl.DataFrame":
    import polars as pl

    def column(name: str, values: Any) -> pl.Series:
        return pl.Series(free_name(name, equation), values, nan_to_null=True)

    cells = rows[shared.cell]
    columns = [fit.entities[index].names.gather(cells[:, n]).alias(index) for n, index in enumerate(equation.indices)]
    columns.append(column("value", values[shared.cell]))
    if len(fit.members) > 1:
        columns.append(column("member", shared.member))
    if len(equation.terms) > 1:
        columns.append(column("term", name_terms(equation)).gather(shared.term))
    for index, setting in zip(equation.latent, shared.settings.T):
        columns.append(pl.Series(index, setting).set(pl.Series(setting < 0), None))
    table = pl.DataFrame([*columns, column("share", shared.share), column("expected", shared.expected)])
    return add_titles(fit, table, equation.indices)


# --- arguments


def _values(fit: Fitted, relation: str, frame: Any, rows: Rows) -> Array:
    """Observed value of every cell, NaN without one: as given, else that of the known link."""
    known = fit.known[relation]
    values = np.where(known.contain(rows), known.values_at(rows), np.nan)
    if "value" not in frame.columns:
        return values
    given = number_array(frame.get_column("value"), "cells, column 'value'")
    bad = (given < 0) | np.isinf(given)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"{given[row]:g} is not a valid value.",
            location=TableLocation("cells", "value", (row,)),
            actual=float(given[row]),
            hint="An observed value is at least 0; leave it empty if there is none.",
        )
    return np.where(np.isnan(given), values, given)


def _checked(fit: Fitted, equation: Equation, most: int | None) -> int:
    """Number of components per cell."""
    if most is not None:
        if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
            raise ParameterError.must_be("most", "an integer of at least 1", most)
        return int(most)
    total = sum(math.prod(sizes.values()) for member in fit.members for sizes in latent_sizes(member, equation))
    if total > DEFAULT_COMPONENTS:
        raise ParameterError(
            f"a cell of {equation.relation} has {total:,} components, so the result would have as many rows per cell.",
            location="responsibilities",
            hint="Keep only the largest components, such as `most=100`.",
        )
    return total
