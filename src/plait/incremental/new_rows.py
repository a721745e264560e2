"""New rows as cells of a fit: names extended by new ones, rows checked as in binding."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Array, Rows
from plait.data.binding.entries import (
    Entries,
    checked,
    encode,
    entries_of,
    merge_duplicates,
    refuse_values,
    without_hidden,
)
from plait.data.binding.given import Exposures
from plait.data.binding.self_links import Pairs, without_self_links
from plait.data.encoding.columns import widened
from plait.data.encoding.names import Labels
from plait.data.encoding.periods import later_periods
from plait.data.observation.observed import Rule
from plait.data.observation.structural_zeros import Tables
from plait.data.observation.symmetry import mirrored
from plait.data.sources.arrays import is_array
from plait.data.sources.coercion import as_table, by_relation
from plait.data.sources.relation import AUTO, Relation, as_relation
from plait.data.sources.tables import TableSource, column_names, is_table
from plait.data.sparse.csf_index import distinct
from plait.errors import DataError, ParameterError, TableLocation, quoted, suggestion
from plait.incremental.new_exposures import extend_exposures
from plait.storage.fitted import Fitted

if TYPE_CHECKING:
    import polars as pl

MAX_PLAIN_NAMES = 1000  # below, Python is faster than starting the threads of polars


@dataclass(frozen=True, eq=False)
class Extension:
    """Names of a fit followed by new ones, by axis and by index; `old`: number of old ones.

    `exposures`: those of all entities.
    """

    entities: Mapping[str, Labels]
    old: Mapping[str, int]
    exposures: Exposures

    def new(self, index: str) -> int:
        """Number of new names of an index."""
        return len(self.entities[index]) - self.old[index]


@dataclass(frozen=True, eq=False)
class Fresh:
    """New rows of a relation: listed cells (sorted, each once, by the extended names), their weights (n,), hidden ones.

    `mentioned`: rows that any of them names, by index.
    """

    relation: str
    entries: Entries
    weights: Array
    hidden: Tables
    mentioned: Mapping[str, Rows]


def read(
    fit: Fitted, data: Any, what: str, fixed: Mapping[str, Any] | None = None
) -> tuple[Extension, dict[str, Fresh]]:
    """New rows by relation, and of exposures (`fixed`), checked; `what`: the call, for errors."""
    relations = _relations(fit, data, what)
    sources = {
        name: relation.read(name, fit.model.equation(name).indices, fit.known[name].groups)
        for name, relation in relations.items()
    }
    tables = {name: source for name, source in sources.items() if isinstance(source, TableSource)}
    growth = extension(fit, _extended_names(fit, tables), fixed, what)
    cells = {}
    for name, source in sources.items():
        assert isinstance(source, TableSource)
        cells[name] = _fresh(fit, growth, relations[name], source)
    return growth, cells


def rule_of(fit: Fitted, name: str, what: str) -> Rule:
    """Observation of cells of new entities."""
    rule = fit.known[name].rule
    if rule is None:
        raise ParameterError(
            f"{what}: the run was saved by an earlier version of Plait, which lacks the observation weights of {name}.",
            hint="Fit again and save the new run.",
        )
    return rule


def _relations(fit: Fitted, data: Any, what: str) -> dict[str, Relation]:
    data = by_relation(fit.model, data, what)
    for name in data:
        if name not in fit.model.relations:
            raise DataError(
                f"{what}: {quoted(name)} is not a relation of the model.",
                hint=f"{suggestion(name, fit.model.relations)}The relations are {', '.join(fit.model.relations)}.",
            )
    return {name: _relation(fit, name, given, what) for name, given in data.items()}


def _relation(fit: Fitted, name: str, given: Any, what: str) -> Relation:
    """Rows of a relation, read with the options of the fit."""
    known = fit.known[name]
    if isinstance(given, Relation):
        relation = given
        _check_alike(fit, name, relation, rule_of(fit, name, what))
    elif is_table(table := as_table(given, name)):
        there = column_names(table, name)
        columns = {index: column for index, column in known.columns.items() if column in there}
        relation = Relation(table, columns=columns, value=known.value if known.value in there else None)
    else:
        relation = as_relation(name, table)
    relation = relation.tabled(fit.model, name)
    if is_array(relation.data):
        raise DataError(
            "expected a table, got an array, which has no names of new entities.",
            location=TableLocation(name),
            hint=f"Give a table with the columns {', '.join(fit.model.equation(name).indices)}.",
        )
    return relation


def _check_alike(fit: Fitted, name: str, relation: Relation, rule: Rule) -> None:
    """Refuse options of new rows that differ from those of the fit."""
    observed: dict[Any, float] = {"all": 1.0, "listed": 0.0}
    given = {
        "observed": (relation.observed, "all", observed.get(relation.observed, relation.observed) == rule.unlisted),
        "unseen": (relation.unseen, "missing", relation.unseen == rule.unseen),
        "likelihood": (relation.likelihood, AUTO, relation.likelihood == fit.likelihood[name]),
        "self_links": (relation.self_links, "auto", relation.self_links == rule.self_links),
        "weight": (relation.weight, 1.0, relation.weight_column is not None or relation.weight == rule.weight),
    }
    for option, (value, default, same) in given.items():
        if value != default and not same:
            raise DataError(
                f"`{option}` is {value!s}, which differs from the data of the fit.",
                location=TableLocation(name),
                actual=str(value),
                hint="Remove it; new rows have the settings of the fit.",
            )


def extension(fit: Fitted, axes: Mapping[str, Labels], fixed: Mapping[str, Any] | None, what: str) -> Extension:
    """The names of every axis, old ones first, for its indices too."""
    entities = {**axes, **{index: axes[fit.model.axis(index)] for index in fit.model.visible}}
    old = {index: len(fit.entities[index]) for index in (*fit.model.axes, *fit.model.visible)}
    return Extension(entities, old, extend_exposures(fit, entities, fixed, what))


def _extended_names(fit: Fitted, sources: Mapping[str, TableSource]) -> dict[str, Labels]:
    """Names of every axis, followed by those of new rows in ascending order."""
    import polars as pl

    labels = {axis: fit.entities[axis] for axis in fit.model.axes}
    for axis in fit.model.axes:
        new: list[pl.Series] = []
        for name, source in sources.items():
            for index in (i for i in fit.model.equation(name).indices if fit.model.axis(i) == axis):
                where = TableLocation(name, source.columns[index])
                columns = [source.labels[index], *([source.entities[index]] if index in source.entities else [])]
                for column in columns:
                    rows = fit.entities[axis].encode(column, where=where, unknown="mark")
                    if (rows < 0).any():
                        new.append(_cast(column.filter(rows < 0), fit.entities[axis], where))
        if new:
            names = _once(pl.concat(new))
            if axis in fit.model.ordered:
                names = later_periods(axis, fit.entities[axis].names, names)
            labels[axis] = fit.entities[axis].extended(names)
    return labels


def _once(names: "pl.Series") -> "pl.Series":
    """Distinct names; few of them without the threads of polars."""
    import polars as pl

    return (
        names.unique()
        if len(names) > MAX_PLAIN_NAMES
        else pl.Series(list(dict.fromkeys(names.to_list())), dtype=names.dtype)
    )


def _cast(new: "pl.Series", labels: Labels, where: TableLocation) -> "pl.Series":
    """New names in the type of the old ones."""
    kept = widened(new).cast(labels.names.dtype, strict=False)
    if kept.null_count():
        raise DataError(
            f"{quoted(new.filter(kept.is_null())[0])} does not fit into the type of axis {labels.axis} "
            f"({labels.names.dtype}).",
            location=where,
            hint="Use other names for new entities.",
        )
    return kept.alias("")


def _fresh(fit: Fitted, growth: Extension, relation: Relation, source: TableSource) -> Fresh:
    """Row numbers of a relation's rows, checked as in `bind`."""
    name = source.name
    equation, known, rule = fit.model.equation(name), fit.known[name], fit.known[name].rule
    indices, names = equation.indices, growth.entities
    shape = tuple(len(names[index]) for index in indices)
    entries = entries_of(source, indices, names)
    mentioned = _mentioned(fit, growth, source)
    hidden = mirrored(_hidden(relation, source, indices, names), indices, shape, known.groups)
    entries = without_hidden(entries, hidden)
    apart: Pairs = equation.doubled or (((indices[0], indices[1]),) if rule is not None and rule.apart else ())
    entries, _ = without_self_links(entries, apart)
    entries = checked(entries).in_one_way(known.groups)
    entries, summed = merge_duplicates(entries, relation.duplicates)
    refuse_values(entries, fit.likelihood[name], summed=summed > 0)
    if not known.links.in_memory:
        _refuse_unlike(entries)
    zero = 1.0 if rule is None else rule.zero
    weights = np.where(entries.values > 0, 1.0, zero) if entries.weights is None else entries.weights
    return Fresh(name, entries, weights, hidden, mentioned)


