"""Charts of components along an ordered axis: levels with bands, and the fan of the forecast."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plait import special
from plait._typing import Array
from plait.analysis.components.component_names import names_of, title
from plait.analysis.explain.coupling import coupling, first_index
from plait.data.encoding.names import write_label
from plait.data.encoding.periods import next_periods as later_names
from plait.errors import ParameterError
from plait.inference.chains import next_periods
from plait.plotting.theme import BLUE, Spec, finished, heading, number, plain, tips
from plait.storage.fitted import Fitted

MAX_TRENDS = 12  # components of a factor
BAND_QUANTILES = (0.05, 0.95)


@dataclass(frozen=True)
class Trend:
    """Level of one component of a factor: rows with period, level, lower, upper; `later`: those of the forecast."""

    factor: str
    name: str
    kind: str
    rows: list[dict[str, Any]]
    later: list[dict[str, Any]]


def chains(fit: Fitted) -> list[str]:
    """Factors that change along an ordered axis."""
    return [name for name, prior in fit.state.priors.items() if prior.chain is not None]


def trends(fit: Fitted, component: int | None = None, steps: int = 3, index: str | None = None) -> list[Trend]:
    """Trends of components, those of large share first; a level of 1 is the mean over all periods."""
    if not isinstance(steps, (int, np.integer)) or isinstance(steps, bool) or steps < 0:
        raise ParameterError.must_be("steps", "an integer of at least 0", steps)
    if not chains(fit):
        raise ParameterError(
            "no factor changes along an ordered axis, so there are no trends.",
            hint="Declare the index of time in the model, such as `month: ordered`, and fit again.",
        )
    trend_lines = []
    for name in chains(fit):
        latent = fit.state.factors[name].layout.latent
        if component is None or (latent and index in (None, first_index(fit.model, latent[0]))):
            trend_lines += _of_factor(fit, name, component, steps)
    return trend_lines


def _of_factor(fit: Fitted, name: str, component: int | None, steps: int) -> list[Trend]:
    kept, prior = fit.state.factors[name], fit.state.priors[name]
    layout, chain = kept.layout, prior.chain
    assert chain is not None
    names = fit.entities[layout.visible[chain.axis]]
    arrays = [np.asarray(layout.unpack(array), np.float64) for array in kept.parameters if array is not None]
    E, V = (arrays[0] * arrays[1], arrays[0] * arrays[1] ** 2) if len(arrays) > 1 else (arrays[0], 0.0 * arrays[0])
    if steps:
        C, B = next_periods(layout, prior, [a for a in kept.parameters if a is not None], steps)
        E = np.concatenate([E, B], axis=chain.axis)
        V = np.concatenate([V, B**2 / C if len(arrays) > 1 else 0.0 * B], axis=chain.axis)
    level, spread = (_by_period(array, chain.axis, len(layout.visible), power) for array, power in ((E, 1), (V, 2)))
    unit = level[: len(names)].mean(axis=0)
    level, spread = level / unit, spread / unit**2
    low, high = (_quantile(level, spread, q) for q in BAND_QUANTILES)
    periods, kind = _periods(names, steps)

    def rows(column: int, begin: int, end: int) -> list[dict[str, Any]]:
        return [
            {"period": periods[t], "level": float(level[t, column]), "lower": float(low[t, column]),
             "upper": float(high[t, column])}
            for t in range(begin, end)
        ]  # fmt: skip

    last = len(names)
    return [
        Trend(name, _named(fit, name, column), kind, rows(column, 0, last), rows(column, last - 1, last + steps))
        for column in _columns(fit, layout.latent, level.shape[1], component)
    ]


def _by_period(array: Array, axis: int, visible: int, power: int) -> Array:
    """Means over all indices but the period and the first latent one, (n_periods, n_components).

    power: 2 for variances, whose sum is over the squared number.
    """
    array = array if array.ndim > visible else array[..., None]
    moved = np.moveaxis(array, (axis, visible), (0, 1))
    flat = moved.reshape(*moved.shape[:2], -1)
    return np.asarray(flat.sum(axis=2) / float(flat.shape[2]) ** power)


def _quantile(level: Array, spread: Array, q: float) -> Array:
    """Quantiles of Gamma distributions of these means and variances."""
    scale = np.where(spread > 0, spread / level, 1.0)
    return np.where(spread > 0, special.gammaincinv(level / scale, q) * scale, level)


def _periods(names: Any, steps: int) -> tuple[list[Any], str]:
    """Names of all periods, and the type of their axis."""
    try:
        later = later_names(names.axis, names.names, steps).to_list() if steps else []
    except ParameterError:  # text has no later names
        later = [f"+{n + 1}" for n in range(steps)]
    periods = [*names, *later]
    if isinstance(periods[0], datetime.date):
        return [write_label(name) for name in periods], "temporal"
    return periods, "quantitative" if isinstance(periods[0], int) and not isinstance(periods[0], bool) else "ordinal"


def _columns(fit: Fitted, latent: Sequence[str], size: int, component: int | None) -> list[int]:
    """Components to show, those of large share first."""
    if not latent:
        return [0]
    if component is not None:
        if not 0 <= component < size:
            raise ParameterError(f"there is no component {component}.", hint=f"They are numbered 0 … {size - 1}.")
        return [component]
    index = first_index(fit.model, latent[0])
    share = dict.fromkeys(range(size), 0.0)
    for row in coupling(fit).to_dicts():
        if row["index"] == index:
            share[row["component"]] = max(share[row["component"]], row["share"])
    return sorted(share, key=lambda n: -share[n])[:MAX_TRENDS]


def _named(fit: Fitted, factor: str, column: int) -> str:
    """Name of a component, or of a factor without one."""
    latent = fit.state.factors[factor].layout.latent
    if not latent:
        return factor
    return title(names_of(fit), first_index(fit.model, latent[0]), column, several=len(fit.rank) > 1)


def draw(trend_lines: Sequence[Trend]) -> Spec:
    """A panel per component: its level, 1 on average, with 90 % bands; the forecast is dashed."""
    return finished({"concat": [_panel(one) for one in trend_lines], "columns": 2, "spacing": 22})


def _panel(one: Trend) -> Spec:
    across: Spec = {"field": "period", "type": one.kind, "title": None}
    across |= {"sort": None} if one.kind == "ordinal" else {"scale": {"zero": False, "nice": False}}
    if one.kind == "quantitative":
        across["axis"] = {"format": "d", "tickMinStep": 1}
    ends = {"y": number("lower", "level"), "y2": {"field": "upper"}}
    said = [
        {"field": "period", "type": one.kind, "title": "period"},
        *tips(level="level", lower="lower", upper="upper"),
    ]
    level = {"x": across, "y": number("level", "level"), "tooltip": said}
    layers: list[Spec] = []
    for rows, opacity, dash in ((one.rows, 0.3, [1, 0]), (one.later, 0.15, [4, 3])):
        if rows:
            data, line = plain(rows), {"type": "line", "color": BLUE, "strokeWidth": 2, "strokeDash": dash}
            area = {"type": "area", "color": BLUE, "opacity": opacity}
            layers += [{"data": data, "mark": area, "encoding": {"x": across, **ends}},
                       {"data": data, "mark": line, "encoding": level}]  # fmt: skip
    return {"title": heading(one.name), "width": 240, "height": 110, "layer": layers}
