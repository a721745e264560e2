"""Cells -> means. Factors are gathered row by row in pieces, so memory stays flat."""

import math
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from plait.data.tables import frame_of
from plait.errors import DataError

if TYPE_CHECKING:
    from plait.result import Fit

Array = NDArray[np.float64]

PIECE = 1 << 20  # doubles gathered of one factor at a time


def predict(fit: "Fit", relation: str, cells: Any) -> Any:
    """The table `cells` with a column `mean` added; under Bernoulli the probability of a link, and its `rate`."""
    equation = fit.model.equation(relation)
    frame = _frame(cells)
    for index in equation.indices:
        if index not in frame.columns:
            raise DataError(f"cells: column {index!r} is missing; {relation} needs {', '.join(equation.indices)}.")
    columns = [
        fit.labels[i].encode(frame.get_column(i).to_native(), where=f"cells, column {i}") for i in equation.indices
    ]
    rows = np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0), np.int64)
    rate = mean_rate(fit, relation, rows)
    new = {"mean": rate}
    if fit.likelihood[relation] == "bernoulli":
        new = {"mean": -np.expm1(-rate), "rate": rate}
    backend = nw.get_native_namespace(frame)
    series = [nw.new_series(name, values, backend=backend) for name, values in new.items()]
    return frame.with_columns(*series).to_native()


def _frame(cells: Any) -> Any:
    if not isinstance(cells, dict):
        return frame_of(cells, "cells")
    import polars as pl

    try:
        return nw.from_native(pl.DataFrame(cells), eager_only=True)
    except (pl.exceptions.PolarsError, TypeError) as error:
        raise DataError(f"cells: the dict is no table: {error}") from None


def mean_rate(fit: "Fit", relation: str, rows: NDArray[np.int64]) -> Array:
    """V · Xhat_E at cells given by row numbers (n, order)."""
    equation = fit.model.equation(relation)
    exposure = fit.exposures.at(relation, rows)
    rate = np.ones(len(rows)) if exposure is None else exposure.copy()
    operands = [o for o in equation.occurrences if o.factor in fit.factors]
    width = max((_width(fit, o) for o in operands if set(o.indices) & set(equation.indices)), default=1)
    piece = max(PIECE // width, 1)
    for at in range(0, len(rows), piece):
        part = slice(at, at + piece)
        rate[part] *= _piece(fit, equation.indices, operands, rows[part])
    return rate


def _width(fit: "Fit", occurrence: Any) -> int:
    """Numbers that one cell gathers of a factor: the product of its latent sizes."""
    sizes = dict(zip(occurrence.indices, fit.factors[occurrence.factor].mean.shape))
    return math.prod(size for index, size in sizes.items() if index not in fit.labels)


def _piece(fit: "Fit", indices: tuple[str, ...], operands: list[Any], rows: NDArray[np.int64]) -> Array:
    letters: dict[str, int] = {}
    inputs: list[Any] = [np.ones(len(rows)), [0]]
    for occurrence in operands:
        mean = fit.factors[occurrence.factor].mean
        visible = [n for n, index in enumerate(occurrence.indices) if index in indices]
        latent = [n for n in range(mean.ndim) if n not in visible]
        at = tuple(rows[:, indices.index(occurrence.indices[n])] for n in visible)
        labels = [letters.setdefault(occurrence.indices[n], len(letters) + 1) for n in latent]
        moved = mean.transpose(*visible, *latent)
        inputs += [moved[at], [0, *labels]] if visible else [moved, labels]
    return np.asarray(np.einsum(*inputs, [0], optimize=len(operands) > 2))
