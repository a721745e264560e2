"""`plait.read`: tables and arrays from files and databases."""

from collections.abc import Sequence
from typing import Any, Literal

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
    source_name,
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
    null_values: str | Sequence[str] | None = None,
    on_bad_rows: Literal["error", "skip"] | None = None,
) -> Any:
    """Read a table or an array from a file or a database.

    Parameters
    ----------
    source : path or URL or connection
        A file: ``.csv``, ``.tsv``, ``.txt`` or ``.tns`` (each also ``.gz``), ``.parquet``,
        ``.arrow``, ``.feather``, ``.mat``, ``.npz`` or ``.npy``. A URL: ``sqlite:///file.db``
        or ``postgresql://…``. Or an open ADBC or DB-API connection.
    kind : str, default None
        Format of the file, such as ``"csv"``; by default the ending of its name.
    columns : sequence of str, default None
        Names of the columns of a text or ``.tns`` file without a header. With
        ``header=True`` they replace its names.
    delimiter : str, default None
        One character that separates fields of text; detected by default.
    header : bool, default None
        Whether the first line of text names the columns. The default is ``True`` unless
        ``columns`` is given.
    value : str or sequence of str, default None
        Columns of text that must be numbers; ``"value"`` by default, if it exists.
    text : sequence of str, default None
        Columns of text that stay strings although they look like numbers.
    quoted : bool, default None
        ``False`` treats quotation marks in text as ordinary characters.
    strip : bool, default None
        ``True`` removes blanks at both ends of names, also of columns, and around numbers.
    escape_formulas : bool, default None
        ``False`` keeps an apostrophe before ``=``, ``+``, ``-`` or ``@``. By default it is
        removed, because ``plait.write`` adds it.
    name : str, default None
        The array to read from a ``.mat`` or ``.npz`` file with several.
    query : str, default None
        SQL query.
    table : str, default None
        Database table to read instead of a query, as ``table`` or ``schema.table``.
    null_values : str or sequence of str, default None
        Fields of text that mean "no value" in all columns, such as ``"NA"`` or
        ``["NA", "-"]``. An empty field is null in any case.
    on_bad_rows : one of "error", "skip", default None
        What to do with a row of text that has too few or too many fields, or no number where
        ``value`` requires one. ``"error"``, the default, refuses the file. ``"skip"`` leaves
        the row out, and warns once with the number of such rows and the line of the first.

    Returns
    -------
    polars.DataFrame, numpy.ndarray or scipy.sparse array
        A table; an array for ``.mat``, ``.npz`` and ``.npy``.

    Raises
    ------
    plait.errors.DataError
        If the source does not exist, or is damaged or malformed.
    plait.errors.ParameterError
        If an option does not apply to the format.

    Notes
    -----
    A column of text becomes integers if all fields are whole numbers without leading zeros or
    plus signs: ``007`` is a name. An empty field is null.

    Guide: <https://tensorplait.github.io/tensorplait/files.html>.

    Examples
    --------
    >>> plait.write(visits, "visits.csv")
    >>> table = plait.read("visits.csv")
    >>> table.equals(visits)
    True
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
        "null_values": null_values,
        "on_bad_rows": on_bad_rows,
    }
    options: dict[str, Any] = {option: setting for option, setting in given.items() if setting is not None}
    check_options(source, options)
    file_format = format_of(source, kind)
    if file_format not in (MATLAB, NPZ, NPY):
        refuse_in_fork("plait.read")
    if file_format is TEXT:
        from plait.files.tabular import read_text

        return read_text(existing_file(source), **options)
    options.pop("kind", None)
    blanks = not options.pop("strip", False)
    content = (
        _read_sql(source, options)
        if file_format is SQL
        else _read_file(existing_file(source), file_format.name, options)
    )
    return content if blanks else _stripped(content, source)


def _read_sql(source: Any, options: dict[str, Any]) -> Any:
    from plait.files.sql import read_sql

    return read_sql(source, **options)


def _stripped(table: Any, source: Any) -> Any:
    from plait.files.tabular import stripped

    return stripped(table, source_name(source))


def _read_file(path: str, kind: str, options: dict[str, Any]) -> Any:
    # Readers import their own libraries, so they are imported on use.
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
    """Line of the file (from 1) of a row (from 0) of ``plait.read(source, …)``, for errors; None without lines."""
    check_options(source, options)
    kind = format_of(source, options.get("kind"))
    if kind not in (TEXT, TNS):
        return None
    path = existing_file(source)
    if kind is TNS:
        from plait.files.tns import line_of_row as line_of_entry

        return line_of_entry(path, row)
    from plait.files.csv_dialect import layout_of
    from plait.files.csv_faults import line_of_row, skip_bad_rows

    layout = layout_of(path, **options)
    return line_of_row(skip_bad_rows(layout, warn=False) if layout.skips_bad else layout, row)
