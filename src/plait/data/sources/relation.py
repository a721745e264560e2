"""Relation and Exposure: what a user says about data, and reading those data. Binding to a model is bind.py's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from plait.data.observation.symmetry import Groups
from plait.data.sources.arrays import ArraySource, is_array, is_sparse, read_array
from plait.data.sources.graphs import describe_graph, is_graph, read_graph
from plait.data.sources.tables import TableSource, column_names, is_table, read_missing, read_table
from plait.errors import (
    OF_RELATION,
    DataError,
    Named,
    ParameterError,
    TableLocation,
    quoted,
    refusing_unknown,
    suggestion,
)
from plait.forked import refuse_in_fork
from plait.machine import MAX_NUMBER, MIN_NUMBER, in_range

if TYPE_CHECKING:
    import polars as pl

    from plait.likelihood import Likelihood
    from plait.model.model import Model


Source = TableSource | ArraySource

AUTO = "auto"  # a weight that a fit finds

KINDS = "Give a table (pandas, polars, pyarrow), a NumPy array, a SciPy sparse matrix or a sparse.COO."
OR_GRAPH = " A graph of NetworkX will do, too."


@dataclass(frozen=True, eq=False, repr=False)
class Relation:
    """Data of a relation, and what is known about cells that they do not list.

    data        a table with a column for each index and perhaps one of values; an array, NaN = missing; or a graph of
                NetworkX, all of whose nodes are entities that are observed here
    indices     the indices in the order of the array's dimensions, or of an edge's ends, where it is not the order of
                the equation
    columns     index -> column of the table, where the names differ
    value       the column of values; by default "value" if there is one, else every row is a link of 1. Of a graph the
                edge attribute, by default "weight"
    observed    "all": a cell not listed is an observed 0; "listed": it is missing; a number w: zeros weigh w
    missing     a table or several over any of the indices: cells, pairs or whole slices that are not observed; pairs
                and slices are a rule, so that `top` does not propose links there
    unseen      "missing": an entity that no (unhidden) row mentions is missing here; "zero": it is zeros
    likelihood  "poisson" counts, "bernoulli" links 0 and 1, "negbin" counts with a heavy tail, "tweedie" money and
                durations; or an object of `plait.likelihood`, with given parameters or of one's own
    weight      of the whole relation; a column with the weight of each listed cell; or "auto" (never a column): a fit
                finds the one with which links put aside from the first relation without it are predicted best
    duplicates  of a cell, or of parallel edges: "error" or "sum"
    hidden      like missing, but put aside rather than impossible, such as by `plait.train_test_split`: `top` may
                propose it
    self_links  of two indices on one axis (`friend: user`), where there are no others: "missing" hides all self-links,
                "observed" has them count like other cells; "auto" does if a self-link is among the links, and else
                hides those that are not listed. Between two indices of a factor that stands twice, no self-link is
                ever observed, and those that are listed are dropped
    ignore_columns  columns of the table that are not part of the relation
    strip       whether blanks at both ends of names are not part of them, in missing and hidden too: " cafe" is "cafe"

    Where exchanging two indices leaves the equation as it is (`U[user, r] U[friend, r]`), a pair is one cell, whichever
    way it is written, listed once or both ways; `duplicates` is for pairs with two different values.
    """

    data: Any
    indices: Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    value: str | None = None
    observed: str | float = "all"
    missing: Any = None
    unseen: Literal["missing", "zero"] = "missing"
    likelihood: "str | Mapping[str, Any] | Likelihood" = "poisson"
    weight: float | str = 1.0
    duplicates: str = "error"
    hidden: Any = None
    self_links: Literal["auto", "missing", "observed"] = "auto"
    ignore_columns: Sequence[str] | None = None
    strip: bool = False
    # Not the user's: a table is looked at once to tell it from an array.
    _tabular: bool = field(init=False, repr=False, default=False)
    # Nor this: by index the entities that are observed here whether or not a row mentions them.
    _entities: Mapping[str, "pl.Series"] = field(repr=False, default_factory=dict)
    # Nor this: whose table the user gave, where another was made of it since.
    _kind: str | None = field(repr=False, default=None)

    def __post_init__(self) -> None:
        if isinstance(self.data, Relation):
            raise DataError("plait.Relation of a plait.Relation.", hint="Give the data themselves.")
        tabular = not is_array(self.data) and is_table(self.data)
        object.__setattr__(self, "_tabular", tabular)
        if not tabular and not is_array(self.data) and not is_graph(self.data):
            raise DataError(
                f"a relation cannot be read from {type(self.data).__name__}.",
                hint=f"{KINDS}{OR_GRAPH}",
            )
        for option, known in CHOICES.items():
            _check_choice(option, getattr(self, option), known)
        object.__setattr__(self, "likelihood", _likelihood(self.likelihood))
        _check_observed(self.observed)
        _check_weight(self.weight)
        _check_names(self)
        if not tabular:
            _check_options_of_columns(self)

    @property
    def weight_column(self) -> str | None:
        """The column of weights, where there is one."""
        return self.weight if isinstance(self.weight, str) and self.weight != AUTO else None

    @property
    def missing_tables(self) -> tuple[Any, ...]:
        """The tables of missing cells."""
        return tables_of(self.missing)

    @property
    def hidden_tables(self) -> tuple[Any, ...]:
        """The tables of cells put aside."""
        return tables_of(self.hidden)

    def tabled(self, model: "Model", name: str) -> "Relation":
        """The relation of that name in a model: of a table where it was that of a graph, any other as it is."""
        if not is_graph(self.data):
            return self
        import polars as pl

        refuse_in_fork(f"{name}, a graph")
        indices = model.equation(name).indices
        self.check_indices(name, indices)
        own = tuple(self.indices or indices)
        graph = read_graph(
            self.data,
            name,
            own,
            one_axis=len({model.axis(index) for index in own}) == 1,
            value=self.value,
            duplicates=self.duplicates,
            likelihood=_likelihood(self.likelihood),
        )
        named = {(self.columns or {}).get(index, index): labels for index, labels in zip(own, graph.links)}
        value = "value"
        while value in named:
            value += "_"
        table = pl.DataFrame({**named, value: graph.values})
        return replace(self, data=table, value=value, _entities=dict(zip(own, graph.entities)))

    def read(self, name: Named, indices: Sequence[str], groups: Groups = ()) -> Source:
        """Read the data, no graph; name of the relation for errors, indices as in its equation.

        groups: places of indices whose order says nothing.
        """
        self.check_indices(name, indices)
        if self._tabular:
            source = read_table(
                self.data, name, indices, self.columns or {}, self.value, self.weight_column,
                ignore=tuple(self.ignore_columns or ()), strip=self.strip,
            )  # fmt: skip
            return replace(source, entities=self._entities, kind=self._kind or source.kind)
        own = tuple(self.indices or indices)
        return read_array(self.data, name, len(indices), tuple(own.index(index) for index in indices), groups)

    def _retabled(self, table: "pl.DataFrame", value: str, source: TableSource) -> "Relation":
        """The relation of another table, made of what was read from its own."""
        return replace(self, data=table, value=value, ignore_columns=None, strip=False, _kind=source.kind)

    def read_missing(self, name: Named, indices: Sequence[str]) -> list[tuple[TableLocation, dict[str, "pl.Series"]]]:
        """The missing tables: for each its name in errors, and labels by index."""
        return self._read_tables("missing", self.missing_tables, name, indices)

    def read_hidden(self, name: Named, indices: Sequence[str]) -> list[tuple[TableLocation, dict[str, "pl.Series"]]]:
        """The tables of what is put aside, in the same way."""
        return self._read_tables("hidden", self.hidden_tables, name, indices)

    def _read_tables(
        self, option: str, tables: Sequence[Any], name: Named, indices: Sequence[str]
    ) -> list[tuple[TableLocation, dict[str, "pl.Series"]]]:
        numbers = [None if len(tables) == 1 else k for k in range(len(tables))]
        places = [TableLocation(TableLocation.of(name).name, part=option, number=k) for k in numbers]
        columns = self.columns or {}
        return [(p, read_missing(table, p, indices, columns, self.strip)) for p, table in zip(places, tables)]

    def check_indices(self, name: Named, indices: Sequence[str]) -> None:
        """Refuse what is said of indices that the equation does not have."""
        if self.indices is not None and sorted(self.indices) != sorted(indices):
            raise DataError(
                f"the indices are said to be {', '.join(self.indices)}, but its equation has {', '.join(indices)}.",
                location=TableLocation.of(name),
                hint="Name the same indices, in the order of the array's dimensions.",
            )
        for index in self.columns or {}:
            if index not in indices:
                raise DataError(
                    f"`columns` names {quoted(index)}, which is no index of it.",
                    location=TableLocation.of(name),
                    hint=f"{suggestion(index, indices)}It has {', '.join(indices)}.",
                )

    def __dir__(self) -> list[str]:
        options = {one.name for one in fields(self)}
        return [name for name in super().__dir__() if name.startswith("_") or name in options]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        (_, data), *others = self.facts
        width = max(11, *(len(option) for option, _ in others))
        return "\n  ".join([f"Relation: {data}", *(f"{option:<{width}} {words}" for option, words in others)])

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What it says, option by option, in words; its data first."""
        found = [("data", _described(self.data, self._tabular))]
        if self.indices:
            found.append(("indices", ", ".join(self.indices)))
        if self.columns:
            found.append(("columns", ", ".join(f"{index} = {column}" for index, column in self.columns.items())))
        if self.value is not None:
            found.append(("value", self.value))
        found.append(("observed", observed_words(self.observed)))
        for option, tables in {"missing": self.missing_tables, "hidden": self.hidden_tables}.items():
            if tables:
                found.append((option, f"{len(tables)} table{'' if len(tables) == 1 else 's'} of hidden cells"))
        found += [("unseen", UNSEEN_WORDS[self.unseen]), ("likelihood", str(self.likelihood))]
        if self.self_links != "auto":
            found.append(("self_links", self.self_links))
        if self.weight != 1:
            found.append(("weight", str(self.weight)))
        if self.ignore_columns:
            found.append(("ignore_columns", ", ".join(map(quoted, self.ignore_columns))))
        if self.strip:
            found.append(("strip", "blanks at the ends of names are not part of them"))
        return found

    def _repr_html_(self) -> str:
        from plait.rendering.html import render
        from plait.rendering.objects import describe_relation

        return render(describe_relation(self))


