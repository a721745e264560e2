"""`Relation` and `Exposure`: data with options, and how they are read. `binding` ties them to a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from plait.data.observation.symmetry import Groups
from plait.data.sources.arrays import ArraySource, is_array, is_sparse, read_array
from plait.data.sources.coercion import as_table, check_rows, is_rows, named_table
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

AUTO = "auto"  # a weight chosen by the fit, or a likelihood chosen from the values

KINDS = "Give a table (pandas, polars, pyarrow), a NumPy array, a SciPy sparse matrix or a sparse.COO."
MORE_KINDS = " A dict of columns, a list of tuples, a path or a graph of NetworkX is also possible."


@dataclass(frozen=True, eq=False, repr=False)
class Relation:
    """Data of one relation, and how to interpret cells that they do not list.

    Parameters
    ----------
    data : table, dict of columns, list of tuples, path, array or networkx.Graph
        A table with one column per index and, optionally, one of values; an array, in which
        NaN is missing; or a graph, whose nodes are all observed. A dict of columns, a list of
        tuples (the indices in order and, optionally, a value), a tuple of NumPy arrays as
        ``np.nonzero`` returns and the path of a file are read as tables.
    indices : sequence of str, default None
        Index of each dimension of an array, or of each end of an edge. The default is the
        order of the equation.
    columns : dict of str to str, default None
        Column of each index, where the names differ.
    value : str, default None
        Column of values, or edge attribute of a graph. The default is ``"value"`` (graph:
        ``"weight"``) if it exists; otherwise every row is a link with value 1.
    observed : float or one of "all", "listed", default "all"
        ``"all"``: a cell that is not listed is an observed 0. ``"listed"``: it is missing.
        A number from 0 to 1: it is an observed 0 with this weight.
    missing : table or list of tables, default None
        Cells, pairs or whole slices that are not observed. The columns are some of the
        indices. `Fit.top` does not propose links in missing pairs and slices.
    unseen : one of "missing", "zero", default "missing"
        Cells of an entity that occurs only in other relations.
    likelihood : str or dict or plait.likelihood.Likelihood, default "auto"
        ``"poisson"``: counts. ``"bernoulli"``: links 0 and 1. ``"negbin"``: counts with a
        heavy tail. ``"tweedie"``: amounts such as money or durations. ``"auto"`` chooses one
        of these from the values. See Notes.
    weight : float or str, default 1.0
        Weight of the whole relation, or a column with the weight of each listed cell.
        ``"auto"`` chooses the weight that best predicts held-out links of the first relation
        with a given weight.
    duplicates : one of "error", "sum", default "error"
        What to do with a cell that is listed twice, and with parallel edges.
    hidden : table or list of tables, default None
        Held-out cells, such as the test table of `plait.train_test_split`; its values are
        not read. They are not observed, and `Fit.top` may propose them.
    self_links : one of "auto", "missing", "observed", default "auto"
        Cells of an entity with itself, for two indices with the same entities. ``"auto"``
        observes them if the data contain a self-link; otherwise they are missing. See Notes.
    ignore_columns : sequence of str, default None
        Columns of the table that are not part of the relation.
    strip : bool, default False
        Whether to remove blanks at both ends of names.

    Raises
    ------
    plait.errors.DataError
        If the data cannot be read, or an option is wrong or does not apply to them.

    Notes
    -----
    In an undirected relation, ``friends[a, b] = U[a, r] U[b, r]``, a pair is one cell. It may
    be listed once or in both orders; ``duplicates`` applies to pairs with two different
    values. Self-links of such a relation are never observed.

    With further indices, self-links are observed unless ``missing`` lists them. ``"observed"``
    makes all of them candidates of `Fit.top` and `plait.evaluate`, ``"auto"`` those of slices
    with a self-link or with fewer than 20 links.

    ``likelihood="auto"`` is ``"bernoulli"`` if all values are 0 or 1, or there is no column
    of values; ``"tweedie"`` if some are not whole; ``"negbin"`` for counts that are larger or
    more uneven than a Poisson likelihood can explain; and ``"poisson"`` for other counts.
    It is chosen when the data are read; splits, `Fit.update`, `Fit.fold_in` and resumed runs
    keep it. ``print(fit)`` shows it with the reason.

    Guide: <https://tensorplait.github.io/tensorplait/missing.html>.

    Examples
    --------
    >>> links = visits.select("user", "place")
    >>> relation = plait.Relation(links, likelihood="bernoulli", observed=0.5)
    >>> fit = plait.fit(model, {"visits": relation}, **quick)
    >>> fit.likelihood["visits"] == "bernoulli"
    True
    """

    data: Any
    indices: Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    value: str | None = None
    observed: str | float = "all"
    missing: Any = None
    unseen: Literal["missing", "zero"] = "missing"
    likelihood: "str | Mapping[str, Any] | Likelihood" = AUTO
    weight: float | str = 1.0
    duplicates: str = "error"
    hidden: Any = None
    self_links: Literal["auto", "missing", "observed"] = "auto"
    ignore_columns: Sequence[str] | None = None
    strip: bool = False
    # Internal: whether the data are a table, cached.
    _tabular: bool = field(init=False, repr=False, default=False)
    # Internal: entities by index that are observed here even without a row.
    _entities: Mapping[str, "pl.Series"] = field(repr=False, default_factory=dict)
    # Internal: library of the user's table, where another was made from it.
    _kind: str | None = field(repr=False, default=None)
    # Internal: reason of a likelihood that was chosen from values of which these are a part.
    _likelihood_by: str = field(repr=False, default="")

    def __post_init__(self) -> None:
        if isinstance(self.data, Relation):
            raise DataError("`data` must be a table or an array, got a plait.Relation.", hint="Give the table itself.")
        object.__setattr__(self, "data", as_table(self.data))
        tabular = not is_array(self.data) and is_table(self.data)
        object.__setattr__(self, "_tabular", tabular)
        if not tabular and not is_array(self.data) and not is_graph(self.data) and not is_rows(self.data):
            raise DataError(
                f"the data of a relation must be a table or an array, got {type(self.data).__name__}.",
                hint=f"{KINDS}{MORE_KINDS}",
            )
        check_rows(self.data)
        for option, known in CHOICES.items():
            _check_choice(option, getattr(self, option), known)
        if not (isinstance(self.likelihood, str) and self.likelihood == AUTO):
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
    def named_likelihood(self) -> "Likelihood | None":
        """The likelihood; None where the values decide."""
        return None if isinstance(self.likelihood, str) else cast("Likelihood", self.likelihood)

    @property
    def missing_tables(self) -> tuple[Any, ...]:
        """The tables of missing cells."""
        return tables_of(self.missing)

    @property
    def hidden_tables(self) -> tuple[Any, ...]:
        """The tables of hidden cells."""
        return tables_of(self.hidden)

    def tabled(self, model: "Model", name: str) -> "Relation":
        """The relation of that name in a model, of a table where it was that of a graph or of rows."""
        if not is_graph(self.data):
            return self.with_names(name, model.equation(name).indices)
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
            likelihood=self.named_likelihood,
        )
        named = {(self.columns or {}).get(index, index): labels for index, labels in zip(own, graph.links)}
        value = "value"
        while value in named:
            value += "_"
        table = pl.DataFrame({**named, value: graph.values})
        return replace(self, data=table, value=value, _entities=dict(zip(own, graph.entities)))

    def with_names(self, name: Named, indices: Sequence[str]) -> "Relation":
        """The relation of a table, where its data were rows or coordinates without names of columns."""
        if self._tabular:
            return self
        if is_rows(self.data):
            self.check_indices(name, indices)
        named = named_table(self.data, self.indices or indices, name)
        if named is None:
            return self
        table, value = named
        columns = {index: (self.columns or {}).get(index, index) for index in self.indices or indices}
        return replace(self, data=table.rename(columns), value=value)

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
        """The relation with another table, made from its own rows."""
        return replace(self, data=table, value=value, ignore_columns=None, strip=False, _kind=source.kind)

    def read_missing(self, name: Named, indices: Sequence[str]) -> list[tuple[TableLocation, dict[str, "pl.Series"]]]:
        """The missing tables: for each its name in errors, and labels by index."""
        return self._read_tables("missing", self.missing_tables, name, indices)

    def read_hidden(self, name: Named, indices: Sequence[str]) -> list[tuple[TableLocation, dict[str, "pl.Series"]]]:
        """The tables of hidden cells, in the same way."""
        return self._read_tables("hidden", self.hidden_tables, name, indices)

    def _read_tables(
        self, option: str, tables: Sequence[Any], name: Named, indices: Sequence[str]
    ) -> list[tuple[TableLocation, dict[str, "pl.Series"]]]:
        numbers = [None if len(tables) == 1 else k for k in range(len(tables))]
        places = [TableLocation(TableLocation.of(name).name, part=option, number=k) for k in numbers]
        columns = self.columns or {}
        values = ("value", self.value) if option == "hidden" else ()  # those of the test of a split
        return [(p, read_missing(table, p, indices, columns, self.strip, values)) for p, table in zip(places, tables)]

    def check_indices(self, name: Named, indices: Sequence[str]) -> None:
        """Refuse settings of indices that the equation does not have."""
        if self.indices is not None and sorted(self.indices) != sorted(indices):
            raise DataError(
                f"`indices` are {', '.join(self.indices)}, but the equation has {', '.join(indices)}.",
                location=TableLocation.of(name),
                hint="Give the indices of the equation, in the order of the array's dimensions.",
            )
        for index in self.columns or {}:
            if index not in indices:
                raise DataError(
                    f"`columns`: {quoted(index)} is not an index of the relation.",
                    location=TableLocation.of(name),
                    hint=f"{suggestion(index, indices)}The indices are {', '.join(indices)}.",
                )

    def __dir__(self) -> list[str]:
        return [option.name for option in fields(self) if not option.name.startswith("_")]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        (_, data), *others = self.facts
        width = max(11, *(len(option) for option, _ in others))
        return "\n  ".join([f"Relation: {data}", *(f"{option:<{width}} {words}" for option, words in others)])

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What it says, option by option, in words; its data first."""
        facts = [("data", _described(self.data, self._tabular))]
        if self.indices:
            facts.append(("indices", ", ".join(self.indices)))
        if self.columns:
            facts.append(("columns", ", ".join(f"{index} = {column}" for index, column in self.columns.items())))
        if self.value is not None:
            facts.append(("value", self.value))
        facts.append(("observed", observed_words(self.observed)))
        for option, tables in {"missing": self.missing_tables, "hidden": self.hidden_tables}.items():
            if tables:
                facts.append((option, f"{len(tables)} table{'' if len(tables) == 1 else 's'} of hidden cells"))
        facts += [("unseen", UNSEEN_WORDS[self.unseen]), ("likelihood", str(self.likelihood))]
        if self.self_links != "auto":
            facts.append(("self_links", self.self_links))
        if self.weight != 1:
            facts.append(("weight", str(self.weight)))
        if self.ignore_columns:
            facts.append(("ignore_columns", ", ".join(map(quoted, self.ignore_columns))))
        if self.strip:
            facts.append(("strip", "blanks at the ends of names are removed"))
        return facts

    def _repr_html_(self) -> str:
        from plait.rendering.html import render
        from plait.rendering.objects import describe_relation

        return render(describe_relation(self))


