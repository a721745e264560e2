"""``plait.read``: a file or a query in, what ``plait.fit`` accepts out."""

from collections.abc import Sequence
from typing import Any

from plait.files.source_kinds import (
    ARROW,
    MATLAB,
    NPY,
    NPZ,
    PARQUET,
    SQL,
    TEXT,
    TNS,
    check_options,
    existing_file,
    format_of,
    shown,
)
from plait.forked import refuse_in_fork


def read(
    source: Any,
    *,
    kind: str | None = None,
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    value: str | Sequence[str] | None = None,
    text: Sequence[str] | None = None,
    quoted: bool | None = None,
    strip: bool | None = None,
    escape_formulas: bool | None = None,
    name: str | None = None,
    query: str | None = None,
    table: str | None = None,
) -> Any:
    """Read a table or an array from a file or a database.

    source     a path: .csv, .tsv, .txt, .tns (each also .gz), .parquet, .arrow, .feather, .mat, .npz, .npy; a URL:
               ``sqlite:///file.db``, ``postgresql://…``; or an open ADBC or DB-API connection
    kind       the usual ending of such a file, ``"csv"``, where its name does not say it or says another
    columns    (text, .tns) names of the columns of a file without a header; with ``header=True`` instead of its names
    delimiter  (text) one character; by default the one that splits the first rows best
    header     (text) whether the first line names the columns; by default it does unless ``columns`` are given
    value      (text) a column or several that must be numbers; by default ``value`` if there is one
    text       (text) columns that stay strings though they look like numbers
    quoted     (text) ``False``: quotation marks are ordinary characters
    strip      (tables) ``True``: blanks at both ends of names, of columns too, are not part of them; in text also those
               around numbers
    escape_formulas  (text) ``False``: an apostrophe before ``=``, ``+``, ``-`` or ``@`` belongs to the name; by default
               it is the one that ``plait.write`` puts there
    name       (.mat, .npz) the array to take, where the file has several
    query      (SQL) what to ask
    table      (SQL) a table to take whole, instead of a query; ``schema.table`` for one of another schema

    Gives a polars.DataFrame, or for .mat, .npz and .npy a NumPy array or a SciPy sparse array. In text a column whose
    fields are all whole numbers becomes integers, unless one has a leading zero or plus: ``007`` is a name. An empty
    field is null. An option that says nothing about the source is an error.
    """
    given: dict[str, Any] = {
        "kind": kind,
        "columns": columns,
        "delimiter": delimiter,
        "header": header,
        "value": value,
        "text": text,
        "quoted": quoted,
        "strip": strip,
        "escape_formulas": escape_formulas,
        "name": name,
        "query": query,
        "table": table,
    }
    options: dict[str, Any] = {option: setting for option, setting in given.items() if setting is not None}
    check_options(source, options)
    found = format_of(source, kind)
    if found not in (MATLAB, NPZ, NPY):
        refuse_in_fork("plait.read")
    if found is TEXT:
        from plait.files.tabular import read_text

        return read_text(existing_file(source), **options)
    options.pop("kind", None)
    blanks = not options.pop("strip", False)
    content = _read_sql(source, options) if found is SQL else _read_file(existing_file(source), found.name, options)
    return content if blanks else _stripped(content, source)


def _read_sql(source: Any, options: dict[str, Any]) -> Any:
    from plait.files.sql import read_sql

    return read_sql(source, **options)


def _stripped(table: Any, source: Any) -> Any:
    from plait.files.tabular import stripped

    return stripped(table, shown(source))


def _read_file(path: str, kind: str, options: dict[str, Any]) -> Any:
    # Each reader brings its own library, so it is imported when its kind is met.
    if kind == TNS.name:
        from plait.files.tns import read_tns

        return read_tns(path, **options)
    if kind == MATLAB.name:
        from plait.files.matlab import read_matlab

        return read_matlab(path, **options)
    if kind in (NPZ.name, NPY.name):
        from plait.files.npz import read_npy, read_npz

        return read_npz(path, **options) if kind == NPZ.name else read_npy(path)
    from plait.files.tabular import read_arrow, read_parquet

    assert kind in (PARQUET.name, ARROW.name)
    return read_parquet(path) if kind == PARQUET.name else read_arrow(path)


def line_of(source: Any, row: int, **options: Any) -> int | None:
    """The line of the file (counting from 1) that a row (counting from 0) of ``plait.read(source, …)`` came from.

    The options are those given to ``plait.read``. None for a source without lines. Walks through the file: for errors.
    """
    check_options(source, options)
    kind = format_of(source, options.get("kind"))
    if kind not in (TEXT, TNS):
        return None
    path = existing_file(source)
    if kind is TNS:
        from plait.files.tns import line_of_row as line_of_entry

        return line_of_entry(path, row)
    from plait.files.csv_dialect import layout_of
    from plait.files.csv_faults import line_of_row

    return line_of_row(layout_of(path, **options), row)
