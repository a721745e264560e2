"""Entities of each component, in every factor that has it.

    weight = E / Σ E over the entities of the axis        sd = of that share, to first order (`share_sd`)
    lift   = weight / the entity's share of the known counts of the relations with the factor
    data   = Σ E (C − prior)/C / Σ E, over the entity's own entries

One latent index of a factor at a time: its other latent indices are summed out, weighted by the rest of the model
(`entity_shares.rest`). Other visible indices are summed, so a factor over pairs has rows for each of its axes. Factors
without a visible index (cores, weights) have none.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.analysis.components.component_names import (
    component_shares,
    names_of,
    popularity_shares,
    relevance,
    summed_out,
)
from plait.analysis.components.entity_shares import Holding, holdings, share_sd
from plait.analysis.explain.component_terms import name_terms
from plait.analysis.explain.coupling import Family, coupling, families
from plait.analysis.explain.leading_entities import largest
from plait.analysis.titled_tables import title_column
from plait.errors import ParameterError
from plait.storage.fitted import Fitted

if TYPE_CHECKING:
    import polars as pl


def components(fit: Fitted, *, top: int | None = 10, by: str = "weight") -> "pl.DataFrame":
    """The `top` heaviest entities of every component, factor and axis, or all of them; see `Fit.components`.

    `by`: "weight", or "relevance" for pages: weight × lift, without entities that are not typical of the component.
    """
    import polars as pl

    if top is not None and (isinstance(top, bool) or not isinstance(top, (int, np.integer)) or top < 1):
        raise ParameterError.must_be("top", "an integer of at least 1, or None", top)
    shares = _shares(fit)
    order = {index: n for n, index in enumerate(fit.model.latent)}
    blocks = [_empty(fit)]
    for holding in holdings(fit):
        popular = popularity_shares(holding)
        for place, index in enumerate(holding.latent):
            blocks.append(
                _entities_by_component(holding, place, index, popular, top, by, shares[holding.factor, index])
            )
    whole = pl.concat(blocks)
    axis_order = pl.col("index").replace_strict(order, return_dtype=pl.Int64)
    return whole.sort(axis_order, "component", maintain_order=True)  # factors and axes are in order already


def _entities_by_component(
    holding: Holding, place: int, index: str, popular: Array, top: int | None, by: str,
    shares: dict[str, list[float | None]],
) -> "pl.DataFrame":  # fmt: skip
    """Entities of one factor, axis and latent index, component by component."""
    import polars as pl

    held = component_shares(holding, place)
    sums = held.sum(axis=1)
    most = holding.size if top is None else int(top)
    choose = largest if by == "weight" else partial(_relevant, popular)
    chosen = [choose(own, most) for own in held]
    rows = np.concatenate(chosen)
    number = np.repeat(np.arange(len(held)), [len(own) for own in chosen])
    scale = np.where(sums > 0, sums, 1.0)[number]
    mean = held[number, rows]
    variance, learnt = np.empty(len(rows)), np.empty(len(rows))
    for start in range(0, len(rows), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        at = np.arange(len(rows[part])), number[part]
        variance[part] = summed_out(holding, place, holding.variance(rows[part]), 2)[at]
        learnt[part] = summed_out(holding, place, holding.from_data(rows[part]), 1)[at]
    whole = summed_out(holding, place, holding.variances[None], 2)[0]
    names = holding.fit.entities[holding.index].names.gather(rows)
    lift = np.divide(mean / scale, popular[rows], out=np.full(len(rows), np.nan), where=popular[rows] > 0)
    called = names_of(holding.fit).get(index, {})
    columns: dict[str, Any] = {
        "component": number,
        "name": pl.Series([called.get(n) for n in number.tolist()], dtype=pl.String),
        "index": [index] * len(rows),
        "factor": [holding.factor] * len(rows),
        "axis": [holding.axis] * len(rows),
        "entity": names.cast(pl.String),
        **_titles(holding, names),
        "weight": mean / scale,
        "sd": share_sd(mean / scale, variance, whole[number], scale / holding.unit),
        "lift": pl.Series(lift, nan_to_null=True),
        "data": np.clip(np.divide(learnt, mean, out=np.zeros(len(rows)), where=mean > 0), 0.0, 1.0),
    }
    for relation, own in shares.items():
        columns[f"share_{relation}"] = pl.Series([own[n] for n in number.tolist()], dtype=pl.Float64)
    return pl.DataFrame(columns)


def _titles(holding: Holding, names: "pl.Series") -> "dict[str, pl.Series]":
    """Titles of entities, if any axis of the fit has some."""
    import polars as pl

    titles = holding.fit.titles
    if not titles:
        return {}
    own = titles[holding.index].of(names) if holding.index in titles else pl.Series([None] * len(names))
    return {title_column("entity"): own.cast(pl.String)}


CHUNK_ROWS = 1 << 16  # bounds the memory of a lookup
MIN_RELEVANCE = 0.02  # of a listed entity, in units of that of the first


def _relevant(popular: Array, own: Array, most: int) -> NDArray[np.intp]:
    """Positions of the most relevant entities; of the heaviest ones if no lift is above 1."""
    scores = relevance(own / (own.sum() or 1.0), popular)
    if not scores.any():
        return largest(own, most)
    chosen = largest(scores, most)
    return np.asarray(chosen[scores[chosen] >= MIN_RELEVANCE * scores[chosen[0]]])


def _shares(fit: Fitted) -> dict[tuple[str, str], dict[str, list[float | None]]]:
    """Shares of components by relation, keyed by factor and latent index as first written."""
    table = coupling(fit)
    terms = {equation.relation: [name or None for name in name_terms(equation)] for equation in fit.model.equations}
    keys = zip(*(table[name].to_list() for name in ("relation", "term", "index", "component")))
    shares = dict(zip(keys, table["share"].to_list()))

    def of(family: Family, relation: str, component: int) -> float | None:
        own = [(number, indices[0]) for (name, number), indices in family.terms.items() if name == relation]
        return (
            sum(shares[relation, terms[relation][number], index, component] for number, index in own) if own else None
        )

    entity_shares = {}
    for family in families(fit.model):
        size = fit.rank[family.uses[0][2]]
        by = {name: [of(family, name, value) for value in range(size)] for name in fit.model.relations}
        for factor, place in family.slots:
            entity_shares[factor, fit.model.factor(factor).indices[place]] = by
    return entity_shares


def _empty(fit: Fitted) -> "pl.DataFrame":
    import polars as pl

    texts = ("name", "index", "factor", "axis", "entity", *([title_column("entity")] if fit.titles else ()))
    numbers = ("weight", "sd", "lift", "data")
    types: dict[str, Any] = {"component": pl.Int64, **dict.fromkeys(texts, pl.String)}
    types |= dict.fromkeys([*numbers, *(f"share_{name}" for name in fit.model.relations)], pl.Float64)
    return pl.DataFrame(schema=types)
