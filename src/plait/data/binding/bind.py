"""Binding: data and model to one `Labels` per axis, and every relation as sorted cells, values and
weights, checked once.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.checks import check_data
from plait.data.binding.entries import encode
from plait.data.binding.listing import Listing, ListingRequest, Stream, list_cells
from plait.data.binding.self_links import all_of, refuse_senseless
from plait.data.bound import BoundRelation, Data
from plait.data.dispersion import choose_likelihood
from plait.data.encoding.names import AxisLabels, Labels, Tallied, build
from plait.data.observation.links import LinksInMemory
from plait.data.observation.observed import Rule, observe
from plait.data.observation.structural_zeros import Tables, find_structural_zeros
from plait.data.observation.symmetry import groups_of, mirrored
from plait.data.sources.arrays import ArraySource
from plait.data.sources.coercion import by_relation
from plait.data.sources.relation import AUTO, Relation, Source, as_relation
from plait.data.sources.tables import POLARS
from plait.data.sparse.csf_index import CSFIndex, distinct
from plait.errors import DataError, TableLocation, quoted, suggestion, warn_of
from plait.forked import is_lost
from plait.model.model import Equation, Model


class Elsewhere(Protocol):
    """A relation that is never in memory as a whole."""

    @property
    def entities(self) -> Mapping[str, Labels]:
        """Names of its axes, in the order of its row numbers."""

    def bound(self, equation: Equation, names: Mapping[str, Labels]) -> BoundRelation:
        """The bound relation; `names` starts with those of its axes."""


Begin = Callable[[Relation, str, tuple[str, ...]], Stream | None]


def bind(
    model: Model,
    data: Mapping[str, Any],
    entities: Mapping[str, Sequence[Any]] | None = None,
    *,
    warn: bool = True,
    elsewhere: Mapping[str, Elsewhere] | None = None,
    stream: Begin | None = None,
) -> Data:
    """Read and check all data of a model; `entities` declares entities by axis.

    `warn`: about likely mistakes (`plait.checks`). `elsewhere`: relations that are not in `data`. `stream`: reader of a
    table that need not be in memory; None where it has to be.
    """
    elsewhere = elsewhere or {}
    relations = relations_of(model, data, elsewhere)
    equations = {name: model.equation(name) for name in relations}
    streams: dict[str, Stream] = {}
    sources: dict[str, Source] = {}
    for name, relation in relations.items():
        if stream is not None and (begun := stream(relation, name, equations[name].indices)) is not None:
            streams[name], sources[name] = begun, begun.source
        else:
            sources[name] = relation.read(name, equations[name].indices, groups_of(equations[name]))
    declared = declared_names(model, entities or {})
    names = labels_of(model, sources, declared, _numbered_names(elsewhere))
    sizes = {index: len(names[index]) for index in model.visible}
    bound = {
        name: _bound(relations[name], sources[name], equations[name], names, streams.get(name)) for name in relations
    }
    bound |= {name: one.bound(model.equation(name), names) for name, one in elsewhere.items()}
    bound = {name: bound[name] for name in model.relations}
    result = Data(model, names, sizes, bound, _seen_rows(model, names, bound, declared))
    if warn and not is_lost():  # checks of names use polars
        warn_of(check_data(result, relations, sources))
    return result


def _numbered_names(elsewhere: Mapping[str, Elsewhere]) -> dict[str, Labels]:
    """Names of axes whose rows are numbered already."""
    kept: dict[str, Labels] = {}
    for name, one in elsewhere.items():
        for axis, labels in one.entities.items():
            if axis in kept and kept[axis] != labels:
                raise DataError(
                    f"axis {axis} has different entities than in another packed relation.",
                    location=TableLocation(name),
                    hint="Pack both into one folder: plait.pack(model, data, …).",
                )
            kept[axis] = labels
    return kept


def relations_of(model: Model, data: Mapping[str, Any], elsewhere: Collection[str] = ()) -> dict[str, Relation]:
    """Relations of a model in `data`; the others must be elsewhere."""
    data = by_relation(model, data)
    for name in data:
        if name not in model.relations:
            left = [relation for relation in model.relations if relation not in data]
            raise DataError(
                f"{quoted(name)} is not a relation of the model.",
                hint=f"{suggestion(name, left)}The relations are {', '.join(model.relations)}.",
            )
    for name in model.relations:
        if name not in data and name not in elsewhere:
            raise DataError(
                f"relation {name} has no data.",
                hint=f"Add {name!r} to the data, or remove its equation.",
            )
    return {name: as_relation(name, data[name]).tabled(model, name) for name in model.relations if name in data}


def declared_names(model: Model, entities: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Declared names by axis; keys may be indices or axes."""
    declared: dict[str, Any] = {}
    if not isinstance(entities, Mapping):
        raise DataError(
            f"`entities` must be a dict from axis to names, got {type(entities).__name__}.",
            hint=f'Example: {{{model.visible[0]!r}: ["a", "b"]}}.',
        )
    for index, names in entities.items():
        if index not in model.visible:
            raise DataError(
                f"`entities`: {quoted(index)} is not an axis of the model.",
                hint=f"{suggestion(index, model.visible)}The axes are {', '.join(model.visible) or 'none'}.",
            )
        axis = model.axis(index)
        if axis in declared:
            raise DataError(
                f"`entities` declares axis {axis} twice.",
                hint=f"Declare it once, under {axis!r}.",
            )
        declared[axis] = names
    return declared


