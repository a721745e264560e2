"""Relations without a model: what their indices are, and a model that says no more than that."""

from collections.abc import Mapping, Sequence

from plait.data.sources.graphs import is_graph
from plait.data.sources.relation import Relation
from plait.data.sources.tables import column_names, frame_of, is_table
from plait.errors import DataError, TableLocation, quoted
from plait.model.model import RESERVED, Model


def own_indices(name: str, relation: Relation) -> tuple[str, ...]:
    """The indices of a relation: as it says itself, or by the columns of its table."""
    if relation.indices is not None:
        return tuple(relation.indices)
    if not is_table(relation.data):
        parts = "ends of a graph" if is_graph(relation.data) else "dimensions of an array"
        raise DataError(
            f"the {parts} have no names.",
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
                hint=f"Say what it is: `columns={{'user': {index!r}}}`, `value={index!r}` or `weight={index!r}`.",
            )
    return indices


def refuse_perhaps_values(name: str, relation: Relation, indices: Sequence[str]) -> None:
    """Refuse a column of numbers of which nobody said what it is, where it may be the values of cells of the others.

    indices: those that were read from the columns. Without one of two, no pair would be left.
    """
    said = {relation.weight_column, *(relation.columns or {}).values()}
    told = relation.indices is not None or relation.value is not None or len(indices) < 3
    if told or "value" in {*column_names(relation.data, name)} - said:
        return
    import narwhals as nw

    frame = frame_of(relation.data, name)
    numbers = [column for column, dtype in frame.schema.items() if dtype.is_numeric() or dtype == nw.Boolean]
    for column in [column for column in reversed(numbers) if column not in said]:
        others = [other for other in frame.columns if other not in (column, relation.weight_column)]
        if not frame.select(others).is_duplicated().any():
            raise DataError(
                (
                    f"column {quoted(column)} holds numbers, which may be values of cells or names of an index: "
                    f"{', '.join(map(quoted, others))} alone tell all rows apart."
                ),
                location=TableLocation.of(name),
                hint=f"Say which: `value={column!r}`, or `indices={(*indices,)!r}`.",
            )


def plain_model(indices: Mapping[str, Sequence[str]], axes: Mapping[str, str]) -> Model:
    """A model that says which relations there are, over which indices, and which of these share an axis."""
    taken = {*indices, *axes}
    factor = "F"
    while any(name.startswith(factor) for name in map(str, taken)):
        factor = f"_{factor}"
    for name in indices:
        if not isinstance(name, str) or not name.isidentifier():
            raise DataError(
                f"{quoted(name)} cannot be the name of a relation.",
                hint="A name is letters, digits and _.",
            )
    lines = [f"{name}[{', '.join(i)}] = {factor}{k}[{', '.join(i)}]" for k, (name, i) in enumerate(indices.items())]
    first: dict[str, str] = {}
    used = dict.fromkeys(index for own in indices.values() for index in own)
    lines += [f"{i}: {first[axes[i]]}" for i in used if first.setdefault(axes[i], i) != i]
    return Model("\n".join(lines))
