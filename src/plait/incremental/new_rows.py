"""New rows as cells of a fit: its names with new ones behind them, and the rows checked as those of the fit were."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Array, Rows
from plait.data.binding.entries import Entries, checked, encode, entries_of, refuse_values, settled, without_hidden
from plait.data.binding.self_links import Pairs, without_self_links
from plait.data.encoding.columns import widened
from plait.data.encoding.names import Labels
from plait.data.observation.observed import Rule
from plait.data.observation.structural_zeros import Tables
from plait.data.observation.symmetry import mirrored
from plait.data.sources.arrays import is_array
from plait.data.sources.relation import Relation, as_relation
from plait.data.sources.tables import TableSource, column_names, is_table
from plait.data.sparse.csf_index import distinct
from plait.errors import DataError, ParameterError, TableLocation, quoted, suggestion
from plait.storage.fitted import Fitted

if TYPE_CHECKING:
    import polars as pl


FEW = 1000  # names


@dataclass(frozen=True, eq=False)
class Extension:
    """The names of a fit with new ones behind them, by axis and by index; old: how many there were."""

    entities: Mapping[str, Labels]
    old: Mapping[str, int]

    def new(self, index: str) -> int:
        """How many names of an index are new."""
        return len(self.entities[index]) - self.old[index]


@dataclass(frozen=True, eq=False)
class Fresh:
    """New rows of a relation: listed cells (sorted, each once, by the grown names), their weights (n,), hidden ones.

    mentioned: by index the rows that any of them names.
    """

    relation: str
    entries: Entries
    weights: Array
    hidden: Tables
    mentioned: Mapping[str, Rows]


def read(fit: Fitted, data: Any, what: str) -> tuple[Extension, dict[str, Fresh]]:
    """New rows by relation, checked; what: the call, for errors."""
    relations = _relations(fit, data, what)
    sources = {
        name: relation.read(name, fit.model.equation(name).indices, fit.known[name].groups)
        for name, relation in relations.items()
    }
    growth = _grown(fit, {name: source for name, source in sources.items() if isinstance(source, TableSource)})
    found = {}
    for name, source in sources.items():
        assert isinstance(source, TableSource)
        found[name] = _fresh(fit, growth, relations[name], source)
    return growth, found


def rule_of(fit: Fitted, name: str, what: str) -> Rule:
    """How cells of new entities are observed."""
    rule = fit.known[name].rule
    if rule is None:
        raise ParameterError(
            f"{what}: the run was saved by an earlier version, which did not keep how {name} is observed.",
            hint="Fit again, and save that.",
        )
    return rule


def _relations(fit: Fitted, data: Any, what: str) -> dict[str, Relation]:
    if not isinstance(data, Mapping):
        example = fit.model.relations[0]
        raise DataError(
            f"{what}: wanted rows by relation, got {type(data).__name__}.", hint=f"Give a dict, {{{example!r}: rows}}."
        )
    for name in data:
        if name not in fit.model.relations:
            raise DataError(
                f"{what}: there are rows for {quoted(name)}, which is no relation of the model.",
                hint=f"{suggestion(name, fit.model.relations)}Its relations are {', '.join(fit.model.relations)}.",
            )
    return {name: _relation(fit, name, given, what) for name, given in data.items()}


def _relation(fit: Fitted, name: str, given: Any, what: str) -> Relation:
    """The rows of a relation, read as those of the fit were."""
    known = fit.known[name]
    if isinstance(given, Relation):
        relation = given
        _check_alike(fit, name, relation, rule_of(fit, name, what))
    elif isinstance(given, Mapping) or is_table(given):
        table = _framed(name, given) if isinstance(given, Mapping) else given
        there = column_names(table, name)
        columns = {index: column for index, column in known.columns.items() if column in there}
        relation = Relation(table, columns=columns, value=known.value if known.value in there else None)
    else:
        relation = as_relation(name, given)
    relation = relation.tabled(fit.model, name)
    if is_array(relation.data):
        raise DataError(
            "an array does not say which entities are new.",
            location=TableLocation(name),
            hint=f"Give a table with the columns {', '.join(fit.model.equation(name).indices)}.",
        )
    return relation


def _framed(name: str, columns: Mapping[str, Any]) -> "pl.DataFrame":
    import polars as pl

    try:
        return pl.DataFrame(dict(columns))
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise DataError(
            f"the dict is no table: {error}.",
            location=TableLocation(name),
            hint="Give each index a list of names, all of one length.",
        ) from None


def _check_alike(fit: Fitted, name: str, relation: Relation, rule: Rule) -> None:
    """Refuse what is said of new rows and differs from what holds for all others."""
    observed: dict[Any, float] = {"all": 1.0, "listed": 0.0}
    given = {
        "observed": (relation.observed, "all", observed.get(relation.observed, relation.observed) == rule.unlisted),
        "unseen": (relation.unseen, "missing", relation.unseen == rule.unseen),
        "likelihood": (relation.likelihood, "poisson", relation.likelihood == fit.likelihood[name]),
        "self_links": (relation.self_links, "auto", relation.self_links == rule.self_links),
        "weight": (relation.weight, 1.0, relation.weight_column is not None or relation.weight == rule.weight),
    }
    for option, (value, default, same) in given.items():
        if value != default and not same:
            raise DataError(
                f"`{option}` is {value!s}, which is not what holds for the fit's own rows.",
                location=TableLocation(name),
                actual=str(value),
                hint="Leave it out: new rows are observed as the others are.",
            )


def _grown(fit: Fitted, sources: Mapping[str, TableSource]) -> Extension:
    """The names of every axis, with those that only new rows mention behind them in ascending order."""
    import polars as pl

    labels = dict(fit.entities)
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
            labels[axis] = fit.entities[axis].grown(_once(pl.concat(new)))
    by_index = {index: labels[fit.model.axis(index)] for index in fit.model.visible}
    old = {index: len(fit.entities[index]) for index in (*fit.model.axes, *fit.model.visible)}
    return Extension({**labels, **by_index}, old)


def _once(names: "pl.Series") -> "pl.Series":
    """The names, each once; a few without the threads of polars, which take longer to begin."""
    import polars as pl

    return names.unique() if len(names) > FEW else pl.Series(list(dict.fromkeys(names.to_list())), dtype=names.dtype)


def _cast(new: "pl.Series", labels: Labels, where: TableLocation) -> "pl.Series":
    """New names in the type of those there are."""
    kept = widened(new).cast(labels.names.dtype, strict=False)
    if kept.null_count():
        raise DataError(
            f"{quoted(new.filter(kept.is_null())[0])} is beyond what axis {labels.axis} holds ({labels.names.dtype}).",
            location=where,
            hint="Use other names for new entities.",
        )
    return kept.alias("")


def _fresh(fit: Fitted, growth: Extension, relation: Relation, source: TableSource) -> Fresh:
    """The rows of a relation by number, checked as `bind` checks those of a fit."""
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
    entries, summed = settled(entries, relation.duplicates)
    refuse_values(entries, fit.likelihood[name], summed=summed > 0)
    if not known.links.in_memory:
        _refuse_unlike(entries)
    zero = 1.0 if rule is None else rule.zero
    weights = np.where(entries.values > 0, 1.0, zero) if entries.weights is None else entries.weights
    return Fresh(name, entries, weights, hidden, mentioned)


def _refuse_unlike(entries: Entries) -> None:
    """Links on disk have one weight, and those beside them have it too."""
    unlike = np.zeros(0, bool) if entries.weights is None else (entries.weights != 1) & (entries.values > 0)
    if unlike.any():
        entry = int(np.argmax(unlike))
        assert entries.weights is not None
        raise DataError(
            f"the weight is {entries.weights[entry]:g}, and all links beside blocks on disk weigh the same.",
            location=entries.place(entry, getattr(entries.source, "weight_column", None)),
            hint="Leave the weight out.",
        )


def _mentioned(fit: Fitted, growth: Extension, source: TableSource) -> dict[str, Rows]:
    """By index the rows that a source names, at any index of the same axis."""
    indices = fit.model.equation(source.name).indices
    by_axis: dict[str, list[Rows]] = {}
    for index in indices:
        named = [source.labels[index], *([source.entities[index]] if index in source.entities else [])]
        rows = [growth.entities[index].encode(column) for column in named]
        by_axis.setdefault(fit.model.axis(index), []).extend(rows)
    return {index: np.unique(np.concatenate(by_axis[fit.model.axis(index)])) for index in indices}


def _hidden(relation: Relation, source: TableSource, indices: tuple[str, ...], names: Mapping[str, Labels]) -> Tables:
    """Coordinates of what is missing or put aside by name."""
    found: dict[tuple[str, ...], list[Any]] = {}
    tables = (*relation.read_missing(source.name, indices), *relation.read_hidden(source.name, indices))
    for place, labels in tables:
        ordered = {index: labels[index] for index in indices if index in labels}
        found.setdefault(tuple(ordered), []).append(encode(ordered, names, relation.columns or {}, place))
    return {over: distinct(np.concatenate(parts), [len(names[i]) for i in over]) for over, parts in found.items()}