RELATION_OPTIONS = tuple(one.name for one in fields(Relation) if one.init and not one.name.startswith("_"))[1:]
Relation.__init__ = refusing_unknown("plait.Relation", OF_RELATION)(Relation.__init__)  # type: ignore[method-assign]


@dataclass(frozen=True, eq=False)
class Exposure:
    """A given factor over visible indices: a table with index columns and perhaps ``value``, or an array.

    ``default`` is for the cells that a table does not list; without one it must list all.
    """

    table: Any
    default: float | None = None
    columns: Mapping[str, str] | None = None
    value: str | None = None

    def __post_init__(self) -> None:
        if self.default is not None and not _is_weight(self.default):
            raise DataError(
                f"`default` is {self.default!r}.",
                hint=f"An exposure is 0, or from {MIN_NUMBER:g} to {MAX_NUMBER:g}.",
            )
        if is_array(self.table) and not is_sparse(self.table) and self.default is not None:
            raise DataError(
                "an array has every cell, so `default` says nothing.",
                hint="Leave it out.",
            )
        if not is_array(self.table) and not is_table(self.table):
            raise DataError(f"an exposure cannot be read from {type(self.table).__name__}.", hint=KINDS)


def as_relation(name: str, data: Any) -> Relation:
    """The data of a relation as a `Relation`, where they are a bare table or array."""
    if isinstance(data, Relation):
        return data
    try:
        return Relation(data)
    except DataError as error:
        raise error.within(TableLocation(name)) from None


