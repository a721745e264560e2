"""How much each relation contributes to each component: the counts of its known links that the component explains."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait.explain.latent import log_blocks
from plait.fitted import Fitted
from plait.model import Equation
from plait.model.network import CELLS, log_contract

if TYPE_CHECKING:
    import polars as pl


Array = NDArray[np.float64]

PIECE = 1 << 20  # numbers of a piece's largest array


def coupling(fit: Fitted) -> "pl.DataFrame":
    """A row for every relation and every value of its latent indices.

    counts: Σ M E[n] p over the known links, with p = Π L / Xhat_L summed over all other latent indices; E[n] is x, or
    λ/(1 − e^−λ) under Bernoulli. share: of the relation's counts. sd: of the counts as q(S) has them, for which each
    of a link's n counts belongs to the component with probability p: √Σ M (E[n] p (1 − p) + Var[n] p²).
    """
    import polars as pl

    rows: dict[str, list[Any]] = {name: [] for name in ("component", "relation", "counts", "share", "sd", "index")}
    for equation in fit.model.equations:
        for index, (counts, variances) in _sums(fit, equation).items():
            total = float(counts.sum())
            rows["component"].extend(range(len(counts)))
            rows["relation"].extend([equation.relation] * len(counts))
            rows["counts"].extend(counts.tolist())
            rows["share"].extend((counts / (total or 1.0)).tolist())
            rows["sd"].extend(np.sqrt(variances).tolist())
            rows["index"].extend([index] * len(counts))
    types = {"component": pl.Int64, "relation": pl.String, "counts": pl.Float64, "share": pl.Float64, "sd": pl.Float64}
    return pl.DataFrame(rows, schema=types | {"index": pl.String})


def _sums(fit: Fitted, equation: Equation) -> dict[str, tuple[Array, Array]]:
    """By latent index of an equation: the counts of each of its values, and their variances."""
    latent = [index for index in fit.rank if index in equation.latent]
    found = {index: (np.zeros(fit.rank[index]), np.zeros(fit.rank[index])) for index in latent}
    for cells, values, weights in _pieces(fit, equation, max((fit.rank[index] for index in latent), default=1)):
        blocks = log_blocks(fit, equation, cells, "geomean")
        logs = log_contract(blocks, (CELLS,))
        mean, variance = _moments(fit, equation, cells, values, logs)
        for index in latent:
            p = np.exp(log_contract(blocks, (CELLS, index)) - np.where(np.isneginf(logs), 0.0, logs)[:, None])
            found[index][0][:] += (weights * mean) @ p
            found[index][1][:] += (weights * mean) @ (p * np.clip(1.0 - p, 0.0, None)) + (weights * variance) @ (p * p)
    return found


def _pieces(fit: Fitted, equation: Equation, rank: int) -> Iterator[tuple[NDArray[np.int64], Array, Array]]:
    """Cells, values and weights of a relation's known links."""
    known, size = fit.known[equation.relation], max(PIECE // rank, 1)
    cells, values = np.asarray(known.cells, np.int64), known.values
    weights = np.broadcast_to(np.asarray(known.weights, np.float64), values.shape)
    for begin in range(0, len(values), size):
        piece = slice(begin, begin + size)
        yield cells[piece], values[piece], weights[piece]


def _moments(
    fit: Fitted, equation: Equation, cells: NDArray[np.int64], values: Array, logs: Array
) -> tuple[Array, Array]:
    """Mean and variance of the counts n behind each link, where log Xhat_L is `logs`."""
    if fit.likelihood[equation.relation] == "poisson":
        return values, np.zeros(len(values))
    exposure = fit.exposures.at(equation.relation, 0, cells)
    rate = np.exp(logs) * (1.0 if exposure is None else exposure)
    with np.errstate(invalid="ignore"):
        mean = np.where(rate > 0, rate / -np.expm1(-rate), 1.0)
    return mean, np.maximum(mean * (1.0 + rate - mean), 0.0)