def labels_of(
    model: Model,
    sources: Mapping[str, Source],
    declared: Mapping[str, Any],
    kept: Mapping[str, Labels] | None = None,
) -> dict[str, Labels]:
    """Labels by axis, and by every index on it; `kept`: labels that are numbered already and come first."""
    mentions: dict[str, list[AxisLabels | Tallied]] = {axis: [] for axis in model.axes}
    for name, source in sources.items():
        for k, index in enumerate(model.equation(name).indices):
            where = mentions[model.axis(index)]
            if isinstance(source, ArraySource):
                where.append(Tallied(TableLocation(name, index, noun="index"), source.shape[k]))
            else:
                where.append(AxisLabels(TableLocation(name, source.columns[index]), source.labels[index]))
                if index in source.entities:
                    where.append(AxisLabels(TableLocation(name, part="nodes"), source.entities[index]))
    names = {
        axis: build(axis, mentions[axis], declared.get(axis), (kept or {}).get(axis), ordered=axis in model.ordered)
        for axis in model.axes
    }
    return {**names, **{index: names[model.axis(index)] for index in model.visible}}


def _seen_rows(
    model: Model, names: Mapping[str, Labels], bound: Mapping[str, BoundRelation], declared: Mapping[str, Any]
) -> dict[str, NDArray[np.int64]]:
    """Rows with data by visible index, in the order that they would have without declared names."""
    seen = {axis: np.zeros(len(names[axis]), bool) for axis in model.axes}
    arrays = set()
    for relation in bound.values():
        for index in relation.indices:
            seen[model.axis(index)] |= relation.seen.get(index, True)
            arrays |= {model.axis(index)} - {model.axis(i) for i in relation.seen}
    rows = {axis: np.flatnonzero(vector) for axis, vector in seen.items()}
    for axis in rows:
        if axis in declared and axis not in arrays:
            rows[axis] = rows[axis][names[axis].names.gather(rows[axis]).arg_sort().to_numpy()]
    return {
        index: rows[model.axis(index)]
        for index in model.visible
        if not np.array_equal(rows[model.axis(index)], np.arange(len(names[index])))
    }


