"""Target of a split: the relation to split, read and bound as by `plait.fit`, with or without a model; and its column
of times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Rows
from plait.data.binding.bind import bind
from plait.data.bound import BoundRelation, Data
from plait.data.observation.symmetry import canonical
from plait.data.sources.coercion import by_relation, is_of_columns, refuse_ambiguous
from plait.data.sources.implicit_model import own_indices, plain_model, refuse_perhaps_values
from plait.data.sources.relation import Relation, as_relation
from plait.data.sources.tables import TableSource, frame_of, is_table
from plait.data.sparse.keys import columns_of, find, pack_pair
from plait.errors import DataError, ParameterError, TableLocation, quoted, suggestion
from plait.model import Model


def take_times(relation: Relation, name: str, time: str, used: tuple[str, ...] | None) -> tuple[Relation, Rows]:
    """The relation without its column of times, and the times of its rows as integers in order.

    `used`: columns that the relation needs, one of which may be the time; None: all others.
    """
    if not is_table(relation.data):
        raise DataError(
            "`time` requires a table.",
            location=TableLocation.of(name),
            hint="Give a table with a column of times.",
        )
    frame = frame_of(relation.data, name)
    if time not in frame.columns:
        raise DataError(
            f"there is no column {quoted(time)}; the table has {', '.join(map(quoted, frame.columns))}.",
            location=TableLocation.of(name),
            hint=f"{suggestion(time, frame.columns)}Set `time` to the column of times.",
        )
    times = _in_order(frame.get_column(time), TableLocation(name, time))
    if used is not None and time in used:
        return relation, times
    ignore = [column for column in relation.ignore_columns or () if column != time]
    return replace(relation, data=frame.drop(time).to_native(), ignore_columns=ignore or None), times


def _in_order(column: Any, where: TableLocation) -> Rows:
    """Comparable times of any type, as integers."""
    series = column.to_polars()
    missing = series.is_null() | (series.is_nan() if series.dtype.is_float() else False)
    if missing.any():
        row = int(missing.arg_max())
        raise DataError("the time is missing.", location=where.at(row=row), hint="Add a time, or remove the row.")
    return np.asarray(series.rank("dense").to_numpy(), np.int64)


def times_at(target: "SplitTarget", cells: AnyArray) -> Rows:
    """Times of listed cells (n, order), (n,)."""
    bound, times = target.bound, target.times
    source = target.relation.read(target.name, bound.indices)
    assert isinstance(source, TableSource)
    assert times is not None
    labels = target.data.entities
    rows = np.stack([labels[index].encode(source.labels[index]) for index in bound.indices], axis=1)
    rows = canonical(rows, bound.groups)
    mine, theirs = pack_pair(columns_of(cells), columns_of(rows), bound.shape, (len(cells), len(rows)))
    order = np.lexsort((times, theirs))
    keys, first = np.unique(theirs[order], return_index=True)
    last = np.append(first[1:], len(order)) - 1
    at, _ = find(mine, keys)
    earliest, latest = times[order[first[at]]], times[order[last[at]]]
    if (earliest != latest).any():
        cell = cells[int(np.argmax(earliest != latest))]
        named = ", ".join(f"{i}={quoted(labels[i][int(row)])}" for i, row in zip(bound.indices, cell))
        raise DataError(
            f"{named} has rows with different times, but a cell is held out as a whole.",
            location=TableLocation.of(target.name),
            hint="Give one row per cell, with the sum of the values and one time, such as the first.",
        )
    return np.asarray(latest)


@dataclass(frozen=True, eq=False)
class SplitTarget:
    """The relation to split, and those passed with it.

    `given`: the dict that was passed, None for a single relation; `relations`: by name; `data`: all of them bound. The
    model of `data` has the user's equations, which show undirected relations; without a model it only has the indices.
    `times`: of the rows of the relation to split, if it has such a column.
    """

    name: str
    given: Mapping[str, Any] | None
    relations: Mapping[str, Relation]
    data: Data
    times: NDArray[np.int64] | None = None

    @property
    def relation(self) -> Relation:
        return self.relations[self.name]

    @property
    def bound(self) -> BoundRelation:
        return self.data.relations[self.name]

    def rebound(self, name: str, relation: Relation) -> BoundRelation:
        """A changed relation, bound to the same labels."""
        model = _submodel(self.data.model, [name])
        labels: dict[str, Any] = {axis: self.data.entities[axis].names for axis in model.axes}
        relation = _bindable(relation, self.data.relations[name].self_links)
        return bind(model, {name: relation}, entities=labels, warn=False).relations[name]


def read_split_target(
    data: Any,
    relation: str | None,
    model: Model | str | None,
    labels: Mapping[str, Sequence[Any]] | None,
    time: str | None = None,
) -> SplitTarget:
    """Read the data: one relation, or a dict of them of which `relation` names one; `time`: a column of that one."""
    model = Model(model) if isinstance(model, str) else model
    if model is not None and not isinstance(model, Model):
        raise ParameterError(
            f"`model` must be a plait.Model or its equations, got {type(model).__name__}.",
        )
    if relation is not None and not isinstance(relation, str):
        raise ParameterError.must_be(
            "relation",
            "the name of a relation",
            type(relation),
            hint="Give the data first: `train_test_split(data, model=…)`.",
        )
    given = _relations_of(data, model)
    name = _name_of_relation(given, relation, model)
    relations = {key: as_relation(key, value) for key, value in (given or {name: data}).items()}
    times = None
    if time is not None:
        relations[name], times = take_times(relations[name], name, time, _used(name, relations[name], model))
    indices = {
        key: own_indices(key, value) if model is None else model.equation(key).indices
        for key, value in relations.items()
    }
    axes = {i: i if model is None else model.axis(i) for own in indices.values() for i in own}
    own = plain_model(indices, axes) if model is None else _submodel(model, list(relations))
    if model is None:
        relations = {key: _without_doubt(key, value, indices[key]) for key, value in relations.items()}
    relations = {key: value.tabled(own, key) for key, value in relations.items()}
    known = {key: _bindable(r, model is not None) for key, r in relations.items()}
    bound = bind(own, known, entities=_declared(labels, axes, model), warn=False)  # the fit will warn
    resolved = {key: _resolved(r, bound.relations[key], model) for key, r in relations.items()}
    return SplitTarget(name, given, resolved, bound, times)


def _relations_of(data: Any, model: Model | None) -> Mapping[str, Any] | None:
    """The dict of relations that came in; None for a single relation, which may be a dict of columns."""
    if isinstance(data, np.ndarray) and model is not None and len(model.relations) == 1:
        refuse_ambiguous(data, len(model.equations[0].indices), "data")
    if not isinstance(data, Mapping) or is_table(data):
        return None
    columns = is_of_columns(data) if model is None else by_relation(model, data) is not data
    return None if columns else data


def _without_doubt(name: str, relation: Relation, indices: tuple[str, ...]) -> Relation:
    """The relation of a table with explicit indices, for later splits of the rest."""
    if not is_table(relation.data):
        return relation
    refuse_perhaps_values(name, relation, indices)
    return relation if relation.value is not None or len(indices) < 3 else replace(relation, indices=indices)


def _resolved(relation: Relation, bound: BoundRelation, model: Model | None) -> Relation:
    """The relation with what all its data decide: a split may hide every self-link, or every large value."""
    if bound.self_links == "observed":
        relation = replace(relation, self_links="observed")
    is_sure = model is not None or bound.likelihood != "poisson"  # factors decide whether counts are too uneven
    if relation.named_likelihood is None and is_sure:
        relation = replace(relation, likelihood=bound.likelihood, _likelihood_by=bound.likelihood_by)
    return relation


def _bindable(relation: Relation, has_diagonal: object) -> Relation:
    """The relation without `self_links` where no axes are shared; only a model declares that."""
    return relation if has_diagonal else replace(relation, self_links="auto")


def _used(name: str, relation: Relation, model: Model | None) -> tuple[str, ...] | None:
    """Columns that a relation declares; None where all columns of its table are used."""
    columns = relation.columns or {}
    own = relation.indices if model is None else model.equation(name).indices
    said = tuple(columns.values()) if own is None else tuple(columns.get(index, index) for index in own)
    return (*said, *(column for column in (relation.value, relation.weight_column) if column is not None))


def _name_of_relation(data: Mapping[str, Any] | None, relation: str | None, model: Model | None) -> str:
    """Name of the relation to split."""
    known = list(data) if data is not None else list(model.relations) if model is not None else []
    if relation is None and len(known) > 1:
        raise ParameterError(
            f"`relation` is missing; the relations are {', '.join(known)}.",
            hint=f"Example: `relation={str(known[0])!r}`.",
        )
    if relation is None:
        return known[0] if known else "data"
    if known and relation not in known:
        raise ParameterError(
            f"`relation`: there are no data for {relation!r}.",
            hint=f"{suggestion(relation, known)}The relations are {', '.join(map(str, known))}.",
        )
    return relation


def _submodel(model: Model, relations: Sequence[str]) -> Model:
    """The equations of some relations, and which of their indices share an axis."""
    equations = [model.equation(name) for name in model.relations if name in relations]
    first: dict[str, str] = {}
    used = dict.fromkeys(index for equation in equations for index in equation.indices)
    declared = [f"{i}: {first[model.axis(i)]}" for i in used if first.setdefault(model.axis(i), i) != i]
    return Model("\n".join([*map(str, equations), *declared]))


def _declared(
    labels: Mapping[str, Sequence[Any]] | None, axes: Mapping[str, str], model: Model | None
) -> Mapping[str, Sequence[Any]] | None:
    """Declared names under an index that some relation has; axes that none has are of no concern here."""
    if model is None or not isinstance(labels, Mapping):
        return labels
    declared: dict[str, Sequence[Any]] = {}
    for index, names in labels.items():
        if index not in model.visible:
            declared[index] = names  # bind raises the error
            continue
        here = [other for other, axis in axes.items() if axis == model.axis(index)]
        if here:
            declared[here[0]] = names
    return declared
