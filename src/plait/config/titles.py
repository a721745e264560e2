"""Titles in files: read so that ids are of the kind that the axis has, and titles are text."""

from collections.abc import Mapping
from typing import Any

from plait.data.labels.columns import kind
from plait.data.labels.names import Labels
from plait.data.reading.titles import choose_columns, place_of
from plait.errors import DataError


def read_titles(
    source: str, options: Mapping[str, Any], axis: str, labels: Labels | None, id: str | None, title: str | None
) -> tuple[Any, dict[str, Any]]:
    """A table of ids and titles alone, and the options of `plait.read` that it was read with.

    labels: the names of the axis, which is perhaps none; id, title: the columns, where somebody said.
    """
    from plait.files.kinds import options_for
    from plait.files.read import read

    where, options = place_of(axis), dict(options)
    table = read(source, **options)
    if not hasattr(table, "columns"):
        raise DataError(
            "this is an array, but titles are a table.", location=where, hint="Give columns of ids and titles."
        )
    called = (axis,) if labels is None else (axis, labels.axis)
    chosen = choose_columns(table.columns, called, where, id, title)
    texts = [chosen[1]] if labels is None or kind(labels.names) != "strings" else list(chosen)
    numeric = [column for column in texts if table[column].dtype.is_numeric()]
    if numeric and "text" in options_for(source, options.get("kind")):
        options["text"] = [*options.get("text", ()), *numeric]
        table = read(source, **options)
    found = table.select(chosen)
    clear = choose_columns(found.columns, called, where) == chosen  # else what was said is said by names
    return found if clear else found.rename(dict(zip(chosen, (axis, "title")))), options