def _bound(
    relation: Relation, source: Source, equation: Equation, names: Mapping[str, Labels], stream: Stream | None
) -> BoundRelation:
    indices, groups, doubled = equation.indices, groups_of(equation), equation.doubled
    axes, shape = [names[index].axis for index in indices], tuple(len(names[index]) for index in indices)
    refuse_senseless(relation, source.name, axes, doubled)
    missing, put_aside = (
        mirrored(tables, indices, shape, groups) for tables in missing_of(relation, source, indices, names)
    )
    apart = doubled or (((indices[0], indices[1]),) if relation.self_links == "missing" else ())
    covered = together(missing, put_aside, names)
    listing = list_cells(
        ListingRequest(relation, source, indices, names, covered, put_aside, apart, doubled, groups, stream)
    )
    seen, never = listing.seen, listing.diagonal.never(put_aside)
    missing = together(missing, {pair: all_of(len(names[pair[0]])) for pair in apart}, names)
    missing = together(missing, never, names)
    hidden = together(missing, put_aside, names)
    universe = seen if relation.unseen == "missing" else {}
    weight = 1.0 if isinstance(relation.weight, str) else float(relation.weight)
    unlisted = unlisted_weight(relation, source)
    m = observe(
        indices, shape, listing.cells, _own_weights(relation, listing), unlisted, universe, hidden, weight, groups
    )
    listed, values, cell_weights = listing.cells, listing.values, m.listed
    if not (_positive(values) and _positive(cell_weights)):
        positive = (values > 0) & (cell_weights > 0)
        listed = CSFIndex.of(indices, shape, listed.cells()[positive])
        values, cell_weights = values[positive], cell_weights[positive]
    links = LinksInMemory(listed, values, cell_weights)
    likelihood, reason = relation.named_likelihood, relation._likelihood_by
    if likelihood is None:
        likelihood, reason = choose_likelihood(links, m.weights, groups, equation)
    return BoundRelation(
        name=source.name,
        indices=indices,
        shape=shape,
        links=links,
        weights=m.weights,
        likelihood=likelihood,
        likelihood_by=reason,
        observed_cells=m.observed_cells,
        seen=seen,
        summed=listing.summed,
        structural_zeros=find_structural_zeros(m.weights, axes, missing, put_aside),
        rule=Rule(
            unlisted,
            _zero_weight(relation),
            weight,
            relation.unseen,
            listing.diagonal.word,
            bool(apart),
            {index: vector for index, vector in universe.items() if not vector.all()},
            {over: coords for over, coords in hidden.items() if len(over) < len(indices)},
        ),
        columns=dict(relation.columns or {}),
        value=relation.value,
        self_links=listing.diagonal.word,
        open_weight=relation.weight == AUTO,
        groups=groups,
        dropped_self_links=listing.dropped_self_links if doubled else 0,
        kind=POLARS if isinstance(source, ArraySource) else source.kind,
    )


def _positive(numbers: Array) -> bool:
    """Whether all are more than 0."""
    return len(numbers) == 0 or bool(numbers.min() > 0)


def missing_of(
    relation: Relation, source: Source, indices: tuple[str, ...], names: Mapping[str, Labels]
) -> tuple[Tables, Tables]:
    """Coordinates of missing cells, pairs and slices by index set, each once; and of hidden ones."""
    missing = _encoded(relation, relation.read_missing(source.name, indices), indices, names)
    if isinstance(source, ArraySource) and len(source.hidden):
        gaps = distinct(source.hidden, [len(names[index]) for index in indices])
        missing = together(missing, {indices: gaps}, names)
    return missing, _encoded(relation, relation.read_hidden(source.name, indices), indices, names)


def _encoded(
    relation: Relation,
    tables: Sequence[tuple[TableLocation, Mapping[str, Any]]],
    indices: tuple[str, ...],
    names: Mapping[str, Labels],
) -> Tables:
    """Tables of labels as coordinates by index set, in the relation's order."""
    rows: dict[tuple[str, ...], list[AnyArray]] = {}
    for name, labels in tables:
        ordered = {index: labels[index] for index in indices if index in labels}
        rows.setdefault(tuple(ordered), []).append(encode(ordered, names, relation.columns or {}, name))
    return {over: distinct(np.concatenate(parts), [len(names[i]) for i in over]) for over, parts in rows.items()}


def together(some: Tables, more: Tables, names: Mapping[str, Labels]) -> Tables:
    """Union of two sets of coordinates, sorted."""
    common = {
        over: distinct(np.concatenate([coords, more[over]]), [len(names[index]) for index in over])
        for over, coords in some.items()
        if over in more
    }
    return {**some, **more, **common}


def unlisted_weight(relation: Relation, source: Source) -> float:
    """Weight of a cell that is neither listed nor hidden."""
    if isinstance(source, ArraySource) and source.unlisted_missing:
        return 0.0
    if relation.observed == "all":
        return 1.0
    if relation.observed == "listed":
        # A dense array lists its zeros, though they are not stored.
        return 1.0 if isinstance(source, ArraySource) and source.dense else 0.0
    return float(relation.observed)


def _zero_weight(relation: Relation) -> float:
    """Weight of a listed 0: w where zeros weigh w."""
    return 1.0 if isinstance(relation.observed, str) else float(relation.observed)


def _own_weights(relation: Relation, listing: Listing) -> Array:
    """Weight of each listed cell: as given; else 1, or w for a listed 0 where zeros weigh w."""
    if listing.weights is not None:
        return listing.weights
    zero = _zero_weight(relation)
    if zero == 1 or _positive(listing.values):
        return np.broadcast_to(1.0, len(listing.values))
    return np.where(listing.values > 0, 1.0, zero)