RELATION_OPTIONS = tuple(one.name for one in fields(Relation) if one.init and not one.name.startswith("_"))[1:]
Relation.__init__ = refusing_unknown("plait.Relation", OF_RELATION)(Relation.__init__)  # type: ignore[method-assign]


@dataclass(frozen=True, eq=False)
class Exposure:
    """Given factor over visible indices, such as an observation time per cell.

    Parameters
    ----------
    table : table or array
        A table with one column per index and, optionally, one of values; or an array.
    default : float, default None
        Value of the cells that a table does not list. Without it a table must list all.
    columns : dict of str to str, default None
        Column of each index, where the names differ.
    value : str, default None
        Column of values. The default is ``"value"`` if it exists; otherwise every row is 1.

    Raises
    ------
    plait.errors.DataError
        If the table cannot be read or ``default`` does not apply.

    Examples
    --------
    >>> users = ["ann", "bob", "cem", "dee", "eva"]
    >>> days = pl.DataFrame({"user": users, "value": [9, 7, 8, 5, 6]})
    >>> model = "visits[user, place] = E[user] U[user, r] P[place, r]"
    >>> given = {"E": plait.Exposure(days)}
    >>> fit = plait.fit(model, {"visits": visits}, fixed=given, **quick)
    >>> sorted(fit.factors)
    ['P', 'U']
    """

    table: Any
    default: float | None = None
    columns: Mapping[str, str] | None = None
    value: str | None = None

    def __post_init__(self) -> None:
        if self.default is not None and not _is_weight(self.default):
            raise DataError(
                f"`default` must be 0 or between {MIN_NUMBER:g} and {MAX_NUMBER:g}, got {self.default!r}.",
                hint="Use another unit if necessary.",
            )
        if is_array(self.table) and not is_sparse(self.table) and self.default is not None:
            raise DataError(
                "`default` is for tables: an array contains every cell.",
                hint="Remove it.",
            )
        if not is_array(self.table) and not is_table(self.table):
            raise DataError(f"an exposure must be a table or an array, got {type(self.table).__name__}.", hint=KINDS)


