"""Indices of relations without a model, and a model that only declares them."""

from collections.abc import Mapping, Sequence

from plait.data.sources.coercion import is_rows
from plait.data.sources.graphs import is_graph
from plait.data.sources.relation import Relation
from plait.data.sources.tables import column_names, frame_of, is_table
from plait.errors import DataError, TableLocation, quoted
from plait.model.model import RESERVED, Model


def own_indices(name: str, relation: Relation) -> tuple[str, ...]:
    """Indices of a relation: its own, or the columns of its table."""
    if relation.indices is not None:
        return tuple(relation.indices)
    if not is_table(relation.data):
        parts = "ends of a graph" if is_graph(relation.data) else "dimensions of an array"
        parts = "entries of a row" if is_rows(relation.data) else parts
        raise DataError(
            f"the names of the {parts} are unknown.",
            location=TableLocation.of(name),
            hint='Give `model`, or `indices=("user", "place")`.',
        )
    others = {relation.value, relation.weight_column, *(relation.ignore_columns or ())}
    columns = column_names(relation.data, name)
    own = {column: index for index, column in (relation.columns or {}).items()}
    if relation.value is None and "value" not in own:
        others.add("value")
    indices = tuple(own.get(column, column) for column in columns if column not in others)
    for index in indices:
        if not isinstance(index, str) or not index.isidentifier() or index in RESERVED:
            raise DataError(
                f"column {quoted(index)} cannot be the name of an index.",
                location=TableLocation.of(name),
                hint=f"Use it with `columns={{'user': {index!r}}}`, `value={index!r}` or `weight={index!r}`.",
            )
    return indices


def refuse_perhaps_values(name: str, relation: Relation, indices: Sequence[str]) -> None:
    """Refuse an undeclared column of numbers that may be the values of cells.

    `indices`: those read from the columns. With one of two removed, no pair would be left.
    """
    said = {relation.weight_column, *(relation.columns or {}).values()}
    is_declared = relation.indices is not None or relation.value is not None or len(indices) < 3
    if is_declared or "value" in {*column_names(relation.data, name)} - said:
        return
    import narwhals.stable.v2 as nw

    frame = frame_of(relation.data, name)
    numbers = [column for column, dtype in frame.schema.items() if dtype.is_numeric() or dtype == nw.Boolean]
    for column in [column for column in reversed(numbers) if column not in said]:
        others = [other for other in frame.columns if other not in (column, relation.weight_column)]
        if not frame.select(others).is_duplicated().any():
            raise DataError(
                (
                    f"column {quoted(column)} contains numbers, which can be values or names of entities: "
                    f"the rows are already unique by {', '.join(map(quoted, others))}."
                ),
                location=TableLocation.of(name),
                hint=f"Choose with `value={column!r}`, or `indices={(*indices,)!r}`.",
            )


def plain_model(indices: Mapping[str, Sequence[str]], axes: Mapping[str, str]) -> Model:
    """A model with these relations, indices and axes."""
    taken = {*indices, *axes}
    factor = "F"
    while any(name.startswith(factor) for name in map(str, taken)):
        factor = f"_{factor}"
    for name in indices:
        if not isinstance(name, str) or not name.isidentifier():
            raise DataError(
                f"{quoted(name)} cannot be the name of a relation.",
                hint="A name consists of letters, digits and _.",
            )
    lines = [f"{name}[{', '.join(i)}] = {factor}{k}[{', '.join(i)}]" for k, (name, i) in enumerate(indices.items())]
    first: dict[str, str] = {}
    used = dict.fromkeys(index for own in indices.values() for index in own)
    lines += [f"{i}: {first[axes[i]]}" for i in used if first.setdefault(axes[i], i) != i]
    return Model("\n".join(lines))
