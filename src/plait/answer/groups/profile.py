"""Which components an entity is in: its profile, by which `similar` compares.

    share = E·rest / Σ E·rest over components     sd = of that share (`share_sd`)     data as in `components`

with the weights `rest` of `holding`, so a share is one of the counts that are expected of the entity.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from plait.answer.groups.holding import Holding, holdings, share_sd
from plait.answer.predict.lookup import row_named
from plait.run.record import Fitted
from plait.types import Array

if TYPE_CHECKING:
    import polars as pl


def profile(fit: Fitted, axis: str, name: Any) -> "pl.DataFrame":
    """The components of one entity, in every factor that has its axis: factor, axis, index, component, share, sd, data.

    Of a factor with several latent indices each has its rows, the others summed out; the shares of each add up to 1,
    or to 0 if the entity holds nothing. An ensemble shows its best member. No rows: no factor of the axis has a latent
    index.
    """
    import polars as pl

    labels = fit.labels[axis]
    row = row_named(labels, name, "name")
    types = {"factor": pl.String, "axis": pl.String, "index": pl.String, "component": pl.Int64}
    types |= dict.fromkeys(("share", "sd", "data"), pl.Float64)
    rows = [one for own in holdings(fit) if fit.model.axis(own.index) == labels.axis for one in _rows(own, row)]
    return pl.DataFrame(rows, schema=types, orient="row")


def _rows(own: Holding, row: int) -> list[tuple[Any, ...]]:
    at = np.array([row])
    held = own.summed_at(own.posterior.mean, at)[0].astype(np.float64) * own.rest
    variance = own.variance(at)[0] * own.rest**2
    learnt = own.learnt(at)[0] * own.rest
    total = held.sum() or 1.0
    found: list[tuple[Any, ...]] = []
    for place, index in enumerate(own.latent):
        mean, spread, data = (_alone(array, place) for array in (held, variance, learnt))
        part = np.clip(np.divide(data, mean, out=np.zeros(len(mean)), where=mean > 0), 0.0, 1.0)
        shares = mean / total
        sd = share_sd(shares, spread, spread.sum(), total / own.unit)
        parts = zip(shares.tolist(), sd.tolist(), part.tolist())
        found += [(own.factor, own.axis, index, n, *three) for n, three in enumerate(parts)]
    return found


def _alone(array: Array, place: int) -> Array:
    """(*latent) -> the values of one latent index, the others summed out."""
    return np.asarray(array.sum(axis=tuple(n for n in range(array.ndim) if n != place)))