def _refuse_unlike(entries: Entries) -> None:
    """Refuse other weights than the single one of links on disk."""
    unlike = np.zeros(0, bool) if entries.weights is None else (entries.weights != 1) & (entries.values > 0)
    if unlike.any():
        entry = int(np.argmax(unlike))
        assert entries.weights is not None
        raise DataError(
            f"the weight is {entries.weights[entry]:g}, but links next to blocks on disk must have equal weights.",
            location=entries.place(entry, getattr(entries.source, "weight_column", None)),
            hint="Remove the weight.",
        )


def _mentioned(fit: Fitted, growth: Extension, source: TableSource) -> dict[str, Rows]:
    """Rows that a source names, by index, at any index of the same axis."""
    indices = fit.model.equation(source.name).indices
    by_axis: dict[str, list[Rows]] = {}
    for index in indices:
        named = [source.labels[index], *([source.entities[index]] if index in source.entities else [])]
        rows = [growth.entities[index].encode(column) for column in named]
        by_axis.setdefault(fit.model.axis(index), []).extend(rows)
    return {index: np.unique(np.concatenate(by_axis[fit.model.axis(index)])) for index in indices}


def _hidden(relation: Relation, source: TableSource, indices: tuple[str, ...], names: Mapping[str, Labels]) -> Tables:
    """Coordinates of missing and hidden cells."""
    by_indices: dict[tuple[str, ...], list[Any]] = {}
    tables = (*relation.read_missing(source.name, indices), *relation.read_hidden(source.name, indices))
    for place, labels in tables:
        ordered = {index: labels[index] for index in indices if index in labels}
        by_indices.setdefault(tuple(ordered), []).append(encode(ordered, names, relation.columns or {}, place))
    return {over: distinct(np.concatenate(parts), [len(names[i]) for i in over]) for over, parts in by_indices.items()}