def tables_of(given: Any) -> tuple[Any, ...]:
    """What is one table, several or none, as several."""
    if given is None:
        return ()
    return tuple(given) if isinstance(given, (list, tuple)) else (given,)


CHOICES = {
    "unseen": ("missing", "zero"),
    "duplicates": ("error", "sum"),
    "self_links": ("auto", "missing", "observed"),
}

UNSEEN_WORDS = {
    "missing": "missing: an entity that occurs only elsewhere is missing here",
    "zero": "zero: an entity that occurs only elsewhere is zeros here",
}


def observed_words(observed: str | float) -> str:
    """What ``observed`` means, for printing."""
    if observed == "all":
        return "all: a cell that is not listed is an observed 0"
    if observed == "listed":
        return "listed: a cell that is not listed is missing"
    return f"zeros weigh {observed:g}, links 1"


def _check_choice(option: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        choices = " or ".join(map(repr, known))
        raise DataError(
            f"`{option}` is {value!r}.",
            actual=value,
            hint=f"{suggestion(value, known)}It is {choices}.",
        )


def _likelihood(given: object) -> "Likelihood":
    from plait.likelihood import as_likelihood  # with its compiler, which importing the data layer does without

    try:
        return as_likelihood(given)
    except ParameterError as error:
        raise DataError(error.message, actual=error.actual, hint=error.hint) from None


def _check_observed(observed: object) -> None:
    if isinstance(observed, str):
        if observed not in ("all", "listed"):
            near = suggestion(observed, ("all", "listed"))
            raise DataError(
                f"`observed` is {observed!r}.",
                hint=f"{near}It is 'all', 'listed' or the weight of zeros, 0 to 1.",
            )
    elif not _is_weight(observed) or float(observed) > 1:  # type: ignore[arg-type]
        raise DataError(
            f"`observed` is {observed!r}.",
            hint="As a number it is the weight of zeros, from 0 to 1.",
        )


def _check_weight(weight: object) -> None:
    if not isinstance(weight, str) and not _is_weight(weight):
        raise DataError(
            f"`weight` is {weight!r}.",
            hint=f'It is 0, or from {MIN_NUMBER:g} to {MAX_NUMBER:g}; a column of such numbers; or "auto".',
        )


def _is_weight(value: object) -> bool:
    """Whether this is a number in range."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return number and in_range(float(value))  # type: ignore[arg-type]


def _check_names(relation: Relation) -> None:
    """Refuse a lone string where names or a mapping are wanted."""
    if isinstance(relation.indices, str):
        raise DataError(
            f"`indices` is {relation.indices!r}.",
            actual=relation.indices,
            hint=f"Give a tuple of names: ({relation.indices!r},).",
        )
    if isinstance(relation.ignore_columns, str):
        raise DataError(
            f"`ignore_columns` is {relation.ignore_columns!r}.",
            actual=relation.ignore_columns,
            hint=f"Give a list of columns: [{relation.ignore_columns!r}].",
        )
    if not isinstance(relation.strip, bool):
        raise DataError(
            f"`strip` is {relation.strip!r}.",
            actual=relation.strip,
            hint="It is True or False.",
        )
    if relation.columns is not None and not isinstance(relation.columns, Mapping):
        raise DataError(
            f"`columns` is {relation.columns!r}.",
            hint="Give a dict, index -> column: {'user': 'id'}.",
        )
    for option, tables in {"missing": relation.missing_tables, "hidden": relation.hidden_tables}.items():
        for table in tables:
            if not is_table(table):
                raise DataError(
                    f"`{option}` holds {type(table).__name__}.",
                    hint="Give a table whose columns are some of the indices, or a list of such tables.",
                )


def _check_options_of_columns(relation: Relation) -> None:
    """An option about columns would silently do nothing for an array, or a graph."""
    options = {
        "columns": relation.columns, "value": relation.value, "weight": relation.weight_column,
        "ignore_columns": relation.ignore_columns, "strip": relation.strip or None,
    }  # fmt: skip
    kind = "an array"
    if is_graph(relation.data):
        kind = "a graph"
        del options["value"]  # an attribute of its edges
    for option, value in options.items():
        named = relation.missing_tables or relation.hidden_tables  # whose columns they are
        if value is not None and not (option == "columns" and named):
            raise DataError(
                f"`{option}` is {value!r}, but {kind} has no columns.",
                actual=value,
                hint="Give a table, or omit it.",
            )


def _described(data: Any, tabular: bool) -> str:
    if tabular:
        rows = f"{len(data):,} rows, " if hasattr(data, "__len__") else ""
        return f"table of {rows}columns {', '.join(map(quoted, column_names(data)))}"
    if is_graph(data):
        return describe_graph(data)
    if np.shape(data) == ():
        return "one number"
    shape = " × ".join(map(str, np.shape(data)))
    if is_sparse(data):
        return f"sparse array of {shape}, {data.nnz:,} stored"
    gaps = int(np.isnan(np.asarray(data)).sum()) if np.asarray(data).dtype.kind == "f" else 0
    return f"array of {shape}" + (f", {gaps:,} missing" if gaps else "")