def as_relation(name: str, data: Any) -> Relation:
    """The data of a relation as a `Relation`, where they are a bare table or array."""
    if isinstance(data, Relation):
        return data
    try:
        return Relation(data)
    except DataError as error:
        raise error.within(TableLocation(name)) from None


def tables_of(given: Any) -> tuple[Any, ...]:
    """One table, several or none, as a tuple."""
    if given is None:
        return ()
    return tuple(given) if isinstance(given, (list, tuple)) else (given,)


CHOICES = {
    "unseen": ("missing", "zero"),
    "duplicates": ("error", "sum"),
    "self_links": ("auto", "missing", "observed"),
}

UNSEEN_WORDS = {
    "missing": "missing: entities without links in this relation are missing",
    "zero": "zero: entities without links in this relation are zeros",
}


def observed_words(observed: str | float) -> str:
    """Meaning of `observed`, for printing."""
    if observed == "all":
        return "all: cells that are not listed are zeros"
    if observed == "listed":
        return "listed: cells that are not listed are missing"
    return f"zeros have weight {observed:g}, links 1"


def _check_choice(option: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        *first, last = map(repr, known)
        raise DataError(
            f"`{option}` must be {', '.join(first)} or {last}, got {value!r}.",
            actual=value,
            hint=suggestion(value, known).strip() or None,
        )


def _likelihood(given: object) -> "Likelihood":
    from plait.likelihood import as_likelihood  # imports numba, which the data layer avoids

    try:
        return as_likelihood(given)
    except ParameterError as error:
        raise DataError(error.message, actual=error.actual, hint=error.hint) from None


def _check_observed(observed: object) -> None:
    if isinstance(observed, str):
        if observed not in ("all", "listed"):
            near = suggestion(observed, ("all", "listed"))
            raise DataError(
                f"`observed` must be 'all', 'listed' or a number from 0 to 1, got {observed!r}.",
                hint=f"{near}A number is the weight of zeros.",
            )
    elif not _is_weight(observed) or float(observed) > 1:  # type: ignore[arg-type]
        raise DataError(
            f"`observed` must be 'all', 'listed' or a number from 0 to 1, got {observed!r}.",
            hint="A number is the weight of zeros.",
        )


def _check_weight(weight: object) -> None:
    if not isinstance(weight, str) and not _is_weight(weight):
        raise DataError(
            f'`weight` must be a number of at least 0, a column or "auto", got {weight!r}.',
            hint=f"A number is 0 or between {MIN_NUMBER:g} and {MAX_NUMBER:g}.",
        )


def _is_weight(value: object) -> bool:
    """Whether this is a number in range."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return number and in_range(float(value))  # type: ignore[arg-type]


def _check_names(relation: Relation) -> None:
    """Refuse a string where names or a mapping are expected."""
    if isinstance(relation.indices, str):
        raise DataError(
            f"`indices` must be a tuple of names, got {relation.indices!r}.",
            actual=relation.indices,
            hint=f"Write ({relation.indices!r},).",
        )
    if isinstance(relation.ignore_columns, str):
        raise DataError(
            f"`ignore_columns` must be a list of columns, got {relation.ignore_columns!r}.",
            actual=relation.ignore_columns,
            hint=f"Write [{relation.ignore_columns!r}].",
        )
    if not isinstance(relation.strip, bool):
        raise DataError(
            f"`strip` must be True or False, got {relation.strip!r}.",
            actual=relation.strip,
            hint="Use True to remove blanks at both ends of names.",
        )
    if relation.columns is not None and not isinstance(relation.columns, Mapping):
        raise DataError(
            f"`columns` must be a dict from index to column, got {relation.columns!r}.",
            hint="Example: {'user': 'id'}.",
        )
    for option, tables in {"missing": relation.missing_tables, "hidden": relation.hidden_tables}.items():
        for table in tables:
            if not is_table(table):
                raise DataError(
                    f"`{option}` must contain tables, got {type(table).__name__}.",
                    hint="Give a table with one or more of the indices as columns, or a list of such tables.",
                )


def _check_options_of_columns(relation: Relation) -> None:
    """Refuse options about columns for an array or a graph, where they would do nothing."""
    options = {
        "columns": relation.columns, "value": relation.value, "weight": relation.weight_column,
        "ignore_columns": relation.ignore_columns, "strip": relation.strip or None,
    }  # fmt: skip
    kind = "a list of rows" if is_rows(relation.data) else "an array"
    if is_graph(relation.data):
        kind = "a graph"
        del options["value"]  # an edge attribute
    for option, value in options.items():
        named = relation.missing_tables or relation.hidden_tables  # they have columns
        if value is not None and not (option == "columns" and named):
            raise DataError(
                f"`{option}` is {value!r}, but {kind} has no columns.",
                actual=value,
                hint="Give a table, or remove the option.",
            )


def _described(data: Any, tabular: bool) -> str:
    if tabular:
        rows = f"{len(data):,} rows, " if hasattr(data, "__len__") else ""
        return f"table of {rows}columns {', '.join(map(quoted, column_names(data)))}"
    if is_graph(data):
        return describe_graph(data)
    if is_rows(data):
        return f"{len(data):,} rows" if isinstance(data, list) else f"{len(data)} columns"
    if np.shape(data) == ():
        return "one number"
    shape = " × ".join(map(str, np.shape(data)))
    if is_sparse(data):
        return f"sparse array of {shape}, {data.nnz:,} stored"
    gaps = int(np.isnan(np.asarray(data)).sum()) if np.asarray(data).dtype.kind == "f" else 0
    return f"array of {shape}" + (f", {gaps:,} missing" if gaps else "")
