"""Map of the entities of an axis: metric multidimensional scaling of their similarities.

Entities are points in the plane whose distances follow √(2 − 2 s), the distance of profiles of similarity s
(`analysis.components.similar`; of an ensemble, in its first member). SMACOF (de Leeuw, 1977) lowers the raw stress from
the two largest principal axes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plait._typing import Array, Rows
from plait.analysis.components.component_names import names_of
from plait.analysis.components.entity_shares import Holding, holdings
from plait.analysis.components.similar import profiles, similar, weights_of
from plait.analysis.explain.coupling import first_index
from plait.analysis.explain.leading_entities import largest
from plait.analysis.predict.lookup import row_named
from plait.data.titles import Titles
from plait.errors import ParameterError
from plait.plotting.component_charts import check_axis
from plait.plotting.theme import NAME_PIXELS, Spec, cut, finished, plain, series, tips
from plait.rendering.svg import INK
from plait.storage.fitted import Fitted
from plait.tuning import TUNING

MAX_SWEEPS = 200  # of SMACOF
MIN_GAIN = 1e-4  # of a sweep, relative to the stress
MAX_GROUPS = 8  # components with a symbol of their own
MAX_LABELS = 40
WIDTH, HEIGHT = 620, 440
LETTER, LINE = 5.6, 12.0  # pixels of a label's letter and line
NEAREST = 10  # similar entities that are labelled
OTHER = "other components"


@dataclass(frozen=True)
class EntityMap:
    """Entities of a map: rows (n,), places (n, 2), their largest components, and how many entities there are.

    `chosen`: position of the entity that the map is of. `near`: positions of the most similar ones.
    """

    axis: str
    rows: Rows
    places: Array
    groups: Sequence[str]
    names: Sequence[str]
    size: int
    chosen: int | None = None
    near: Sequence[int] = ()


def entity_map(fit: Fitted, axis: str, name: Any = None) -> EntityMap:
    """The map of the entities with the most links; of one entity also those most similar to it."""
    check_axis(fit, axis, "map")
    labels = fit.entities[axis]
    own = [part for part in holdings(fit.members[0]) if fit.model.axis(part.index) == labels.axis]
    if not own:
        raise ParameterError(
            f"no factor of axis {labels.axis} has a latent index, so there are no components to compare.",
            actual=axis,
            hint="Choose an axis of a factor with a latent index, such as i in A[i, r].",
        )
    row = None if name is None else row_named(labels, name, "name")
    points = _points(own)
    counts = np.sum([part.popularity() for part in own], axis=0)
    rows = largest(counts, min(TUNING.map_entities, len(points)))
    near = np.zeros(0, np.int64)
    if row is not None:
        near = labels.encode(similar(fit, axis, name, NEAREST)[axis])
        rows = np.concatenate([[row], near, rows[~np.isin(rows, [row, *near])]])[: TUNING.map_entities]
    places = scaled(points[rows])
    titles = fit.titles.get(axis)
    return EntityMap(
        labels.axis, rows, places, _groups(fit, own[0], rows), [_name(labels, titles, int(one)) for one in rows],
        len(points), None if row is None else 0, range(1, 1 + len(near)),
    )  # fmt: skip


def _name(labels: Any, titles: Titles | None, row: int) -> str:
    title = None if titles is None else titles.column[row]
    return str(labels[row] if title is None else title)


def _points(parts: Sequence[Holding]) -> Array:
    """Square roots of profiles, (n_entities, n_components of all factors): their products are similarities."""
    points = []
    for part, weight in zip(parts, weights_of(parts)):
        mean = part.summed(part.posterior.mean)
        held = mean.reshape(len(mean), -1).astype(np.float64) * part.rest.ravel()
        points.append(np.sqrt(weight * profiles(held)))
    return np.concatenate(points, axis=1)


def scaled(points: Array) -> Array:
    """Places in the plane (n, 2) with distances like those of points (n, d)."""
    centred = points - points.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :2]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1.0, 1.0)
    X = np.zeros((len(points), 2))
    X[:, : axes.shape[1]] = centred @ axes
    wanted = np.sqrt(np.maximum(0.0, _squares(points)))
    last = np.inf
    for _ in range(MAX_SWEEPS):
        distances = np.sqrt(np.maximum(0.0, _squares(X)))
        stress = float(((wanted - distances) ** 2).sum())
        if stress <= 0.0 or stress > (1.0 - MIN_GAIN) * last:
            break
        last = stress
        ratio = np.divide(wanted, distances, out=np.zeros_like(wanted), where=distances > 1e-12)
        X = (ratio.sum(axis=1)[:, None] * X - ratio @ X) / len(X)  # Guttman's transform
    return X


def _squares(X: Array) -> Array:
    """Squared distances of all pairs of rows, (n, n)."""
    own = (X * X).sum(axis=1)
    return np.asarray(own[:, None] + own[None] - 2.0 * (X @ X.T))


def _groups(fit: Fitted, part: Holding, rows: Rows) -> list[str]:
    """The largest component of each entity by name; of many components the rarer ones are one group."""
    mean = part.summed(part.posterior.mean)[rows]
    held = mean * part.rest
    held = held.reshape(*held.shape[:2], -1).sum(axis=2)  # by the first latent index
    first = held.argmax(axis=1)
    names = names_of(fit).get(first_index(fit.model, part.latent[0]), {})
    common = largest(np.bincount(first, minlength=held.shape[1]).astype(np.float64), MAX_GROUPS)
    return [f"{one}: {names[one]}" if one in common and one in names else str(one) if one in common else OTHER
            for one in map(int, first)]  # fmt: skip


def draw(drawing: EntityMap) -> Spec:
    """Points by their largest component, the largest ones labelled where there is room."""
    low, high = drawing.places.min(axis=0), drawing.places.max(axis=0)
    pixels = 1.0 / max(*((high - low) / [WIDTH, HEIGHT]), 1e-9)
    at = (drawing.places - (low + high) / 2) * pixels + [WIDTH / 2, HEIGHT / 2]
    labelled = _labelled(drawing, at)
    rows = [
        {
            "x": float(x), "y": float(HEIGHT - y), "name": name, "series": group,
            "label": cut(name) if n in labelled else "", "size": 160 if n == drawing.chosen else 45,
        }
        for n, ((x, y), name, group) in enumerate(zip(at, drawing.names, drawing.groups))
    ]  # fmt: skip
    names = [name for name in dict.fromkeys(drawing.groups) if name != OTHER]
    names += [OTHER] if OTHER in drawing.groups else []
    colour, _, shape = series(sorted(names, key=lambda name: (name == OTHER, _number(name))))
    range_ = shape["scale"]["range"]  # colours repeat after as many groups as shapes do
    shape = shape | {
        "scale": {**shape["scale"], "range": [range_[(n + n // 5) % len(range_)] for n in range(len(range_))]}
    }
    x, y = (
        {"field": field, "type": "quantitative", "axis": None, "scale": {"domain": [0, top]}}
        for field, top in (("x", WIDTH), ("y", HEIGHT))
    )
    size: Spec = {"field": "size", "type": "quantitative", "scale": None, "legend": None}
    said = tips(name="name#", series="largest component#")
    text = {
        "type": "text",
        "align": "left",
        "dx": 7,
        "baseline": "middle",
        "fontSize": 10,
        "color": INK,
        "limit": NAME_PIXELS,
    }
    return finished(
        {
            "width": WIDTH, "height": HEIGHT, "data": plain(rows), "encoding": {"x": x, "y": y},
            "layer": [
                {"mark": {"type": "point", "opacity": 0.85, "strokeWidth": 1.6},
                 "encoding": {"color": colour, "shape": shape, "size": size, "tooltip": said}},
                {"mark": text, "encoding": {"text": {"field": "label", "type": "nominal"}}},
            ],
        }
    )  # fmt: skip


def _number(name: str) -> int:
    first = name.split(":")[0]
    return int(first) if first.isdecimal() else 0


def _labelled(drawing: EntityMap, at: Array) -> set[int]:
    """Points whose labels do not meet another label: the chosen entity, those near it, then those of most links."""
    boxes: list[tuple[float, float, float, float]] = []
    labelled: set[int] = set()
    for n in range(len(at)):
        if len(labelled) >= MAX_LABELS:
            break
        x, y = float(at[n, 0]), float(at[n, 1])
        box = (x, y - LINE / 2, x + 10 + LETTER * min(len(drawing.names[n]), int(NAME_PIXELS / LETTER)), y + LINE / 2)
        if n == drawing.chosen or not any(
            box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in boxes
        ):
            boxes.append(box)
            labelled.add(n)
    return labelled
